"""Evolutionary strategies with pymoo's selection and variation: NSGA-II, NSGA-III and MOEA/D.

They are written as functions of the history: designs are taken in the order they were told, in generations of
`population`, and survivors are selected generation by generation with pymoo's own operators. So pending designs, designs
that were never asked for and resumed studies need no special case.
"""

from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from codesign.core.errors import UserError
from codesign.optim.optimizer import satisfied
from codesign.optim.protocols import Bools, Floats, History, Indices, Problem

WORST = 1e30
"""Stands for the objectives of a failed design (selection treats it as infeasible anyway)."""


class _Survival(Protocol):
    def do(self, problem: Any, pop: Any, *, n_survive: int, random_state: Any) -> Any: ...


def _population(indices: Indices, objectives: Floats, violation: Floats) -> Any:
    from pymoo.core.population import Population

    return Population.new(X=indices.astype(float), F=objectives, G=violation[:, None], CV=violation[:, None])


def violations(problem: Problem, history: History) -> Floats:
    """How far each design is from feasible: 0 where it is, at least 1 where it failed: ``n``."""
    total = np.where(history.valid & np.isfinite(history.objectives).all(axis=1), 0.0, 1.0)
    for column, constraint in enumerate(problem.constraints):
        excess = history.outcomes[:, column] - constraint.bound
        excess = excess if constraint.upper else -excess
        total += np.where(np.isfinite(excess), np.maximum(excess, 0.0) / max(abs(constraint.bound), 1e-12), 1.0)
    return total


def _survivors(problem: Problem, history: History, size: int, survival: _Survival) -> Any:
    """The population after the last complete generation, and what came after it."""
    from pymoo.core.population import Population
    from pymoo.core.problem import Problem as PymooProblem

    failed = np.asarray(~np.isfinite(history.objectives).all(axis=1))
    objectives = np.where(failed[:, None], WORST, history.objectives)
    violation = violations(problem, history)
    shape = PymooProblem(n_var=history.indices.shape[1], n_obj=objectives.shape[1], n_ieq_constr=1)
    kept = Population.empty()
    for start in range(0, len(history.indices), size):
        chunk = slice(start, start + size)
        newcomers = _population(history.indices[chunk], objectives[chunk], violation[chunk])
        merged = Population.merge(kept, newcomers)
        kept = survival.do(shape, merged, n_survive=min(size, len(merged)), random_state=np.random.default_rng(start))
    return kept


@final
@dataclass(frozen=True)
class Variation:
    """Simulated binary crossover and polynomial mutation on index vectors, uniform exchange on categorical ones.

    Deb and Agrawal, Simulated binary crossover, Complex Systems 9, 1995. Index vectors are rounded and clipped; a categorical
    parameter is taken from either parent and redrawn with the mutation probability.
    """

    crossover_eta: float = 15.0
    mutation_eta: float = 20.0

    def offspring(self, problem: Problem, parents: Indices, rng: np.random.Generator) -> Indices:
        """One child of each pair: ``k x 2 x d`` to ``k x d``."""
        space = problem.space
        top = np.array(space.cardinalities) - 1
        ordered = np.array(space.ordered)
        first, second = parents[:, 0].astype(float), parents[:, 1].astype(float)
        u = rng.random(first.shape)
        power = 1.0 / (self.crossover_eta + 1.0)
        spread = np.where(u <= 0.5, (2 * u) ** power, (1.0 / np.maximum(2 * (1 - u), 1e-12)) ** power)
        blend = 0.5 * ((1 + spread) * first + (1 - spread) * second)
        swap = rng.random(first.shape) < 0.5
        child = np.where(ordered & (rng.random(first.shape) < 0.9), blend, np.where(swap, first, second))
        rate = 1.0 / max(1, len(top))
        u = rng.random(first.shape)
        power = 1.0 / (self.mutation_eta + 1.0)
        step = np.where(u < 0.5, (2 * u) ** power - 1.0, 1.0 - (2 * (1 - u)) ** power)
        # A step of polynomial mutation is usually less than half a choice; at least one is taken.
        moved = child + np.sign(step) * np.maximum(np.abs(step) * top, 1.0)
        redrawn = rng.integers(0, top + 1, size=first.shape)
        mutate = rng.random(first.shape) < rate
        child = np.where(mutate, np.where(ordered, moved, redrawn), child)
        rounded: Indices = np.clip(np.rint(child), 0, top).astype(np.int64)
        return space.canonical(rounded)


def _distinct_valid(problem: Problem, rows: Indices, known: set[bytes], found: list[Indices], count: int) -> None:
    for row in rows[problem.space.is_valid(rows)]:
        if len(found) < count and row.tobytes() not in known:
            known.add(row.tobytes())
            found.append(row)


def _breed(problem: Problem, history: History, count: int, draw: Any, rng: np.random.Generator) -> Indices:
    """`count` new valid children of parents drawn by ``draw(k) -> k x 2 x d``."""
    known = {row.tobytes() for row in history.known()}
    found: list[Indices] = []
    for _ in range(50):
        children = Variation().offspring(problem, draw(4 * count), rng)
        _distinct_valid(problem, children, known, found, count)
        if len(found) == count:
            break
    return np.array(found, dtype=np.int64).reshape(-1, len(problem.space.names))


