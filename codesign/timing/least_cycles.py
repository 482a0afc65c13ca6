"""The analytical model with waits: cycles of a mapping by rules E12 (closed form) and E13 (shortened runs)."""

from codesign.core.jit import njit
from codesign.timing.event_plan import Plan
from codesign.timing.port_waits import most_port_waits
from codesign.timing.shortened import shortened_cycles
from codesign.timing.waits import busiest, is_plain, make_turns, serial_cycles, slot_waits


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
