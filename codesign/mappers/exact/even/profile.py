"""One profile under the program: its tiles, its prices, the table and the nest read off it."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from codesign.mappers.exact.even.fill_states import END, KIND, LEVEL, WHAT, Decisions, Program
from codesign.mappers.exact.even.joint_program import (
    Filled,
    Moved,
    Parts,
    Prices,
    fill_tiles,
    run_program,
    trace_program,
)
from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mappers.exact.even.word_prices import price_profile, room_for_pairs
from codesign.mappers.exact.problem.lattice import make_lattice
from codesign.mappers.exact.problem.loop_rows import LoopRows
from codesign.mapping.nest import FloatArray, IntArray, Nest

_EXACT = 1e-11

KeepSets = tuple[tuple[bool, ...], ...]
"""``L`` tuples, whether each tensor is kept."""


Loops = list[dict[int, int]]
"""``L`` temporal loops of every level, innermost first: the factor of each dimension."""


@dataclass(frozen=True, eq=False)
class Traced:
    """The nest of the least value in a table.

    Attributes:
        loops: Its loops in time.
        keep: What its levels keep.
        words: ``T x L`` words counted into every level.
        optimistic: Whether it counts on a chain going on, so that the nest may cost more.
    """

    loops: Loops
    keep: KeepSets
    words: FloatArray
    optimistic: bool


class EvenProfile:
    """One profile ready to run.

    Attributes:
        spatial: ``L x D`` its factors.
        inside: ``L x D`` product of the factors from a level inwards.
        pairs: What words cost: `price`, `fixed` and `fewest`.
        lattice: Its temporal tiles.
        words: ``T x L x N`` words that enter an instance of a level when a tensor is closed.
        penalty: ``L x 2**T x N`` infinite where the tiles of the kept tensors do not fit.
        constant: Energy of the MACs themselves.
        filled: The table of the last run.
        start: Its best state at the MACs.
    """

    filled: Filled
    start: int

    def __init__(self, problem: EvenProblem, row: IntArray) -> None:
        self.problem = problem
        instance, arrays = problem.instance, problem.arrays
        n_levels, n_tensors = instance.n_levels, instance.n_tensors
        fans, self.pairs = room_for_pairs(1 + problem.n_ports, arrays)
        price_profile(problem.numbers(row), arrays, fans, self.pairs)
        self.price, self.fixed, self.fewest = self.pairs
        self.spatial, self.inside = problem.factors(row), fans.rest[:-1] / fans.rest[-1]
        self.constant = arrays.macs * arrays.mac_energy
        self.lattice = make_lattice(tuple(int(b) for b in fans.rest[-1]))
        n, value = self.lattice.n_tiles, self.lattice.value
        self.words, self.penalty = np.empty((n_tensors, n_levels, n)), np.empty((n_levels, 1 << n_tensors, n))
        fill_tiles(value, self.inside, arrays, self.words, self.penalty)
        for m, (vectors, i) in enumerate(zip(problem.vectors, row, strict=True)):
            allowed = vectors.tiles[i]
            if allowed is not None and m + 1 < n_levels:
                self.penalty[m + 1] += instance.outside_of(allowed, value * self.inside[m + 1][:, None])

    @cached_property
    def moved(self) -> Moved:
        """What crosses into every level, and what windows save of it."""
        problem, lattice = self.problem, self.lattice
        n_tensors, n_levels, n = self.words.shape
        n_dims, axes, followed = problem.instance.n_dims, problem.axes, problem.followed
        shared = np.zeros((len(followed), n_levels, n_levels, n_dims, n))
        for slot, t in enumerate(followed):
            self._share(t, shared[slot])
        number, tables = np.full((n_tensors, n_levels, n_dims), -1, np.int64), list[FloatArray]()
        for t, axis in axes:
            for c in range(n_levels):
                for d, table in problem.chain_tables(t, axis, self.spatial[:c, list(axis)]):
                    number[t, c, d] = len(tables)
                    tables.append(table)
        saving = np.array(tables) if tables else np.zeros((0, 0, 0, 0))
        tile_of, counts = problem.places
        axis_tile = np.zeros((len(axes) if tables else 0, n_levels, n), np.int64)
        for tile, (_, axis) in zip(axis_tile, axes, strict=False):
            for d in axis:
                sizes = (self.inside[:, d, None] * lattice.value[d]).astype(np.int64)
                tile[:] = tile * counts[d] + tile_of[d, sizes]
        place = np.zeros(lattice.grid.grow.shape[:2], np.int64)
        for d, divisors in enumerate(lattice.divisors):
            place[d, : len(divisors)] = tile_of[d, list(divisors)]
        slots = np.array([followed.index(t) if t in followed else -1 for t in range(n_tensors)], np.int64)
        return Moved(self.words, slots, shared, number, saving, problem.axis_row, axis_tile, place)

    def _share(self, t: int, shared: FloatArray) -> None:
        """Write the words that neighbours share of one tensor (``L x L x D x N``, 0 before)."""
        arrays, value, inside = self.problem.arrays, self.lattice.value, self.inside[..., None]
        for coef, slides in zip(arrays.coef[t], arrays.slides[t], strict=True):
            dims = np.flatnonzero(slides)
            extent = 1.0 + sum(coef[d] * (value[d] * inside[:, d] - 1.0) for d in dims)
            each = self.words[t] / extent
            for v, d in product(range(1, len(inside)), dims):  # the loop's level is outside the tile's
                common = extent[v] - coef[d] * value[d] * inside[:v, d]
                np.multiply(each[v], np.maximum(common, 0.0, out=common), out=shared[:v, v, d])

    @cached_property
    def _chained(self) -> bool:
        """Whether later loops may save words after some first loop."""
        moved, rows = self.moved, self.problem.axis_row
        return any(
            bool((moved.saving[moved.number[t, c, d]][..., moved.axis_tile[rows[t, d], c]] > 0.0).any())
            for t, c, d in np.argwhere(moved.number >= 0)
        )

    @cached_property
    def program(self) -> Program:
        """The list of operations that `run` goes through where no other decisions are given."""
        return self._program_of(None)

    def _program_of(self, decisions: Decisions | None) -> Program:
        return self.problem.program_of(self.spatial, True, self._chained, decisions)

    def run(
        self,
        weight: FloatArray,
        restricted: FloatArray | None = None,
        live: IntArray | None = None,
        decisions: Decisions | None = None,
        limits: tuple[FloatArray, FloatArray] | None = None,
    ) -> float:
        """Least weighted sum of energy and port cycles (``1 + J``) of any keep sets, tiling and order.

        Args:
            weight: Of each.
            restricted: ``L x 2**T`` added for the tensors each level keeps: infinite to forbid.
            live: ``S`` 0 where a state of `program` is left out.
            decisions: In place of the problem's.
            limits: ``T x L`` fewest and most words allowed into every level.
        """
        program, n = self.program if decisions is None else self._program_of(decisions), self.lattice.n_tiles
        penalty = self.penalty if restricted is None else self.penalty + restricted[..., None]
        least, most = (np.zeros((0, 0)), np.zeros((0, 0))) if limits is None else limits
        shape, most_parts = self.price.shape[1:], max(1, self.words.shape[0] * self.words.shape[1])
        self.filled = Filled(
            np.empty((len(program.level), n)), program, self.lattice.grid, self.moved,
            Prices(np.empty(shape), np.empty(shape), least, most, int(limits is not None)),
            np.empty((len(program.charges), n)), penalty, np.ones(len(program.level), np.int64) if live is None else live,
            Parts(np.empty((most_parts, 5), np.int64), np.empty((most_parts, 2))),
        )  # fmt: skip
        self.start, value = run_program(weight, self.pairs, self.filled)
        return float(value) + float(weight[0]) * self.constant

    def trace(self) -> Traced:
        """The nest of the least value of the last `run`."""
        filled, value, n_tensors = self.filled, self.lattice.value, self.problem.instance.n_tensors
        slack = _EXACT * max(1.0, abs(float(filled.table[self.start, 0])))
        path = np.empty((len(filled.program.level) + sum(map(int, self.lattice.grid.n_divisors)) + 8, 3), np.int64)
        words = np.empty(self.words.shape[:2])
        steps, optimistic = trace_program(filled, self.start, slack, path, words)
        if steps < 0:
            raise AssertionError("the tables of the dynamic program do not add up")
        loops: Loops = [{} for _ in self.spatial]
        keep = [[v == 0] * n_tensors for v in range(len(loops))]
        operations, before, after = path[:steps].T
        grown = (value[:, after] / value[:, before]).astype(np.int64).T
        for operation, factors in zip(filled.program.operations[operations], grown.tolist(), strict=True):
            c, what = int(operation[LEVEL]), int(operation[WHAT])
            for d, factor in enumerate(factors):
                if factor > 1:  # a second loop over a dimension joins the first, which never costs more
                    loops[c][d] = loops[c].get(d, 1) * factor
            if operation[KIND] == END:
                keep[c] = [bool(what >> t & 1) for t in range(n_tensors)]
        return Traced(loops, tuple(tuple(row) for row in keep), words, optimistic)

    def nest(self, keep: KeepSets, loops: Loops) -> Nest:
        """The nest with these loops."""
        rows = LoopRows(self.problem.instance)
        for v, kept in enumerate(keep):
            for tensor in np.flatnonzero(kept):
                rows.node(v, int(tensor))
            for d, f in reversed(loops[v].items()):
                rows.temporal(d, f)
            rows.fanout(v, self.spatial[v])
        return rows.nest()
