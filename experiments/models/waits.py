"""Cycles of a mapping by the analytical model and the closed forms of waits."""

import math

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible, evaluate
from codesign.mapping.mapping import Mapping
from codesign.timing.least_cycles import cycles_with_waits
from codesign.timing.mapped_plan import MappedPlan
from codesign.timing.table import Overlap, Timing, encode_timing, timing_for
from codesign.workloads.computation import Computation

_ROUNDED = 1e-9


def latency_with_waits(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    timing: Timing | None = None,
    *,
    reuse: Reuse = Reuse.TIMELOOP,
) -> int | Infeasible:
    """Cycles of a mapping by the analytical model and rules E12 and E13: never below the former, never above the simulated ones.

    Args:
        computation: The operator.
        architecture: The hardware, energies filled in.
        mapping: A nest for the two.
        timing: The machine's constants; by default those named like the architecture.
        reuse: What a buffer need not fetch again.

    Raises:
        UserError: The mapping is malformed, or the run is one that the rules do not know: a DRAM device, a mesh, a batch,
            generated hardware.
    """
    timing = timing_for(architecture) if timing is None else timing
    known = timing.overlap is not Overlap.GENERATED and timing.batch_outputs is None
    if not known or any(level.dram is not None or level.fanout.mesh is not None for level in architecture.levels):
        raise UserError(
            "waits in closed form (E12) know no DRAM device, mesh, batches or generated hardware",
            hint="simulate the run",
        )
    cost = evaluate(computation, architecture, mapping, reuse=reuse)
    if isinstance(cost, Infeasible) or timing.overlap is Overlap.PERFECT:
        return cost if isinstance(cost, Infeasible) else cost.latency_cycles
    mapped = MappedPlan.of(computation, architecture, mapping, encode_timing(timing, architecture), reuse)
    return max(cost.latency_cycles, math.ceil(cycles_with_waits(mapped.plan)[0] - _ROUNDED + timing.run_cycles))
