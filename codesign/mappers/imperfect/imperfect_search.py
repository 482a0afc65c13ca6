"""Random search, annealing and a genetic algorithm over imperfect factors, in compiled code."""

import math
from dataclasses import dataclass

import numpy as np

from codesign.core import clock
from codesign.core.goals import Budget, Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState, make_state
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible, evaluate
from codesign.cost.imperfect import ImperfectKernel, score_any
from codesign.cost.packed import VALID
from codesign.mappers.driver import OBJECTIVE_CODE, value_of
from codesign.mappers.imperfect.imperfect_space import (
    ImperfectSpace,
    ImperfectState,
    build_imperfect,
    copy_imperfect,
    draw_imperfect,
    encode_imperfect,
    move_imperfect,
    outermost,
    room_for_nest,
    state_of,
)
from codesign.mappers.moves import Cooling, accepts, rate
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import FloatArray, IntArray, Nest, decode_nest
from codesign.mapping.space import decode_keys

INVALID = 1e6
"""Fitness (a logarithm) of genomes whose mapping does not fit; those that fail further in are better."""

_DRAWS = 200_000
"""Random states that annealing tries at most where the smallest tiles are no start."""


@njit
def value_of_state(
    kernel: ImperfectKernel, space: ImperfectSpace, state: ImperfectState, table: IntArray, nest: Nest, objective: int
) -> float:
    """The objective's value, infinite where the mapping does not fit."""
    count = build_imperfect(space, state, table, nest)
    if count < 0:
        return math.inf
    status, energy, cycles = score_any(kernel, nest, count)
    return value_of(objective, energy, cycles) if status == VALID else math.inf


@njit
def draw_many(
    kernel: ImperfectKernel,
    space: ImperfectSpace,
    state: ImperfectState,
    best: ImperfectState,
    best_value: float,
    table: IntArray,
    nest: Nest,
    random: RandomState,
    draws: int,
    objective: int,
) -> tuple[float, int]:
    """Draw `draws` states; returns the best value and how many were valid."""
    valid = 0
    for _ in range(draws):
        draw_imperfect(space, state, random)
        value = value_of_state(kernel, space, state, table, nest, objective)
        if value < math.inf:
            valid += 1
        if value < best_value:
            best_value = value
            copy_imperfect(state, best)
    return best_value, valid


@njit
def draw_valid_imperfect(
    kernel: ImperfectKernel, space: ImperfectSpace, state: ImperfectState, table: IntArray, nest: Nest,
    random: RandomState, draws: int,
) -> bool:  # fmt: skip
    """Draw states until one is valid; whether there was one."""
    for _ in range(draws):
        draw_imperfect(space, state, random)
        if value_of_state(kernel, space, state, table, nest, 0) < math.inf:
            return True
    return False


@njit
def anneal_imperfect(
    kernel: ImperfectKernel,
    space: ImperfectSpace,
    state: ImperfectState,
    trial: ImperfectState,
    best: ImperfectState,
    values: tuple[float, float],
    table: IntArray,
    nest: Nest,
    random: RandomState,
    cooling: Cooling,
    objective: int,
) -> float:
    """Run moves from `state` (see `codesign.mappers.annealing.anneal`); returns the best value."""
    current, best_value = values
    temperature, factor = cooling.hot, rate(cooling)
    for _ in range(cooling.moves):
        copy_imperfect(state, trial)
        move_imperfect(space, trial, random)
        value = value_of_state(kernel, space, trial, table, nest, objective)
        temperature *= factor
        if value < math.inf and accepts(current, value, temperature, random):
            current = value
            copy_imperfect(trial, state)
            if value < best_value:
                best_value = value
                copy_imperfect(trial, best)
    return best_value


