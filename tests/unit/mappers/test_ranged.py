"""Ranges of factors and a least utilisation are held, and the best of all they allow is found."""

import math
from typing import Any

import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, StorageLevel
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Infeasible
from codesign.mappers.exact import ExactMapper
from codesign.mappers.protocol import Mapper, MapResult
from codesign.mappers.ranged import RangedMapper, _best, exact_choices
from codesign.mappers.registry import create
from codesign.mappers.wrapped import Tried
from codesign.mapping.axes import fit_axes
from codesign.mapping.constraints import Constraints, FactorRange, LevelConstraints, MappingProblem
from codesign.mapping.mapping import Spatial
from codesign.workloads.computation import Computation

PRODUCT = Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=8, n=6, k=12)


def machine() -> Architecture:
    levels = (
        StorageLevel("DRAM", energy=AccessEnergy(100, 100, 110), word_bits=8),
        StorageLevel("Buffer", capacity_bytes=96, word_bits=8, energy=AccessEnergy(3, 3.5, 3.6), fanout=Fanout(4, 2)),
        StorageLevel("Local", capacity_bytes=8, word_bits=8, energy=AccessEnergy(0.3, 0.4, 0.4)),
    )
    return Architecture("ranged", levels, Arithmetic(energy_pj=0.2))


def problem(*ranges: FactorRange, least: float = 0.0, imperfect: bool = False) -> MappingProblem:
    constraints = Constraints((LevelConstraints("Buffer", ranges=ranges),), min_utilization=least)
    return MappingProblem(PRODUCT, machine(), constraints, imperfect)


def across(found: MapResult, dim: str) -> int:
    assert found.mapping is not None
    return math.prod(x.factor for x in found.mapping.loops if isinstance(x, Spatial) and x.dim == dim)


@pytest.mark.parametrize(
    "mapper", [create("cosa", k=2), *(create(name) for name in ("exact", "anneal", "random", "genetic", "hybrid"))]
)
def test_every_mapper_holds_ranges(mapper: Mapper) -> None:
    posed = problem(FactorRange("k", 2, 3, spatial=True), FactorRange("n", 1, 1, spatial=True))
    found = RangedMapper(mapper).map(posed, Objective.EDP, budget=Budget(evaluations=2000), seed=0)
    assert across(found, "k") in (2, 3) and across(found, "n") == 1


def test_the_best_of_a_range_is_the_least_of_its_factors() -> None:
    found = RangedMapper(ExactMapper()).map(
        problem(FactorRange("k", 2, 4, spatial=True)), Objective.EDP, budget=Budget(), seed=0
    )
    assert found.cost is not None and found.proof is Proof.OPTIMAL
    values = []
    for factor in (2, 3, 4):
        fixed = Constraints((LevelConstraints("Buffer", spatial=(("k", factor),)),))
        one = ExactMapper().map(MappingProblem(PRODUCT, machine(), fixed), Objective.EDP, budget=Budget(), seed=0)
        values.append(one.cost.edp if one.cost is not None else math.inf)
    assert found.cost.edp == min(values)


def test_imperfect_factors_of_a_range_need_not_divide() -> None:
    posed = problem(FactorRange("m", 3, 3, spatial=True), imperfect=True)
    found = RangedMapper(create("anneal")).map(posed, Objective.EDP, budget=Budget(evaluations=600), seed=0)
    assert across(found, "m") == 3


@pytest.mark.parametrize("name", ["exact", "anneal", "random", "genetic", "hybrid"])
def test_a_least_utilisation_is_held(name: str) -> None:
    found = create(name).map(problem(least=1.0), Objective.ENERGY, budget=Budget(evaluations=3000), seed=0)
    assert found.mapping is not None and found.mapping.spatial_iterations == 8
    if name == "exact":
        assert found.proof in (Proof.OPTIMAL, Proof.GAP)


def test_impossible_ranges_say_so() -> None:
    with pytest.raises(UserError, match=r"no factor of 'n' \(6\) lies in the range 4..5"):
        exact_choices(problem(FactorRange("n", 4, 5)))
    with pytest.raises(UserError, match="1 <= least <= most"):
        FactorRange("n", 3, 2)
    with pytest.raises(UserError, match="'n' has a factor and a range"):
        LevelConstraints("Buffer", temporal=(("n", 2),), ranges=(FactorRange("n", 1, 2),))
    with pytest.raises(UserError, match="does not hold a least utilisation"):
        create("cosa").map(problem(least=0.5), Objective.EDP, budget=Budget(evaluations=10), seed=0)
    with pytest.raises(UserError, match="ranges of factors need"):
        ExactMapper().map(problem(FactorRange("n", 1, 2)), Objective.EDP, budget=Budget(), seed=0)


