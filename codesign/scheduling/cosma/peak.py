"""The order of least peak footprint without spills, M_P (Section III-E1 of the paper)."""

from dataclasses import dataclass

from codesign.scheduling.cosma.best_first import lowest_peak
from codesign.scheduling.cosma.graph import GraphIndex
from codesign.scheduling.cosma.local_problem import segment_problem, unspilled_peak_bytes
from codesign.scheduling.cosma.segments import exact_segments

PEAK_STATE_LIMIT = 200_000
"""States per segment; every reference network needs fewer than half."""


@dataclass(frozen=True)
class PeakOrder:
    """An order and its peak.

    Args:
        order: Operators, first to last.
        peak_bytes: Largest number of live bytes when nothing is spilled.
        bound_bytes: No order has a lower peak.
    """

    order: tuple[int, ...]
    peak_bytes: int
    bound_bytes: int


def lowest_peak_order(index: GraphIndex) -> PeakOrder:
    """The order of least peak, proven unless a segment needs more than `PEAK_STATE_LIMIT` states (it keeps its order then)."""
    order: list[int] = []
    peak = bound = max(index.working_set_bytes(o) for o in range(len(index.inputs)))
    for segment in exact_segments(index):
        problem = segment_problem(index, segment)
        listed = unspilled_peak_bytes(problem)
        if listed <= bound:  # some operator, or an earlier segment, needs as much in every order
            order += problem.operators
            continue
        found = lowest_peak(problem, PEAK_STATE_LIMIT)
        bound = max(bound, found.bound)
        if found.exits:
            order += [problem.operators[o] for o, _ in found.exits[0].steps]
            peak = max(peak, found.exits[0].value)
        else:
            order += problem.operators
            peak = max(peak, listed)
    return PeakOrder(tuple(order), peak, bound)
