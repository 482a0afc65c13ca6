"""The exact mapper with imperfect factors: the perfect optimum, annealing from there, and what no mapping can beat."""

from collections.abc import Callable
from dataclasses import replace

from codesign.core import clock
from codesign.core.goals import Budget, Objective, Proof, proof_of
from codesign.cost.arrays import Reuse
from codesign.mappers.annealing import AnnealingMapper, empty_archive, perfect_result
from codesign.mappers.driver import Encoded
from codesign.mappers.imperfect.bound import least_value
from codesign.mappers.imperfect.joint.joint_search import search_jointly
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem

FIRST, LAST = AnnealingMapper(runs=3), AnnealingMapper(runs=1, hot=0.02, cold=0.001)
"""Annealing before the search over what fan-outs do, and of what that finds."""
EFFORT = 1.5e8
"""Steps of the search over what fan-outs do; about a second and a half."""
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
        problem: Imperfect factors are allowed.
        budget: A third of it goes to the perfect optimum.
        effort: Steps of the search over what fan-outs do.
    """
    started = clock.wall_seconds()
    first = budget.part(1 / 3, None if budget.evaluations is None else max(1, budget.evaluations // 3))
    before = perfect_result(lambda plain: perfect(plain, first), problem)
    used = 0 if before is None else before.evaluated
    scored = None if budget.evaluations is None else budget.evaluations - used
    if before is not None and scored == 0:
        best, evaluated = before, used
    else:
        start = None if before is None else before.mapping
        best = FIRST.search_from(start, problem, objective, budget.part(1 / 2, scored), seed, reuse)
        evaluated = used + best.evaluated
    if before is not None and before.cost is not None and before.value(objective) <= best.value(objective):
        best = before
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
    bound, state = search_jointly(encoded, objective, value, effort, budget.deadline(started))
    if state is not None:
        moves = LAST.moves if budget.evaluations is None else min(LAST.moves, budget.evaluations - best.evaluated)
        after = LAST.search(encoded, objective, Budget(evaluations=1 + moves), seed, state, empty_archive(state, 0))
        best = replace(after, evaluated=best.evaluated + moves, seed=seed)
        assert best.cost is not None
        value = objective.of(best.cost)
    if before is not None:  # windows of perfect mappings may slide on along several loops (rule IB14)
        bound = min(bound, before.bound(objective))
    proof, gap = proof_of(value, max(least_value(problem, objective), bound), _ROUNDING)
    return replace(best, proof=proof, gap=gap)
