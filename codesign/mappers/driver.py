"""What stochastic mappers share: encoding once, running compiled chunks until the budget is spent, building the result."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from codesign.core import clock
from codesign.core.goals import Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, Infeasible, evaluate
from codesign.cost.imperfect import refuse_imperfect
from codesign.cost.kernel import score
from codesign.cost.packed import OVER_CAPACITY, VALID, Kernel, make_kernel
from codesign.cost.sparse.bounds import scored_problem
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import BYPASSED, FACTOR, TEMPORAL, IntArray, Nest, decode_nest, encode_nest
from codesign.mapping.space import (
    IMPOSSIBLE,
    MapSpace,
    MapState,
    build_nest,
    draw_state,
    empty_nest,
    factor_table,
    make_space,
    outermost_state,
)

OBJECTIVE_CODE = {Objective.ENERGY: 0, Objective.LATENCY: 1, Objective.EDP: 2}


@njit
def value_of(objective: int, energy: float, cycles: float) -> float:
    """The objective's value: 0 energy, 1 latency, 2 energy-delay product."""
    if objective == 0:
        return energy
    if objective == 1:
        return cycles + energy * 1e-18  # equal latencies: the cheaper one
    return energy * cycles


def is_refused(nest: Nest) -> bool:
    """Whether the nest stands for a state that breaks a constraint."""
    return bool(nest.loops[0, FACTOR] == IMPOSSIBLE)


class Scorer(NamedTuple):
    """A problem, and the room that scoring its states takes.

    Attributes:
        nest: Scratch, left with the nest scored last.
        table: Scratch, left with its factors by slot and dimension.
        objective: See `value_of`.
    """

    kernel: Kernel
    space: MapSpace
    nest: Nest
    table: IntArray
    objective: int


@njit
def score_state(scorer: Scorer, state: MapState) -> tuple[int, float, float]:
    """Status, energy and cycles of a state, as of `codesign.cost.kernel.score`."""
    return score(scorer.kernel, scorer.nest, build_nest(scorer.space, state, scorer.table, scorer.nest))


@njit
def value_of_state(scorer: Scorer, state: MapState) -> float:
    """The objective's value of a state, infinite where it does not fit."""
    status, energy, cycles = score_state(scorer, state)
    return value_of(scorer.objective, energy, cycles) if status == VALID else np.inf


@njit
def draw_valid(scorer: Scorer, state: MapState, random: RandomState, draws: int) -> bool:
    """Draw states until one is valid; whether there was one."""
    for _ in range(draws):
        draw_state(scorer.space, state, random)
        if value_of_state(scorer, state) < np.inf:
            return True
    return False


