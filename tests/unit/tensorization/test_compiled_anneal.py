from dataclasses import replace

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible
from codesign.tensorization.choice import TensorizeChoice
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.program_cost import ProgramCost, program_cost
from codesign.tensorization.search import HeuristicPrograms
from codesign.workloads.computation import Computation
from experiments.models.tensor_annealing import CoreCost, Layer, cost_on_core, quick_program
from spaces.cores import CONV_CORE, GEMM_CORE, core_of
from spaces.software import SoftwareSpace

CORE = core_of(GEMM_CORE, GEMM_CORE.space.presets[0])
CONVOLUTION = Computation.parse(
    "C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", k=32, x=14, y=14, c=24, r=3, s=3, partial_bits=32
)


@pytest.fixture(scope="module")
def problem() -> SoftwareProblem:
    return SoftwareProblem.of(CONVOLUTION, CORE)


def test_the_figures_are_those_of_the_candidate(problem: SoftwareProblem) -> None:
    found = quick_program(problem, evaluations=300, seed=1)
    assert found is not None
    cost = program_cost(SoftwareSpace(problem).program(found.candidate))
    assert isinstance(cost, ProgramCost)
    assert found.latency_cycles == pytest.approx(cost.latency_cycles, rel=1e-12)
    assert found.energy_pj == pytest.approx(cost.energy_pj, rel=1e-9)
    again = quick_program(problem, evaluations=300, seed=1)
    assert again is not None and np.array_equal(again.candidate, found.candidate)
    assert found.scored <= 300


def test_it_is_about_as_good_as_the_heuristic(problem: SoftwareProblem) -> None:
    quick = [quick_program(problem, evaluations=400, seed=s) for s in range(5)]
    slow = [HeuristicPrograms().search(problem, evaluations=400, seed=s).latency_cycles for s in range(5)]
    assert np.mean([q.latency_cycles for q in quick if q is not None]) < 1.05 * np.mean(slow)


def test_sizes_only_keeps_loop_order_and_fusion(problem: SoftwareProblem) -> None:
    found = quick_program(problem, evaluations=300, seed=0, sizes_only=True)
    assert found is not None
    orders = found.candidate[2 + 6 :].reshape(2, 6)
    assert orders.tolist() == [list(range(6))] * 2
    assert found.candidate[1] == 1


def test_layers_add_up_and_leakage_counts() -> None:
    gemm = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=64, j=64, k=64, partial_bits=32)
    one = cost_on_core([Layer(gemm)], CORE, evaluations=200, seed=0)
    both = cost_on_core([Layer(gemm, 3), Layer(CONVOLUTION)], CORE, evaluations=200, seed=0)
    assert isinstance(one, CoreCost) and isinstance(both, CoreCost)
    assert both.total_cycles == 3 * one.total_cycles + both.latency_cycles[1]
    leakage = CORE.architecture.leakage_w * both.latency_s
    assert both.energy_j == pytest.approx((3 * both.energy_pj[0] + both.energy_pj[1]) * 1e-12 + leakage)
    assert both.power_w == pytest.approx(both.energy_j * CORE.architecture.clock_hz / both.total_cycles)
    assert both.area_mm2 == CORE.architecture.area_mm2


def test_a_template_fixes_the_choice() -> None:
    def last(choices: tuple[TensorizeChoice, ...]) -> TensorizeChoice:
        return choices[-1]

    fixed = cost_on_core([Layer(CONVOLUTION)], CORE, evaluations=300, seed=0, template=last)
    free = cost_on_core([Layer(CONVOLUTION)], CORE, evaluations=300, seed=0)
    assert isinstance(fixed, CoreCost) and isinstance(free, CoreCost)
    assert fixed.total_cycles > free.total_cycles


def test_a_scratchpad_that_holds_no_call_is_infeasible() -> None:
    tiny = replace(CORE, architecture=CORE.architecture.with_level("Scratchpad", capacity_bytes=64.0))
    found = cost_on_core([Layer(CONVOLUTION)], tiny, evaluations=20, seed=0)
    assert isinstance(found, Infeasible)
    assert found.demand > found.limit == 64.0


def test_mistakes_are_refused(problem: SoftwareProblem) -> None:
    with pytest.raises(UserError, match="`evaluations` must be >= 1, got 0"):
        quick_program(problem, evaluations=0, seed=0)
    with pytest.raises(UserError, match="`count` must be >= 1, got 0"):
        Layer(CONVOLUTION, 0)


def test_taps_of_a_convolution_core_follow_the_point() -> None:
    point = dict(CONV_CORE.space.presets[0])
    builder = CONV_CORE.builder
    assert builder.core(point).intrinsic.computation.sizes["r"] == 3  # type: ignore[attr-defined]
    assert builder.core({**point, "taps": 1}).intrinsic.computation.sizes["r"] == 1  # type: ignore[attr-defined]
    assert builder.core({**point, "pixels": 8}).intrinsic.computation.sizes["x"] == 8  # type: ignore[attr-defined]
