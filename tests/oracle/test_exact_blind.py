"""The exact mapper's optima against blind enumeration of every mapping of random small problems."""

import math
from typing import Any

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.mappers.exact import ExactMapper, pareto
from codesign.mapping.constraints import MappingProblem
from experiments.attacks.even_mappings import enumerate_all, least_energy_within
from experiments.attacks.problems import PLAIN, WINDOWS, random_problem
from tests.seeds import seeds

OBJECTIVES = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)


def check(problem: MappingProblem, reuse: Reuse) -> int:
    """Compare all three objectives; returns how many valid mappings the enumeration found.

    Raises:
        OverflowError: There are too many mappings to enumerate: nothing was compared.
    """
    best, valid = enumerate_all(problem, reuse, 30_000)
    for objective, least in zip(OBJECTIVES, best, strict=True):
        try:
            result = ExactMapper().map(problem, objective, budget=Budget(), seed=0, reuse=reuse)
        except UserError:  # the constraints contradict each other
            assert valid == 0
            return 0
        assert result.proof is Proof.OPTIMAL
        if math.isinf(least):
            assert result.mapping is None
            assert result.infeasible is not None
            continue
        assert result.cost is not None
        assert objective.of(result.cost) == pytest.approx(least, rel=1e-9)
    return valid


ATTEMPTS = 20
"""Problems drawn until one is small enough to enumerate."""


def check_drawn(rng: np.random.Generator, reuse: Reuse, forms: tuple[str, ...] = PLAIN + WINDOWS, **how: Any) -> None:
    """Draw problems until one can be enumerated, and compare it; a case that would compare nothing fails."""
    for _ in range(ATTEMPTS):
        try:
            check(random_problem(rng, forms, **how), reuse)
        except OverflowError:
            continue
        return
    pytest.fail(f"none of {ATTEMPTS} problems has few enough mappings to enumerate")


@pytest.mark.parametrize("seed", seeds(25))
def test_without_windows(seed: int) -> None:
    check_drawn(np.random.default_rng(seed), Reuse.TIMELOOP, PLAIN)


@pytest.mark.parametrize("seed", seeds(40))
def test_sliding_windows(seed: int) -> None:
    check_drawn(np.random.default_rng(1000 + seed), Reuse.TIMELOOP, WINDOWS)


@pytest.mark.parametrize("seed", seeds(15))
def test_sliding_windows_walked_truly(seed: int) -> None:
    check_drawn(np.random.default_rng(2000 + seed), Reuse.WALK, WINDOWS)


@pytest.mark.parametrize("seed", seeds(10))
def test_resident_reuse(seed: int) -> None:
    check_drawn(np.random.default_rng(3000 + seed), Reuse.RESIDENT, WINDOWS, size=20)


@pytest.mark.parametrize("seed", seeds(25))
def test_constraints(seed: int) -> None:
    check_drawn(np.random.default_rng(4000 + seed), Reuse.TIMELOOP, constrained=True)


@pytest.mark.parametrize("seed", seeds(12))
def test_free_bypass(seed: int) -> None:
    check_drawn(np.random.default_rng(5000 + seed), Reuse.TIMELOOP, free_bypass=True, size=16)


@pytest.mark.parametrize("seed", seeds(12))
def test_dimensions_that_count_as_one(seed: int) -> None:
    rng = np.random.default_rng(9000 + seed)
    check_drawn(rng, Reuse.TIMELOOP, ("pointwise", "mttkrp", "batched"), constrained=seed % 4 == 3)


@pytest.mark.parametrize("seed", seeds(24))
def test_all_keep_sets_at_once(seed: int) -> None:
    rng = np.random.default_rng(11_000 + seed)
    forms = (PLAIN, WINDOWS, (*WINDOWS, "pointwise"))[seed % 3]
    reuse = Reuse.WALK if seed % 4 == 3 else Reuse.TIMELOOP
    check_drawn(rng, reuse, forms, free_bypass=True, size=16, constrained=seed % 6 == 5)


