"""Generated machines in the timing tier: tables with ``overlap: generated`` give cycles by K1 to K6.

They stand wherever a timing table may stand. The event engine answers for all other tables.
"""

from dataclasses import replace

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.core.point import Point
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible, evaluate
from codesign.hardware.cycles import NestTimes, best_timed_plan
from codesign.hardware.layout_search import with_layouts
from codesign.hardware.line_uses import line_uses
from codesign.hardware.memory_timing import MemoryTiming
from codesign.hardware.nest_loops import TilesTooLargeError, parameters_of
from codesign.hardware.parameters import Parameters
from codesign.mapping.mapping import Mapping
from codesign.timing.simulate import OPERATION_LIMIT, ResourceUse, Run, simulate
from codesign.timing.table import Overlap, Timing, with_constants
from codesign.workloads.computation import Computation

READER, WRITER, ARRAY = "DMA reader", "DMA writer", "array"


def timed_run(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    timing: Timing,
    *,
    reuse: Reuse = Reuse.TIMELOOP,
    events: int = 0,
    operation_limit: int = OPERATION_LIMIT,
) -> Run | Infeasible:
    """Run a mapping in the timing tier: see `codesign.timing.simulate.simulate`.

    With a table of generated machines the run is that of the generated hardware: reuse rule `whole` (R4), no timeline.

    Raises:
        UserError: A mapping that the generated hardware does not run, with the rule.
    """
    if timing.overlap is Overlap.GENERATED:
        return generated_run(computation, architecture, mapping, timing)
    return simulate(
        computation, architecture, mapping, timing, reuse=reuse, events=events, operation_limit=operation_limit
    )


def generated_run(
    computation: Computation, architecture: Architecture, mapping: Mapping, timing: Timing
) -> Run | Infeasible:
    """Cycles of a mapping on the machine of loop nests that is generated for it, or why its tiles do not fit."""
    cost = evaluate(computation, architecture, mapping, reuse=Reuse.WHOLE)
    if isinstance(cost, Infeasible):
        return cost
    p, memory = machine_of(computation, architecture, timing)
    try:
        plan, times = best_timed_plan(computation, architecture, mapping, p, memory=memory)
    except TilesTooLargeError as error:
        return Infeasible(error.memory, error.demand_bytes, error.limit_bytes, "bytes", error.message)
    return replace(run_from(times), lines=line_uses(plan))


def machine_of(computation: Computation, architecture: Architecture, timing: Timing) -> tuple[Parameters, MemoryTiming]:
    """The machine of loop nests that a table of generated machines means, and what answers it."""
    bus, burst, latency = (int(timing.constant(n)) for n in ("bus_bytes", "burst_bytes", "dram_latency_cycles"))
    p = parameters_of(architecture, computation, bus, burst, "machine")
    outstanding = int(dict(timing.constants).get("outstanding", p.outstanding))
    return replace(p, outstanding=outstanding), MemoryTiming(latency)


def in_layouts(computation: Computation, architecture: Architecture, mapping: Mapping, timing: Timing) -> Mapping:
    """The mapping with the layouts in which its generated machine takes fewest cycles (`with_layouts`).

    Raises:
        UserError: A mapping that the generated hardware does not run, with the rule.
    """
    p, memory = machine_of(computation, architecture, timing)
    return with_layouts(computation, architecture, mapping, p, memory=memory)


def run_from(times: NestTimes) -> Run:
    """The recurrence's figures as those of a run."""
    total = times.cycles
    waits = (("tiles from DRAM", float(times.tile_wait)), ("results to leave", float(times.leave_wait)))
    stalled = tuple((name, cycles) for name, cycles in waits if cycles > 0)
    idle = total - times.array_busy - times.tile_wait - times.leave_wait
    uses = (
        ResourceUse(ARRAY, float(times.array_busy), stalled, float(max(0, idle))),
        ResourceUse(READER, float(times.reader_busy), (), float(total - times.reader_busy)),
        ResourceUse(WRITER, float(times.writer_busy), (), float(total - times.writer_busy)),
    )
    bound = max(uses, key=lambda use: use.busy_cycles)
    return Run(total, True, uses, bound.resource, times.steps, times.steps, exact_cycles=float(total))


def timing_at(timing: Timing, point: Point) -> Timing:
    """The table of one design: a generated machine has the bus and the bursts of its design.

    Args:
        timing: Any table.
        point: The design's parameters; a space without a bus leaves the table's.
    """
    if timing.overlap is not Overlap.GENERATED or "bus_bits" not in point:
        return timing
    bus = int(point["bus_bits"]) // 8
    if "burst_bytes" not in point and "burst_beats" not in point:
        raise UserError("the design has `bus_bits` but neither `burst_beats` nor `burst_bytes`")
    burst = int(point["burst_bytes"]) if "burst_bytes" in point else bus * int(point["burst_beats"])
    return replace(with_constants(timing, {"bus_bytes": bus, "burst_bytes": burst}), name=timing.name)