SEVENS = Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=7, n=7, k=7)


def square() -> Architecture:
    levels = (
        StorageLevel("DRAM", energy=AccessEnergy(60, 60, 60), word_bits=8),
        StorageLevel("Buffer", capacity_bytes=400, word_bits=8, energy=AccessEnergy(3, 3, 3), fanout=Fanout(4, 4)),
    )
    return Architecture("square", levels, Arithmetic(energy_pj=0.3))


@pytest.mark.parametrize("name", ["exact", "anneal"])
def test_annealing_draws_a_start_where_the_smallest_tiles_leave_units_idle(name: str) -> None:
    posed = MappingProblem(SEVENS, square(), Constraints(min_utilization=0.5), imperfect=True)
    found = create(name).map(posed, Objective.ENERGY, budget=Budget(evaluations=500), seed=0)
    assert found.mapping is not None and found.mapping.spatial_iterations >= 8


@pytest.mark.parametrize("imperfect", [False, True])
@pytest.mark.parametrize("name", ["exact", "random", "anneal"])
def test_fixed_factors_of_a_level_share_its_axes(name: str, imperfect: bool) -> None:
    computation = SEVENS if imperfect else Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=8, n=8, k=7)
    fixed = Constraints((LevelConstraints("Buffer", spatial=(("m", 4), ("n", 4))),))
    posed = MappingProblem(computation, square(), fixed, imperfect)
    found = create(name).map(posed, Objective.ENERGY, budget=Budget(evaluations=300), seed=0)
    assert across(found, "m") == across(found, "n") == 4


def test_imperfect_factors_that_no_axes_hold_together_are_refused() -> None:
    fixed = Constraints((LevelConstraints("Buffer", spatial=(("m", 4), ("n", 3), ("k", 2))),))
    with pytest.raises(UserError, match="4 of dimension 'm' and 3 of dimension 'n' and 2 of dimension 'k'"):
        create("random").map(
            MappingProblem(SEVENS, square(), fixed, True), Objective.EDP, budget=Budget(evaluations=9), seed=0
        )


def test_axes_are_shared_x_first() -> None:
    both = [0, 1]
    assert fit_axes((4, 4), [(2, both), (2, both)]) == [0, 0]
    assert fit_axes((2, 8), [(2, both), (4, both), (2, both)]) == [0, 1, 1]
    assert fit_axes((4, 4), [(3, both), (3, both), (2, both)]) is None


def test_an_open_range_across_a_fan_out_ends_at_its_children() -> None:
    posed = MappingProblem(
        Computation.parse("O[m] += I[m]", m=2000),
        machine(),
        Constraints((LevelConstraints("Buffer", ranges=(FactorRange("m", 2, spatial=True),)),)),
        True,
    )
    assert [dict(c.levels[0].spatial)["m"] for c in exact_choices(posed)] == [2, 3, 4, 5, 6, 7, 8]


def test_the_proof_holds_where_several_choices_are_refused() -> None:
    ranges = (FactorRange("m", 4, 8, spatial=True), FactorRange("k", 2, 12, spatial=True))
    posed = problem(*ranges)
    found = RangedMapper(RefusesMost()).map(posed, Objective.EDP, budget=Budget(), seed=0)
    assert found.cost is not None and found.proof is Proof.OPTIMAL


class RefusesMost:
    """The exact mapper, which refuses every choice but one."""

    name = "refuses"

    def map(self, posed: MappingProblem, objective: Objective, **options: Any) -> MapResult:
        if dict(posed.constraints.levels[0].spatial) != {"m": 4, "k": 2}:
            raise UserError("refused")
        return ExactMapper().map(posed, objective, **options)


def test_a_search_that_found_nothing_leaves_the_proof_open() -> None:
    found = RangedMapper(ExactMapper()).map(problem(), Objective.ENERGY, budget=Budget(), seed=0)
    assert found.proof is Proof.OPTIMAL
    reason = Infeasible("MAC units in use", 8, 0, "units", "nothing found")
    gave_up = MapResult(None, None, reason, 100, 0.1, seed=0)
    assert gave_up.proof is Proof.NONE
    assert _best(Tried(((0, found), (1, gave_up)), True, 0.0), Objective.ENERGY).proof is Proof.NONE
