"""The analytical model with waits: cycles of a mapping by rules E12 (closed form) and E13 (shortened runs)."""

import math

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.core.jit import njit
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.cost import Infeasible, evaluate
from codesign.cost.kernel import score
from codesign.cost.packed import make_kernel
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import encode_nest
from codesign.timing.derive import derive
from codesign.timing.event_plan import Plan
from codesign.timing.port_waits import most_port_waits
from codesign.timing.shortened import shortened_cycles
from codesign.timing.table import Overlap, Timing, encode_timing, timing_for
from codesign.timing.waits import busiest, is_plain, make_turns, serial_cycles, slot_waits
from codesign.workloads.computation import Computation

_ROUNDED = 1e-9


@njit
def least_cycles(plan: Plan) -> float:
    """Cycles that no run of a plan falls below (rule E12); 0 for a plan of phases or of listed cycles."""
    if not is_plain(plan):
        return 0.0
    turns = make_turns(plan)
    chains = serial_cycles(plan, turns) + max(slot_waits(plan, turns), most_port_waits(plan, turns))
    return max(busiest(plan, turns), chains) * (1.0 - 1e-12)


@njit
def cycles_with_waits(plan: Plan) -> tuple[float, int]:
    """The larger of rules E12 and E13, below every run of a plan, and the operations simulated by E13.

    E13 knows no limit of steps in flight, no streams and nothing that is slowed by what runs beside it.
    """
    least, operations = least_cycles(plan), 0
    if least > 0.0 and plan.in_flight == 0 and not (plan.stretch > 0.0).any():
        cycles, operations = shortened_cycles(plan)
        least = max(least, cycles * (1.0 - 1e-12))
    return least, operations


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
    nest = encode_nest(computation, architecture, mapping)
    count = nest.loops.shape[0]
    kernel = make_kernel(encode_problem(computation, architecture, reuse), count)
    score(kernel, nest, count)
    plan, _ = derive(kernel, nest, count, encode_timing(timing, architecture))
    return max(cost.latency_cycles, math.ceil(cycles_with_waits(plan)[0] - _ROUNDED + timing.run_cycles))
