import json
from pathlib import Path

import pytest

from tests.command_line import run
from tests.unit.cli.test_evaluate_map_convert import ARCH, MAPPING, PROBLEM


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = []
    for name, text in (("arch", ARCH), ("problem", PROBLEM), ("mapping", MAPPING)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        paths.append(str(path))
    return paths


def test_event_cycles_stand_beside_analytical_ones(files: list[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    found = json.loads(run("evaluate", *files, "--format", "json", "--timing", "event", "--trace", str(trace)).out)
    plain = json.loads(run("evaluate", *files, "--format", "json").out)
    assert found["analytic_cycles"] == plain["latency_cycles"]
    assert found["latency_cycles"] > plain["latency_cycles"]
    assert found["seconds"] > 0
    assert found["bound_by"] in found["timing"]["resources"]
    assert found["edp"] == pytest.approx(found["energy_pj"] * found["latency_cycles"])
    for use in found["timing"]["resources"].values():
        total = use["busy_cycles"] + sum(use["stalled_on"].values()) + use["idle_cycles"]
        assert total >= found["latency_cycles"] - 1e-6
    slices = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == found["timing"]["operations"]
    assert max(e["args"]["end_cycle"] for e in slices) == found["latency_cycles"]


def test_a_mapping_is_kept_where_its_timeline_cannot_be_written(files: list[str], tmp_path: Path) -> None:
    out, search = tmp_path / "found.yaml", ("--mapper", "random", "--evaluations", "20", "--timing", "event")
    outcome = run("map", *files[:2], *search, "--trace", f"{files[0]}/trace.json", "--out", str(out))
    assert outcome.code != 0 and "trace.json" in outcome.err
    assert "mapping" in out.read_text()


def test_ideal_table_is_the_analytical_model(files: list[str]) -> None:
    found = json.loads(run("evaluate", *files, "--format", "json", "--timing", "event", "--timing-table", "ideal").out)
    assert found["latency_cycles"] == found["analytic_cycles"]


def test_latencies_of_a_table_are_felt(files: list[str], tmp_path: Path) -> None:
    table = tmp_path / "slow.yaml"
    table.write_text("timing:\n  name: slow\n  levels:\n  - {level: DRAM, read_startup_cycles: 1000}\n")
    arguments = ("evaluate", *files, "--format", "json", "--timing", "event")
    slow = json.loads(run(*arguments, "--timing-table", str(table)).out)
    quick = json.loads(run(*arguments).out)
    assert slow["latency_cycles"] >= quick["latency_cycles"] + 1000


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("timing: {name: t, fill_drain_cycles: -3}", "`fill_drain_cycles` must be a number >= 0, got -3"),
        ("timing: {levels: []}", "`name` is missing"),
        (
            "timing: {name: t, levels: [{level: DRAM, read_startup_cycles: much}]}",
            "`read_startup_cycles` must be a number",
        ),
        ("timing: {name: t, levels: [{level: Dram}]}", "unknown level 'Dram'"),
        ("timing: {name: t, fill_drain: 3}", "unknown key 'fill_drain'"),
        ("timing: {name: t, overlap: some}", "unknown `overlap` 'some'"),
        ("levels: []", "expected `timing:` at the top"),
        ("timing: [", "not valid YAML or JSON"),
    ],
)
def test_bad_tables_are_refused(files: list[str], tmp_path: Path, table: str, message: str) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(table)
    outcome = run("evaluate", *files, "--timing", "event", "--timing-table", str(path))
    assert outcome.code == 2
    assert message in outcome.err


def test_options_that_need_event_timing_say_so(files: list[str]) -> None:
    outcome = run("evaluate", *files, "--trace", "x.json")
    assert outcome.code == 2
    assert "--trace is an option of --timing event" in outcome.err


def test_a_run_that_is_cut_short_is_partial(files: list[str], tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    table.write_text("timing: {name: t}")
    mapping = Path(files[2])
    mapping.write_text(
        MAPPING.replace("- {for: k, factor: 2}\n", "")
        .replace("- {for: p, factor: 16}\n", "")
        .replace("- {store: Buffer", "- {for: k, factor: 2}\n- {for: p, factor: 16}\n- {store: Buffer")
    )
    found = json.loads(run("evaluate", *files, "--format", "json", "--timing", "event", "--operation-limit", "3").out)
    assert found["status"] == "partial"
    assert not found["timing"]["complete"]


def test_map_ranks_again_and_reports_both(files: list[str]) -> None:
    arguments = ("map", *files[:2], "--format", "json", "--objective", "latency", "--evaluations", "2000")
    found = json.loads(run(*arguments, "--timing", "event", "--candidates", "12").out)
    single = json.loads(run(*arguments, "--timing", "event", "--candidates", "1").out)
    assert found["latency_cycles"] <= single["latency_cycles"]
    assert found["analytic_cycles"] <= found["latency_cycles"]
    assert found["mapping"]


def test_waits_in_closed_form_search_without_simulations() -> None:
    found = {}
    layer = "conv K=32 C=32 P=14 Q=14 R=3 S=3"
    for table in ("waits", None):
        extra = [] if table is None else ["--timing-table", table]
        words = ["map", "--arch", "gemmini", "--layer", layer, "--timing", "event", *extra, "--format", "json"]
        found[table] = json.loads(run(*words, "--evaluations", "500").out)
    closed, simulated = found["waits"], found[None]
    assert closed["analytic_cycles"] <= closed["latency_cycles"]
    assert closed["latency_cycles"] <= 1.05 * simulated["latency_cycles"]
