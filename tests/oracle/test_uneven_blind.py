"""The exact uneven mapper beside blind enumeration of all nests (U1-U14), and its counts beside a literal walk of them."""

import itertools
import math
import random

import pytest

from codesign.mappers.uneven.search import solve
from codesign.mapping.looptree import Factors, Goal, Machine, Memory
from experiments.attacks.uneven_nests import (
    Store,
    blind,
    charges,
    literal,
    nests,
    problem,
    splits,
)

LARGE = pytest.param(4, marks=pytest.mark.slow("oracle"))
"""63,780 nests, eleven CPU seconds; the other seeds have at most 5,880."""


@pytest.mark.parametrize("seed", [0, 1, 2, 3, LARGE, *range(5, 11)])
@pytest.mark.thinned(3)
def test_optimum_is_that_of_all_nests(seed: int) -> None:
    operator, machine, goal = problem(seed, imperfect=False)
    found = solve(operator, machine, goal)
    assert found.value == pytest.approx(blind(operator, machine, goal, False), rel=1e-9)
    assert found.proven or math.isinf(found.value)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.thinned(2)
def test_optimum_with_imperfect_outermost_loops_is_that_of_all_nests(seed: int) -> None:
    operator, machine, goal = problem(1000 + seed, imperfect=True)
    found = solve(operator, machine, goal, Factors(True, True))
    assert found.value == pytest.approx(blind(operator, machine, goal, True), rel=1e-9)
    assert found.proven or math.isinf(found.value)


def test_energies_beyond_the_seconds_do_not_hide_a_port() -> None:
    """Energy is no time: the port that decides must be watched, whatever the units. Values of all nests."""
    operator, machine, _ = problem(89, imperfect=False)
    found = solve(operator, machine, Goal.EDP)
    assert found.proven and found.value == pytest.approx(249.18907316398327, rel=1e-12)
    limited = solve(operator, machine, Goal.ENERGY, slowest=1.6 * (1 + 1e-9))
    assert limited.value == pytest.approx(155.74317072748954, rel=1e-12)


@pytest.mark.parametrize("seed", [0, 9])
def test_least_energy_within_a_latency_is_that_of_all_nests(seed: int) -> None:
    operator, machine, _ = problem(seed, imperfect=False)
    every = {
        found
        for keeps in machine.keeps
        for split in splits(operator, machine, False)
        for nest in nests(operator, machine, keeps, [x for loops in split.values() for x in loops])
        if (found := charges(operator, machine, nest)) is not None
    }
    limits = sorted({seconds for _, seconds in every})
    for limit in limits[:: max(1, len(limits) // 8)]:
        within = [(energy, seconds) for energy, seconds in every if seconds <= limit * (1 + 1e-9)]
        least = min(Goal.ENERGY.of(energy, seconds, machine.leak_w) for energy, seconds in within)
        best = solve(operator, machine, Goal.ENERGY, slowest=limit * (1 + 1e-9))
        assert best.value == pytest.approx(least, rel=1e-9), limit


def test_a_remainder_in_space_outside_all_loops_in_time_is_not_lost() -> None:
    operator, machine, goal = problem(872415, imperfect=True)
    found = solve(operator, machine, goal, Factors(True, True))
    assert found.proven and found.value == pytest.approx(1018.5912693571917, rel=1e-12)  # of all nests


def test_an_imperfect_loop_stands_outside_the_fan_out_above_the_outermost_buffer() -> None:
    operator, machine, goal = problem(1014, imperfect=True)
    found = solve(operator, machine, goal, Factors(True, True))
    assert found.value == pytest.approx(735.0097310196635, rel=1e-12)  # of all nests: the case 14 below


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(10, 60))
@pytest.mark.parametrize("imperfect", [False, True])
def test_optimum_is_that_of_all_nests_on_many(seed: int, imperfect: bool) -> None:
    operator, machine, goal = problem(seed + 1000 * imperfect, imperfect)
    found = solve(operator, machine, goal, Factors(imperfect, imperfect))
    assert found.value == pytest.approx(blind(operator, machine, goal, imperfect), rel=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_charges_are_those_of_a_literal_walk(seed: int) -> None:
    """Reads and writes of random nests (perfect factors, no line buffer) word by word."""
    rng = random.Random(seed)
    operator, machine, _ = problem(seed, imperfect=False)
    keeps = machine.keeps[0]
    every = [
        nest
        for split in itertools.islice(splits(operator, machine, False), 6)
        for nest in itertools.islice(
            nests(operator, machine, keeps, [x for loops in split.values() for x in loops]), 40
        )
        if all(x.hold == 0 for x in nest if isinstance(x, Store))
    ]
    roomy = Machine(
        tuple(Memory(m.name, math.inf, m.read, m.write) for m in machine.memories),
        machine.fanouts,
        0.0,
        0.0,
        0.0,
        machine.keeps,
    )
    for nest in rng.sample(every, min(12, len(every))):
        walked = literal(operator, roomy, nest)
        energy = sum(
            walked[m, "read"] * memory.read + walked[m, "write"] * memory.write
            for m, memory in enumerate(roomy.memories)
        )
        found = charges(operator, roomy, nest)
        assert found is not None
        assert found[0] == pytest.approx(energy, rel=1e-9)
