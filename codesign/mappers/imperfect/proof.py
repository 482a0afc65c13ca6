"""The exact mapper with imperfect factors: the perfect optimum, annealing from there, and what no mapping can beat."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.mappers.imperfect.bound import least_value
from codesign.mappers.imperfect.imperfect_search import search_by_annealing
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem

MOVES, RUNS = 6_000, 10
TEMPERATURES = (0.5, 0.003)
_ROUNDING = 1e-9


def map_imperfect_exactly(
    perfect: Callable[[MappingProblem, Budget], MapResult],
    problem: MappingProblem,
    objective: Objective,
    *,
    budget: Budget,
    seed: int,
    reuse: Reuse,
) -> MapResult:
    """The best mapping found and a proven distance from the best there is.

    Args:
        perfect: Finds the optimum over perfect factors.
        problem: Imperfect factors are allowed.
        objective: What is minimised.
        budget: A third of it goes to the perfect optimum.
        seed: Of annealing.
        reuse: What a buffer need not fetch again.
    """
    started = time.perf_counter()
    first = Budget(
        None if budget.time_limit_s is None else budget.time_limit_s / 3,
        None if budget.evaluations is None else max(1, budget.evaluations // 3),
    )
    before: MapResult | None = None
    with suppress(UserError):  # a fixed factor that divides no bound: there is no perfect mapping
        before = perfect(replace(problem, imperfect=False), first)
    used = 0 if before is None else before.evaluated
    left = Budget(
        None if budget.time_limit_s is None else budget.time_limit_s / 2,
        None if budget.evaluations is None else max(1, budget.evaluations - used),
    )
    start = None if before is None else before.mapping
    best = search_by_annealing(
        problem, objective, left, seed, reuse, moves=MOVES, runs=RUNS, temperatures=TEMPERATURES, start=start
    )
    evaluated = used + best.evaluated
    if before is not None and before.cost is not None:
        best = before if best.cost is None or objective.of(before.cost) <= objective.of(best.cost) else best
    done = replace(best, evaluated=evaluated, seed=seed, proof=Proof.NONE, gap=None)
    if done.cost is not None:
        value, bound = objective.of(done.cost), least_value(problem, objective)
        if value <= bound * (1.0 + _ROUNDING):
            done = replace(done, proof=Proof.OPTIMAL, gap=0.0)
        elif bound > 0.0 and math.isfinite(bound):
            done = replace(done, proof=Proof.GAP, gap=(value - bound) / bound)
    return replace(done, seconds=time.perf_counter() - started)
