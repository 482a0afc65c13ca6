"""The lattice of tiles: every divisor of every bound, as one flat index.

A tile is a size for each dimension that divides its bound. All tiles of a computation form a product of chains
(one chain per prime of each dimension), stored flat so that "grow dimension d by factor f" is a constant offset.
Compiled steps on it: tiles grown by a factor, the best loop over a dimension.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from codesign.core.factors import prime_factors
from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray

INF = np.inf


class Grid(NamedTuple):
    """The lattice for compiled code. Letters: D dimensions with a bound above 1, J divisors, A prime axes.

    Attributes:
        n_divisors: ``D``.
        stride: ``D`` offset between neighbours of a dimension's block.
        grow: ``D x J x J`` position of ``divisor[j] * divisor[i]`` of a dimension, -1 if that does not divide.
        axis_dim: ``A`` dimension of each prime axis.
        axis_size: ``A`` exponents 0 .. size - 1.
        axis_stride: ``A``.
        divisor: ``D x J``, 0 padded.
    """

    n_divisors: IntArray
    stride: IntArray
    grow: IntArray
    axis_dim: IntArray
    axis_size: IntArray
    axis_stride: IntArray
    divisor: FloatArray


@dataclass(frozen=True, eq=False)
class Lattice:
    """All tiles of given bounds, N of them.

    Attributes:
        bounds: ``D`` bounds, all above 1.
        n_tiles: N.
        divisors: per dimension, the divisors of its bound in the order of the flat index.
        grid: How tiles grow into each other.
        value: ``D x N`` size of each dimension in each tile.
    """

    bounds: tuple[int, ...]
    n_tiles: int
    divisors: tuple[tuple[int, ...], ...]
    grid: Grid
    value: FloatArray


@dataclass(frozen=True, eq=False)
class _Block:
    """The divisors of one bound.

    Attributes:
        divisors: In the order of the flat index.
        sizes: Exponents of every prime axis.
        inner: Distance of neighbours along every prime axis within the block.
        grow: ``J x J``, see `Grid`.
    """

    divisors: tuple[int, ...]
    sizes: tuple[int, ...]
    inner: tuple[int, ...]
    grow: IntArray


@lru_cache(maxsize=4096)
def _block(bound: int) -> _Block:
    primes = prime_factors(bound)
    chains = [(p, primes.count(p)) for p in sorted(set(primes))]
    values, inner = [1], []
    for prime, count in chains:
        values = [v * prime**e for v in values for e in range(count + 1)]
    for i in range(len(chains)):
        inner.append(math.prod(count + 1 for _, count in chains[i + 1 :]))
    where = {v: i for i, v in enumerate(values)}
    grow = np.array([[where.get(factor * size, -1) for size in values] for factor in values], np.int64)
    return _Block(tuple(values), tuple(count + 1 for _, count in chains), tuple(inner), grow)


@lru_cache(maxsize=1024)
def make_lattice(bounds: tuple[int, ...]) -> Lattice:
    """The lattice of some bounds. Cached: search over architectures asks for the same ones again."""
    blocks = [_block(bound) for bound in bounds]
    counts = [len(block.divisors) for block in blocks]
    n_tiles = math.prod(counts)
    stride = [math.prod(counts[d + 1 :]) for d in range(len(bounds))]
    axes = [
        (d, size, stride[d] * inner)
        for d, block in enumerate(blocks)
        for size, inner in zip(block.sizes, block.inner, strict=True)
    ]
    width = max(counts, default=1)
    grow = np.full((len(bounds), width, width), -1, np.int64)
    divisor, value = np.zeros(grow.shape[:2]), np.empty((len(bounds), n_tiles))
    for d, block in enumerate(blocks):
        grow[d, : counts[d], : counts[d]] = block.grow
        divisor[d, : counts[d]] = block.divisors
        value[d].reshape(-1, counts[d], stride[d])[:] = divisor[d, : counts[d], None]
    table = np.array(axes, np.int64).reshape(-1, 3).T.copy()
    grid = Grid(np.array(counts, np.int64), np.array(stride, np.int64), grow, table[0], table[1], table[2], divisor)
    return Lattice(bounds, n_tiles, tuple(block.divisors for block in blocks), grid, value)


@njit
def grown(x: int, d: int, j: int, grid: Grid) -> int:
    """Tile x with dimension d grown by its divisor at position j; -1 if there is none."""
    i = x // grid.stride[d] % grid.n_divisors[d]
    k = grid.grow[d, j, i]
    return -1 if k < 0 else x + (k - i) * grid.stride[d]


@njit
def suffix_minima(array: FloatArray, size: int, inner: int) -> None:
    """Suffix minima along one prime axis, in place."""
    block = size * inner
    for start in range(0, array.shape[0], block):
        for i in range(size - 2, -1, -1):
            here = start + i * inner
            for x in range(here, here + inner):
                array[x] = min(array[x], array[x + inner])


@njit
def minima_along(array: FloatArray, dims: int, grid: Grid) -> None:
    """Least over all loops over the dimensions of a mask, and none, in place."""
    for a in range(grid.axis_dim.shape[0]):
        if dims >> grid.axis_dim[a] & 1 == 1:
            suffix_minima(array, grid.axis_size[a], grid.axis_stride[a])


@njit
def offer_window_loop(
    target: FloatArray, source: FloatArray, whole: FloatArray, shared: FloatArray, d: int, j: int, grid: Grid
) -> None:
    """Offer first loops over d with the factor at position j.

    Args:
        target: ``N`` lowered.
        source: ``N`` costs after the loop.
        whole: ``N`` cost of whole tiles.
        shared: ``N`` the part that a window keeps at each step.
    """
    inner, n = grid.stride[d], grid.n_divisors[d]
    keep_share = 1.0 - 1.0 / grid.divisor[d, j]
    for start in range(0, target.shape[0], n * inner):
        for i in range(n):
            if grid.grow[d, j, i] < 0:
                continue
            move = (grid.grow[d, j, i] - i) * inner
            first = start + i * inner
            for x in range(first, first + inner):
                target[x] = min(target[x], source[x + move] + whole[x] - shared[x] * keep_share)
