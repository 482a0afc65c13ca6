"""The best replacement for a fixed order (Section III-E2 of the paper), with capacities only.

Between two uses of a tensor lies a gap: the tensor stays, or leaves and is retrieved at the later use. What is left
to decide is which gaps to keep, a knapsack per step whose items span steps.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from codesign.core.interruption import solved
from codesign.scheduling.cosma.graph import GraphIndex
from codesign.scheduling.cosma.objective import BYTES, TrafficWeights
from codesign.scheduling.cosma.plan import Plan, PricedPlan, uses, weighted_traffic


@dataclass(frozen=True)
class Gap:
    """Steps strictly between two consecutive uses of a tensor.

    Args:
        tensor: The tensor.
        start: First step in which it is not used.
        end: The step that uses it next.
    """

    tensor: int
    start: int
    end: int


def gaps(index: GraphIndex, order: Sequence[int]) -> list[Gap]:
    """Every gap that holds at least one step; a tensor used in consecutive steps has no reason to leave."""
    return [
        Gap(tensor, before + 1, after)
        for tensor, steps in enumerate(uses(index, order))
        for before, after in itertools.pairwise(steps)
        if after > before + 1
    ]


def best_replacement(
    index: GraphIndex,
    order: Sequence[int],
    capacity_bytes: int,
    *,
    weights: TrafficWeights = BYTES,
    forbidden: Sequence[Sequence[Gap]] = (),
    time_limit_s: float = 30.0,
) -> PricedPlan | None:
    """The plan of least weighted traffic for `order`.

    Args:
        index: The graph in numbers.
        order: A runnable order.
        capacity_bytes: Scratchpad size, at least the largest working set.
        weights: What a byte written and a byte read cost.
        forbidden: Sets of gaps that must not all be kept (they have no addresses together).
        time_limit_s: Seconds for the solver.

    Returns:
        The plan, or None when the solver found none in time.
    """
    from ortools.sat.python import cp_model

    all_gaps = gaps(index, order)
    needed = [index.working_set_bytes(o) for o in order]
    over = _crowded_steps(index, all_gaps, needed, capacity_bytes)
    cut = {gap for group in forbidden for gap in group}
    choices = [g for g in all_gaps if g in cut or any(g.start <= step < g.end for step in over)]
    if not choices:
        return PricedPlan(Plan(tuple(order), ((),) * len(order)), 0, 0)
    model = cp_model.CpModel()
    kept = {gap: model.new_bool_var("") for gap in choices}
    spilled = {tensor: model.new_bool_var("") for tensor in {gap.tensor for gap in choices}}
    for gap, keep in kept.items():
        model.add_bool_or(keep, spilled[gap.tensor])
    sizes = index.size_bytes
    unit = math.gcd(*sizes, *index.parameter_bytes)
    for step in over:
        here = [gap for gap in choices if gap.start <= step < gap.end]
        room = (capacity_bytes - needed[step]) // unit
        model.add(sum(sizes[gap.tensor] // unit * kept[gap] for gap in here) <= room)
    for group in forbidden:
        model.add_bool_or([~kept[gap] for gap in group])
    model.minimize(
        sum(weights.write * (sizes[t] // unit) * v for t, v in spilled.items())
        + sum(weights.read * (sizes[g.tensor] // unit) * (1 - k) for g, k in kept.items())
    )
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = time_limit_s
    if solved(solver, model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    retrieved: list[set[int]] = [set() for _ in order]
    for gap, keep in kept.items():
        if not solver.boolean_value(keep):
            retrieved[gap.end].add(gap.tensor)
    plan = Plan(tuple(order), tuple(tuple(sorted(r)) for r in retrieved))
    bound = math.ceil(solver.best_objective_bound - 1e-6) * unit
    return PricedPlan(plan, weighted_traffic(index, plan, weights), bound)


def _crowded_steps(
    index: GraphIndex, every_gap: Sequence[Gap], needed: Sequence[int], capacity_bytes: int
) -> list[int]:
    """Steps that would not fit if every gap were kept."""
    change = [0] * (len(needed) + 1)
    for gap in every_gap:
        change[gap.start] += index.size_bytes[gap.tensor]
        change[gap.end] -= index.size_bytes[gap.tensor]
    kept = itertools.accumulate(change)
    return [step for step, (need, held) in enumerate(zip(needed, kept, strict=False)) if need + held > capacity_bytes]
