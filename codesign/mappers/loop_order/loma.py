"""LOMA: every order of the loops, with a memory allocation that follows from the order.

Symons, Mei, Verhelst, "LOMA: Fast Auto-Scheduling on DNN Accelerators through Loop-Order-based Memory
Allocation", AICAS 2021.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codesign.core import clock
from codesign.core.checks import check_least
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mappers.driver import Encoded
from codesign.mappers.loop_order.even_search import EvenSearch, enumerate_even
from codesign.mappers.loop_order.factors import merge_loops, prime_loops
from codesign.mappers.loop_order.zigzag_search import OrderResult, search_exhaustively
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import IntArray

_CHUNK = 5_000


@dataclass(frozen=True)
class LomaMapper:
    """Exhaustive search over loop orders.

    Args:
        lpf_limit: Loops that an order has at most, prime factors being merged down to it; 0 merges none, and the result
            is the optimum over all orders.
        unrollings: On architectures without a fixed unrolling, how many of the fullest unrollings found are tried.
        even: Under the zigzag semantics, whether tensors that share a memory cut the order at the same place.
    """

    lpf_limit: int = 8
    unrollings: int = 8
    even: bool = False
    name: ClassVar[str] = "loma"

    def __post_init__(self) -> None:
        check_least(0, lpf_limit=self.lpf_limit)
        check_least(1, unrollings=self.unrollings)

    def map_orders(self, layer: UnrolledLayer, objective: Objective, *, budget: Budget, seed: int) -> OrderResult:
        """The best order of an unrolled layer under the zigzag semantics; nothing is random, so `seed` plays no part."""
        primes = prime_loops(layer)
        loops = merge_loops(primes, self.lpf_limit) if self.lpf_limit else primes
        whole_space = len(loops) == len(primes)
        return search_exhaustively(layer, loops, objective, budget, even=self.even, whole_space=whole_space)

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`: every order under each of the fullest unrollings that random filling finds."""
        problem.need_perfect(self.name)
        problem.need_any_utilization(self.name)
        started = clock.wall_seconds()
        encoded = Encoded.of(problem, reuse)
        found = EvenSearch.of(encoded)
        best: tuple[EvenSearch, IntArray] | None = None
        value, evaluated, spent = math.inf, 0, False
        for slots in self._unrollings(found, seed):
            found.loops.slot[:] = slots
            search = found.merged(self.lpf_limit) if self.lpf_limit else found.merged(len(slots) + 1)
            orders, (symbols, first_of) = search.orders(objective), _symbols(search)
            order, chosen = np.zeros(len(symbols), np.int64), np.zeros(len(symbols), np.int64)
            left = True
            while left and not spent:
                chunk = _CHUNK if budget.evaluations is None else min(_CHUNK, budget.evaluations - evaluated)
                before = value
                value, scored, left = enumerate_even(orders, first_of, symbols, order, chosen, value, chunk)
                evaluated += scored
                best = (search, chosen) if value < before else best
                spent = clock.is_spent(budget, started, evaluated)
            if spent:
                break
        if best is None:
            return encoded.result(None, evaluated, started, seed)
        return best[0].result(best[1], evaluated, started, seed)

    def _unrollings(self, search: EvenSearch, seed: int) -> list[IntArray]:
        """Different unrollings, those with the most units in use first."""
        generator = np.random.default_rng(seed)
        seen: dict[tuple[tuple[int, int, int], ...], tuple[int, IntArray]] = {}
        for _ in range(16 * self.unrollings):
            units = search.unroll(generator)
            loops = search.loops
            key = tuple(
                sorted((int(s), int(d), int(f)) for s, d, f in zip(loops.slot, loops.dim, loops.factor, strict=True))
            )
            seen.setdefault(key, (units, loops.slot.copy()))
        ranked = sorted(seen.values(), key=lambda entry: -entry[0])
        return [slots for _, slots in ranked[: self.unrollings]]


def _symbols(search: EvenSearch) -> tuple[IntArray, IntArray]:
    """The first order as symbols, and a loop of each symbol; equal loops share a symbol."""
    loops = search.loops
    pairs = [(int(loops.dim[i]), int(loops.factor[i])) for i in search.order]
    different = sorted(set(pairs))
    symbols = np.array(sorted(different.index(p) for p in pairs), np.int64)
    return symbols, np.array([search.order[pairs.index(p)] for p in different], np.int64)
