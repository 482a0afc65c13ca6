"""Generated machines in the timing tier: tables with ``overlap: generated``."""

from dataclasses import replace

import pytest

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, Infeasible, evaluate
from codesign.evaluation.timed import EventMapper
from codesign.hardware.cycles import best_timed_plan, nest_times
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.timed import timed_run, timing_at
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import LevelMapping, Mapping
from codesign.timing.simulate import Run, simulate
from codesign.timing.table import load_timing
from codesign.workloads.computation import Computation
from spaces.scratchpad import SCRATCHPAD
from tests.unit.hardware.test_machines import DESIGN, GEMM

TABLE = timing_at(load_timing("generated"), DESIGN)


def random_mapping(computation: Computation) -> Mapping:
    problem = MappingProblem(computation, SCRATCHPAD.build(DESIGN))
    found = create("random").map(problem, Objective.EDP, budget=Budget(evaluations=20), seed=3)
    assert found.mapping is not None
    return found.mapping


def test_a_design_brings_its_bus_and_its_bursts() -> None:
    assert (TABLE.constant("bus_bytes"), TABLE.constant("burst_bytes")) == (8, 32)
    assert timing_at(load_timing("systolic16"), DESIGN) == load_timing("systolic16")


def test_cycles_are_those_of_the_generated_machine() -> None:
    architecture, mapping = SCRATCHPAD.build(DESIGN), random_mapping(GEMM)
    run = timed_run(GEMM, architecture, mapping, TABLE)
    plan = best_timed_plan(GEMM, architecture, mapping, parameters_of(architecture, GEMM, 8, 32, "machine"))[0]
    assert isinstance(run, Run)
    assert run.latency_cycles == nest_times(plan).cycles


def test_resources_say_where_the_cycles_go() -> None:
    run = timed_run(GEMM, SCRATCHPAD.build(DESIGN), random_mapping(GEMM), TABLE)
    assert isinstance(run, Run)
    for use in run.resources:
        assert 0 < use.busy_cycles <= run.latency_cycles
        assert use.busy_cycles + sum(c for _, c in use.stalled) + use.idle_cycles == pytest.approx(run.latency_cycles)


def test_a_longer_latency_of_dram_takes_longer() -> None:
    architecture, mapping = SCRATCHPAD.build(DESIGN), random_mapping(GEMM)
    slow = replace(TABLE, constants=tuple((dict(TABLE.constants) | {"dram_latency_cycles": 40.0}).items()))
    runs = [timed_run(GEMM, architecture, mapping, t) for t in (TABLE, slow)]
    assert isinstance(runs[0], Run) and isinstance(runs[1], Run)
    assert runs[0].latency_cycles < runs[1].latency_cycles


def test_the_k_best_are_ranked_by_the_generated_machine() -> None:
    problem = MappingProblem(GEMM, SCRATCHPAD.build(DESIGN))
    mapper = EventMapper(create("anneal"), TABLE, candidates=6)
    found = mapper.map(problem, Objective.LATENCY, budget=Budget(evaluations=300), seed=0)
    plain = create("anneal").map(problem, Objective.LATENCY, budget=Budget(evaluations=300), seed=0)
    assert found.mapping is not None and plain.mapping is not None
    runs = [timed_run(GEMM, problem.architecture, m, TABLE) for m in (found.mapping, plain.mapping)]
    assert isinstance(runs[0], Run) and isinstance(runs[1], Run)
    assert runs[0].latency_cycles <= runs[1].latency_cycles


def test_sums_of_32_bits_that_do_not_fit_are_infeasible_not_an_error() -> None:
    large = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=128, j=128, k=64, bits=8, partial_bits=8)
    architecture = SCRATCHPAD.build(DESIGN)
    mapping = Mapping.from_levels(
        [
            LevelMapping("DRAM", ("M", "N", "L"), ()),
            LevelMapping("Scratchpad", ("M", "N", "L"), (("i", 128), ("j", 128), ("k", 64))),
            LevelMapping("Local", ("N",)),
        ]
    )
    assert isinstance(evaluate(large, architecture, mapping, reuse=Reuse.WHOLE), Cost)
    run = timed_run(large, architecture, mapping, TABLE)
    assert isinstance(run, Infeasible)
    assert (run.resource, run.demand, run.limit) == ("the scratchpad", 4 * 128 * 128 + 2 * 64 * 128, 32 * 1024)


def test_the_event_engine_refuses_the_table() -> None:
    with pytest.raises(UserError, match="timing table 'generated' is of generated hardware"):
        simulate(GEMM, SCRATCHPAD.build(DESIGN), random_mapping(GEMM), load_timing("generated"))