@final
@dataclass(frozen=True)
class GeneticAlgorithm:
    """Generations with tournament selection, and a pymoo survival rule.

    NSGA-II: rank and crowding (Deb et al., IEEE Trans. Evolutionary Computation 6(2), 2002).
    NSGA-III: reference directions (Deb and Jain, same 18(4), 2014).

    Args:
        problem: What is searched.
        population: Survivors per generation.
        reference_directions: NSGA-III's survival instead of NSGA-II's.
    """

    problem: Problem
    population: int = 10
    reference_directions: bool = False

    def __post_init__(self) -> None:
        _check_population(self.population)

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """Children of the survivors; random designs until the first generation is full."""
        missing = self.population - len(history.known())
        if missing > 0 or not len(history.indices):
            return self.problem.space.sample(min(count, max(missing, 1)), rng)
        kept = _survivors(self.problem, history, self.population, self._survival())
        rows = np.rint(kept.get("X")).astype(np.int64)
        order = self._order(kept)

        def draw(pairs: int) -> Indices:
            rivals = rng.integers(0, len(rows), size=(pairs, 2, 2))
            winners = np.where(order[rivals[..., 0]] <= order[rivals[..., 1]], rivals[..., 0], rivals[..., 1])
            pairs_of_rows: Indices = rows[winners]
            return pairs_of_rows

        return _breed(self.problem, history, count, draw, rng)

    def _survival(self) -> Any:
        if self.reference_directions:
            from pymoo.algorithms.moo.nsga3 import ReferenceDirectionSurvival

            return ReferenceDirectionSurvival(directions(len(self.problem.objectives), self.population))
        from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

        return RankAndCrowding()

    def _order(self, kept: Any) -> Floats:
        """A number per survivor, smaller is better: feasibility, then rank, then crowding."""
        rank = np.array([r if r is not None else 0 for r in kept.get("rank")], dtype=float)
        keys = [rank, kept.get("CV")[:, 0]]
        if not self.reference_directions:
            keys.insert(0, -np.array([c if c is not None else 0.0 for c in kept.get("crowding")], dtype=float))
        order = np.empty(len(kept))
        order[np.lexsort(keys)] = np.arange(len(kept))
        return order


def _check_population(population: int) -> None:
    if population < 2:
        raise UserError(f"population: expected at least 2, got {population}")


def directions(objectives: int, count: int) -> Floats:
    """About `count` evenly spread weight vectors: ``k x m`` (Das and Dennis' lattice, the largest that fits)."""
    from pymoo.util.ref_dirs import get_reference_directions

    if objectives == 1:
        return np.ones((1, 1))
    partitions, best = 1, np.eye(objectives)
    while True:
        lattice = np.asarray(get_reference_directions("das-dennis", objectives, n_partitions=partitions))
        if len(lattice) > max(count, objectives):
            return best
        partitions, best = partitions + 1, lattice


@final
@dataclass(frozen=True)
class Decomposition:
    """MOEA/D: one Chebyshev problem per weight vector, each bred from its neighbourhood.

    Zhang and Li, MOEA/D, IEEE Trans. Evolutionary Computation 11(6), 2007, eq. 5; objectives are normalised by the range seen.

    Args:
        problem: What is searched.
        population: About how many weight vectors.
        neighbours: How many nearest weight vectors mate.
    """

    problem: Problem
    population: int = 10
    neighbours: int = 5

    def __post_init__(self) -> None:
        _check_population(self.population)

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """Children of designs that are best for neighbouring weights."""
        weights = directions(len(self.problem.objectives), self.population)
        missing = len(weights) - len(history.known())
        if missing > 0 or not len(history.indices):
            return self.problem.space.sample(min(count, max(missing, 1)), rng)
        best = self._best(history, weights)
        near = np.argsort(np.linalg.norm(weights[:, None] - weights[None], axis=2), axis=1)[:, : self.neighbours]

        def draw(pairs: int) -> Indices:
            problems = rng.integers(0, len(weights), size=pairs)
            mates = near[problems[:, None], rng.integers(0, near.shape[1], size=(pairs, 2))]
            return history.indices[best[mates]]

        return _breed(self.problem, history, count, draw, rng)

    def _best(self, history: History, weights: Floats) -> Indices:
        """The row of the best design for each weight vector: ``k``."""
        good: Bools = satisfied(self.problem, history)
        complete = np.isfinite(history.objectives).all(axis=1)
        shown = history.objectives[complete] if complete.any() else np.zeros((1, weights.shape[1]))
        ideal, span = shown.min(axis=0), np.ptp(shown, axis=0)
        scaled = (history.objectives - ideal) / np.where(span > 0, span, 1.0)
        cost = (np.maximum(weights, 1e-3)[:, None, :] * scaled[None]).max(axis=2)
        cost = np.where(good[None], cost, WORST * (1.0 + violations(self.problem, history))[None])
        return np.asarray(np.argmin(cost, axis=1), dtype=np.int64)
