"""The tiles of one profile and what its boundaries move, as the compiled program reads them (rules K4 to K6)."""

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from codesign.mapping.nest import FloatArray, IntArray
from codesign.verify.even.prices import Profile
from codesign.verify.even.problem import divisors, words_of
from codesign.verify.even.profiles import Diagonal
from codesign.verify.even.program import Grid, States, chain_share, cheapest, fill
from codesign.verify.even.states import states_of


@dataclass(frozen=True, eq=False)
class Program:
    """A profile's tiles in time and tables over them.

    Args:
        profile: The numbers.
        diagonals: Tiles they hold for.
    """

    profile: Profile
    diagonals: tuple[Diagonal, ...]

    @cached_property
    def sizes(self) -> list[tuple[int, ...]]:
        """Divisors of the iterations in time, by dimension."""
        p = self.profile
        return [divisors(int(n)) for n in p.space.bounds / p.outside[-1]]

    @cached_property
    def tiles(self) -> FloatArray:
        """``N x D`` sizes in time."""
        grid = np.meshgrid(*self.sizes, indexing="ij")
        return np.array([g.ravel() for g in grid], np.float64).T.reshape(-1, len(self.sizes))

    @property
    def inside(self) -> FloatArray:
        """``L x D`` spatial factors of a level's own fan-out and those further in."""
        p = self.profile
        return np.asarray(p.outside[-1] / p.outside[:-1], np.float64)

    @cached_property
    def grid(self) -> Grid:
        """Tile sizes, words and overlaps as arrays that the compiled program reads."""
        s = self.profile.space
        n_dims = len(s.dims)
        count = np.array([len(row) for row in self.sizes], np.int64)
        sizes = np.zeros((n_dims, max(count, default=1)), np.int64)
        for d, row in enumerate(self.sizes):
            sizes[d, : len(row)] = row
        words, overlap = self._moved()
        return Grid(
            sizes=sizes, n_sizes=count, stride=np.array([int(count[d + 1 :].prod()) for d in range(n_dims)], np.int64),
            steps=self._steps(), allowed=s.allowed, windows=np.array(s.sliding, np.int64), fits=self._fits(),
            left=(s.bounds / self.profile.outside[-1]).prod() / self.tiles.prod(axis=1),
            words=words, overlap=overlap, chain=self._chains(sizes, count),
        )  # fmt: skip

    @property
    def states(self) -> States:
        """Those of the keep set."""
        return states_of(self.profile.space, self.profile.kept)

    def _steps(self) -> IntArray:
        s = self.profile.space
        along = np.zeros(len(s.dims), bool)
        for t, table in enumerate(s.coef):
            if s.sliding[t]:
                along |= (table > 0).any(axis=0)
        return _divisible(tuple(self.sizes), tuple(along.tolist()))

    def _moved(self) -> tuple[FloatArray, FloatArray]:
        p, s = self.profile, self.profile.space
        n_tiles = len(self.tiles)
        words = np.zeros((len(p.boundaries), n_tiles))
        overlap = np.zeros((len(p.boundaries), s.n_levels, len(s.dims), n_tiles if any(s.sliding) else 0))
        for i, b in enumerate(p.boundaries):
            tile = self.tiles * self.inside[b.level]
            words[i] = words_of(s.coef[b.tensor], tile)
            if not s.sliding[b.tensor]:
                continue
            extents = [(row, 1.0 + (tile - 1.0) @ row.astype(np.float64)) for row in s.coef[b.tensor] if row.any()]
            for v in range(b.level + 1):  # uneven nodes of a level may have loops of it outside
                for d in range(len(s.dims)):
                    far = self.tiles[:, d] * self.inside[v, d]
                    overlap[i, v, d] = np.prod([np.maximum(0.0, e - row[d] * far) for row, e in extents], axis=0)
        return words, overlap

    def _fits(self) -> IntArray:
        s = self.profile.space
        found = np.ones((s.n_levels, len(self.tiles)), np.int64)
        for v in range(s.n_levels):
            used = np.zeros(len(self.tiles))
            for t in range(s.n_tensors):
                if v and self.profile.kept[v][t]:
                    used += words_of(s.coef[t], self.tiles * self.inside[v]) * float(s.arrays.element_bits[v, t])
            found[v] = used <= float(s.arrays.capacity_bits[v])
        for diagonal in self.diagonals:
            if diagonal.level + 1 < s.n_levels:
                rows = self.tiles[:, list(diagonal.dims)].astype(np.int64)
                found[diagonal.level + 1] &= np.array([tuple(r) in diagonal.sizes for r in rows.tolist()])
        return found

    def _chains(self, sizes: IntArray, count: IntArray) -> FloatArray:
        s = self.profile.space
        inside = self.inside.astype(np.int64)
        shape = (2, s.n_tensors, s.n_levels, len(s.dims), sizes.shape[1], len(self.tiles) if any(s.sliding) else 0)
        table = np.zeros(shape)
        for t in range(s.n_tensors):
            for row in s.coef[t]:
                dims = np.flatnonzero(row)
                if len(dims) > 1:
                    self._chain_of(table[:, t], row, dims, inside, sizes, count)
        return table

    def _chain_of(
        self, table: FloatArray, row: IntArray, dims: IntArray, inside: IntArray, sizes: IntArray, count: IntArray
    ) -> None:
        """Write the shares of one sliding axis: they depend on the sizes of its dimensions alone."""
        along = tuple(tuple(int(n) for n in sizes[d, : count[d]]) for d in dims)
        fan = tuple(tuple(int(f) for f in line) for line in inside[:, dims])
        shares = _axis_shares(tuple(int(c) for c in row[dims]), fan, along)
        digits = np.indices(tuple(int(n) for n in count)).reshape(len(count), -1)[dims]
        where = np.ravel_multi_index(tuple(digits), tuple(int(count[d]) for d in dims))
        for k, d in enumerate(dims):
            table[:, :, d, : count[d]] = shares[k][..., where]

    @property
    def starts(self) -> bool:
        """Whether the numbers hold for the tile of one MAC."""
        last = self.profile.space.n_levels - 1
        return all(d.level != last or (1,) * len(d.dims) in d.sizes for d in self.diagonals)

    def table(self, price: FloatArray) -> FloatArray:
        """``L x N x S`` least cost from a state on."""
        states = self.states
        least = np.zeros((self.profile.space.n_levels, len(self.tiles), states.possible.shape[1]))
        fill(self.grid, states, price, least)
        return least

    @cached_property
    def fewest(self) -> FloatArray:
        """Fewest words across every boundary."""
        return np.array([self.profile.fewest(b) for b in self.profile.boundaries])

    def cheapest(self, price: FloatArray, fixed: float, limit: float) -> float:
        """The least of `fixed` and what the boundaries cost over all nests; infinite if none is below `limit`."""
        states = self.states
        fewest = price * self.fewest
        rest = np.where(states.waiting >= 0, np.append(fewest, 0.0)[states.waiting], 0.0).sum(axis=2)
        now, after = np.zeros((2, len(self.tiles), states.possible.shape[1]))
        return fixed + cheapest(self.grid, states, price, rest, limit - fixed, now, after)


