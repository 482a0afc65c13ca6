"""Arrays over all tiles that charges are multiples of, made once per computation and shared by all profiles."""

from functools import cached_property
from threading import RLock

import numpy as np

from codesign.cost.arrays import Reuse
from codesign.mappers.exact.problem.conflict_bound import tile_points
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.sliding_windows import chain_table
from codesign.mapping.nest import FloatArray, IntArray


class BaseArrays:
    """A growing pool of arrays ``N``, each under its own number.

    Words of a boundary = scale * base, where base = tile words / tile volume. The tile meant is the one
    inside, while the array is indexed by the tile outside some spatial factors `spread`.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.pool: FloatArray = np.zeros((8, instance.lattice.n_tiles))
        self.number: dict[tuple[int, tuple[int, ...], int], int] = {}
        self.chain_number: dict[tuple[int, tuple[int, ...], int, tuple[tuple[int, ...], ...]], dict[int, int]] = {}
        self.chain_tables: list[FloatArray] = []
        self.point_table: dict[tuple[int, tuple[bool, ...]], FloatArray] = {}
        self.chain_pool: tuple[FloatArray, IntArray, IntArray] | None = None
        self.lock = RLock()  # held while chain tables are added or gathered

    def words(self, t: int, spread: tuple[int, ...]) -> int:
        """Number of the base array of tensor t for tiles that were spread by these factors."""
        key = (t, spread, -1)
        if key not in self.number:
            sizes = self.instance.lattice.value / np.array(spread, np.float64)[:, None]
            self._add(key, self.instance.words_of(t, np.maximum(sizes, 1.0)) / self.instance.lattice.volume)
        return self.number[key]

    def overlap(self, t: int, spread: tuple[int, ...], d: int) -> int:
        """Number of the array of the words two neighbours along dimension d share, -1 if they share none."""
        key = (t, spread, d)
        if self.instance.bounded_only(t):
            return -1
        if key not in self.number:
            lattice, coef = self.instance.lattice, self.instance.coef[t]
            sizes = np.maximum(lattice.value / np.array(spread, np.float64)[:, None], 1.0)
            axis = coef[int(np.flatnonzero(coef[:, d])[0])]
            extent = 1.0 + axis @ (sizes - 1.0)
            common = np.maximum(extent - axis[d] * lattice.value[d], 0.0)
            if common.max() <= 0.0:
                self.number[key] = -1
            else:
                self._add(key, self.instance.words_of(t, sizes) / extent * common / lattice.volume)
        return self.number[key]

    def axis_rows(self) -> list[tuple[int, tuple[int, ...]]]:
        """(tensor, axis) of every sliding axis, in the order of the rows of `Chains.axis_index`."""
        return [(t, axis) for t, axes in enumerate(self.instance.sliding_axes) for axis in axes]

    def points(self, level: int, kept: tuple[bool, ...], penalty: FloatArray) -> FloatArray:
        """See `tile_points`; of the tiles that fit a level keeping these tensors."""
        if (level, kept) not in self.point_table:
            lattice = self.instance.lattice
            tiles = lattice.by_volume[np.isfinite(penalty[lattice.by_volume])]
            bounds = np.array(lattice.bounds, np.float64)
            of = self.moved_rows(kept)
            self.point_table[level, kept] = tile_points(tiles, lattice.value, bounds, self.moved[0], of)
        return self.point_table[level, kept]

    def moved_rows(self, kept: tuple[bool, ...]) -> IntArray:
        """``(D + 1) x T`` rows of `moved` for the tensors a level keeps."""
        return np.where(np.array(kept), self.moved[1], -1)

    @cached_property
    def moved(self) -> tuple[FloatArray, IntArray]:
        """``K x N`` words over tile volume that a loop moves, and for each (dimension, tensor) which row, -1 none.

        One row more, for the whole problem as one tile.
        """
        instance, one = self.instance, (1,) * self.instance.n_dims
        rows: list[FloatArray] = []
        of = np.full((instance.n_dims + 1, instance.n_tensors), -1, np.int64)
        for t in range(instance.n_tensors):
            whole, first = self.pool[self.words(t, one)], len(rows)
            rows.append(whole)
            of[-1, t] = first
            for d in np.flatnonzero(instance.relevant[t]):
                slides = any(d in axis for axis in instance.sliding_axes[t])
                shared = self.overlap(t, one, int(d)) if slides else -1
                if slides and instance.bounded_only(t):
                    continue  # how little may move is not known
                of[d, t] = first if shared < 0 else len(rows)
                if shared >= 0:
                    rows.append(whole - self.pool[shared])
        return np.array(rows), of

    @cached_property
    def axis_tables(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Row of (tensor, dimension); tile of each axis by lattice tile; lattice tiles sorted by it; where each begins."""
        lattice, rows = self.instance.lattice, self.axis_rows()
        row_of = np.full((self.instance.n_tensors, len(lattice.bounds)), -1, np.int64)
        index = np.zeros((max(1, len(rows)), lattice.n_tiles), np.int64)
        sizes = [int(np.prod(lattice.n_divisors[list(axis)])) for _, axis in rows]
        first = np.zeros((max(1, len(rows)), max(sizes, default=1) + 1), np.int64)
        tiles = np.zeros_like(index)
        position = np.arange(lattice.n_tiles)
        for row, (t, axis) in enumerate(rows):
            for d in axis:
                row_of[t, d] = row
                index[row] = index[row] * lattice.n_divisors[d] + position // lattice.stride[d] % lattice.n_divisors[d]
            tiles[row] = np.argsort(index[row], kind="stable")
            first[row, 1 : sizes[row] + 1] = np.cumsum(np.bincount(index[row], minlength=sizes[row]))
        return row_of, index, tiles, first

    def chain(self, t: int, axis: tuple[int, ...], level: int, spatial: tuple[tuple[int, ...], ...]) -> dict[int, int]:
        """Number of the chain table of every first dimension of an axis at a level; see `chain_table`.

        Args:
            t: Tensor.
            axis: Its dimensions.
            level: Level of the first loop.
            spatial: Factors of these dimensions on the fan-outs outside that level.
        """
        key = (t, axis, level, spatial)
        with self.lock:
            if key not in self.chain_number:
                self.chain_number[key] = self._chain_of(t, axis, level, spatial)
            return self.chain_number[key]

    def _chain_of(
        self, t: int, axis: tuple[int, ...], level: int, spatial: tuple[tuple[int, ...], ...]
    ) -> dict[int, int]:
        lattice = self.instance.lattice
        width = lattice.grow.shape[1]
        divisors = np.zeros((len(axis), width), np.int64)
        for i, d in enumerate(axis):
            divisors[i, : len(lattice.divisors[d])] = lattice.divisors[d]
        counts = np.array([len(lattice.divisors[d]) for d in axis], np.int64)
        if self.instance.bounded_only(t):
            table = np.ones((2, len(axis), width, int(counts.prod())))
            table[:, :, 0] = 0.0  # a factor of 1 is no loop
        else:
            row = int(np.flatnonzero(self.instance.coef[t][:, axis[0]])[0])
            table = chain_table(
                level,
                divisors,
                counts,
                np.array([lattice.bounds[d] for d in axis], np.int64),
                self.instance.coef[t, row, list(axis)],
                np.array(spatial, np.int64).reshape(level, len(axis)),
                self.instance.problem.reuse == Reuse.WALK.value,
            )
        return {d: self._add_chain(table[:, i]) for i, d in enumerate(axis)}

    def _add_chain(self, table: FloatArray) -> int:
        if table.max() <= 0.0:
            return -1
        n_sub = self.axis_tables[3].shape[1] - 1
        padded = np.zeros((2, self.instance.lattice.grow.shape[1], n_sub))
        padded[:, :, : table.shape[2]] = table
        self.chain_tables.append(padded)
        self.chain_pool = None
        return len(self.chain_tables) - 1

    def chains(self) -> tuple[FloatArray, IntArray, IntArray]:
        """All chain tables, the (factor, sub-tile) pairs that may save after other loops, and their number."""
        with self.lock:
            if self.chain_pool is None:
                self.chain_pool = self._gathered()
            return self.chain_pool

    def _gathered(self) -> tuple[FloatArray, IntArray, IntArray]:
        special = [np.argwhere(table.max(axis=0) > 0.0) for table in self.chain_tables]
        rows = np.zeros((max(1, len(special)), max([1, *map(len, special)]), 2), np.int64)
        for i, pairs in enumerate(special):
            rows[i, : len(pairs)] = pairs
        n_sub = self.axis_tables[3].shape[1] - 1
        empty = np.zeros((1, 2, self.instance.lattice.grow.shape[1], n_sub))
        tables = np.stack(self.chain_tables) if self.chain_tables else empty
        return tables, rows, np.array([len(p) for p in special] or [0], np.int64)

    def _add(self, key: tuple[int, tuple[int, ...], int], array: FloatArray) -> None:
        used = sum(n >= 0 for n in self.number.values())
        if used == self.pool.shape[0]:
            self.pool = np.concatenate([self.pool, np.zeros_like(self.pool)])
        self.pool[used] = array
        self.number[key] = used
