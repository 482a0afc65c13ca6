"""What stochastic mappers share: encoding once, running compiled chunks until the budget is spent, building the result."""

from dataclasses import dataclass

from codesign.core import clock
from codesign.core.goals import Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, Infeasible, evaluate
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, Kernel, make_kernel
from codesign.cost.sparse.bounds import scored_problem
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import FACTOR, IntArray, Nest, decode_nest
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


@njit
def draw_valid(
    kernel: Kernel, space: MapSpace, state: MapState, nest: Nest, table: IntArray, random: RandomState, draws: int
) -> bool:
    """Draw states until one is valid; whether there was one."""
    for _ in range(draws):
        draw_state(space, state, random)
        count = build_nest(space, state, table, nest)
        if score(kernel, nest, count)[0] == VALID:
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
        """A problem encoded for compiled search."""
        problem = scored_problem(source, reuse)
        space = make_space(source)
        nest = empty_nest(space)
        return cls(source, reuse, make_kernel(problem, nest.loops.shape[0]), space, nest)

    def cost_of(self, state: MapState) -> tuple[Cost | Infeasible, Nest, int]:
        """The readable cost of a state."""
        count = build_nest(self.space, state, factor_table(self.space), self.nest)
        mapping = decode_nest(self.source.computation, self.source.architecture, self.nest, count)
        cost = evaluate(self.source.computation, self.source.architecture, mapping, reuse=self.reuse)
        return cost, self.nest, count

    def result(self, best: MapState | None, evaluated: int, started: float, seed: int | None) -> MapResult:
        """The result for the best state found; without one, why even the smallest tiles do not fit."""
        seconds = clock.wall_seconds() - started
        state = outermost_state(self.space) if best is None else best
        if build_nest(self.space, state, factor_table(self.space), self.nest) and is_refused(self.nest):
            reason = Infeasible(
                "MAC units in use",
                self.space.least_units,
                0,
                "units",
                "no mapping found uses as many as constraints ask",
            )
            return MapResult(None, None, reason, evaluated, seconds, seed=seed)
        cost, nest, count = self.cost_of(state)
        if isinstance(cost, Infeasible):
            return MapResult(None, None, cost, evaluated, seconds, seed=seed)
        if best is None:
            reason = Infeasible("mappings drawn", evaluated, 0, "valid mappings", "none of those drawn fits; draw more")
            return MapResult(None, None, reason, evaluated, seconds, seed=seed)
        mapping = decode_nest(self.source.computation, self.source.architecture, nest, count)
        return MapResult(mapping, cost, None, evaluated, seconds, seed=seed)