@pytest.mark.parametrize("seed", seeds(24))
@pytest.mark.thinned(3)
def test_all_keep_sets_behind_windows_and_limited_ports(seed: int) -> None:
    """Every level's ports are limited, so that energy-delay product weighs energy against the cycles of each."""
    rng = np.random.default_rng(15_000 + seed)
    reuse = Reuse.WALK if seed % 4 == 3 else Reuse.TIMELOOP
    check_drawn(rng, reuse, WINDOWS, free_bypass=True, size=(10, 16)[seed % 2], levels=3 + seed % 2, busy=True)


@pytest.mark.parametrize("seed", seeds(8))
def test_all_keep_sets_of_five_levels_at_once(seed: int) -> None:
    rng = np.random.default_rng(12_000 + seed)
    check_drawn(rng, Reuse.TIMELOOP, WINDOWS if seed % 2 else PLAIN, free_bypass=True, size=8, levels=5)


@pytest.mark.parametrize("seed", seeds(16))
def test_one_keep_set_by_single_profiles(seed: int) -> None:
    check_drawn(np.random.default_rng(13_000 + seed), Reuse.TIMELOOP, WINDOWS)


@pytest.mark.parametrize("seed", seeds(6))
def test_one_dimension_on_two_axes(seed: int) -> None:
    check_drawn(np.random.default_rng(6000 + seed), Reuse.TIMELOOP, ("diagonal",), size=12)


@pytest.mark.parametrize("seed", [2, 3, 4, 7, 11, 13, 15, 19, 23, 24, 26, 27, 29, 31, 33, 34, 35, 37, 39])
@pytest.mark.thinned(3)
def test_five_levels(seed: int) -> None:
    rng = np.random.default_rng(8000 + seed)
    forms = PLAIN if seed % 2 else WINDOWS
    problem = random_problem(rng, forms, free_bypass=seed % 4 == 3, size=8, levels=5)
    assert check(problem, Reuse.TIMELOOP) > 0


@pytest.mark.parametrize("seed", [0, 3, 5, 8, 11, 14])
def test_pareto_set(seed: int) -> None:
    problem = random_problem(np.random.default_rng(7000 + seed))
    _, valid = enumerate_all(problem, Reuse.TIMELOOP, 30_000)
    points = pareto(problem, budget=Budget())
    if valid == 0:
        assert points[0].mapping is None
        return
    costs = [p.cost for p in points if p.cost is not None]
    assert all(p.proof is Proof.OPTIMAL for p in points)
    energies = [c.energy_pj for c in costs]
    cycles = [float(c.latency_cycles) for c in costs]
    assert energies == sorted(energies)
    assert cycles == sorted(cycles, reverse=True)
    # at each point, and one cycle quicker than each: nothing is missing between two neighbours
    assert energies == pytest.approx(least_energy_within(problem, Reuse.TIMELOOP, cycles), rel=1e-9)
    quicker = least_energy_within(problem, Reuse.TIMELOOP, [c - 1.0 for c in cycles])
    assert quicker == pytest.approx([*energies[1:], math.inf], rel=1e-9)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(300))
def test_many_more(seed: int) -> None:
    rng = np.random.default_rng(10_000 + seed)
    reuse = (Reuse.TIMELOOP, Reuse.TIMELOOP, Reuse.WALK)[seed % 3]
    check_drawn(rng, reuse, WINDOWS if seed % 2 else PLAIN, constrained=seed % 5 == 0, size=60)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(150))
def test_many_more_keep_sets_at_once(seed: int) -> None:
    rng = np.random.default_rng(14_000 + seed)
    reuse = (Reuse.TIMELOOP, Reuse.TIMELOOP, Reuse.WALK)[seed % 3]
    check_drawn(
        rng,
        reuse,
        WINDOWS if seed % 2 else PLAIN,
        free_bypass=seed % 3 > 0,
        constrained=seed % 5 == 0,
        size=(18, 12, 8)[seed % 3],
        levels=(None, 4, 5)[seed % 3],
    )
