"""How many tiles a dimension has, whatever their size: the lattice of ceilings (rule IB7).

A loop of f iterations outside tiles that are n in number leaves ceil(n / f) of them. So the numbers that any sequence of loops can
reach from N are ceil(N / k), at most 2 sqrt(N) of them, and ceil(ceil(N / a) / b) = ceil(N / (a b)): a number says all of what is to come.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from codesign.core.factors import tile_counts
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
    count = tile_counts(bound)
    index = np.full(bound + 1, -1, np.int64)
    index[list(count)] = np.arange(len(count))
    first, follow = [0], []
    for n in count:
        left = {int(index[m]) for m in tile_counts(n)} - {int(index[n])}
        follow += sorted(left)
        first.append(len(follow))
    return Ceilings(
        np.array(count, np.int64),
        np.array([-(-bound // n) for n in count], np.int64),
        index,
        np.array(first, np.int64),
        np.array(follow, np.int64),
    )


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
