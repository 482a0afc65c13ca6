"""Uneven optima under the default rules against blind enumeration of every place of random small problems (P1 to P8)."""

import math

import numpy as np
import pytest

from codesign.core.goals import Budget, Objective, Proof
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import MappingProblem
from tests.oracle.exact_problems import PLAIN, random_problem
from tests.oracle.uneven_enumeration import enumerate_uneven

OBJECTIVES = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)

ATTEMPTS = 20
"""Problems drawn until one is small enough to enumerate."""

ONE_CYCLE = 1.0 + 1e-9
"""How far a gap may reach where the kernel rounds one cycle more than the exact sum (L2)."""


def check(problem: MappingProblem, most: int) -> bool:
    """Compare all three objectives; says whether some uneven mapping is better than every even one.

    Raises:
        OverflowError: There are too many mappings.
    """
    best, _ = enumerate_uneven(problem, most)
    better = False
    for objective, least in zip(OBJECTIVES, best, strict=True):
        found = ExactMapper(uneven=True).map(problem, objective, budget=Budget(), seed=0)
        if math.isinf(least):
            assert found.mapping is None and found.infeasible is not None
            continue
        assert found.cost is not None and found.gap is not None
        value, cycles = objective.of(found.cost), found.cost.latency_cycles
        assert value >= least * (1 - 1e-9)
        if found.proof is Proof.OPTIMAL:
            assert value == pytest.approx(least, rel=1e-9)
        else:
            assert 1 + found.gap <= cycles / (cycles - 1) * ONE_CYCLE
            assert value / (1 + found.gap) <= least * (1 + 1e-9)
        even = ExactMapper().map(problem, objective, budget=Budget(), seed=0)
        better |= even.cost is None or objective.of(even.cost) > value * (1 + 1e-9)
    return better


def drawn(seed: int, forms: tuple[str, ...], *, free: bool = False, most: int = 200_000) -> bool:
    """Draw problems until one can be enumerated, and compare it; a case that would compare nothing fails."""
    rng = np.random.default_rng(seed)
    for _ in range(ATTEMPTS):
        problem = random_problem(
            rng, forms, size=int(rng.choice([8, 12, 16, 24])), free_bypass=free, busy=bool(rng.integers(2))
        )
        try:
            return check(problem, most)
        except OverflowError:
            continue
    pytest.fail(f"none of {ATTEMPTS} problems has few enough mappings to enumerate")


@pytest.mark.parametrize("seed", range(40))
def test_fixed_keep_sets(seed: int) -> None:
    drawn(seed, PLAIN)


@pytest.mark.parametrize("seed", range(15))
def test_free_keep_sets(seed: int) -> None:
    drawn(100 + seed, PLAIN, free=True)


def test_some_optima_are_uneven() -> None:
    """Else the comparison would say little."""
    assert sum(drawn(200 + seed, ("gemm",)) for seed in range(30)) >= 3


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(300))
def test_many_more(seed: int) -> None:
    drawn(1000 + seed, PLAIN, free=seed % 3 == 0, most=2_000_000)
