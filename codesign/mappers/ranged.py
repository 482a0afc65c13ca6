"""Ranges of factors (`C<=4`, `C>=2`): every choice they leave open is mapped by another mapper, the best is returned.

A range on a level leaves few factors: the divisors of the bound in it, or with imperfect factors every number in it. So a problem with
ranges is a handful of problems with exact factors, and the proofs of these are a proof of the whole.
"""

import math
from dataclasses import dataclass, replace
from itertools import product

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, proof_of
from codesign.cost.arrays import Reuse
from codesign.mappers.protocol import Mapper, MapResult
from codesign.mappers.wrapped import Tried, checked, map_each
from codesign.mapping.constraints import Constraints, FactorRange, LevelConstraints, MappingProblem

MOST_CHOICES = 512
"""Combinations of factors that are mapped at most."""


@dataclass(frozen=True)
class RangedMapper:
    """Maps every combination of factors that the ranges of a problem allow; without ranges it is the mapper inside."""

    inner: Mapper

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return self.inner.name

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`. Budgets are shared evenly among the combinations.

        Raises:
            UserError: No combination can be mapped, or there are more than 512.
        """
        if not any(item.ranges for item in problem.constraints.levels):
            return checked(self.inner, self.inner.map(problem, objective, budget=budget, seed=seed, reuse=reuse))
        problems = [replace(problem, constraints=constraints) for constraints in exact_choices(problem)]
        return _best(map_each(self.inner, problems, objective, budget=budget, seed=seed, reuse=reuse), objective)


def _best(tried: Tried, objective: Objective) -> MapResult:
    """The best result, its proof that of all of them together."""
    found = [result for _, result in tried.results]
    best = min(found, key=lambda result: result.value(objective))
    bound = min(result.bound(objective) for result in found) if tried.complete else 0.0
    proof, gap = proof_of(best.value(objective), bound)
    return replace(best, evaluated=tried.evaluated, seconds=tried.seconds, proof=proof, gap=gap)


def exact_choices(problem: MappingProblem) -> list[Constraints]:
    """The constraints with an exact factor in place of every range, one for each combination.

    Raises:
        UserError: A range holds no factor of its bound, or there are too many combinations.
    """
    places: list[tuple[int, FactorRange]] = []
    options: list[list[int]] = []
    for i, item in enumerate(problem.constraints.levels):
        for entry in item.ranges:
            bound = problem.computation.sizes[entry.dim]
            top = _largest(problem, item.level, entry)
            allowed = [n for n in range(max(1, entry.least), top + 1) if problem.imperfect or bound % n == 0]
            if not allowed:
                raise UserError(
                    f"no factor of {entry.dim!r} ({bound}) lies in the range {entry}",
                    where=f"constraints of level {item.level!r}",
                )
            places.append((i, entry))
            options.append(allowed)
    number = math.prod(len(o) for o in options)
    if number > MOST_CHOICES:
        raise UserError(
            f"the ranges leave {number} combinations of factors, at most {MOST_CHOICES} are mapped",
            where="constraints",
            hint="make some of the ranges narrower",
        )
    return [_fixed(problem.constraints, places, chosen) for chosen in product(*options)]


def _largest(problem: MappingProblem, level: str, entry: FactorRange) -> int:
    """The largest factor of a range: the bound at most, and no more across a fan-out than it has children."""
    top = problem.computation.sizes[entry.dim]
    if entry.most is not None:
        return min(top, entry.most)
    if entry.spatial:
        fanout = next(v.fanout for v in problem.architecture.levels if v.name == level)
        return min(top, max(entry.least, fanout.x * fanout.y))
    return top


def _fixed(constraints: Constraints, places: list[tuple[int, FactorRange]], chosen: tuple[int, ...]) -> Constraints:
    levels: list[LevelConstraints] = [replace(item, ranges=()) for item in constraints.levels]
    for (i, entry), factor in zip(places, chosen, strict=True):
        pair = (entry.dim, factor)
        if entry.spatial:
            levels[i] = replace(levels[i], spatial=(*levels[i].spatial, pair))
        else:
            levels[i] = replace(levels[i], temporal=(*levels[i].temporal, pair))
    return replace(constraints, levels=tuple(levels))
