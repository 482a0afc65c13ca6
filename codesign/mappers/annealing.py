"""Simulated annealing over tilings, loop orders, spatial choices and bypass, in compiled code.

What is accepted, and the moves that any map space has, are `codesign.mappers.moves`.
"""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState, below, make_state, uniform
from codesign.cost.arrays import Reuse
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, Kernel
from codesign.mappers.driver import OBJECTIVE_CODE, Encoded, draw_valid, value_of
from codesign.mappers.moves import Cooling, accepts, move_dim, rate, turn_bypass
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import FloatArray, IntArray, Nest, decode_nest
from codesign.mapping.space import MapSpace, MapState, build_nest, copy_state, factor_table, outermost_state


@njit
def change_state(space: MapSpace, state: MapState, random: RandomState) -> None:
    """Change one thing: a prime's slot, two primes' slots, the place of a dimension in a level's order, a bypass."""
    kind = uniform(random)
    n_movable = space.movable.shape[0]
    if space.free.shape[0] > 0 and kind < 0.12:
        turn_bypass(space.free, state.keep, random)
        return
    if n_movable > 0 and kind < 0.55:
        p = space.movable[below(random, n_movable)]
        state.slot[p] = space.choices[p, below(random, space.n_choices[p])]
        if kind < 0.30:  # a second prime follows, mostly into the slot the first one left
            q = space.movable[below(random, n_movable)]
            state.slot[q] = space.choices[q, below(random, space.n_choices[q])]
        return
    if n_movable > 1 and kind < 0.70:
        p = space.movable[below(random, n_movable)]
        q = space.movable[below(random, n_movable)]
        if _allows(space, p, state.slot[q]) and _allows(space, q, state.slot[p]):
            state.slot[p], state.slot[q] = state.slot[q], state.slot[p]
        return
    move_dim(state.order, space.n_free, random)


