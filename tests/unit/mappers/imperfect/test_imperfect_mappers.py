"""Mappers over imperfect factors: valid results, never worse than perfect ones, true bounds."""

import math
from itertools import permutations, product

import numpy as np
import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, StorageLevel
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import OBJECTIVES, Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.driver import Encoded
from codesign.mappers.imperfect.bound import fewest_steps, least_tiles, least_value
from codesign.mappers.registry import create
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.mapping.mapping import Spatial
from codesign.mapping.space import MapState, outermost_state
from codesign.workloads.computation import Computation

SEARCHES = ("anneal", "random", "genetic", "exact")
CONVOLUTION = Computation.parse("O[k,p] += I[p+r] * W[k,r]", k=3, p=5, r=3)
PRODUCT = Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=5, n=3, k=4)


def machine(capacity: float | None = 12.0) -> Architecture:
    """DRAM and a buffer over 2 x 2 PEs."""
    return Architecture(
        "small",
        (
            StorageLevel("DRAM", energy=AccessEnergy(100, 100, 110), word_bits=8, read_bandwidth_words_per_cycle=1.0),
            StorageLevel(
                "Buffer", capacity_bytes=capacity, word_bits=8, energy=AccessEnergy(3, 3.5, 3.6), fanout=Fanout(2, 2)
            ),
        ),
        Arithmetic(energy_pj=0.2),
    )


@pytest.mark.parametrize("name", SEARCHES)
def test_results_are_what_evaluate_says(name: str) -> None:
    for computation in (PRODUCT, CONVOLUTION):
        for objective in OBJECTIVES:
            problem = MappingProblem(computation, machine(), imperfect=True)
            found = create(name).map(problem, objective, budget=Budget(evaluations=600), seed=1)
            assert found.mapping is not None and found.cost is not None
            again = evaluate(computation, problem.architecture, found.mapping, imperfect=True)
            assert again == found.cost
            assert objective.of(found.cost) >= least_value(problem, objective) * (1 - 1e-9)
            repeated = create(name).map(problem, objective, budget=Budget(evaluations=600), seed=1)
            assert repeated.mapping == found.mapping


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("most", [1, 2, 5])
def test_no_more_mappings_are_scored_than_asked(name: str, most: int) -> None:
    problem = MappingProblem(PRODUCT, machine(), imperfect=True)
    found = create(name).map(problem, Objective.EDP, budget=Budget(evaluations=most), seed=0)
    assert 1 <= found.evaluated <= most


@pytest.mark.parametrize("name", ["anneal", "exact"])
def test_never_worse_than_perfect_factors(name: str) -> None:
    computation = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=16, n=31, k=31)
    problem = MappingProblem(computation, load_preset("gemmini"))
    for objective in OBJECTIVES:
        perfect = create(name).map(problem, objective, budget=Budget(), seed=0)
        imperfect = MappingProblem(computation, load_preset("gemmini"), imperfect=True)
        found = create(name).map(imperfect, objective, budget=Budget(), seed=0)
        assert perfect.cost is not None and found.cost is not None
        assert objective.of(found.cost) <= objective.of(perfect.cost)


def test_a_prime_no_longer_idles_the_array() -> None:
    computation = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=64, n=127, k=127)
    problem = MappingProblem(computation, load_preset("gemmini"), imperfect=True)
    found = create("exact").map(problem, Objective.LATENCY, budget=Budget(), seed=0)
    assert found.cost is not None
    assert found.cost.compute_cycles == 64 * 8 * 8
    assert found.proof in (Proof.OPTIMAL, Proof.GAP) and found.gap is not None and found.gap < 0.01
    assert "last pass" in found.cost.loop_nest


