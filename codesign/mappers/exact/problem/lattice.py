"""The lattice of tiles: every divisor of every bound, as one flat index.

A tile is a size for each dimension that divides its bound. All tiles of a computation form a product of chains
(one chain per prime of each dimension), stored flat so that "grow dimension d by factor f" is a constant offset.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from codesign.core.factors import prime_factors
from codesign.mappers.exact.problem.tables import Grid
from codesign.mapping.nest import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Lattice:
    """All tiles of given bounds. Letters: D dimensions with a bound above 1, A prime axes, N tiles.

    Attributes:
        bounds: ``D`` bounds, all above 1.
        n_tiles: N.
        divisors: per dimension, the divisors of its bound in the order of the flat index.
        n_divisors: ``D``.
        stride: ``D`` offset between neighbours of a dimension's block.
        grow: ``D x J x J`` position of ``divisor[j] * divisor[i]`` of a dimension, -1 if that does not divide.
        axis_dim: ``A`` dimension of each prime axis.
        axis_size: ``A`` exponents 0 .. size - 1.
        axis_stride: ``A``.
        value: ``D x N`` size of each dimension in each tile.
    """

    bounds: tuple[int, ...]
    n_tiles: int
    divisors: tuple[tuple[int, ...], ...]
    n_divisors: IntArray
    stride: IntArray
    grow: IntArray
    axis_dim: IntArray
    axis_size: IntArray
    axis_stride: IntArray
    value: FloatArray

    @cached_property
    def grid(self) -> Grid:
        """The lattice for compiled code."""
        divisor = np.zeros(self.grow.shape[:2])
        for d, values in enumerate(self.divisors):
            divisor[d, : len(values)] = values
        return Grid(self.n_divisors, self.stride, self.grow, self.axis_dim, self.axis_size, self.axis_stride, divisor)

    def place(self, dim: int, divisor: int) -> int:
        """Position of a divisor in a dimension's block."""
        return self.divisors[dim].index(divisor)

    def sizes(self, tile: int) -> tuple[int, ...]:
        """Size of each dimension in a tile."""
        return tuple(
            self.divisors[d][tile // int(self.stride[d]) % int(self.n_divisors[d])] for d in range(len(self.bounds))
        )


@dataclass(frozen=True, eq=False)
class _Block:
    """The divisors of one bound.

    Attributes:
        divisors: In the order of the flat index.
        sizes: Exponents of every prime axis.
        inner: Distance of neighbours along every prime axis within the block.
        grow: ``J x J``, see `Lattice.grow`.
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
    value = np.empty((len(bounds), n_tiles))
    for d, block in enumerate(blocks):
        grow[d, : counts[d], : counts[d]] = block.grow
        sizes = np.array(block.divisors, np.float64)
        value[d].reshape(-1, counts[d], stride[d])[:] = sizes[:, None]
    table = np.array(axes, np.int64).reshape(-1, 3)
    return Lattice(
        bounds,
        n_tiles,
        tuple(block.divisors for block in blocks),
        np.array(counts, np.int64),
        np.array(stride, np.int64),
        grow,
        np.ascontiguousarray(table[:, 0]),
        np.ascontiguousarray(table[:, 1]),
        np.ascontiguousarray(table[:, 2]),
        value,
    )
