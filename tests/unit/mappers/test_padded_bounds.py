"""Padded bounds are tried, named, counted as work, and never make a result worse."""

import pytest

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import OBJECTIVES, Budget, Objective, Proof
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.padded_bounds import PaddingMapper, padded_computations
from codesign.mappers.registry import create
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.workloads.computation import Computation


def gemm(m: int, n: int, k: int) -> Computation:
    return Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=m, n=n, k=k)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("bounds", [(31, 61, 97), (16, 16, 16), (1, 13, 1)])
def test_never_worse_and_evaluated_alike(objective: Objective, bounds: tuple[int, int, int]) -> None:
    problem = MappingProblem(gemm(*bounds), load_preset("gemmini"))
    plain = create("exact").map(problem, objective, budget=Budget(), seed=0)
    result = PaddingMapper(create("exact")).map(problem, objective, budget=Budget(), seed=0)
    assert plain.cost is not None and result.cost is not None
    assert result.mapping is not None and result.padding is not None
    assert objective.of(result.cost) <= objective.of(plain.cost) * (1.0 + 1e-12)
    assert result.proof is Proof.NONE
    assert result.padding.best_of_tried
    padded = problem.computation.with_bounds(**{dim: size for dim, _, size in result.padding.changed})
    assert result.padding.waste == pytest.approx(padded.macs / problem.computation.macs - 1.0)
    again = evaluate(padded, problem.architecture, result.mapping)
    assert isinstance(again, Cost)
    assert (again.energy_pj, again.latency_cycles) == (result.cost.energy_pj, result.cost.latency_cycles)


def test_padding_a_prime_bound_wins() -> None:
    problem = MappingProblem(gemm(64, 127, 127), load_preset("gemmini"))
    plain = create("exact").map(problem, Objective.EDP, budget=Budget(), seed=0)
    result = PaddingMapper(create("exact")).map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert plain.cost is not None and result.cost is not None and result.padding is not None
    assert plain.cost.compute_cycles == 127 * 127  # a prime does not split over 16 x 16: only m is spatial
    assert result.cost.compute_cycles == 64 * 128 * 128 // 256  # all elements busy
    assert result.cost.edp < plain.cost.edp / 7.0
    assert result.padding.changed == (("n", 127, 128), ("k", 127, 128))


def test_annealing_shares_its_budget() -> None:
    problem = MappingProblem(gemm(31, 61, 97), load_preset("gemmini"))
    result = PaddingMapper(create("anneal")).map(problem, Objective.EDP, budget=Budget(evaluations=4000), seed=3)
    assert result.cost is not None and result.padding is not None
    assert result.evaluated <= 4000
    assert result.padding.tried == len(padded_computations(problem.computation, 24, 0.3))
    assert not result.padding.best_of_tried


def test_constraints_that_only_a_padded_bound_obeys() -> None:
    fixed = Constraints((LevelConstraints("Accumulator", spatial=(("n", 16),)),))
    result = PaddingMapper(create("exact")).map(
        MappingProblem(gemm(8, 15, 8), load_preset("gemmini"), fixed), Objective.EDP, budget=Budget(), seed=0
    )
    assert result.padding is not None
    assert result.padding.changed == (("n", 15, 16),)
    impossible = Constraints((LevelConstraints("Accumulator", spatial=(("n", 13),)),))
    with pytest.raises(UserError, match="13"):
        PaddingMapper(create("exact")).map(
            MappingProblem(gemm(8, 15, 8), load_preset("gemmini"), impossible), Objective.EDP, budget=Budget(), seed=0
        )


def test_infeasible_stays_a_result() -> None:
    preset = load_preset("gemmini")
    computation = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=7, n=7, k=7, bits=1 << 24)
    result = PaddingMapper(create("exact")).map(
        MappingProblem(computation, preset), Objective.EDP, budget=Budget(), seed=0
    )
    assert result.mapping is None
    assert result.infeasible is not None
    assert result.padding is not None and result.padding.changed == ()


@pytest.mark.parametrize("options", [{"paddings": 0}, {"waste": -0.5}])
def test_bad_options_are_named(options: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"`{next(iter(options))}` must be >="):
        PaddingMapper(create("exact"), **options)  # type: ignore[arg-type]


def test_padded_computations_are_in_order_of_work() -> None:
    given = gemm(31, 61, 97)
    found = padded_computations(given, 24, 0.3)
    work = [c.macs for c in found]
    assert found[0] == given
    assert work == sorted(work)
    assert len(set(found)) == len(found) <= 24
    assert work[-1] <= 1.3 * given.macs
    assert padded_computations(given, 1, 0.3) == (given,)
