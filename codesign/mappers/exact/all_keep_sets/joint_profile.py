"""One profile under the program over all keep sets."""

from functools import cached_property

import numpy as np

from codesign.mappers.exact.all_keep_sets.fill_states import JointProgram
from codesign.mappers.exact.all_keep_sets.joint_program import (
    NO_WINDOWS,
    Windows,
    fill_charges,
    least_start,
    room_for_closings,
    run_program,
)
from codesign.mappers.exact.all_keep_sets.joint_reconstruct import Filled, JointTrace, Tiles
from codesign.mappers.exact.all_keep_sets.shared_problem import JointProblem
from codesign.mappers.exact.all_keep_sets.temporal_tiles import fill_tiles, list_chains, shared_words
from codesign.mappers.exact.all_keep_sets.word_prices import price_profile, weigh
from codesign.mappers.exact.one_keep_set.fixed_keep_set import KeepSets
from codesign.mappers.exact.one_keep_set.reconstruct import LevelLoops
from codesign.mappers.exact.problem.lattice import make_lattice
from codesign.mapping.nest import FloatArray, IntArray


class JointProfile:
    """One profile ready to run.

    Attributes:
        problem: The problem whose fan-outs the profile decides.
        spatial: ``L x D`` its factors.
        inside: ``L x D`` product of the factors from a level inwards.
        price: ``(1 + J) x T x (L + 1) x L`` of a word, see `price_pairs`.
        fixed: What is paid once.
        fewest: ``T x (L + 1)`` fewest words that can enter an instance of a level.
        exact: Its tiles.
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
        fill_tiles(
            lattice.value,
            self.inside,
            problem.coef,
            instance.problem.element_bits,
            instance.problem.capacity_bits,
            words,
            penalty,
        )
        for m, (vectors, i) in enumerate(zip(problem.vectors, row, strict=True)):
            allowed = vectors.tiles[i]
            if allowed is not None and m + 1 < n_levels:
                penalty[m + 1] += instance.outside_of(allowed, lattice.value * self.inside[m + 1][:, None])
        self.exact = Tiles(lattice, words, penalty, problem.free, instance.relevant_mask)

    @cached_property
    def windows(self) -> Windows:
        """Which windows slide, and what their boundaries may save."""
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

    @cached_property
    def program(self) -> JointProgram:
        """The list of operations that `run` goes through."""
        return self.problem.program_of(self.spatial, self.windows.tensor >= 0, bool(self.windows.first[-1] > 0))

    def run(self, weight: FloatArray, restricted: FloatArray | None = None, live: IntArray | None = None) -> float:
        """Least weighted sum of energy and port cycles (``1 + J``) of any keep sets, tiling and order.

        Args:
            weight: Of each.
            restricted: ``L x 2**T`` added for the tensors each level keeps: infinite to forbid.
            live: ``S`` 0 where a state of `program` is left out.
        """
        program, tiles, windows = self.program, self.exact, self.windows
        penalty = tiles.penalty if restricted is None else tiles.penalty + restricted[..., None]
        price, fixed = np.empty(self.price.shape[1:]), np.empty(self.price.shape[1:])
        weigh(weight, self.price, self.fixed, price, fixed)
        n = tiles.lattice.n_tiles
        closings = room_for_closings(program, n)
        fill_charges(program, tiles.words, windows, price, fixed, closings)
        table = np.empty((len(program.level), n))
        if live is None:
            live = np.ones(len(program.level), np.int64)
        run_program(
            table, program, tiles.lattice.grid, tiles.free, tiles.relevant, windows, closings, penalty,
            np.empty((1, n)), live,
        )  # fmt: skip
        start, value = least_start(table, program.starts, price, fixed, self.fewest)
        self.filled = Filled(program, table, closings, penalty, start)
        return float(value) + float(weight[0]) * self.constant

    def trace(self) -> tuple[list[LevelLoops], KeepSets]:
        """The loops and keep sets of the least value of the last `run`."""
        return JointTrace(self.problem.instance, self.exact, self.spatial, self.windows, self.filled).walk()
