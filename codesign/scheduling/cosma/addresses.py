"""Addresses for a plan: every stay in the scratchpad is one buffer of the static allocation problem."""

import bisect
from dataclasses import dataclass

from codesign.scheduling.allocation.buffers import Allocation, AllocationStatus, Buffer
from codesign.scheduling.allocation.solve import allocate
from codesign.scheduling.cosma.graph import GraphIndex
from codesign.scheduling.cosma.plan import Plan, Residency, residencies
from codesign.scheduling.cosma.replacement import Gap, gaps


@dataclass(frozen=True)
class Placement:
    """A plan with the outcome of placing it.

    Args:
        plan: Order and retrievals.
        stays: Its stays in the scratchpad.
        allocation: One offset per stay, if there is a solution.
    """

    plan: Plan
    stays: tuple[Residency, ...]
    allocation: Allocation

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """Byte address per stay, None when none were found."""
        return self.allocation.offsets


def place(index: GraphIndex, plan: Plan, capacity_bytes: int, *, time_limit_s: float, seed: int) -> Placement:
    """Addresses for every stay of `plan`, or the proof that there are none; a step is a moment."""
    stays = residencies(index, plan)
    buffers = [Buffer(str(i), s.first_step, s.last_step + 1, s.size_bytes) for i, s in enumerate(stays)]
    return Placement(plan, stays, allocate(buffers, capacity_bytes, time_limit_s=time_limit_s, seed=seed))


def conflicting_gaps(
    index: GraphIndex, placement: Placement, capacity_bytes: int, *, time_limit_s: float, seed: int
) -> list[Gap]:
    """Kept gaps that cannot all be kept, because the stays they make have no addresses together.

    The shortest stretch of steps is looked for whose stays, cut off at its ends, have no addresses (or none that are
    found in time): first its end, then its start.
    """
    steps = len(placement.plan.order)

    def fits(first: int, last: int) -> bool:
        inside = [
            Buffer(str(i), max(s.first_step, first), min(s.last_step, last) + 1, s.size_bytes)
            for i, s in enumerate(placement.stays)
            if s.first_step <= last and s.last_step >= first
        ]
        found = allocate(inside, capacity_bytes, time_limit_s=time_limit_s, seed=seed)
        return found.status is AllocationStatus.FEASIBLE

    last = bisect.bisect_left(range(steps), True, key=lambda end: not fits(0, end))
    first = bisect.bisect_left(range(last + 1), True, key=lambda start: fits(start, last)) - 1
    retrieved = placement.plan.retrieved
    return [
        gap
        for gap in gaps(index, placement.plan.order)
        if gap.tensor not in retrieved[gap.end] and gap.start <= last and gap.end > first
    ]
