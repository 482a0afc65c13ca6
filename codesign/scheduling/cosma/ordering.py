"""Order and replacement within a capacity, addresses apart: exactly, or in windows where that takes too long."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from codesign.core import clock
from codesign.scheduling.cosma.best_first import Boundary, TrafficSearch
from codesign.scheduling.cosma.divide import conquer
from codesign.scheduling.cosma.graph import GraphIndex
from codesign.scheduling.cosma.local_problem import members, segment_problem, unspilled_peak_bytes
from codesign.scheduling.cosma.objective import TrafficWeights
from codesign.scheduling.cosma.peak import lowest_peak_order
from codesign.scheduling.cosma.plan import Plan, PricedPlan, resident_plan
from codesign.scheduling.cosma.replacement import best_replacement
from codesign.scheduling.cosma.segments import Segment, exact_segments, narrow_segments, window_segments

WINDOWS = ((20, 35), (30, 50), (40, 70))
"""Fewest and most operators of a window, by round; wider ones find more and take longer."""
LIVE_LIMIT = 2
"""Most tensors alive at a break node."""


@dataclass(frozen=True)
class Ordering:
    """What is known about order and replacement.

    Args:
        plan: The best plan found, or None.
        value: Its weighted traffic.
        bound: No plan has less.
        method: How it was found.
    """

    plan: Plan | None
    value: int | None
    bound: int
    method: str


def order_exactly(
    index: GraphIndex,
    capacity_bytes: int,
    weights: TrafficWeights,
    state_limit: int,
    *,
    shuffle_seed: int | None = None,
    deadline: float = math.inf,
) -> Ordering:
    """The plan of least weighted traffic, or only a bound when a segment needs more than `state_limit` states.

    Args:
        index: The graph in numbers.
        capacity_bytes: At least the largest working set.
        weights: What a byte written and a byte read cost.
        state_limit: States per segment.
        shuffle_seed: Look at operators in another order: another plan of the same cost, if there are several.
        deadline: CPU time after which a segment is given up.
    """
    plan: Plan | None = Plan((), ())
    bound = 0
    rng = None if shuffle_seed is None else random.Random(shuffle_seed)
    for segment in exact_segments(index):
        problem = segment_problem(index, segment if rng is None else _shuffled(index, segment, rng))
        if unspilled_peak_bytes(problem) <= capacity_bytes:
            part: Plan | None = resident_plan(problem.operators)
        else:
            entry = Boundary(0, problem.live_in, 0)
            found = TrafficSearch(problem, capacity_bytes, weights).run([entry], state_limit, deadline=deadline)
            bound += found.bound
            part = None
            if found.exits:
                steps = found.exits[0].steps
                order = tuple(problem.operators[o] for o, _ in steps)
                part = Plan(order, tuple(tuple(problem.tensors[t] for t in members(m)) for _, m in steps))
        if plan is not None:
            plan = None if part is None else Plan(plan.order + part.order, plan.retrieved + part.retrieved)
    value = None if plan is None else bound
    return Ordering(plan, value, bound, "exact search")


def order_in_windows(
    index: GraphIndex,
    capacity_bytes: int,
    weights: TrafficWeights,
    bound: int,
    window_states: int,
    deadline: float,
) -> Ordering:
    """The best of: break nodes, the fixed-order optimum, and windows of the minimum-peak and the default order.

    Args:
        index: The graph in numbers.
        capacity_bytes: At least the largest working set.
        weights: What a byte written and a byte read cost.
        bound: No plan has less weighted traffic.
        window_states: States per window; a window that needs more keeps its order.
        deadline: time (`clock.wall_seconds`) after which the best so far is returned.
    """
    lowest = lowest_peak_order(index).order
    default = tuple(range(len(index.inputs)))
    best = Ordering(None, None, bound, "none")
    for name, order in (("minimum-peak", lowest), ("default", default)):
        fixed = best_replacement(index, order, capacity_bytes, weights=weights)
        if fixed is not None:
            best = _better(best, fixed.plan, fixed.value, f"best replacement, {name} order")
        segments = narrow_segments(index, order, LIVE_LIMIT)
        parts = conquer(index, segments, capacity_bytes, weights, state_limit=window_states)
        if parts is not None:
            best = _better(best, parts.plan, parts.value, f"divide and conquer at break nodes, {name} order")
    for name, order in (("minimum-peak", lowest), ("default", default)):
        for found in _windows(index, order, capacity_bytes, weights, window_states, deadline):
            best = _better(best, found.plan, found.value, f"windows, {name} order")
        if clock.wall_seconds() > deadline or best.value == bound:
            break
    return best


def _windows(
    index: GraphIndex,
    order: Sequence[int],
    capacity_bytes: int,
    weights: TrafficWeights,
    window_states: int,
    deadline: float,
) -> Iterator[PricedPlan]:
    """Reorder within windows, moved along and widened as long as something improves."""
    value: int | None = None
    for shortest, longest in WINDOWS:
        improved = True
        while improved:
            improved = False
            for first in (1, shortest // 2, shortest):
                if clock.wall_seconds() > deadline:
                    return
                windows = window_segments(index, order, shortest, longest, first)
                found = conquer(index, windows, capacity_bytes, weights, state_limit=window_states)
                if found is not None and (value is None or found.value < value):
                    improved = value is not None
                    value, order = found.value, found.plan.order
                    yield found


def _better(best: Ordering, plan: Plan, value: int, method: str) -> Ordering:
    return (
        best if best.value is not None and best.value <= value else replace(best, plan=plan, value=value, method=method)
    )


def _shuffled(index: GraphIndex, segment: Segment, rng: random.Random) -> Segment:
    """The segment with its operators listed in a random order that can run."""
    inside = set(segment.operators)
    waits = {o: {index.producer[t] for t in index.inputs[o]} & inside for o in segment.operators}
    order: list[int] = []
    while waits:
        ready = [o for o, before in waits.items() if not before - set(order)]
        order.append(rng.choice(ready))
        del waits[order[-1]]
    return replace(segment, operators=tuple(order))
