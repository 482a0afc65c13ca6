"""The bound's fusion as a start of SoMa's search."""

from dataclasses import replace

import pytest

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.scheduling.protocol import ScheduleProblem
from codesign.scheduling.soma.evaluator import Invalid, Problem
from codesign.scheduling.soma.model.hardware import EDGE
from codesign.scheduling.soma.model.load import load_graph
from codesign.scheduling.soma.model.notation import FusionScheme
from codesign.scheduling.soma.model.rules import DEFAULT
from codesign.scheduling.soma.scheduler import SomaScheduler
from codesign.scheduling.soma.search import baselines as bl
from codesign.scheduling.soma.search.bound_start import bound_start
from codesign.scheduling.soma.search.fusion_bound import leaving_edges
from codesign.scheduling.soma.search.fusion_search import Workspace
from codesign.scheduling.soma.search.two_stages import Found, SearchOptions, search

NO_TIME = float("-inf")


def resnet(batch: int) -> tuple[Problem, FusionScheme, Workspace]:
    graph = load_graph("resnet50", phase=None, seq=None, past=None, batch=batch, dims={}).graph
    problem = Problem(graph, batch, EDGE, DEFAULT)
    start = bl.coarse_start(problem)
    assert not isinstance(start, Invalid)
    return problem, start, Workspace(problem)


def test_everything_that_may_stay_is_one_group_and_tiles_are_found_that_fit() -> None:
    problem, start, space = resnet(16)
    assert not leaving_edges(problem)
    found = bound_start(problem, start, Objective.EDP, space, None)
    assert len(found.dram_cuts) < len(start.dram_cuts) / 4
    ours, greedy = (
        bl.scheme_value(problem, bl.merged_start(problem, s, Objective.EDP, space, None), Objective.EDP, space)
        for s in (found, start)
    )
    assert ours < 0.7 * greedy


def test_data_that_must_leave_end_a_group() -> None:
    graph = load_graph("gpt2-small-block", phase="prefill", seq=512, past=None, batch=1, dims={}).graph
    problem = Problem(graph, 1, EDGE, DEFAULT, 3_900_000)
    start, space = bl.coarse_start(problem), Workspace(problem)
    assert not isinstance(start, Invalid)
    order = {layer: i for i, layer in enumerate(start.order)}
    leaving = leaving_edges(problem)
    assert leaving
    found = bound_start(problem, start, Objective.EDP, space, None)
    for producer, reader in leaving:
        assert any(order[producer] < cut <= order[reader] for cut in found.dram_cuts)


def test_without_time_the_unfused_scheme_is_left() -> None:
    problem, start, space = resnet(4)
    assert bound_start(problem, start, Objective.EDP, space, NO_TIME) == start


def test_the_search_takes_it_where_it_is_better_and_is_unchanged_where_not() -> None:
    problem, _, _ = resnet(16)
    budget = Budget(evaluations=400)
    values = {}
    for start in ("bound", "greedy"):
        found = search(problem, Objective.EDP, SearchOptions(budget, start=start))
        assert isinstance(found, Found)
        values[start] = found.schedule.energy_pj * found.schedule.latency_cycles
    assert values["bound"] < 0.8 * values["greedy"]
    one = load_graph("gpt2-small-block", phase="prefill", seq=512, past=None, batch=1, dims={})
    problem = Problem(one.graph, 1, EDGE, DEFAULT)
    same = [search(problem, Objective.EDP, SearchOptions(budget, start=s)) for s in ("bound", "greedy")]
    assert all(isinstance(found, Found) for found in same)
    assert len({found.schedule.latency_cycles for found in same if isinstance(found, Found)}) == 1


def test_what_is_unknown_is_refused() -> None:
    with pytest.raises(UserError, match=r"unknown start 'bond'.*did you mean 'bound'"):
        SomaScheduler(start="bond")
    with pytest.raises(UserError, match="plays no part with scheduler 'cocco'"):
        SomaScheduler(kind="cocco", start="greedy")
    source = load_graph("gpt2-small-block", phase="decode", seq=65, past=None, batch=1, dims={})
    problem = ScheduleProblem(replace(source, batch=2), None, None)
    results = [
        SomaScheduler(platform=EDGE, start=s).schedule(problem, Objective.EDP, budget=Budget(evaluations=100), seed=0)
        for s in ("bound", "greedy")
    ]
    for r in results:  # neither start leads below the bound
        bound = r.detail["fusion_bound"]
        assert r.gap is not None and r.energy_pj is not None and r.latency_cycles is not None
        assert r.energy_pj >= bound["energy_pj"] * (1 - 1e-9) and r.latency_cycles >= bound["latency_cycles"]
