"""A mapper around another one: several problems in place of one, the budget shared among them, the best result kept."""

from collections.abc import Sequence
from dataclasses import dataclass

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.mappers.protocol import Mapper, MapResult
from codesign.mapping.constraints import MappingProblem


@dataclass(frozen=True)
class Tried:
    """What the inner mapper gave.

    Args:
        results: Number of the problem and its result, of all that were mapped.
        complete: Whether none was left out for lack of budget.
        seconds: Wall-clock time of all.
    """

    results: tuple[tuple[int, MapResult], ...]
    complete: bool
    seconds: float

    @property
    def evaluated(self) -> int:
        """Mappings scored in all problems together."""
        return sum(result.evaluated for _, result in self.results)


def checked(inner: Mapper, result: object) -> MapResult:
    """The result of the mapper inside, which may be another package's.

    Raises:
        UserError: It is none.
    """
    if not isinstance(result, MapResult):
        raise UserError(
            f"mapper {inner.name!r} returned {type(result).__name__}, expected a MapResult",
            hint="`codesign.testing.MapperContract` checks a mapper of your own",
        )
    return result


def map_each(
    inner: Mapper, problems: Sequence[MappingProblem], objective: Objective, *, budget: Budget, seed: int, reuse: Reuse
) -> Tried:
    """Map one problem after the other, each with an equal share of what is left of the budget.

    Raises:
        UserError: None can be mapped, the message being that of the first, or the budget is too small for a single one.
    """
    started = clock.wall_seconds()
    results: list[tuple[int, MapResult]] = []
    refused: list[UserError] = []
    for i, problem in enumerate(problems):
        scored = sum(result.evaluated for _, result in results)
        share = _share(budget, len(problems) - i, clock.wall_seconds() - started, scored)
        if share is None:
            break
        try:
            found = inner.map(problem, objective, budget=share, seed=seed, reuse=reuse)
            results.append((i, checked(inner, found)))
        except UserError as error:  # fixed factors that do not divide these bounds
            refused.append(error)
    if not results and refused:
        raise refused[0]
    if not results:
        raise UserError("the budget is too small for a single one of the problems to be tried")
    complete = len(results) + len(refused) == len(problems)
    return Tried(tuple(results), complete, clock.wall_seconds() - started)


def _share(budget: Budget, left: int, spent_s: float, evaluated: int) -> Budget | None:
    """An equal share of what is left of a budget; None when nothing is."""
    seconds, scored = budget.time_limit_s, budget.evaluations
    if seconds is not None:
        seconds = (seconds - spent_s) / left
        if seconds <= 0.0:
            return None
    if scored is not None:
        scored = (scored - evaluated) // left
        if scored < 1:
            return None
    return Budget(seconds, scored)
