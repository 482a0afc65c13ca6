"""Simulated annealing over tilings, loop orders, spatial choices and bypass, in compiled code.

What is accepted, and the moves that any map space has, are `codesign.mappers.moves`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from codesign.core import clock
from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState, make_state
from codesign.cost.arrays import Reuse
from codesign.mappers.driver import Encoded, Scorer, draw_valid, value_of_state
from codesign.mappers.moves import Cooling, accepts, change_state, geometric
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import FloatArray, IntArray
from codesign.mapping.space import MapState, copy_state, outermost_state


class Archive(NamedTuple):
    """The K best different states accepted so far: their values (infinite where none is) and what they are."""

    value: FloatArray
    slot: IntArray
    order: IntArray
    keep: IntArray


def empty_archive(state: MapState, size: int) -> Archive:
    """Room for `size` states like this one."""
    rooms = [np.zeros((size, *part.shape), np.int64) for part in state]
    return Archive(np.full(size, math.inf), *rooms)


@njit
def _remember(archive: Archive, value: float, state: MapState) -> None:
    """Put a state in place of the worst one, unless it is there already."""
    worst = 0
    for k in range(archive.value.shape[0]):
        if archive.value[k] > archive.value[worst]:
            worst = k
        if (
            archive.value[k] == value
            and (archive.slot[k] == state.slot).all()
            and (archive.order[k] == state.order).all()
            and (archive.keep[k] == state.keep).all()
        ):
            return
    if value < archive.value[worst]:
        archive.value[worst] = value
        archive.slot[worst] = state.slot
        archive.order[worst] = state.order
        archive.keep[worst] = state.keep


class Walkers(NamedTuple):
    """The state at hand, the one tried, and the best; overwritten."""

    state: MapState
    trial: MapState
    best: MapState


@njit
def anneal(
    scorer: Scorer,
    walkers: Walkers,
    values: tuple[float, float],
    random: RandomState,
    cooling: Cooling,
    archive: Archive,
) -> tuple[float, float]:
    """Run moves from the state at hand, `values` being those of it and of the best; returns the same two afterwards. `archive` is overwritten too."""
    current, best_value = values
    temperature = cooling.hot
    room = archive.value.shape[0] > 0
    for _ in range(cooling.moves):
        copy_state(walkers.state, walkers.trial)
        change_state(scorer.space, walkers.trial, random)
        value = value_of_state(scorer, walkers.trial)
        temperature *= cooling.rate
        if value < np.inf and accepts(current, value, temperature, random):
            current = value
            copy_state(walkers.trial, walkers.state)
            if room:
                _remember(archive, value, walkers.trial)
            if value < best_value:
                best_value = value
                copy_state(walkers.trial, walkers.best)
    return current, best_value


@dataclass(frozen=True)
class AnnealingMapper:
    """Annealing with restarts; each restart cools from `hot` to `cold`, every other one from the best so far.

    Args:
        moves: Moves of one run.
        runs: Runs when the budget sets no limit.
        hot: First temperature: relative worsening accepted with probability 1/e.
        cold: Last temperature.
        alternatives: How many further mappings to give besides the best; None for none.
    """

    moves: int = 6_000
    runs: int = 5
    hot: float = 0.5
    cold: float = 0.003
    alternatives: int | None = None
    name: ClassVar[str] = "anneal"

    def __post_init__(self) -> None:
        check_least(1, moves=self.moves, runs=self.runs)
        check_least(0, alternatives=self.alternatives)
        if not 0 < self.cold <= self.hot:
            raise UserError(f"temperatures must satisfy 0 < cold <= hot, got {self.cold} and {self.hot}")

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`. Without a budget, ``runs * moves`` mappings are scored."""
        if problem.imperfect:
            return self._map_imperfect(problem, objective, budget, seed, reuse)
        encoded = Encoded.of(problem, reuse)
        space = encoded.space
        best = outermost_state(space)
        archive = empty_archive(best, _ALIKE * (self.alternatives or 0))
        limit = replace(budget, evaluations=budget.scored_or(self.runs * self.moves))
        found = self.search(encoded, objective, limit, seed, best, archive)
        return replace(found, alternatives=self._further(encoded, archive, found.mapping))

    def search(
        self, encoded: Encoded, objective: Objective, budget: Budget, seed: int, first: MapState, archive: Archive
    ) -> MapResult:
        """Anneal from `first`, overwritten by the best, or from a random state where it uses too few units; `archive` receives the best states met."""
        space, best, scorer = encoded.space, first, encoded.scorer(objective)
        first, trial = outermost_state(space), outermost_state(space)
        # no moves: compiles on the first call ever, which shall not count against the time limit
        walkers = Walkers(outermost_state(space), trial, outermost_state(space))
        still = geometric(0, self.hot, self.cold)
        anneal(scorer, walkers, (math.inf, math.inf), make_state(seed), still, archive)
        started = clock.wall_seconds()
        first_value = encoded.value(best, objective)
        if not math.isfinite(first_value) and space.least_units > 1:
            # too few units there: any state with enough of them will do
            draw_valid(scorer, best, make_state(seed, 1), _DRAWS)
            first_value = encoded.value(best, objective)
        if not math.isfinite(first_value):
            return encoded.result(None, 1, started, seed)
        copy_state(best, first)
        best_value, wanted, evaluated, run = first_value, budget.evaluations, 1, 0
        while wanted is None or evaluated < wanted:
            # later restarts of an open-ended run are longer: what short ones find is then known
            moves = self.moves * (1 if wanted is not None else 1 + run // 4)
            moves = moves if wanted is None else min(moves, wanted - evaluated)
            from_best = run % 2 == 1
            state = outermost_state(space)
            copy_state(best if from_best else first, state)
            hot = self.hot if not from_best else max(self.cold, 0.2 * self.hot)
            values = (best_value if from_best else first_value, best_value)
            cooling = geometric(moves, hot, self.cold)
            _, best_value = anneal(scorer, Walkers(state, trial, best), values, make_state(seed, run), cooling, archive)
            evaluated += moves
            run += 1
            if clock.is_spent(budget, started, evaluated):
                break
        return encoded.result(best, evaluated, started, seed)

    def search_from(
        self,
        mapping: Mapping | None,
        problem: MappingProblem,
        objective: Objective,
        budget: Budget,
        seed: int,
        reuse: Reuse,
    ) -> MapResult:
        """Anneal imperfect factors from a mapping, or from the smallest tiles; without a budget in `runs` whole runs."""
        encoded = Encoded.of(problem, reuse)
        first = outermost_state(encoded.space) if mapping is None else encoded.state_of(mapping)
        if budget == Budget():
            budget = Budget(evaluations=1 + self.runs * self.moves)
        return self.search(encoded, objective, budget, seed, first, empty_archive(first, 0))

    def _map_imperfect(
        self, problem: MappingProblem, objective: Objective, budget: Budget, seed: int, reuse: Reuse
    ) -> MapResult:
        """A third of the budget finds a perfect mapping, the rest anneals imperfect ones from there; one evaluation is of the latter."""
        if budget.evaluations == 1:
            return self.search_from(None, problem, objective, budget, seed, reuse)
        third, scored = None, budget.evaluations
        if scored is not None:
            third = max(1, scored // 3)
            scored -= third
        first = budget.part(1 / 3, third)
        before = perfect_result(lambda plain: self.map(plain, objective, budget=first, seed=seed, reuse=reuse), problem)
        longer = replace(self, runs=2 * self.runs)
        start = None if before is None else before.mapping
        after = longer.search_from(start, problem, objective, budget.part(2 / 3, scored), seed, reuse)
        if before is None:
            return after
        best = before if after.cost is None or before.value(objective) < after.value(objective) else after
        return replace(
            best, evaluated=before.evaluated + after.evaluated, seconds=before.seconds + after.seconds, alternatives=()
        )

    def _further(self, encoded: Encoded, archive: Archive, best: Mapping | None) -> tuple[Mapping, ...]:
        """The archived mappings that differ from the best and from each other, best first."""
        found: dict[Mapping, None] = {}
        for k in np.argsort(archive.value, kind="stable"):
            if not math.isfinite(archive.value[k]):
                break
            state = MapState(archive.slot[k], archive.order[k], archive.keep[k])
            mapping = encoded.mapping_of(state)
            if mapping != best:
                found[mapping] = None
        return tuple(found)[: self.alternatives or 0]


def helping_budget(mapper: AnnealingMapper, scored: float, deadline: float) -> Budget | None:
    """For annealing that helps another search: its own moves within what is left, one run where time is up; None where nothing may be scored.

    Args:
        mapper: With its own settings.
        scored: Mappings that may still be scored.
        deadline: Value of `clock.wall_seconds` at which to stop.
    """
    if scored < 1:
        return None
    left = None if math.isinf(deadline) else max(1e-9, deadline - clock.wall_seconds())
    return Budget(left, int(min(scored, mapper.runs * mapper.moves)))


def perfect_result(search: Callable[[MappingProblem], MapResult], problem: MappingProblem) -> MapResult | None:
    """What a search finds with perfect factors; None where a fixed factor divides no bound, so that there is no such mapping."""
    try:
        return search(replace(problem, imperfect=False))
    except UserError:
        return None


_DRAWS = 200_000
"""States drawn at most for a start that uses as many MAC units as constraints ask."""

_ALIKE = 4
"""States kept for each mapping asked for: equal primes in other slots are the same mapping."""
