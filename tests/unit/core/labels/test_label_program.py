"""Starts and ends of labels, limits of sweeps, and steps on the lattice."""

import math

import numpy as np
import pytest

from codesign.core.factors import divisors
from codesign.core.labels.program import STEPS, LabelProgram, Link, lattice_graph, prime_steps, sweep_limit
from codesign.core.labels.sweep import MODES, Limits, Stage
from codesign.mappers.exact.problem.lattice import grown, make_lattice, offer_window_loop


def one_stage() -> LabelProgram:
    """A node of one tensor on the divisors of 6: it costs 10 inside all loops and 1 outside them; two states."""
    cells = len(divisors(6))
    charge = np.linspace(10.0, 1.0, cells).reshape(1, cells, 1)
    step = np.array([[0, 1, -1, 0]])
    stage = Stage(
        np.ones((2, 1), np.bool_), step, step, np.zeros((1, cells)), charge, np.zeros((cells, 2)), 1.0
    )  # fmt: skip
    graph = lattice_graph((prime_steps(divisors(6)),))
    return LabelProgram(graph, [stage], [Link(np.ones(cells, np.bool_), np.array([-1, 0]))], 1)


def test_labels_begin_at_the_macs_in_the_order_of_their_states() -> None:
    begin, order = one_stage().begin(np.array([1, 0]), np.array([[5.0], [7.0]]))
    assert list(order) == [1, 0]
    assert list(begin.offsets[:3]) == [0, 1, 2] and begin.offsets[-1] == 2
    assert begin.rows.tolist() == [[0.0, 7.0], [0.0, 5.0]]


def test_complete_labels_are_those_of_the_whole_in_a_state_that_may_end() -> None:
    program = one_stage()
    begin, _ = program.begin(np.zeros(1, np.int64), np.array([[3.0]]))
    limits = Limits(1, 0.0, 0.0, math.inf, MODES["energy"], 0.0, 100.0)
    numbers, rows = program.complete(program.run(begin, limits))
    assert rows[:, 0].min() == pytest.approx(3.0 + 1.0)
    moves, first = program.trace(program.run(begin, limits), int(numbers[np.argmin(rows[:, 0])]))
    assert first == 0 and moves[0].transition is not None  # the node stands outside both loops
    none, empty = program.complete([])
    assert not len(none) and empty.shape == (0, 1)


@pytest.mark.parametrize("tried", range(len(STEPS) + 1))
def test_sweeps_look_further_each_time_and_at_last_at_everything(tried: int) -> None:
    limit = sweep_limit(10.0, tried, 1e6)
    assert limit == (10.0 * (1.0 + STEPS[tried]) if tried < len(STEPS) else 1e6)
    assert sweep_limit(10.0, tried, 10.1) == 10.1
    assert sweep_limit(0.0, tried, 7.0) == 7.0


def test_a_first_loop_pays_what_its_steps_do_not_share() -> None:
    lattice = make_lattice((12, 4))
    grid, n = lattice.grid, lattice.n_tiles
    random = np.random.default_rng(0)
    source, whole, shared = random.random(n), 1.0 + random.random(n), random.random(n)
    for d, sizes in enumerate(lattice.divisors):
        for j, factor in enumerate(sizes):
            found = np.full(n, np.inf)
            offer_window_loop(found, source, whole, shared, d, j, grid)
            for tile in range(n):
                larger = grown(tile, d, j, grid)
                steps = source[larger] + whole[tile] - shared[tile] * (factor - 1) / factor
                assert found[tile] == (pytest.approx(steps) if larger >= 0 else np.inf)


def test_a_tile_grows_where_the_factor_divides() -> None:
    lattice = make_lattice((12, 6))
    for tile in range(lattice.n_tiles):
        for d, sizes in enumerate(lattice.divisors):
            for j, factor in enumerate(sizes):
                larger = grown(tile, d, j, lattice.grid)
                fits = lattice.bounds[d] % (lattice.value[d, tile] * factor) == 0
                assert (larger >= 0) == fits
                assert larger < 0 or lattice.value[d, larger] == lattice.value[d, tile] * factor
