"""Formulas Q1-Q9 of `codesign.tensorization.program_cost`: its worked example by hand, and what each of them is there for."""

from dataclasses import replace

import pytest

from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.execute import random_inputs
from codesign.tensorization.intrinsic_core import Core, Dma, Overheads
from codesign.tensorization.program import generate_program
from codesign.tensorization.program_cost import CallProgram, ProgramCost, pipeline_cycles, program_cost
from codesign.tensorization.schedule import Schedule
from codesign.tensorization.scratchpad import Scratchpad
from codesign.tensorization.simulator import simulate
from codesign.workloads.computation import Computation
from spaces.cores import CONV_CORE, GEMM_CORE, core_of
from spaces.primitives import Fuse, Primitive, Reorder, Split, Tensorize, to_program

POINT = {**GEMM_CORE.space.presets[0], "dataflow": "output-stationary", "banks": 8}


def gemm_problem(core: Core | None = None, i: int = 40, j: int = 32, k: int = 32) -> SoftwareProblem:
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=i, j=j, k=k, partial_bits=32)
    return SoftwareProblem.of(computation, core or core_of(GEMM_CORE, POINT))


def cost_of(problem: SoftwareProblem, *sequence: Primitive) -> ProgramCost:
    cost = program_cost(to_program(problem, sequence))
    assert isinstance(cost, ProgramCost)
    return cost


EXAMPLE = (Split("i", 16), Reorder(("i.o", "i.i", "j", "k")), Tensorize(0, "i.i"))


def test_the_worked_example() -> None:
    cost = cost_of(gemm_problem(), *EXAMPLE)
    assert (cost.sub_workloads, cost.calls) == (3, 12)
    assert cost.executed_macs == 12 * 16**3
    assert cost.padding_waste == pytest.approx(1 - 40 / 48)
    assert cost.array_cycles == 12 * (16 + 2) + 3 * 30
    by_name = {t.tensor: t for t in cost.transfers}
    assert by_name["N"].run_words == 1024
    assert by_name["N"].cycles == 1024 / 16 + 8 * 14
    assert by_name["M"].run_words == by_name["L"].run_words == 512
    assert by_name["M"].words == by_name["L"].words == pytest.approx(1280)  # no padding is moved
    assert by_name["M"].cycles == pytest.approx(2.5 * (512 / 16 + 4 * 14))
    assert cost.dram_cycles == pytest.approx(176 + 2 * 220)
    assert cost.host_cycles == pytest.approx(12 * 1 + (3 + 1 + 3) * 8 + 3 * 2)
    assert cost.scratchpad_bytes == 2 * (16 * 32 + 32 * 32 + 4 * 16 * 32)
    assert cost.latency_cycles == pytest.approx(616 + (306 + 74) / 3)
    assert cost.dram_bytes == pytest.approx(1024 + 2 * 1280)


def test_a_tile_of_columns_moves_in_shorter_bursts_than_one_of_rows() -> None:
    problem = gemm_problem(i=256, j=256, k=16)
    rows = cost_of(problem, Split("i", 16), Reorder(("i.o", "i.i")), Tensorize(0, "i.i"))
    columns = cost_of(problem, Split("j", 16), Reorder(("j.o", "i", "j.i")), Tensorize(0, "i"))
    assert rows.dram_bytes == columns.dram_bytes
    assert columns.dram_cycles > 2 * rows.dram_cycles
    assert columns.energy_pj > rows.energy_pj


def test_many_small_calls_pay_for_each() -> None:
    core = core_of(GEMM_CORE, POINT)
    free = replace(core, overheads=replace(core.overheads, call=0))
    with_overhead, without = (cost_of(gemm_problem(c), *EXAMPLE) for c in (core, free))
    assert with_overhead.array_cycles - without.array_cycles == 12 * core.overheads.call


def test_fusing_starts_the_pipeline_once_and_costs_index_arithmetic() -> None:
    problem = gemm_problem(i=128, j=128, k=64)
    splits = (Split("i", 32), Split("j", 32), Reorder(("i.o", "j.o", "i.i", "j.i", "k")))
    plain = cost_of(problem, *splits, Tensorize(0, "i.i"))
    fused = cost_of(problem, *splits, Fuse(("i.o", "j.o")), Tensorize(0, "i.i"))
    assert fused.latency_cycles < plain.latency_cycles
    assert fused.host_cycles - plain.host_cycles == 16 * (2 + 4) - (4 * 2 + 16 * 2)
    assert (fused.array_cycles, fused.dram_cycles) == (plain.array_cycles, plain.dram_cycles)


