"""How many tiles a dimension has, whatever their size: the lattice of ceilings (rule IB7).

A loop of f iterations outside tiles that are n in number leaves ceil(n / f) of them. So the numbers that any sequence of loops can
reach from N are ceil(N / k), at most 2 sqrt(N) of them, and ceil(ceil(N / a) / b) = ceil(N / (a b)): a number says all of what is to come.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import IntArray


class Ceilings(NamedTuple):
    """The numbers of tiles that loops can leave of `bound`.

    Attributes:
        number: ``n`` numbers, descending from the bound to 1.
        tile: ``n`` least product of loops that leaves so many.
        place_of: ``bound + 1`` place of a number in `number`, -1 where loops cannot leave it.
        first: ``n + 1`` where the numbers that one loop can leave of each start in `next`.
        next: Places of these numbers, the place itself left out.
    """

    number: IntArray
    tile: IntArray
    place_of: IntArray
    first: IntArray
    next: IntArray


@lru_cache(maxsize=4096)
def ceilings(bound: int) -> Ceilings:
    """The lattice of one dimension.

    >>> [int(n) for n in ceilings(7).number], [int(x) for x in ceilings(7).tile]
    ([7, 4, 3, 2, 1], [1, 2, 3, 4, 7])
    """
    count = sorted({-(-bound // k) for k in _few(bound)}, reverse=True)
    index = np.full(bound + 1, -1, np.int64)
    index[count] = np.arange(len(count))
    first, follow = [0], []
    for n in count:
        left = {int(index[-(-n // k)]) for k in _few(n)} - {int(index[n])}
        follow += sorted(left)
        first.append(len(follow))
    return Ceilings(
        np.array(count, np.int64),
        np.array([-(-bound // n) for n in count], np.int64),
        index,
        np.array(first, np.int64),
        np.array(follow, np.int64),
    )


def _few(bound: int) -> set[int]:
    """Factors that give every ceil(bound / k): small ones, and one for every small result."""
    root = int(bound**0.5) + 1
    return {*range(1, min(root, bound) + 1), *(-(-bound // n) for n in range(1, min(root, bound) + 1))}


@njit
def at_least(count: int, factor: int, fewest: int) -> int:
    """Fewest children in all that work when `count` groups of `factor` do: all but the last group are full (rule IB9)."""
    if factor == 1:
        return count
    return fewest if count == 1 else (count - 1) * factor + 1


@njit
def next_ceiling(number: int, bound: int) -> int:
    """The least number of tiles from `number` on that loops can leave of `bound` (rule IB9)."""
    if number <= 1:
        return number
    if number >= bound:
        return bound
    largest = (bound - 1) // (number - 1)  # tile with so many tiles or more
    return (bound + largest - 1) // largest
