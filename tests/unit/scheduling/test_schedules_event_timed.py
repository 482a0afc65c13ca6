"""`codesign schedule --timing event`: equal to the analytical timing without latencies, longer with them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run

TABLE = """timing:
  name: slow
  fill_drain_cycles: 20
  levels:
  - {level: DRAM, read_startup_cycles: 50, write_startup_cycles: 30, latency_cycles: 40}
"""


def schedule(*arguments: object) -> Any:
    return run("schedule", "--network", "alexnet", "--seed", 1, "--format", "json", *arguments)


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    path = tmp_path / "slow.yaml"
    path.write_text(TABLE)
    return path


def test_fused_schedules_without_latencies_keep_their_timing(slow: Path) -> None:
    search = ("--scheduler", "soma", "--evaluations", 60)
    plain = schedule(*search).json
    timed = schedule(*search, "--timing", "event").json
    assert timed["latency_cycles"] == timed["analytic_cycles"] == plain["latency_cycles"]
    trace = slow.parent / "trace.json"
    schedule(*search, "--timing", "event", "--trace", trace)
    slices = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == timed["timing"]["instructions"]
    assert max(e["args"]["end_cycle"] for e in slices) == timed["latency_cycles"]
    late = schedule(*search, "--timing", "event", "--timing-table", slow).json
    assert late["analytic_cycles"] == plain["latency_cycles"] < late["latency_cycles"]
    assert late["timing"]["complete"]
    assert set(late["timing"]["resources"]) == {"array", "DRAM channel"}


@pytest.mark.slow("speed")
def test_tiles_of_a_mapper_take_their_simulated_cycles() -> None:
    search = ("--scheduler", "soma", "--arch", "soma-edge", "--tile-cost", "random", "--evaluations", 20)
    timed = schedule(*search, "--timing", "event").json
    assert timed["latency_cycles"] > timed["analytic_cycles"]


def test_spilled_schedules_wait_for_their_transfers(slow: Path) -> None:
    search = ("--scheduler", "cosma", "--arch", "gemmini", "--capacity", "M_R", "--timing", "event")
    timed = schedule(*search).json
    assert timed["latency_cycles"] >= timed["analytic_cycles"]
    busy = timed["timing"]["resources"]["DRAM channel"]["busy_cycles"]
    assert 0 <= busy - timed["traffic_cycles"] <= timed["timing"]["instructions"]  # every transfer takes whole cycles
    late = schedule(*search, "--timing-table", slow, "--parameters").json
    assert late["latency_cycles"] > timed["latency_cycles"]
    assert late["waits_for"]


def _section(page: Path) -> Any:
    """Data of the event-timed section of a page; None where it has none."""
    found = re.search(r'<script id="events-data" type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)
    return None if found is None else json.loads(found[1])


@pytest.mark.parametrize(
    "search",
    [
        ("--scheduler", "soma", "--evaluations", 60),
        ("--scheduler", "cosma", "--arch", "gemmini", "--capacity", "M_R", "--parameters"),
    ],
)
def test_the_page_shows_both_models(slow: Path, search: tuple[object, ...]) -> None:
    page = slow.parent / "page.html"
    timed = schedule(*search, "--timing", "event", "--timing-table", slow, "--html", page).json
    data = _section(page)
    assert (data["latency_cycles"], data["analytic_cycles"]) == (timed["latency_cycles"], timed["analytic_cycles"])
    assert (data["bound_by"], data["waits_for"]) == (timed["bound_by"], timed["waits_for"])
    assert {r["resource"]: r["busy_cycles"] for r in data["resources"]} == {
        name: use["busy_cycles"] for name, use in timed["timing"]["resources"].items()
    }
    assert len(data["events"]) == data["operations"] == timed["timing"]["instructions"]
    assert max(end for _, _, _, end, _ in data["events"]) <= timed["latency_cycles"]
    schedule(*search, "--html", page)
    assert _section(page) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scheduler", "cosma", "--timing", "event"), "--timing event needs --arch"),
        (("--scheduler", "soma", "--timing", "exact"), "unknown --timing 'exact'"),
        (("--scheduler", "soma", "--timing-table", "gemmini-rtl"), "--timing-table is an option of --timing event"),
        (("--scheduler", "soma", "--trace", "t.json"), "--trace is an option of --timing event"),
        (("--scheduler", "soma cosma", "--arch", "simba", "--timing", "event"), "--timing is used with one scheduler"),
    ],
)
def test_options_that_do_not_go_together(arguments: tuple[object, ...], message: str) -> None:
    done = schedule(*arguments)
    assert done.code == 2
    assert message in done.err
