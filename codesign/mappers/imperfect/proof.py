"""The exact mapper with imperfect factors: the perfect optimum, annealing from there, and what no mapping can beat."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.mappers.annealing import AnnealingMapper, empty_archive
from codesign.mappers.driver import Encoded
from codesign.mappers.imperfect.bound import least_value
from codesign.mappers.imperfect.joint.joint_search import search_jointly
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem

FIRST, LAST = AnnealingMapper(runs=3), AnnealingMapper(runs=1, hot=0.02, cold=0.001)
"""Annealing before the search over what fan-outs do, and of what that finds."""
EFFORT = 8.6e7
"""Steps of the search over what fan-outs do; about a second."""
_WORK_OF_A_MAPPING = 3_000.0
_ROUNDING = 1e-9


def map_imperfect_exactly(
    perfect: Callable[[MappingProblem, Budget], MapResult],
    problem: MappingProblem,
    objective: Objective,
    *,
    budget: Budget,
    seed: int,
    reuse: Reuse,
    effort: float = EFFORT,
) -> MapResult:
    """The best mapping found and a proven distance from the best there is.

    Args:
        perfect: Finds the optimum over perfect factors.
        problem: Imperfect factors are allowed.
        objective: What is minimised.
        budget: A third of it goes to the perfect optimum.
        seed: Of annealing.
        reuse: What a buffer need not fetch again.
        effort: Steps of the search over what fan-outs do.
    """
    started = clock.wall_seconds()
    first = Budget(
        None if budget.time_limit_s is None else budget.time_limit_s / 3,
        None if budget.evaluations is None else max(1, budget.evaluations // 3),
    )
    before: MapResult | None = None
    with suppress(UserError):  # a fixed factor that divides no bound: there is no perfect mapping
        before = perfect(replace(problem, imperfect=False), first)
    used = 0 if before is None else before.evaluated
    scored = None if budget.evaluations is None else budget.evaluations - used
    if before is not None and scored == 0:
        best, evaluated = before, used
    else:
        left = Budget(None if budget.time_limit_s is None else budget.time_limit_s / 2, scored)
        best = FIRST.search_from(None if before is None else before.mapping, problem, objective, left, seed, reuse)
        evaluated = used + best.evaluated
    if before is not None and before.cost is not None:
        best = before if best.cost is None or objective.of(before.cost) <= objective.of(best.cost) else best
    best = replace(best, evaluated=evaluated, seed=seed, proof=Proof.NONE, gap=None)
    done = _prove(best, before, problem, objective, budget, reuse, seed, started, effort)
    return replace(done, seconds=clock.wall_seconds() - started)


def _prove(
    best: MapResult,
    before: MapResult | None,
    problem: MappingProblem,
    objective: Objective,
    budget: Budget,
    reuse: Reuse,
    seed: int,
    started: float,
    effort: float,
) -> MapResult:
    """The best mapping after the search over what fan-outs do, and the bound of that search (rules IB7 to IB13)."""
    if best.cost is None:
        return best
    encoded = Encoded.of(problem, reuse)
    value = objective.of(best.cost)
    if budget.evaluations is not None:
        effort = min(effort, budget.evaluations * _WORK_OF_A_MAPPING)
    deadline = math.inf if budget.time_limit_s is None else started + budget.time_limit_s
    bound, state = search_jointly(encoded, objective, value, effort, deadline)
    if state is not None:
        moves = LAST.moves if budget.evaluations is None else min(LAST.moves, budget.evaluations - best.evaluated)
        after = LAST.search(encoded, objective, Budget(evaluations=1 + moves), seed, state, empty_archive(state, 0))
        best = replace(after, evaluated=best.evaluated + moves, seed=seed)
        assert best.cost is not None
        value = objective.of(best.cost)
    bound = max(least_value(problem, objective), min(bound, _least_of_perfect(before, objective)))
    if value <= bound * (1.0 + _ROUNDING):
        return replace(best, proof=Proof.OPTIMAL, gap=0.0)
    if bound > 0.0 and math.isfinite(bound):
        return replace(best, proof=Proof.GAP, gap=(value - bound) / bound)
    return best


def _least_of_perfect(before: MapResult | None, objective: Objective) -> float:
    """A value that no perfect mapping is below: their windows may slide on along several loops (rule IB14)."""
    if before is None or (before.cost is None and before.proof is Proof.OPTIMAL):  # there is none
        return math.inf
    if before.cost is None or before.gap is None:
        return 0.0
    return objective.of(before.cost) / (1.0 + before.gap)