def every_value(problem: MappingProblem, objective: Objective) -> float:
    """The least value of the space, every factor, order and bypass tried."""
    encoded = Encoded.of(problem, Reuse.TIMELOOP)
    factors = encoded.space.factors
    bounds = problem.computation.bounds
    ranges = [range(1, min(int(most), bounds[d]) + 1) for most, (_, d) in zip(factors.most, factors.open, strict=True)]
    orders = [list(permutations(range(len(bounds)))) for _ in problem.architecture.levels]
    best = math.inf
    start = outermost_state(encoded.space)
    for chosen in product(*ranges):
        for order in product(*orders):
            state = MapState(np.array(chosen, np.int64), np.array(order, np.int64), start.keep.copy())
            best = min(best, encoded.value(state, objective))
    return best


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("capacity", [7.0, 14.0])
def test_the_bound_holds_and_annealing_finds_the_least_of_all(capacity: float, objective: Objective) -> None:
    for computation in (
        Computation.parse("O[m] += I[m,k] * W[k]", m=5, k=7),
        Computation.parse("O[p] += I[p+r] * W[r]", p=7, r=3),
        Computation.parse("O[p] += I[2*p+2*r] * W[r]", p=4, r=3),  # words between those used belong to tiles
    ):
        problem = MappingProblem(computation, machine(capacity), imperfect=True)
        least = every_value(problem, objective)
        assert least_value(problem, objective) <= least * (1 + 1e-9)
        found = create("exact").map(problem, objective, budget=Budget(), seed=0)
        assert found.cost is not None
        assert objective.of(found.cost) == pytest.approx(least, rel=1e-9)
        assert found.proof is not Proof.OPTIMAL or found.gap == 0.0


def test_constraints_are_obeyed() -> None:
    rules = LevelConstraints("Buffer", spatial=(("m", 2),), temporal=(("k", 2),))
    problem = MappingProblem(PRODUCT, machine(), Constraints((rules,)), imperfect=True)
    for name in SEARCHES:
        found = create(name).map(problem, Objective.EDP, budget=Budget(evaluations=500), seed=0)
        assert found.mapping is not None
        across = [x for x in found.mapping.loops if isinstance(x, Spatial)]
        assert math.prod(x.factor for x in across if x.dim == "m") == 2


def test_a_mapping_is_a_state_and_back() -> None:
    problem = MappingProblem(PRODUCT, machine(), imperfect=True)
    found = create("anneal").map(problem, Objective.EDP, budget=Budget(evaluations=900), seed=2)
    assert found.mapping is not None and found.cost is not None
    encoded = Encoded.of(problem, Reuse.TIMELOOP)
    assert encoded.value(encoded.state_of(found.mapping), Objective.EDP) == found.cost.edp


def test_what_never_fits_has_its_reason() -> None:
    for name in SEARCHES:
        problem = MappingProblem(PRODUCT, machine(2.0), imperfect=True)
        found = create(name).map(problem, Objective.EDP, budget=Budget(evaluations=50), seed=0)
        assert found.mapping is None and found.infeasible is not None
        assert found.infeasible.demand > found.infeasible.limit


def test_few_tiles_matter() -> None:
    for bound in (1, 7, 127, 224, 1500):
        tiles = least_tiles(bound)
        assert len(tiles) <= 2 * math.isqrt(bound) + 1
        for size in range(1, bound + 1):
            assert any(tile <= size and steps <= -(-bound // size) for steps, tile in tiles)


def test_fewest_steps() -> None:
    smaller = PRODUCT.with_bounds(k=3)
    assert fewest_steps(smaller, 4) == 15  # 45 MACs on 4 units are 12 steps, but no split of 5 x 3 x 3 has them
    assert fewest_steps(PRODUCT, 60) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cosa", "searches perfect factors only"),
        ("loma", "perfect factors"),
        ("hybrid", "perfect"),
        ("salsa", "perfect"),
    ],
)
def test_other_mappers_refuse(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        create(name).map(
            MappingProblem(PRODUCT, machine(), imperfect=True), Objective.EDP, budget=Budget(evaluations=10), seed=0
        )


def test_mappings_that_cover_too_little_or_idle_are_malformed() -> None:
    from codesign.mapping.mapping import LevelMapping, Mapping

    computation = Computation.parse("O[m] += I[m] * W[]", m=5)

    def nest(outer: int, inner: int) -> Mapping:
        keep = ("I", "W", "O")
        return Mapping.from_levels(
            (LevelMapping("DRAM", keep, (("m", outer),)), LevelMapping("Buffer", keep, (("m", inner),)))
        )

    assert isinstance(evaluate(computation, machine(), nest(3, 2), imperfect=True), Cost)
    with pytest.raises(UserError, match="must multiply to its bound 5, got 6"):
        evaluate(computation, machine(), nest(3, 2))
    with pytest.raises(UserError, match="bound 5 or more, got 4"):
        evaluate(computation, machine(), nest(2, 2), imperfect=True)
    with pytest.raises(UserError, match=r"must have ceil\(5 / 2\) = 3 iterations, got 4"):
        evaluate(computation, machine(), nest(4, 2), imperfect=True)
