"""Divide and conquer (Section IV of the paper) with automatic break nodes.

Segments are searched one after another, in the order of the cuts. Unlike the paper's heuristic, which solves each
segment alone and then joins the answers, every situation at a cut that could matter (what lies in the scratchpad,
what has a copy off chip, at what cost) is carried into the next segment: the result is optimal among all orders
that finish one segment before they start the next.
"""

from collections.abc import Sequence
from dataclasses import replace

from codesign.scheduling.cosma.best_first import Boundary, TrafficSearch
from codesign.scheduling.cosma.graph import GraphIndex
from codesign.scheduling.cosma.local_problem import SegmentProblem, mask_of, members, segment_problem
from codesign.scheduling.cosma.objective import TrafficWeights
from codesign.scheduling.cosma.plan import Plan, PricedPlan
from codesign.scheduling.cosma.segments import Segment

MOST_EXITS = 64
"""Situations carried over a cut at most, the cheapest first."""


def conquer(
    index: GraphIndex,
    segments: Sequence[Segment],
    capacity_bytes: int,
    weights: TrafficWeights,
    *,
    state_limit: int,
) -> PricedPlan | None:
    """Run the segments one after another at least weighted traffic.

    Args:
        index: The graph in numbers.
        segments: A division of the graph; the operators of each listed in an order that can run.
        capacity_bytes: At least the largest working set.
        weights: What a byte written and a byte read cost.
        state_limit: States per segment; a segment that needs more keeps its order.

    Returns:
        The plan, or None when some segment could not be searched even in its own order.
    """
    boundaries = [Boundary(0, 0, 0)]
    trail: list[tuple[SegmentProblem, list[Boundary]]] = []
    for segment in segments:
        problem = segment_problem(index, segment)
        entries = [_to_local(problem, b) for b in boundaries]
        found = TrafficSearch(problem, capacity_bytes, weights).run(entries, state_limit, every_exit=True)
        if not found.complete and not found.exits:
            found = TrafficSearch(_in_order(problem), capacity_bytes, weights).run(
                entries, state_limit, every_exit=True
            )
        exits = list(found.exits[:MOST_EXITS])
        if not exits:
            return None
        trail.append((problem, exits))
        boundaries = [_to_global(problem, b) for b in exits]
    return PricedPlan(_plan(trail), boundaries[0].value)


def _in_order(problem: SegmentProblem) -> SegmentProblem:
    """The problem with every operator made to wait for the one listed before it."""
    count = len(problem.operators)
    return replace(
        problem,
        predecessors=tuple(p | (1 << o - 1 if o else 0) for o, p in enumerate(problem.predecessors)),
        successors=tuple(s | (1 << o + 1 if o + 1 < count else 0) for o, s in enumerate(problem.successors)),
    )


def _to_local(problem: SegmentProblem, boundary: Boundary) -> Boundary:
    resident = mask_of(t for t in members(problem.live_in) if boundary.resident >> problem.tensors[t] & 1)
    host = mask_of(t for t in members(problem.live_in) if boundary.host >> problem.tensors[t] & 1)
    return Boundary(boundary.value, resident, host)


def _to_global(problem: SegmentProblem, boundary: Boundary) -> Boundary:
    return replace(
        boundary,
        resident=mask_of(problem.tensors[t] for t in members(boundary.resident)),
        host=mask_of(problem.tensors[t] for t in members(boundary.host)),
    )


def _plan(trail: Sequence[tuple[SegmentProblem, list[Boundary]]]) -> Plan:
    """Walk back from the cheapest last exit to the start."""
    order: list[int] = []
    retrieved: list[tuple[int, ...]] = []
    chosen = 0
    for problem, exits in reversed(trail):
        boundary = exits[chosen]
        for operator, mask in reversed(boundary.steps):
            order.append(problem.operators[operator])
            retrieved.append(tuple(problem.tensors[t] for t in members(mask)))
        chosen = boundary.entry
    return Plan(tuple(reversed(order)), tuple(reversed(retrieved)))