@dataclass(frozen=True)
class Encoded:
    """A mapping problem ready for compiled search."""

    source: MappingProblem
    reuse: Reuse
    kernel: Kernel
    space: MapSpace
    nest: Nest

    @classmethod
    def of(cls, source: MappingProblem, reuse: Reuse) -> "Encoded":
        """A problem encoded for compiled search.

        Raises:
            UserError: Imperfect factors are allowed, and their rules do not cover the problem.
        """
        if source.imperfect:
            refuse_imperfect(source.computation, source.architecture, reuse)
        problem = scored_problem(source, reuse)
        space = make_space(source)
        nest = empty_nest(space)
        return cls(source, reuse, make_kernel(problem, nest.loops.shape[0], source.imperfect), space, nest)

    @cached_property
    def table(self) -> IntArray:
        """Scratch space of `codesign.mapping.space.build_nest`."""
        return factor_table(self.space)

    def scorer(self, objective: Objective) -> Scorer:
        """What compiled searches hand on."""
        return Scorer(self.kernel, self.space, self.nest, self.table, OBJECTIVE_CODE[objective])

    def score(self, state: MapState) -> tuple[int, float, float]:
        """Status, energy and cycles of a state."""
        return score_state(self.scorer(Objective.ENERGY), state)

    def value(self, state: MapState, objective: Objective) -> float:
        """The objective's value of a state, infinite where it does not fit."""
        return value_of_state(self.scorer(objective), state)

    @property
    def is_hopeless(self) -> bool:
        """Whether even the smallest tiles are too large for a level with every free bypass taken, or fixed factors for the bounds.

        All loops as far out as they may go make every tile as small as it can be. Where fixed spatial factors do not fit one
        axis of a fan-out this says nothing, since other layouts may fit.
        """
        state = outermost_state(self.space)
        for v, t in self.space.free:
            state.keep[v, t] = 0
        status, _, _ = self.score(state)
        return status % 4 == OVER_CAPACITY or (self.space.least_units <= 1 and is_refused(self.nest))

    def state_of(self, mapping: Mapping) -> MapState:
        """The state of the space that stands for a mapping, or one near to it where the space has no such mapping.

        Primes of a dimension are given to its loops from the outermost one in; those that fit no loop stay outermost. With imperfect
        factors the mapping must be even and obey the constraints.
        """
        space, nest = self.space, encode_nest(self.source.computation, self.source.architecture, mapping)
        state, table, left = outermost_state(space), np.ones_like(self.table), set(range(len(space.prime)))
        placed: list[list[int]] = [[] for _ in space.order]
        for (dim, factor, kind, at), v in zip(nest.loops.tolist(), _levels_of(nest), strict=True):
            slot = v if kind == TEMPORAL else len(placed) + 2 * at + kind - 1
            table[slot, dim] *= factor
            for p in sorted(left):
                allowed = space.choices[p, : space.n_choices[p]]
                if space.prime_dim[p] == dim and factor % space.prime[p] == 0 and slot in allowed:
                    state.slot[p], factor = slot, factor // int(space.prime[p])
                    left.discard(p)
            if kind == TEMPORAL and dim not in placed[v]:
                placed[v].append(dim)
        if space.imperfect:
            state.slot[:] = table[space.factors.open[:, 0], space.factors.open[:, 1]]
        for v, dims in enumerate(placed):
            free = space.order[v, : space.n_free[v]].tolist()
            used, unused = [d for d in dims if d in free], [d for d in free if d not in dims]
            state.order[v, : space.n_free[v]] = unused + used if space.imperfect else used + unused
        for v, t in space.free:
            state.keep[v, t] = nest.position[v, t] != BYPASSED
        return state

    def cost_of(self, state: MapState) -> Cost | Infeasible:
        """The readable cost of a state."""
        return self._read(build_nest(self.space, state, self.table, self.nest))[1]

    def mapping_of(self, state: MapState) -> Mapping:
        """The mapping that a state stands for."""
        count = build_nest(self.space, state, self.table, self.nest)
        return decode_nest(self.source.computation, self.source.architecture, self.nest, count)

    def _read(self, count: int) -> tuple[Mapping, Cost | Infeasible]:
        """The nest that stands in `nest`, and its cost."""
        source = self.source
        mapping = decode_nest(source.computation, source.architecture, self.nest, count)
        cost = evaluate(source.computation, source.architecture, mapping, reuse=self.reuse, imperfect=source.imperfect)
        return mapping, cost

    def result(self, best: MapState | None, evaluated: int, started: float, seed: int | None) -> MapResult:
        """The result for the best state found; without one, why even the smallest tiles do not fit."""
        state = outermost_state(self.space) if best is None else best
        count = build_nest(self.space, state, self.table, self.nest)
        if count and is_refused(self.nest):
            few, wanted = "no mapping found uses as many as constraints ask", self.space.least_units
            reason = Infeasible("MAC units in use", wanted, 0, "units", few)
            if wanted <= 1:
                over = "fixed factors exceed the bounds"
                reason = Infeasible("mappings that obey the constraints", 1, 0, "mappings", over)
            return MapResult(None, None, reason, evaluated, clock.wall_seconds() - started, seed=seed)
        found = self.result_of_nest(count, evaluated, started, seed)
        if best is None and found.mapping is not None:
            reason = Infeasible("mappings drawn", evaluated, 0, "valid mappings", "none of those drawn fits; draw more")
            return replace(found, mapping=None, cost=None, infeasible=reason)
        return found

    def result_of_nest(self, count: int, evaluated: int, started: float, seed: int | None) -> MapResult:
        """The result for the nest that stands in `nest`."""
        seconds = clock.wall_seconds() - started
        mapping, cost = self._read(count)
        if isinstance(cost, Infeasible):
            return MapResult(None, None, cost, evaluated, seconds, seed=seed)
        return MapResult(mapping, cost, None, evaluated, seconds, seed=seed)


def _levels_of(nest: Nest) -> list[int]:
    """The level among whose loops each loop stands: the innermost one that keeps something outside it."""
    found = []
    for i in range(len(nest.loops)):
        outside = [v for v, row in enumerate(nest.position) if any(p != BYPASSED and p <= i for p in row)]
        found.append(max(outside, default=0))
    return found