@dataclass(frozen=True)
class ImperfectSearch:
    """A problem ready for compiled search."""

    source: MappingProblem
    reuse: Reuse
    objective: Objective
    kernel: ImperfectKernel
    space: ImperfectSpace
    nest: Nest
    table: IntArray

    @classmethod
    def of(cls, source: MappingProblem, objective: Objective, reuse: Reuse) -> "ImperfectSearch":
        """Encode a problem.

        Raises:
            UserError: The rules for imperfect factors do not cover it.
        """
        kernel, space = encode_imperfect(source, reuse)
        return cls(source, reuse, objective, kernel, space, *room_for_nest(space))

    def value(self, state: ImperfectState) -> float:
        """The objective's value of a state, infinite where it does not fit."""
        return float(
            value_of_state(self.kernel, self.space, state, self.table, self.nest, OBJECTIVE_CODE[self.objective])
        )

    def draw_start(self, state: ImperfectState, seed: int) -> float:
        """Overwrite `state` with a random one that is valid; its value, infinite where none was drawn."""
        random = make_state(seed, 1)
        draw_valid_imperfect(self.kernel, self.space, state, self.table, self.nest, random, _DRAWS)
        return self.value(state)

    def mapping(self, state: ImperfectState) -> Mapping | None:
        """The mapping of a state."""
        count = build_imperfect(self.space, state, self.table, self.nest)
        if count < 0:
            return None
        return decode_nest(self.source.computation, self.source.architecture, self.nest, count)

    def result(self, best: ImperfectState | None, evaluated: int, started: float, seed: int | None) -> MapResult:
        """The result for the best state; without one, why even the smallest tiles do not fit."""
        mapping = self.mapping(outermost(self.space) if best is None else best)
        seconds = clock.wall_seconds() - started
        if mapping is None:
            reason = Infeasible(
                "mappings that obey the constraints",
                1,
                0,
                "mappings",
                "fixed factors exceed the bounds, or too few units are used",
            )
            return MapResult(None, None, reason, evaluated, seconds, seed=seed)
        problem = self.source
        cost = evaluate(problem.computation, problem.architecture, mapping, reuse=self.reuse, imperfect=True)
        if isinstance(cost, Infeasible):
            return MapResult(None, None, cost, evaluated, seconds, seed=seed)
        if best is None:
            reason = Infeasible("mappings drawn", evaluated, 0, "valid mappings", "none of those drawn fits; draw more")
            return MapResult(None, None, reason, evaluated, seconds, seed=seed)
        return MapResult(mapping, cost, None, evaluated, seconds, seed=seed)

    def anneal(
        self,
        start: ImperfectState,
        value: float,
        *,
        moves: int,
        runs: int | None,
        temperatures: tuple[float, float],
        wanted: int | None,
        deadline: float,
        seed: int,
    ) -> tuple[ImperfectState, float, int]:
        """Annealing runs from a state that fits; every other one from the best so far. Returns (best, value, scored)."""
        space, code = self.space, OBJECTIVE_CODE[self.objective]
        best, trial = outermost(space), outermost(space)
        copy_imperfect(start, best)
        best_value, evaluated, run = value, 0, 0
        hot, cold = temperatures
        while (runs is None or run < runs) and (wanted is None or evaluated < wanted):
            part = moves if wanted is None else min(moves, wanted - evaluated)
            from_best = run % 2 == 1
            state = outermost(space)
            copy_imperfect(best if from_best else start, state)
            heat = max(cold, 0.2 * hot) if from_best else hot
            values = (best_value if from_best else value, best_value)
            best_value = anneal_imperfect(
                self.kernel, space, state, trial, best, values, self.table, self.nest, make_state(seed, run),
                Cooling(part, float(heat), float(cold)), code,
            )  # fmt: skip
            evaluated += part
            run += 1
            if clock.wall_seconds() >= deadline:
                break
        return best, best_value, evaluated


def deadline_of(budget: Budget, started: float) -> float:
    """When a search must end."""
    return math.inf if budget.time_limit_s is None else started + budget.time_limit_s