@lru_cache(maxsize=256)
def _divisible(sizes: tuple[tuple[int, ...], ...], along: tuple[bool, ...]) -> IntArray:
    """``D x V x V`` which size a loop may lead to from which: multiples, by primes alone where no window slides along."""
    most = max(map(len, sizes), default=1)
    found = np.zeros((len(sizes), most, most), np.int64)
    for d, row in enumerate(sizes):
        for i, j in itertools.combinations(range(len(row)), 2):
            factor, rest = divmod(row[j], row[i])
            found[d, i, j] = rest == 0 and (along[d] or len(divisors(factor)) == 2)
    return found


@lru_cache(maxsize=1024)
def _axis_shares(
    coef: tuple[int, ...], inside: tuple[tuple[int, ...], ...], sizes: tuple[tuple[int, ...], ...]
) -> tuple[FloatArray, ...]:
    """Shares of later tiles that may slide along one axis (rule K6), for each of its K dimensions; many profiles have the same.

    Args:
        coef: Coefficients of the dimensions.
        inside: ``L x K`` spatial factors of each inside the loops of a level.
        sizes: Divisors of each dimension's iterations in time.

    Returns:
        ``2 x L x V x N`` for each dimension: fresh or not, level, size after the loop, tile of these dimensions.
    """
    rows, fan = np.array(coef, np.int64), np.array(inside, np.int64)
    most = np.array([row[-1] for row in sizes], np.int64)
    tiles = np.array(list(itertools.product(*sizes)), np.int64)
    found = tuple(np.zeros((2, len(inside), len(row), len(tiles))) for row in sizes)
    for n, tile in enumerate(tiles):
        for k, row in enumerate(sizes):
            for j, size in enumerate(row):
                after = tile.copy()
                after[k] = size
                if size <= tile[k] or size % tile[k] != 0 or (after == most).all():
                    continue
                for v in range(len(inside)):
                    far = int(rows[k] * tile[k] * fan[v, k])
                    for fresh in (0, 1):
                        found[k][fresh, v, j, n] = chain_share(
                            rows, fan, after.copy(), most // after, v, far if fresh else 0, far, 1.0
                        )
    return found
