"""One profile under the program over all keep sets."""

import math
from functools import cached_property, lru_cache
from itertools import product

import numpy as np

from codesign.mappers.exact.all_keep_sets.fill_states import JointProgram
from codesign.mappers.exact.all_keep_sets.joint_program import (
    NO_WINDOWS,
    Windows,
    fill_charges,
    least_start,
    run_program,
)
from codesign.mappers.exact.all_keep_sets.joint_reconstruct import Filled, JointTrace, Tiles
from codesign.mappers.exact.all_keep_sets.shared_problem import JointProblem
from codesign.mappers.exact.all_keep_sets.temporal_tiles import fill_tiles, fold, list_chains, shared_words
from codesign.mappers.exact.all_keep_sets.word_prices import price_profile, weigh
from codesign.mappers.exact.one_keep_set.fixed_keep_set import KeepSets
from codesign.mappers.exact.one_keep_set.reconstruct import LevelLoops
from codesign.mappers.exact.problem.lattice import Lattice, make_lattice
from codesign.mapping.nest import FloatArray, IntArray


@lru_cache(maxsize=1024)
def _folding(bounds: tuple[int, ...], groups: tuple[tuple[int, ...], ...]) -> tuple[Lattice, IntArray]:
    """The lattice in which the dimensions of each group count as one, and the tile of it that each tile becomes."""
    lattice = make_lattice(bounds)
    folded = make_lattice(tuple(math.prod(bounds[d] for d in group) for group in groups))
    place, tiles = np.zeros(lattice.n_tiles, np.int64), np.arange(lattice.n_tiles)
    for g, group in enumerate(groups):
        where = {size: i for i, size in enumerate(folded.divisors[g])}
        sizes = list(product(*[lattice.divisors[d] for d in group]))
        table = np.array([where[math.prod(row)] for row in sizes], np.int64)
        index = np.zeros_like(tiles)
        for d in group:
            index = index * lattice.n_divisors[d] + tiles // lattice.stride[d] % lattice.n_divisors[d]
        place += table[index] * int(folded.stride[g])
    return folded, place


