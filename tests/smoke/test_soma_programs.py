"""The SoMa experiments and the schedule command, small."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from codesign.cli.schedule import ScheduleOptions
from codesign.cli.schedule_soma import SCHEDULERS, run
from codesign.core.errors import UserError

DATA = Path(__file__).parents[1] / "data" / "soma"
TOY = str(DATA / "networks" / "toy_903.json")


@pytest.mark.parametrize("name", ["soma_fig6", "soma_fig7", "soma_decode", "soma_reference", "soma_start"])
def test_experiments_run_small_and_write_results(name: str, tmp_path: Path, capsys: Any) -> None:
    import importlib

    module = importlib.import_module(f"experiments.{name}")
    module.main(module.parse_args(["--smoke", "--out", str(tmp_path)]))
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["rows"] and all(r["status"] == "feasible" for r in written["rows"])
    assert capsys.readouterr().out


@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
def test_every_scheduler_prints_the_documented_json(scheduler: str, tmp_path: Path, capsys: Any) -> None:
    page, program = tmp_path / "graph.html", tmp_path / "schedule.json"
    options = ScheduleOptions(
        scheduler=scheduler,
        output_format="json",
        network=TOY,
        arch="soma-edge",
        evaluations=800,
        seed=2,
        batch=2,
        html=page,
        out=program,
    )
    run(options)
    record = json.loads(capsys.readouterr().out)
    keys = "status latency_cycles energy_pj dram_bytes peak_buffer_bytes bound_cycles lgs flgs tiles stage1 proof gap seconds encoding"
    assert set(keys.split()) <= set(record)
    assert record["status"] == "feasible" and record["proof"] in ("optimal", "gap")
    text = page.read_text()
    assert "https://" not in text.replace("http://www.w3.org", "") and "DRAM" in text
    assert json.loads(program.read_text())["instructions"]["compute"]
    chosen = tmp_path / "encoding.json"
    chosen.write_text(json.dumps([record["encoding"]]))
    run(
        ScheduleOptions(
            scheduler=scheduler, output_format="json", network=TOY, arch="soma-edge", batch=2, evaluate=chosen
        )
    )
    again = json.loads(capsys.readouterr().out)["results"][0]
    assert (again["latency_cycles"], again["energy_pj"]) == (record["latency_cycles"], record["energy_pj"])


def test_evaluate_prints_reference_statuses_in_order(capsys: Any) -> None:
    path = DATA / "eval" / "in_903_stage2.json"
    run(ScheduleOptions(scheduler="soma", output_format="json", network=TOY, mode="reference", evaluate=path))
    results = json.loads(capsys.readouterr().out)["results"]
    want = json.loads((DATA / "eval" / "toy_903_b1_stage2.json").read_text())["results"]
    assert [(r["name"], r["status"]) for r in results] == [(w["name"], w["status"]) for w in want]


def test_a_proof_is_asked_for_and_reported(capsys: Any) -> None:
    """The double-buffered baseline is not optimal: constraint programming makes it faster and proves it."""
    plain, proved = (
        ScheduleOptions(
            scheduler="unfused", output_format="json", network=TOY, arch="soma-edge", evaluations=50, prove=seconds
        )
        for seconds in (None, 20.0)
    )
    run(plain)
    before = json.loads(capsys.readouterr().out)
    run(proved)
    after = json.loads(capsys.readouterr().out)
    assert before["stage2"]["solver"] is None and after["stage2"]["solver"] in ("OPTIMAL", "FEASIBLE", "BOUND")
    assert after["latency_cycles"] <= before["latency_cycles"]
    assert after["gap"] < before["gap"] and after["stage2"]["bound_cycles"] >= before["stage2"]["bound_cycles"]


def test_any_architecture_is_scheduled_on_with_a_mapper_for_its_tiles(tmp_path: Path, capsys: Any) -> None:
    from codesign.arch.presets import preset_path

    copied = tmp_path / "mine.yaml"
    copied.write_text(preset_path("gemmini").read_text())
    records = []
    for arch, tile_cost in ((str(copied), None), ("gemmini", "anneal"), ("soma-edge", "anneal")):
        run(
            ScheduleOptions(
                scheduler="soma", output_format="json", network=TOY, arch=arch, tile_cost=tile_cost, evaluations=300
            )
        )
        records.append(json.loads(capsys.readouterr().out))
    assert [r["status"] for r in records] == ["feasible"] * 3
    assert records[0]["latency_cycles"] == records[1]["latency_cycles"] != records[2]["latency_cycles"]


def test_any_exponents_are_an_objective(capsys: Any) -> None:
    values = []
    for name in ("edp", "e1d1", "e0d1", "latency"):
        run(ScheduleOptions(scheduler="soma", output_format="json", network=TOY, objective=name, evaluations=200))
        values.append(json.loads(capsys.readouterr().out)["encoding"])
    assert values[0] == values[1] and values[2] == values[3]


def test_infeasible_is_printed_as_a_result(capsys: Any) -> None:
    run(ScheduleOptions(scheduler="soma", output_format="json", network=TOY, capacity="64", evaluations=100))
    record = json.loads(capsys.readouterr().out)
    assert record["status"] == "infeasible" and record["demand"] > record["limit"] == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network": None}, "--network is required"),
        ({"capacity": "10x"}, "unknown unit 'x'"),
        ({"mode": "fast"}, "unknown mode 'fast'"),
        ({"objective": "speed"}, "unknown objective 'speed'"),
        ({"phase": "decode"}, "--phase does not apply to a graph with fixed shapes"),
        ({"batch": 0}, "`batch` must be an integer >= 1, got 0"),
        ({"evaluate": DATA / "eval" / "in_903.json", "time_limit": 1.0}, "--evaluate runs no search"),
        ({"evaluate": DATA / "eval" / "in_900.json"}, "made for another network"),
        ({"prove": 0.0, "evaluations": 10}, "--prove must be > 0 seconds, got 0"),
        ({"tile_cost": "fast"}, "unknown tile cost 'fast'"),
        ({"tile_cost": "anneal", "mode": "reference"}, "--mode reference is the published model"),
        ({"tile_cost": "template", "arch": "simba"}, "--tile-cost template needs one of"),
        ({"arch": "sima"}, "unknown architecture 'sima'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(ScheduleOptions(scheduler="soma", output_format="json", **{"network": TOY, **options}))


def test_the_command_refuses_options_a_scheduler_does_not_read() -> None:
    import typer

    from codesign.cli.app import register_commands

    app = typer.Typer()
    register_commands(app, "schedule")
    for option in (["--chains", "3"], ["--unfused-graph"]):
        result = CliRunner().invoke(app, ["--network", TOY, "--scheduler", "cocco", *option])
        assert isinstance(result.exception, UserError)
        assert f"{option[0]} is not used by scheduler 'cocco'" in str(result.exception)