@njit
def _allows(space: MapSpace, prime: int, slot: int) -> bool:
    found = False
    for i in range(space.n_choices[prime]):
        found = found or space.choices[prime, i] == slot
    return found


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
    kernel: Kernel, space: MapSpace, walkers: Walkers, values: tuple[float, float], nest: Nest, table: IntArray,
    random: RandomState, cooling: Cooling, objective: int, archive: Archive,
) -> tuple[float, float]:  # fmt: skip
    """Run moves from the state at hand; `archive` is overwritten too.

    `values` are those of the state at hand and of the best.

    Returns:
        The same two values afterwards.
    """
    current, best_value = values
    temperature, factor = cooling.hot, rate(cooling)
    room = archive.value.shape[0] > 0
    for _ in range(cooling.moves):
        copy_state(walkers.state, walkers.trial)
        change_state(space, walkers.trial, random)
        count = build_nest(space, walkers.trial, table, nest)
        status, energy, cycles = score(kernel, nest, count)
        temperature *= factor
        if status != VALID:
            continue
        value = value_of(objective, energy, cycles)
        if accepts(current, value, temperature, random):
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
        if self.moves < 1 or self.runs < 1:
            raise UserError(f"moves and runs must be >= 1, got {self.moves} and {self.runs}")
        if self.alternatives is not None and self.alternatives < 0:
            raise UserError(f"alternatives must be >= 0, got {self.alternatives}")
        if not 0 < self.cold <= self.hot:
            raise UserError(f"temperatures must satisfy 0 < cold <= hot, got {self.cold} and {self.hot}")

    def map(
        self,
        problem: MappingProblem,
        objective: Objective,
        *,
        budget: Budget,
        seed: int,
        reuse: Reuse = Reuse.TIMELOOP,
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`. Without a budget, ``runs * moves`` mappings are scored."""
        if problem.imperfect:
            return self._map_imperfect(problem, objective, budget, seed, reuse)
        encoded = Encoded.of(problem, reuse)
        space, table = encoded.space, factor_table(encoded.space)
        best, trial = outermost_state(space), outermost_state(space)
        code = OBJECTIVE_CODE[objective]
        archive = empty_archive(best, _ALIKE * (self.alternatives or 0))
        # no moves: compiles on the first call ever, which shall not count against the time limit
        anneal(
            encoded.kernel, space, Walkers(outermost_state(space), trial, best), (math.inf, math.inf), encoded.nest, table,
            make_state(seed), Cooling(0, float(self.hot), float(self.cold)), code, archive,
        )  # fmt: skip
        started = clock.wall_seconds()
        count = build_nest(space, best, table, encoded.nest)
        status, energy, cycles = score(encoded.kernel, encoded.nest, count)
        first = outermost_state(space)
        if status != VALID and space.least_units > 1:  # too few units there: any state with enough of them will do
            draw_valid(encoded.kernel, space, first, encoded.nest, table, make_state(seed, 1), _DRAWS)
            count = build_nest(space, first, table, encoded.nest)
            status, energy, cycles = score(encoded.kernel, encoded.nest, count)
            copy_state(first, best)
        if status != VALID:
            return encoded.result(None, 1, started, seed)
        first_value = best_value = value_of(code, energy, cycles)
        wanted = budget.evaluations
        if wanted is None and budget.time_limit_s is None:
            wanted = self.runs * self.moves
        evaluated, run = 1, 0
        while wanted is None or evaluated < wanted:
            # later restarts of an open-ended run are longer: what short ones find is then known
            moves = self.moves * (1 if wanted is not None else 1 + run // 4)
            moves = moves if wanted is None else min(moves, wanted - evaluated)
            from_best = run % 2 == 1
            state = outermost_state(space)
            copy_state(best if from_best else first, state)
            hot = self.hot if not from_best else max(self.cold, 0.2 * self.hot)
            values = (best_value if from_best else first_value, best_value)
            _, best_value = anneal(
                encoded.kernel, space, Walkers(state, trial, best), values, encoded.nest, table,
                make_state(seed, run), Cooling(moves, float(hot), float(self.cold)), code, archive,
            )  # fmt: skip
            evaluated += moves
            run += 1
            if budget.time_limit_s is not None and clock.wall_seconds() - started >= budget.time_limit_s:
                break
        if not math.isfinite(best_value):
            return encoded.result(None, evaluated, started, seed)
        found = encoded.result(best, evaluated, started, seed)
        return replace(found, alternatives=self._further(encoded, archive, table, found.mapping))

    def _map_imperfect(
        self, problem: MappingProblem, objective: Objective, budget: Budget, seed: int, reuse: Reuse
    ) -> MapResult:
        """A third of the budget finds a perfect mapping, the rest anneals imperfect ones from there."""
        from codesign.mappers.imperfect.imperfect_search import search_by_annealing

        parts = _split(budget)
        before: MapResult | None = None
        with suppress(UserError):  # a fixed factor that divides no bound: there is no perfect mapping
            before = self.map(replace(problem, imperfect=False), objective, budget=parts[0], seed=seed, reuse=reuse)
        after = search_by_annealing(
            problem, objective, parts[1], seed, reuse, moves=self.moves, runs=2 * self.runs,
            temperatures=(self.hot, self.cold), start=None if before is None else before.mapping,
        )  # fmt: skip
        if before is None:
            return after
        best = after
        if before.cost is not None and (after.cost is None or objective.of(before.cost) < objective.of(after.cost)):
            best = before
        return replace(
            best, evaluated=before.evaluated + after.evaluated, seconds=before.seconds + after.seconds, alternatives=()
        )

    def _further(
        self, encoded: Encoded, archive: Archive, table: IntArray, best: Mapping | None
    ) -> tuple[Mapping, ...]:
        """The archived mappings that differ from the best and from each other, best first."""
        found: dict[Mapping, None] = {}
        for k in np.argsort(archive.value, kind="stable"):
            if not math.isfinite(archive.value[k]):
                break
            state = MapState(archive.slot[k], archive.order[k], archive.keep[k])
            count = build_nest(encoded.space, state, table, encoded.nest)
            mapping = decode_nest(encoded.source.computation, encoded.source.architecture, encoded.nest, count)
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


def _split(budget: Budget) -> tuple[Budget, Budget]:
    """A third of a budget, and the rest."""
    seconds, scored = budget.time_limit_s, budget.evaluations
    third = None if scored is None else max(1, scored // 3)
    rest = None if scored is None or third is None else max(1, scored - third)
    times = (None, None) if seconds is None else (seconds / 3, seconds * 2 / 3)
    return Budget(times[0], third), Budget(times[1], rest)


_DRAWS = 200_000
"""States drawn at most for a start that uses as many MAC units as constraints ask."""

_ALIKE = 4
"""States kept for each mapping asked for: equal primes in other slots are the same mapping."""
