"""The search against the best recorded run of the published program for every recorded network and batch, same constants."""

import json
from typing import Any

import pytest

from codesign.core.goals import Budget, Objective
from codesign.scheduling.soma.evaluator import Problem, Schedule, evaluate
from codesign.scheduling.soma.instructions import make_instructions
from codesign.scheduling.soma.model.hardware import hardware_from_constants
from codesign.scheduling.soma.model.load import load_graph
from codesign.scheduling.soma.model.rules import REFERENCE
from codesign.scheduling.soma.search.two_stages import Found, SearchOptions, search, search_baseline, search_paper
from tests.reference_data import REFERENCE as DATA_SET
from tests.reference_data import lacks, supporting_files
from tests.soma_buffer_run import simulate_program


def _best_recorded() -> dict[tuple[int, int, int, int], tuple[float, dict[str, Any]]]:
    """Smallest recorded energy x delay per network, batch, buffer and bandwidth, with the file it is from."""
    best: dict[tuple[int, int, int, int], tuple[float, dict[str, Any]]] = {}
    for path in sorted((DATA_SET / "soma" / "runs").glob("*.json")):
        document = json.loads(path.read_text())
        if "stage2" not in document:
            continue
        config = document["config"]
        key = (config["net_id"], config["batch"], config["gbuf_bytes"], config["dram_bw"])
        cost = document["stage2"]["real"]["cost_ExD"]
        if key not in best or cost < best[key][0]:
            best[key] = (cost, document)
    return best


def _problem(document: dict[str, Any]) -> Problem:
    config = document["config"]
    for path in supporting_files("soma/networks", "*.json"):
        if json.loads(path.read_text())["config"]["net_id"] == config["net_id"]:
            hardware = hardware_from_constants(document["constants"], "recorded")
            return Problem(load_graph(str(path)).graph, config["batch"], hardware, REFERENCE, config["gbuf_bytes"])
    raise LookupError(config["net_id"])


def _first_problem() -> Problem:
    recorded = _best_recorded()
    if not recorded:
        lacks("recorded runs")
    return _problem(recorded[min(recorded)][1])


@pytest.mark.parametrize("key", sorted(_best_recorded()), ids=lambda k: "-".join(map(str, k)))
@pytest.mark.thinned(2)
def test_search_is_at_least_as_good_as_the_best_recorded_run(key: tuple[int, int, int, int]) -> None:
    recorded, document = _best_recorded()[key]
    problem = _problem(document)
    found = search(problem, Objective(), SearchOptions(Budget(evaluations=60_000), seed=5))
    assert isinstance(found, Found)
    assert found.schedule.edp <= recorded * (1 + 1e-9)
    assert found.schedule.peak_buffer_bytes <= problem.limit_bytes
    assert found.dram_bound_cycles <= found.schedule.latency_cycles
    run = simulate_program(make_instructions(found.schedule))
    assert run.latency_cycles == found.schedule.latency_cycles
    again = evaluate(problem, found.schedule.encoding())
    assert isinstance(again, Schedule) and again.latency_cycles == found.schedule.latency_cycles


def test_same_seed_same_schedule_and_baselines_rank_as_expected() -> None:
    problem = _first_problem()
    budget = SearchOptions(Budget(evaluations=4000), seed=3)
    first, second = search(problem, Objective(), budget), search(problem, Objective(), budget)
    assert isinstance(first, Found) and isinstance(second, Found)
    assert first.schedule.encoding() == second.schedule.encoding()
    others = [search_baseline(problem, Objective(), budget, name) for name in ("cocco", "unfused")]
    paper = search_paper(problem, Objective(), budget)
    assert isinstance(paper, Found) and len(paper.passes) >= 3
    assert all(limit <= problem.limit_bytes for limit, _ in paper.passes)
    for other in others:
        assert isinstance(other, Found)
        assert other.schedule.edp > first.schedule.edp
    cocco = others[0]
    assert isinstance(cocco, Found) and cocco.schedule.parsed.fusion.fine_cuts == ()
