"""`--halos`: windows under shared loops, halos computed again or kept."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from codesign.arch.presets import load_preset
from codesign.core import clock
from codesign.core.goals import Budget, Objective, Proof
from codesign.mapping.looptree import Goal
from codesign.scheduling.fused import operator_front
from codesign.scheduling.fused.blocks import Floors
from codesign.scheduling.fused.cut_search import CutSearch
from codesign.scheduling.fused.halos import rows_of, tiled, tilings
from codesign.scheduling.fused.loop_tree import Fusion
from codesign.scheduling.fused.network_operators import graph_of
from codesign.scheduling.fused.schedule import Schedule
from codesign.scheduling.fused.scheduler import FusedScheduler, best_with_halos
from codesign.scheduling.protocol import ScheduleProblem, ScheduleResult
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from codesign.workloads.network_json import network_to_json
from tests.command_line import run


def chain(rows: int, channels: int, layers: int, stride: int = 1) -> Network:
    builder = NetworkBuilder("chain")
    x = builder.input("x", (1, channels, rows, rows))
    for i in range(layers):
        x = builder.conv(x, channels, 3, stride=stride if i == layers - 1 else 1)
    return builder.build(x)


def schedule(network: Network, capacity: int, halos: bool) -> ScheduleResult:
    problem = ScheduleProblem(network, load_preset("soma-edge"), capacity)
    return FusedScheduler(halos=halos).schedule(problem, Objective.EDP, budget=Budget(time_limit_s=60), seed=0)


def test_two_convolutions_run_step_by_step_where_the_whole_between_them_does_not_fit() -> None:
    network = chain(32, 16, 2)
    plain, found = (schedule(network, 16384, halos) for halos in (False, True))
    assert plain.proof is found.proof is Proof.OPTIMAL
    assert "halos" not in plain.detail and found.detail["halos"]["kept"] == {"conv": True}
    assert found.detail["value"] < 0.6 * plain.detail["value"]
    assert plain.dram_bytes is not None and found.dram_bytes is not None and found.dram_bytes < 0.6 * plain.dram_bytes
    assert found.peak_buffer_bytes is not None and found.peak_buffer_bytes <= found.capacity_bytes == 16384
    cost = found.found.schedule.cost()
    assert cost.energy == pytest.approx(found.energy_pj, rel=1e-12)


def test_rows_of_a_step_are_those_of_the_windows_or_a_share() -> None:
    graph = graph_of(chain(32, 4, 3), load_preset("soma-edge"))
    whole = [
        t for t in tilings(graph) if t.run.first == 0 and t.run.last == 2 and t.run.last_dim == "P" and t.steps == 8
    ]
    rows = {t.kept: [r.made for r in rows_of(t, 32)] for t in whole}
    assert rows == {
        (False, False): [4, 6, 8],
        (True, True): [4, 4, 4],
        (True, False): [4, 6, 4],
        (False, True): [4, 4, 6],
    }
    again = next(t for t in whole if not any(t.kept))
    cut = tiled(graph, again)
    assert cut is not None
    assert [o.macs for o in cut.operators] == [4 * 4 * 9 * 32 * r * 8 for r in (8, 6, 4)]
    kept = next(t for t in whole if all(t.kept))
    cut = tiled(graph, kept)
    assert cut is not None
    assert [o.macs for o in cut.operators] == [o.macs for o in graph.operators]  # nothing is computed twice
    assert cut.capacity_bits < graph.capacity_bits


def test_a_result_that_two_read_is_not_cut() -> None:
    builder = NetworkBuilder("residual")
    x = builder.conv(builder.input("x", (1, 8, 8, 8)), 8, 3)
    graph = graph_of(builder.build(builder.residual(builder.conv(x, 8, 3), x)), load_preset("soma-edge"))
    shared = {link.tensor for t in tilings(graph) for link in t.run.links}
    assert x not in shared


def test_the_command_says_what_becomes_of_halos(tmp_path: Path) -> None:
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(network_to_json(chain(32, 16, 2))))
    common = ("schedule", "--network", path, "--scheduler", "fused", "--arch", "soma-edge", "--capacity", "16KiB")
    shown = run(*common, "--halos")
    assert shown.code == 0, shown.err
    assert "steps along" in shown.out and "halos: conv kept" in shown.out
    refused = run("schedule", "--network", path, "--scheduler", "soma", "--halos")
    assert refused.code == 2 and "--halos" in refused.err


def test_a_limit_that_ends_before_all_cuts_are_posed_claims_no_bound() -> None:
    graph = graph_of(chain(64, 16, 4), load_preset("soma-edge"), 32768)
    began = clock.cpu_seconds()
    found = best_with_halos(graph, Goal.EDP, time_limit=0.01)
    assert clock.cpu_seconds() - began < 2.0
    assert found.schedule.bound == 0.0 and not found.schedule.proven


def test_before_a_search_begins_nothing_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a search without a limit")

    monkeypatch.setattr(operator_front, "search", refused)
    graph = graph_of(chain(64, 16, 4), load_preset("soma-edge"), 32768)
    Fusion(graph.operators, graph.machines, graph.between, Goal.EDP)
    CutSearch(graph, Goal.EDP, 1, math.inf, Schedule(math.inf, 0.0, None, math.inf))


def test_without_time_a_bound_below_the_optimum_is_left() -> None:
    graph = graph_of(chain(8, 4, 2), load_preset("soma-edge"), 1024)
    best = best_with_halos(graph, Goal.EDP, halos=False).schedule
    none = best_with_halos(graph, Goal.EDP, time_limit=0.0, halos=False).schedule
    assert best.proven and none.value >= best.value > none.bound > 0


def test_operators_that_cost_nothing_have_no_limit() -> None:
    zero = np.zeros(3)
    floors = Floors(np.zeros((3, 2)), np.zeros((3, 2)), 1.0, zero, zero)
    assert floors.limits(1, Goal.EDP, 5.0, 0.0).value == math.inf


def test_a_limit_is_kept_and_the_gap_is_that_of_the_least_open_cut() -> None:
    graph = graph_of(chain(56, 64, 3), load_preset("soma-edge"), 131072)
    began = clock.cpu_seconds()
    found = best_with_halos(graph, Goal.EDP, time_limit=2.0)
    assert clock.cpu_seconds() - began < 4.0
    assert 0 < found.schedule.bound < found.schedule.value and not found.schedule.proven
