"""Layouts in a mapping: any order of digits gives the same integers, in the cycles that are predicted, with the lines that are counted."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.evaluation.timed import EventMapper
from codesign.hardware.cycles import best_timed_plan, nest_times
from codesign.hardware.execute import execute, nest_job, random_values
from codesign.hardware.layout_search import candidates, with_layouts
from codesign.hardware.line_uses import line_uses
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.nest_plan import NestPlan
from codesign.hardware.parameters import PORTS
from codesign.hardware.rtl.machine import register_map
from codesign.hardware.simulate import simulate_in_python
from codesign.hardware.timed import timed_run, timing_at
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.layout import Digit, TensorLayout
from codesign.mapping.mapping import LevelMapping, Mapping
from codesign.timing.simulate import Run
from codesign.timing.table import load_timing
from codesign.workloads.computation import Computation
from spaces.scratchpad import SCRATCHPAD
from tests.unit.hardware.test_machines import DESIGN, GEMM

TABLE = timing_at(load_timing("generated"), DESIGN)
CONV = Computation.parse("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=4, c=4, p=4, q=4, r=2, s=1, bits=8, partial_bits=32)
ORDER = ("k/2", "c", "r", "s", "k%2")
MORE = [pytest.param(n, marks=pytest.mark.slow("oracle")) for n in range(2, 14)]


def mapped(computation: Computation, design: dict[str, str | int], seed: int) -> Mapping:
    problem = MappingProblem(computation, SCRATCHPAD.build(DESIGN | design))
    found = create("random").map(problem, Objective.LATENCY, budget=Budget(evaluations=20), seed=seed)
    assert found.mapping is not None
    return found.mapping


@pytest.mark.parametrize("seed", [0, 1, *MORE])
@pytest.mark.thinned(2)
def test_any_order_of_digits_computes_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    design: dict[str, str | int] = {
        "dataflow": ("weight-stationary", "output-stationary", "row-stationary")[seed % 3],
        "links": ("multicast", "systolic", "none")[seed % 3],
    }
    computation, architecture = (GEMM, CONV)[seed % 2], SCRATCHPAD.build(DESIGN | design)
    mapping = mapped(computation, design, seed)
    p = parameters_of(architecture, computation, 8, 32, "machine")
    choices = [list(candidates(computation, architecture, mapping, p, port)) for port in PORTS]
    layouts = tuple(found[int(rng.integers(len(found)))] for found in choices)
    job = nest_job(computation, architecture, replace(mapping, layouts=layouts), p, register_map(p))
    verdict = execute(job, random_values(computation, rng), simulate_in_python)
    assert verdict.wrong is None and not verdict.differences
    assert verdict.run.cycles == job.predicted_cycles
    plan = NestPlan(computation, architecture, replace(mapping, layouts=layouts), p)
    feeds = verdict.run.counts.feeds
    for code, use in enumerate(line_uses(plan)[:2]):
        assert use.lines == sum(n for key, n in feeds.items() if key[0] == code)
        assert 0 < use.least_lines <= use.lines


def test_the_search_takes_no_more_cycles_than_the_two_kinds() -> None:
    fewer = 0
    for seed in range(16):
        design: dict[str, str | int] = {"links": ("multicast", "systolic", "none")[seed % 3], "banks": (1, 4)[seed % 2]}
        computation, architecture = (GEMM, CONV)[seed % 2], SCRATCHPAD.build(DESIGN | design)
        mapping = mapped(computation, design, seed)
        p = parameters_of(architecture, computation, 8, 32, "machine")
        both = (mapping, with_layouts(computation, architecture, mapping, p))
        plans = [best_timed_plan(computation, architecture, m, p)[0] for m in both]
        cycles = [nest_times(plan).cycles for plan in plans]
        assert cycles[1] <= cycles[0]
        fewer += cycles[1] < cycles[0]
    assert fewer > 0


def test_a_mapper_for_generated_machines_says_the_layouts() -> None:
    mapper = EventMapper(create("anneal"), TABLE, candidates=3)
    problem = MappingProblem(CONV, SCRATCHPAD.build(DESIGN))
    found = mapper.map(problem, Objective.LATENCY, budget=Budget(evaluations=60), seed=0)
    assert found.mapping is not None
    assert [layout.tensor for layout in found.mapping.layouts] == ["I", "W", "O"]
    run = timed_run(CONV, problem.architecture, found.mapping, TABLE)
    plain = timed_run(CONV, problem.architecture, replace(found.mapping, layouts=()), TABLE)
    assert isinstance(run, Run) and isinstance(plain, Run)
    assert run.latency_cycles <= plain.latency_cycles
    assert [use.layout for use in run.lines] == [str(layout) for layout in found.mapping.layouts]


def test_a_digit_that_is_no_loop_is_refused() -> None:
    architecture = SCRATCHPAD.build(DESIGN | {"dataflow": "weight-stationary"})
    loops = (("k", 4), ("c", 4), ("p", 4), ("q", 4), ("r", 2))
    levels = [
        LevelMapping("DRAM", ("I", "W", "O")),
        LevelMapping("Scratchpad", ("I", "W", "O"), loops),
        LevelMapping("Local", ("W",)),
    ]
    mapping = replace(Mapping.from_levels(levels), layouts=(TensorLayout("W", tuple(map(Digit.parse, ORDER))),))
    p = parameters_of(architecture, CONV, 8, 32, "machine")
    with pytest.raises(UserError, match="digit 'k/2%2' of 'W' is neither a whole axis nor one of the mapping's loops"):
        best_timed_plan(CONV, architecture, mapping, p)
