"""A genetic search over mappings with pymoo, in the manner of GAMMA (S.-C. Kao and T. Krishna, ICCAD 2020).

A genome says for every prime factor its slot, for every level an order of the dimensions, for every free bypass yes or no.
GAMMA's operators act on a dimension as a whole: crossover exchanges the tilings of whole dimensions and the loop orders of
whole levels between parents; mutations move one prime factor (its tile mutation; into a fan-out it is the mutation of the
parallel dimension) or reorder one level. Selection and survival are pymoo's.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from codesign.core import clock
from codesign.core.checks import check_least, check_positive, check_share
from codesign.core.goals import Budget, Objective
from codesign.core.jit import njit
from codesign.core.plugins import need
from codesign.cost.arrays import Reuse
from codesign.cost.packed import VALID
from codesign.mappers.driver import Encoded, Scorer, score_state, value_of
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.imperfect_factors import useful_sizes
from codesign.mapping.nest import FloatArray, IntArray
from codesign.mapping.space import MapSpace, MapState, decode_keys, outermost_state

INVALID = 1e6
"""Fitness (a logarithm) of mappings that do not fit; those that fail further in are better."""


@njit
def decode_genome(space: MapSpace, genome: FloatArray, state: MapState) -> None:
    """Write the state of a genome: a gene for every prime or open factor, ``L x D`` order keys, the bypasses, all in [0, 1)."""
    for p in range(space.prime.shape[0]):
        choice = min(int(genome[p] * space.n_choices[p]), space.n_choices[p] - 1)
        state.slot[p] = space.choices[p, choice]
    for i in range(space.factors.open.shape[0]):
        number = useful_sizes(space.factors, i)
        place = min(
            number - 1, int(float(number + 1) ** genome[i]) - 1
        )  # small factors have as much room as large ones
        state.slot[i] = max(space.factors.least[i], space.factors.sizes[space.factors.open[i, 1], place])
    decode_keys(genome[state.slot.shape[0] :], space.order, space.n_free, space.free, state.order, state.keep)


@njit
def fitness(scorer: Scorer, state: MapState, genomes: FloatArray, result: FloatArray) -> None:
    """Logarithm of the objective of every genome (``n x G``)."""
    for i in range(genomes.shape[0]):
        decode_genome(scorer.space, genomes[i], state)
        status, energy, cycles = score_state(scorer, state)
        result[i] = (
            np.log(value_of(scorer.objective, energy, cycles))
            if status == VALID
            else INVALID + scorer.space.order.shape[0] - status // 4
        )


@dataclass(frozen=True)
class GeneticMapper:
    """A genetic algorithm; without a budget, ``population * generations`` mappings are scored.

    Args:
        population: Mappings a generation.
        generations: Generations when the budget sets no limit.
        crossover: Probability that a child has two parents.
        mutation: Expected number of mutated genes a child.
    """

    population: int = 100
    generations: int = 100
    crossover: float = 0.7
    mutation: float = 2.0
    name: ClassVar[str] = "genetic"

    def __post_init__(self) -> None:
        check_least(4, population=self.population)
        check_least(1, generations=self.generations)
        check_share(crossover=self.crossover)
        check_positive(mutation=self.mutation)

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`. `evaluated` counts all genomes, valid or not."""
        started = clock.wall_seconds()
        encoded = Encoded.of(problem, reuse)
        if encoded.is_hopeless:
            return encoded.result(None, 1, started, seed)
        genome, value, evaluated = self._search(encoded.scorer(objective), budget, started, seed)
        best = outermost_state(encoded.space)
        decode_genome(encoded.space, genome, best)
        return encoded.result(best if value < INVALID else None, evaluated, started, seed)

    def _search(self, scorer: Scorer, budget: Budget, started: float, seed: int) -> tuple[FloatArray, float, int]:
        """The best genome, its fitness, the number scored. The first one scored has all loops as far out as they may go."""
        need("pymoo", f"mapper {self.name!r}")
        from pymoo.algorithms.soo.nonconvex.ga import GA
        from pymoo.core.problem import Problem
        from pymoo.core.termination import NoTermination

        wanted = budget.scored_or(self.population * self.generations) or 1 << 62
        rng = np.random.default_rng(seed)
        space, state = scorer.space, outermost_state(scorer.space)
        gene_dim = np.concatenate([space.prime_dim, space.factors.open[:, 1]])
        size = len(gene_dim) + space.order.size + len(space.free)
        start = rng.random((self.population, size))
        start[0] = 0.0
        algorithm = GA(
            pop_size=self.population,
            sampling=start,
            crossover=_crossover(space, gene_dim, self.crossover),
            mutation=_mutation(size, self.mutation),
            eliminate_duplicates=False,
        )
        algorithm.setup(Problem(n_var=size, n_obj=1, xl=0.0, xu=1.0), termination=NoTermination(), seed=seed)
        best, best_value, evaluated = start[0], math.inf, 0
        while evaluated < wanted:
            children = algorithm.ask()
            genomes = np.ascontiguousarray(children.get("X"), dtype=float)
            values = np.full(len(genomes), 2.0 * INVALID)
            batch = genomes[: wanted - evaluated]
            fitness(scorer, state, batch, values)
            evaluated += len(batch)
            i = int(np.argmin(values))
            if values[i] < best_value:
                best, best_value = genomes[i].copy(), float(values[i])
            children.set("F", values[:, None])
            for child in children:
                child.evaluated.update({"F", "G", "H"})
            algorithm.tell(infills=children)
            if clock.is_spent(budget, started):
                break
        return best, best_value, evaluated


def _crossover(space: MapSpace, gene_dim: IntArray, probability: float) -> Any:
    from pymoo.core.crossover import Crossover

    n_levels, n_dims = space.order.shape

    class DimensionCrossover(Crossover):  # type: ignore[misc]
        """Exchange the tilings of whole dimensions, the orders of whole levels, single bypasses."""

        def __init__(self) -> None:
            super().__init__(2, 2, prob=probability)

        def _do(self, problem: Any, X: FloatArray, *args: Any, random_state: Any = None, **kwargs: Any) -> FloatArray:
            matings = X.shape[1]
            dims = random_state.random((matings, n_dims)) < 0.5
            levels = random_state.random((matings, n_levels)) < 0.5
            free = random_state.random((matings, len(space.free))) < 0.5
            swap = np.concatenate([dims[:, gene_dim], np.repeat(levels, n_dims, axis=1), free], axis=1)
            return np.where(swap[None], X[::-1], X)

    return DimensionCrossover()


def _mutation(size: int, expected: float) -> Any:
    from pymoo.core.mutation import Mutation

    class GeneMutation(Mutation):  # type: ignore[misc]
        """Draw single genes anew: a prime's slot, a dimension's place in a level's order, a bypass."""

        def _do(self, problem: Any, X: FloatArray, *args: Any, random_state: Any = None, **kwargs: Any) -> FloatArray:
            hit = random_state.random(X.shape) < min(1.0, expected / size)
            return np.where(hit, random_state.random(X.shape), X)

    return GeneMutation()