class JointProfile:
    """One profile ready to run.

    Attributes:
        problem: What it belongs to.
        spatial: ``L x D`` its factors.
        inside: ``L x D`` product of the factors from a level inwards.
        price: ``(1 + J) x T x (L + 1) x L`` of a word, see `price_pairs`.
        fixed: What is paid once.
        fewest: ``T x (L + 1)`` fewest words that can enter an instance of a level.
        exact: Its tiles.
        least: ``T x L x N`` words that enter if every loop outside slides as well as any can, times the steps (bound B2).
        constant: Energy of the MACs themselves.
    """

    def __init__(self, problem: JointProblem, row: IntArray) -> None:
        self.problem = problem
        instance, hardware = problem.instance, problem.all_kept.hardware
        n_levels, n_tensors, n_dims = instance.n_levels, instance.n_tensors, instance.n_dims
        first, factors, distinct = problem.stacked
        numbers = row + first[:-1]
        self.spatial, self.inside = factors[numbers], np.empty((n_levels, n_dims))
        self.price = np.empty((1 + problem.n_ports, n_tensors, n_levels + 1, n_levels))
        self.fixed, self.fewest = np.empty_like(self.price), np.empty((n_tensors, n_levels + 1))
        price_profile(
            numbers, factors, distinct, hardware, problem.relevant, self.inside, self.price, self.fixed, self.fewest
        )
        self.constant = hardware.macs * hardware.mac_energy
        bounds = np.array(instance.lattice.bounds) / self.inside[0]
        lattice = make_lattice(tuple(int(b) for b in bounds))
        n = lattice.n_tiles
        words, penalty = np.empty((n_tensors, n_levels, n)), np.empty((n_levels, 1 << n_tensors, n))
        self.least = np.empty_like(words)
        fill_tiles(
            lattice.value,
            self.inside,
            problem.coef,
            problem.slides,
            instance.problem.element_bits,
            instance.problem.capacity_bits,
            words,
            self.least,
            penalty,
        )
        for m, (vectors, i) in enumerate(zip(problem.vectors, row, strict=True)):
            allowed = vectors.tiles[i]
            if allowed is not None and m + 1 < n_levels:
                penalty[m + 1] += instance.outside_of(allowed, lattice.value * self.inside[m + 1][:, None])
        self.exact = Tiles(lattice, words, penalty, problem.free, instance.relevant_mask)

    @cached_property
    def folded(self) -> Tiles:
        """Tiles of `bound`: dimensions that index the same tensors, not all plainly, count as one; the best tile stands for all."""
        problem, groups = self.problem, self.problem.folds
        lattice, place = _folding(self.exact.lattice.bounds, groups)
        n_tensors, n_levels, _ = self.least.shape
        words = np.empty((n_tensors, n_levels, lattice.n_tiles))
        penalty = np.empty((n_levels, 1 << n_tensors, lattice.n_tiles))
        least, windows = self.least, self.windows
        if windows.first[-1] > 0:  # steps of loops that go on after others may cost nothing at all
            saved = np.zeros(self.exact.lattice.n_tiles)
            np.maximum.at(saved, windows.chains[: windows.first[-1], 3], windows.saved[: windows.first[-1], 0])
            least = least.copy()
            least[windows.tensor] = np.minimum(least[windows.tensor], self.exact.words[windows.tensor] * (1.0 - saved))
        fold(place, least, self.exact.penalty, words, penalty)
        free = np.array([problem.free[:, list(group)].max(axis=1) for group in groups], np.int64).T
        relevant = np.array([self.exact.relevant[group[0]] for group in groups], np.int64)
        return Tiles(lattice, words, penalty, np.ascontiguousarray(free), relevant)

    @cached_property
    def windows(self) -> Windows:
        """What slides."""
        problem, instance, lattice = self.problem, self.problem.instance, self.exact.lattice
        n_levels, n_dims, n, t = instance.n_levels, instance.n_dims, lattice.n_tiles, problem.sliding
        if t < 0:
            return NO_WINDOWS
        shared, steady = np.empty((n_levels, n_levels, n_dims, n)), np.empty((n_levels, n_levels, n_dims), np.int64)
        shared_words(t, lattice.value, self.inside, problem.coef, problem.slides, self.exact.words, shared, steady)
        number, tables = self._chain_tables()
        first, room = np.zeros(n_levels * n_dims + 1, np.int64), 256 if len(tables) else 0
        while True:
            chains, saved = np.empty((room, 5), np.int64), np.empty((room, 3))
            if len(tables):
                list_chains(
                    number,
                    tables,
                    problem.axis_of,
                    lattice.value,
                    self.inside,
                    *problem.places,
                    lattice.grid,
                    chains,
                    saved,
                    first,
                )
            if first[-1] <= room:
                return Windows(t, shared, steady, chains, saved, first)
            room = int(first[-1])

    def _chain_tables(self) -> tuple[IntArray, FloatArray]:
        """``L x D`` number of the chain table when a first loop is over a dimension, -1 none; the tables, see `chain_table`."""
        number = np.full(self.spatial.shape, -1, np.int64)
        tables: list[FloatArray] = []
        for t, axis in self.problem.bases.axis_rows():
            for c in range(len(self.spatial)):
                for d, table in self.problem.chain_tables(t, axis, self.spatial[:c, list(axis)]):
                    number[c, d] = len(tables)
                    tables.append(table)
        return number, np.array(tables)

    def bound(self, weight: FloatArray) -> float:
        """A quick bound on what any mapping costs: windows always slide as well as they can, and fewer tiles are told apart."""
        program = self.problem.program_of(self.spatial, False, False)
        return self._run(weight, self.folded, program, NO_WINDOWS, self.folded.penalty)

    def run(self, weight: FloatArray, restricted: FloatArray | None = None) -> float:
        """Least weighted sum of energy and port cycles (``1 + J``) of any keep sets, tiling and order.

        Args:
            weight: Of each.
            restricted: ``L x 2**T`` added for the tensors each level keeps: infinite to forbid.
        """
        slides, chained = self.windows.tensor >= 0, bool(self.windows.first[-1] > 0)
        program = self.problem.program_of(self.spatial, slides, chained)
        penalty = self.exact.penalty if restricted is None else self.exact.penalty + restricted[..., None]
        return self._run(weight, self.exact, program, self.windows, penalty)

    def _run(
        self, weight: FloatArray, tiles: Tiles, program: JointProgram, windows: Windows, penalty: FloatArray
    ) -> float:
        price, fixed = np.empty(self.price.shape[1:]), np.empty(self.price.shape[1:])
        weigh(weight, self.price, self.fixed, price, fixed)
        n, n_charges, n_shared = tiles.lattice.n_tiles, len(program.charges), len(program.shared)
        charge, once = np.empty((n_charges, n)), np.empty(n_charges)
        shared, steady = np.empty((n_shared, n)), np.empty(n_shared, np.int64)
        fill_charges(program, tiles.words, windows, price, fixed, charge, once, shared, steady)
        table = np.empty((len(program.first) - 1, n))
        run_program(
            table, program, tiles.lattice.grid, tiles.free, tiles.relevant, windows, charge, once, shared, steady, penalty,
            np.empty((1, n)),
        )  # fmt: skip
        start, value = least_start(table, program.starts, price, fixed, self.fewest)
        self.filled = Filled(program, table, charge, once, shared, steady, penalty, start)
        return float(value) + float(weight[0]) * self.constant

    def trace(self) -> tuple[list[LevelLoops], KeepSets]:
        """The loops and keep sets of the least value of the last `run`."""
        return JointTrace(self.problem.instance, self.exact, self.spatial, self.windows, self.filled).walk()