def test_the_pipeline_formula_equals_a_pipeline_walked_stage_by_stage() -> None:
    for stages, n in (((5.0, 3.0, 1.0), 7), ((2.0, 9.0, 4.0), 1), ((1.0, 1.0, 8.0), 12)):
        done = [0.0, 0.0, 0.0]
        for _ in range(n):
            for s, cycles in enumerate(stages):
                done[s] = max(done[s], done[s - 1] if s else 0.0) + cycles
        array, dram, host = (n * s for s in stages)
        assert pipeline_cycles((n,), array, dram, host) == pytest.approx(done[-1])


def test_two_buffers_are_needed_only_where_iterations_overlap() -> None:
    problem = gemm_problem()
    whole = cost_of(problem, Tensorize(0, "i"))
    assert whole.scratchpad_bytes == 48 * 32 + 32 * 32 + 4 * 48 * 32
    assert whole.latency_cycles == whole.array_cycles + whole.dram_cycles + whole.host_cycles


def test_a_part_that_does_not_fit_is_infeasible_with_demand_and_limit() -> None:
    big = program_cost(
        to_program(
            gemm_problem(i=512, j=512, k=512), (Split("k", 256), Reorder(("k.o", "i", "j", "k.i")), Tensorize(0, "i"))
        )
    )
    assert isinstance(big, Infeasible)
    assert big.demand == 2 * (512 * 256 * 2 + 4 * 512 * 512)
    assert big.limit == 256 * 1024
    assert "twice what one sub-workload needs" in big.detail


@pytest.mark.parametrize("order", [("i.o", "j.o", "k.o"), ("k.o", "i.o", "j.o"), ("j.o", "k.o", "i.o")])
def test_bytes_equal_those_the_generated_program_moves(order: tuple[str, ...]) -> None:
    """Also where tiles are ragged: the program clips its transfers, Q4 scales them."""
    problem = gemm_problem(i=72, j=40, k=56)
    sequence = (
        Split("i", 32),
        Split("j", 16),
        Split("k", 16),
        Reorder((*order, "i.i", "j.i", "k.i")),
        Tensorize(0, "i.i"),
    )
    program = to_program(problem, sequence)
    cost = program_cost(program)
    assert isinstance(cost, ProgramCost)
    generated = generate_program(program.schedule, Scratchpad(256 * 1024, 8))
    assert not isinstance(generated, Infeasible)
    run = simulate(generated.to_json(), random_inputs(problem.computation, 0))
    assert cost.dram_bytes == pytest.approx(run.dram_bytes)
    assert cost.calls == run.calls


def test_runs_are_those_the_generated_program_moves() -> None:
    """Where tiles divide the bounds, runs times their length are counted exactly."""
    problem = gemm_problem(i=64, j=64, k=64)
    sequence = (
        Split("i", 32),
        Split("j", 16),
        Split("k", 32),
        Reorder(("k.o", "j.o", "i.o", "i.i", "j.i", "k.i")),
        Tensorize(0, "i.i"),
    )
    program = to_program(problem, sequence)
    cost = program_cost(program)
    assert isinstance(cost, ProgramCost)
    generated = generate_program(program.schedule, Scratchpad(256 * 1024, 8))
    assert not isinstance(generated, Infeasible)
    run = simulate(generated.to_json(), random_inputs(problem.computation, 0))
    assert sum(t.words / t.run_words for t in cost.transfers) == run.dram_bursts


def test_a_convolution_core_wastes_its_filter_on_pointwise_convolutions() -> None:
    computation = Computation.parse(
        "C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", k=16, x=16, y=16, c=16, r=1, s=1, partial_bits=32
    )
    problem = SoftwareProblem.of(computation, core_of(CONV_CORE, CONV_CORE.space.presets[0]))
    assert cost_of(problem, Tensorize(0, "k")).padding_waste == pytest.approx(8 / 9)


def test_mistakes_are_refused() -> None:
    core = core_of(GEMM_CORE, POINT)
    choice = gemm_problem().choices[0]
    with pytest.raises(UserError, match="unknown operand 'Q'"):
        replace(core, stationary="Q")
    with pytest.raises(UserError, match="3 PEs do not divide the intrinsic's i = 16"):
        replace(core, unrolled=(("i", 3, "y"),))
    with pytest.raises(UserError, match="needs 256 PEs along x, the array has 16"):
        replace(core, unrolled=(("i", 16, "x"), ("j", 16, "x")))
    with pytest.raises(UserError, match=r"`call` must be >= 0, got -1 \(overheads\)"):
        Overheads(call=-1)
    with pytest.raises(UserError, match="at least one beat"):
        Dma(16, 8, 14.0, core.dma.dram)
    with pytest.raises(UserError, match="no loops of one iteration"):
        CallProgram(core, Schedule(choice, (("i", 3), ("j", 1)), (("j", 2), ("k", 2))), (1, 1))
    with pytest.raises(UserError, match="do not make up 1 host loops"):
        CallProgram(core, Schedule(choice, (("i", 3),), (("j", 2), ("k", 2))), (2,))