def search_randomly(
    problem: MappingProblem, objective: Objective, budget: Budget, seed: int, reuse: Reuse, max_draws: int
) -> MapResult:
    """The best of random states; `evaluated` counts valid ones. Without a budget 10,000 are scored."""
    search = ImperfectSearch.of(problem, objective, reuse)
    state, best, random = outermost(search.space), outermost(search.space), make_state(seed)
    started = clock.wall_seconds()
    wanted = budget.evaluations
    if wanted is None and budget.time_limit_s is None:
        wanted = 10_000
    value, valid, draws = math.inf, 0, 0
    if search.space.least_units <= 1 and not math.isfinite(search.value(best)):
        return search.result(None, 0, started, seed)
    while (wanted is None or valid < wanted) and draws < max_draws:
        part = 2_000 if wanted is None else min(2_000, wanted - valid)
        value, found = draw_many(
            search.kernel, search.space, state, best, value, search.table, search.nest, random, part,
            OBJECTIVE_CODE[objective],
        )  # fmt: skip
        valid, draws = valid + found, draws + part
        if clock.wall_seconds() >= deadline_of(budget, started):
            break
    return search.result(best if math.isfinite(value) else None, valid, started, seed)


def search_by_annealing(
    problem: MappingProblem,
    objective: Objective,
    budget: Budget,
    seed: int,
    reuse: Reuse,
    *,
    moves: int,
    runs: int,
    temperatures: tuple[float, float],
    start: Mapping | None = None,
) -> MapResult:
    """Annealing from a mapping (perfect, if that is what another mapper found), else from the smallest tiles."""
    search = ImperfectSearch.of(problem, objective, reuse)
    first = outermost(search.space) if start is None else state_of(search.space, problem, start)
    search.value(first)  # compiles on the first call ever, which shall not count against the time limit
    anneal_imperfect(
        search.kernel, search.space, outermost(search.space), outermost(search.space), outermost(search.space),
        (math.inf, math.inf), search.table, search.nest, make_state(seed), Cooling(0, *map(float, temperatures)), OBJECTIVE_CODE[objective],
    )  # fmt: skip
    started = clock.wall_seconds()
    value = search.value(first)
    if not math.isfinite(value) and search.space.least_units > 1:  # the smallest tiles leave units idle; others may not
        value = search.draw_start(first, seed)
    if not math.isfinite(value):
        return search.result(None, 1, started, seed)
    free = budget.evaluations is None and budget.time_limit_s is not None
    wanted = None if budget.evaluations is None else budget.evaluations - 1
    best, _, evaluated = search.anneal(
        first, value, moves=moves, runs=runs if budget.evaluations is None and not free else None,
        temperatures=temperatures, wanted=wanted, deadline=deadline_of(budget, started), seed=seed,
    )  # fmt: skip
    return search.result(best, evaluated + 1, started, seed)


@njit
def decode_imperfect(space: ImperfectSpace, genome: FloatArray, state: ImperfectState) -> None:
    """Write the state of a genome: a gene for every open slot, ``L x D`` order keys, the bypasses, all in [0, 1)."""
    n_open = space.open.shape[0]
    for i in range(n_open):
        d = space.open[i, 1]
        number = space.n_sizes[d]
        while number > 1 and space.sizes[d, number - 1] > space.most[i]:
            number -= 1
        place = min(
            number - 1, int(float(number + 1) ** genome[i]) - 1
        )  # small factors have as much room as large ones
        state.factor[i] = max(space.least[i], space.sizes[d, place])
    state.keep[:] = space.keep
    decode_keys(genome[n_open:], space.order, space.n_free, space.free, state.order, state.keep)


@njit
def fitness_imperfect(
    kernel: ImperfectKernel,
    space: ImperfectSpace,
    state: ImperfectState,
    table: IntArray,
    nest: Nest,
    genomes: FloatArray,
    objective: int,
    result: FloatArray,
) -> None:
    """Logarithm of the objective of every genome (``n x G``)."""
    for i in range(genomes.shape[0]):
        decode_imperfect(space, genomes[i], state)
        count = build_imperfect(space, state, table, nest)
        if count < 0:
            result[i] = 2.0 * INVALID
            continue
        status, energy, cycles = score_any(kernel, nest, count)
        result[i] = (
            np.log(value_of(objective, energy, cycles))
            if status == VALID
            else INVALID + space.order.shape[0] - status // 4
        )
