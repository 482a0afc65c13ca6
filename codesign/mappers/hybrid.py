"""The hybrid search of Timeloop's mapper, as the CoSA paper describes it (Q. Huang et al., ISCA 2021, section IV-B).

A random factorisation, then its pruned loop orders one after the other, then the next factorisation. A thread ends after a
number of consecutive valid mappings that are no better than its best (the victory condition, 500 by default).
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codesign.core import clock
from codesign.core.checks import check_whole
from codesign.core.goals import Budget, Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState, make_state
from codesign.cost.arrays import Reuse
from codesign.mappers.driver import Encoded, Scorer, value_of_state
from codesign.mappers.protocol import MapResult
from codesign.mappers.resident_orders import active_loops, chain_orders, make_chains
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import IntArray
from codesign.mapping.space import MapState, copy_state, draw_state, outermost_state

CHUNK = 64
"""Factorisations between two looks at the clock."""


@njit
def _count_orders(table: IntArray, most: int, sizes: IntArray) -> None:
    """How many orders each level has: those of a level with one loop are all the same."""
    for v in range(sizes.shape[0]):
        sizes[v] = most if active_loops(table, v) > 1 else 1


@njit
def _next_orders(state: MapState, choice: IntArray, sizes: IntArray, orders: IntArray) -> bool:
    """Write the next combination of orders into the state; False after the last one."""
    for v in range(choice.shape[0]):
        choice[v] += 1
        if choice[v] < sizes[v]:
            state.order[v] = orders[choice[v], v]
            return True
        choice[v] = 0
        state.order[v] = orders[0, v]
    return False


@njit
def _explore(
    scorer: Scorer, state: MapState, best: MapState, best_value: float, failures: int, orders: IntArray,
    random: RandomState, limits: tuple[int, int, int],
) -> tuple[float, int, int]:  # fmt: skip
    """Draw factorisations and walk the pruned orders of each.

    Args:
        best: Best state so far, overwritten by better ones.
        best_value: Its value.
        failures: Valid mappings since it was found.
        orders: ``C x L x D`` orders that differ in what stays put.
        limits: Factorisations to draw, valid mappings to score, failures that end the search.

    Returns:
        Best value, failures since, valid mappings scored.
    """
    n_levels = scorer.space.order.shape[0]
    choice = np.zeros(n_levels, np.int64)
    sizes = np.ones(n_levels, np.int64)
    valid = 0
    for _ in range(limits[0]):
        draw_state(scorer.space, state, random)
        choice[:] = 0
        state.order[:] = orders[0]
        value = value_of_state(scorer, state)
        _count_orders(scorer.table, orders.shape[0], sizes)
        more = value < np.inf  # whether tiles fit does not depend on the order
        while more:
            valid += 1
            if value < best_value:
                best_value = value
                failures = 0
                copy_state(state, best)
            else:
                failures += 1
            if failures >= limits[2] or valid >= limits[1]:
                return best_value, failures, valid
            more = _next_orders(state, choice, sizes, orders)
            if more:
                value = value_of_state(scorer, state)
    return best_value, failures, valid


@dataclass(frozen=True)
class HybridMapper:
    """Random factorisations, pruned permutations linearly.

    Args:
        victory: Consecutive valid mappings without improvement after which a thread ends.
        threads: Independent searches, the best of which is the result; they share the machine's cores.
        max_draws: Factorisations a thread draws at most, valid or not.
    """

    victory: int = 500
    threads: int = 8
    max_draws: int = 200_000
    name: ClassVar[str] = "hybrid"

    def __post_init__(self) -> None:
        check_whole(victory=self.victory, threads=self.threads, max_draws=self.max_draws, where="mapper 'hybrid'")

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`. `evaluated` counts valid mappings, as the papers do."""
        problem.need_perfect(self.name)
        started = clock.wall_seconds()
        encoded = Encoded.of(problem, reuse)
        if encoded.is_hopeless:
            return encoded.result(None, 1, started, seed)
        threads = self.threads if budget.evaluations is None else min(self.threads, budget.evaluations)
        deadline = budget.deadline(started)

        def search(thread: int) -> tuple[float, int, MapState]:
            share = 1 << 62
            if budget.evaluations is not None:
                share = budget.evaluations // threads + (thread < budget.evaluations % threads)
            return self._thread(Encoded.of(problem, reuse), objective, seed, thread, share, deadline)

        with ThreadPoolExecutor(max_workers=threads) as pool:
            found = list(pool.map(search, range(threads)))
        value, _, best = min(found, key=lambda item: item[0])
        evaluated = sum(valid for _, valid, _ in found)
        return encoded.result(best if math.isfinite(value) else None, evaluated, started, seed)

    def _thread(
        self, encoded: Encoded, objective: Objective, seed: int, thread: int, share: int, deadline: float
    ) -> tuple[float, int, MapState]:
        """One search: best value, valid mappings scored, best state."""
        space, scorer, random = encoded.space, encoded.scorer(objective), make_state(seed, thread)
        state, best = outermost_state(space), outermost_state(space)
        orders = pruned_orders(encoded)
        value, failures, valid, draws = math.inf, 0, 0, 0
        while failures < self.victory and valid < share and draws < self.max_draws:
            limits = CHUNK, share - valid, self.victory
            value, failures, more = _explore(scorer, state, best, value, failures, orders, random, limits)
            valid += more
            draws += CHUNK
            if clock.wall_seconds() >= deadline:
                break
        return value, valid, best


def pruned_orders(encoded: Encoded) -> IntArray:
    """Orders of every level that differ in which tensors stay put while the innermost loops run: ``C x L x D``."""
    computation = encoded.source.computation
    relevant = tuple(tuple(dim in t.dims for t in computation.tensors) for dim in computation.dims)
    return chain_orders(encoded.space, make_chains(relevant), relevant)
