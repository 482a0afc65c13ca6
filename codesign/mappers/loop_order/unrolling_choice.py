"""An unrolling for a layer that comes without one (rule Z19)."""

import itertools
import math
from collections.abc import Iterator

from codesign.core.goals import Budget, Objective
from codesign.cost.zigzag.accelerator import Accelerator
from codesign.cost.zigzag.layer import UnrolledLayer, Unrolling
from codesign.mappers.loop_order.factors import merge_loops, prime_loops
from codesign.mappers.loop_order.zigzag_search import search_exhaustively
from codesign.workloads.computation import Computation

_Fill = tuple[tuple[str, int], ...]

_CANDIDATES = 12
_LOOPS = 6
"""Loops of the short search that ranks the candidates."""


def choose_unrolling(computation: Computation, accelerator: Accelerator, objective: Objective) -> UnrolledLayer:
    """Of the unrollings that use the most units, the one with the best value over all orders of a few merged loops."""
    best, value = UnrolledLayer(computation, accelerator), math.inf
    for unrolling in _fullest(computation, accelerator, _CANDIDATES):
        layer = UnrolledLayer(computation, accelerator, unrolling)
        loops = merge_loops(prime_loops(layer), _LOOPS)
        result = search_exhaustively(layer, loops, objective, Budget(), even=False, whole_space=False)
        if result.cost is not None and objective.of(result.cost) < value:
            best, value = layer, objective.of(result.cost)
    return best


def _fullest(computation: Computation, accelerator: Accelerator, limit: int) -> list[Unrolling]:
    """Up to `limit` unrollings that use the most units, whole factors of at most two dimensions along each array dimension.

    Equal ones are ordered by the dimensions' order in the computation.
    """
    partial: list[tuple[int, dict[str, int], Unrolling]] = [(1, {}, ())]
    for array_dim, size in accelerator.array:
        choices = sorted(_fillings(computation, size), key=lambda loops: -_units(loops))[: 8 * limit]
        grown = []
        for units, taken, unrolling in partial:
            for loops in choices:
                used = dict(taken)
                for dim, factor in loops:
                    used[dim] = used.get(dim, 1) * factor
                if all(computation.sizes[d] % n == 0 for d, n in used.items()):
                    grown.append((units * _units(loops), used, (*unrolling, (array_dim, loops))))
        partial = sorted(grown, key=lambda entry: -entry[0])[: 8 * limit]
    return [unrolling for _, _, unrolling in partial[:limit]]


def _fillings(computation: Computation, size: int) -> Iterator[_Fill]:
    """What may lie along one array dimension of that size."""
    divisors = {d: [f for f in range(2, min(n, size) + 1) if n % f == 0] for d, n in computation.sizes.items()}
    yield ()
    for dim, factors in divisors.items():
        yield from (((dim, f),) for f in factors)
    for a, b in itertools.combinations(divisors, 2):
        yield from (((a, x), (b, y)) for x in divisors[a] for y in divisors[b] if x * y <= size)


def _units(loops: _Fill) -> int:
    return math.prod(factor for _, factor in loops)
