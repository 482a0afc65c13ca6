"""Uneven optima under the default rules against blind enumeration of every place of random small problems (P1 to P8)."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, LevelKind, StorageLevel
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.columns import FILLS
from codesign.cost.kernel import score
from codesign.cost.packed import make_kernel
from codesign.mappers.exact import ExactMapper
from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mappers.exact.even.word_prices import fewest_words
from codesign.mappers.exact.problem.instance import make_instance
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import Nest
from codesign.workloads.computation import Computation
from experiments.attacks.problems import PLAIN, random_problem
from experiments.attacks.uneven_places import enumerate_uneven
from tests.seeds import seeds

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


@pytest.mark.parametrize("seed", seeds(40))
def test_fixed_keep_sets(seed: int) -> None:
    drawn(seed, PLAIN)


@pytest.mark.parametrize("seed", seeds(15))
def test_free_keep_sets(seed: int) -> None:
    drawn(100 + seed, PLAIN, free=True)


WINDOWS = ("conv1d", "conv1d_strided", "conv1d_dilated", "depthwise")


@pytest.mark.parametrize("seed", seeds(30))
def test_sliding_windows(seed: int) -> None:
    drawn(300 + seed, WINDOWS, free=seed % 4 == 0)


def test_loops_that_follow_each_other_over_one_dimension_may_stay_two() -> None:
    """As one loop they would move the window another way at a wrap (R4), and save less."""
    rng = np.random.default_rng(527)
    assert check(random_problem(rng, WINDOWS, size=int(rng.choice([8, 12, 16, 24])), busy=True), 2_000_000)


def _sequences(left: dict[str, int]) -> Iterator[tuple[tuple[str, int], ...]]:
    if all(n == 1 for n in left.values()):
        yield ()
    for d, n in left.items():
        for f in range(2, n + 1):
            if n % f == 0:
                for rest in _sequences(left | {d: n // f}):
                    yield ((d, f), *rest)


@pytest.mark.parametrize("seed", seeds(20))
def test_no_sequence_of_loops_moves_fewer_words_than_b1(seed: int) -> None:
    """P13: one axis, a node under every list of loops, counted by the kernel."""
    rng = np.random.default_rng(seed)
    stride, dilation = ((1, 1), (2, 1), (1, 2), (3, 1))[seed % 4]
    bounds = {"k": int(rng.choice([1, 2, 4])), "p": int(rng.choice([2, 4, 6, 8])), "r": int(rng.choice([2, 3, 4]))}
    computation = Computation.parse(f"O[k,p] += I[{stride}*p+{dilation}*r] * W[k,r]", bounds)
    levels = tuple(
        StorageLevel(
            name=name,
            kind=LevelKind.SRAM,
            word_bits=8,
            energy=AccessEnergy(1.0, 1.0, 1.0),
            keep=frozenset(["I", "W", "O"]),
        )
        for name in ("L0", "L1")
    )
    problem = encode_problem(computation, Architecture("two", levels, Arithmetic(energy_pj=1.0)))
    kernel = make_kernel(problem, 16)
    instance = make_instance(
        MappingProblem(computation, Architecture("two", levels, Arithmetic(energy_pj=1.0))), Reuse.TIMELOOP
    )
    arrays = EvenProblem(instance, instance.decisions).arrays
    fewest, counted = fewest_words(0, arrays.bounds, arrays), 0
    for loops in _sequences(bounds):
        rows = np.array([(computation.dims.index(d), f, 0, -1) for d, f in loops], np.int64).reshape(-1, 4)
        for place in range(len(loops) + 1):
            position = np.zeros((2, 3), np.int64)
            position[1] = place
            score(kernel, Nest(rows, position), len(rows))
            assert kernel.counts[1, 0, FILLS] >= fewest
            counted += 1
    assert counted > 1


def test_some_optima_are_uneven() -> None:
    """Else the comparison would say little."""
    assert sum(drawn(200 + seed, ("gemm",)) for seed in range(30)) >= 3


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(300))
def test_many_more(seed: int) -> None:
    drawn(1000 + seed, (PLAIN, WINDOWS, ("conv2d", *WINDOWS))[seed % 3], free=seed % 5 == 0, most=2_000_000)
