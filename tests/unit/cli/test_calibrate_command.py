import json
from pathlib import Path

import pytest
import yaml

from tests.command_line import run
from tests.unit.cli.test_evaluate_map_convert import ARCH, MAPPING, PROBLEM

TABLE = "timing:\n  name: machine\n  fill_drain_cycles: {drain}\n  levels:\n  - {{level: DRAM, read_startup_cycles: {start}}}\n"


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Rows whose cycles come from a table with known constants, of two architectures and several tilings."""
    truth = tmp_path / "truth.yaml"
    truth.write_text(TABLE.format(drain=9, start=31))
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    lines = ["architecture,problem,mapping,cycles"]
    for a, width in (("one", 16), ("two", 4)):
        (tmp_path / f"{a}.yaml").write_text(
            ARCH.replace("bandwidth_bytes_per_cycle: 16", f"bandwidth_bytes_per_cycle: {width}")
        )
        for inner in (1, 2, 4, 8):
            outer = "" if inner == 16 else f"- {{for: p, factor: {16 // inner}}}\n"
            text = MAPPING.replace("- {store: Buffer", outer + "- {store: Buffer").replace(
                "factor: 16}", f"factor: {inner}}}", 2
            )
            text = text.replace(
                f"- {{for: p, factor: {inner}}}\n- {{store", f"- {{for: p, factor: {16 // inner}}}\n- {{store"
            )
            name = f"m{inner}.yaml"
            (tmp_path / name).write_text(text)
            files = [tmp_path / f"{a}.yaml", tmp_path / "problem.yaml", tmp_path / name]
            found = run("evaluate", *files, "--timing", "event", "--timing-table", truth, "--format", "json")
            assert found.code == 0, found.err
            lines.append(f"{a}.yaml,problem.yaml,{name},{found.json['latency_cycles']}")
    path = tmp_path / "measured.csv"
    path.write_text("\n".join(lines) + "\n")
    (tmp_path / "start.yaml").write_text(TABLE.format(drain=3, start=5))
    return path


def test_known_constants_are_found(measured: Path, tmp_path: Path) -> None:
    arguments = ("calibrate", measured, "--timing-table", tmp_path / "start.yaml")
    fits = ("--fit", "fill_drain_cycles", "--fit", "DRAM.read_startup_cycles")
    found = run(*arguments, *fits, "--format", "json", "--out", tmp_path / "fitted.yaml")
    assert found.code == 0, found.err
    constants = found.json["constants"]
    assert constants["DRAM.read_startup_cycles"]["value"] == pytest.approx(31, rel=0.05)
    assert constants["fill_drain_cycles"]["value"] == pytest.approx(9, rel=0.15)
    assert found.json["mean_error_hardware_left_out"] < 0.02
    written = yaml.safe_load((tmp_path / "fitted.yaml").read_text())["timing"]
    assert written["fill_drain_cycles"] == pytest.approx(constants["fill_drain_cycles"]["value"])


def test_constants_that_no_row_tells_apart_are_refused(measured: Path, tmp_path: Path) -> None:
    fits = (
        "--fit",
        "DRAM.read_startup_cycles",
        "--fit",
        "Buffer.write_startup_cycles",
        "--fit",
        "Buffer.latency_cycles",
    )
    found = run("calibrate", measured, "--timing-table", tmp_path / "start.yaml", *fits)
    assert found.code == 2
    assert "cannot tell these constants apart" in found.err
    assert json.dumps("Buffer.latency_cycles")[1:-1] in found.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("architecture,problem,cycles\na,b,3\n", "column `mapping` is missing"),
        ("architecture,problem,mapping,cycles\na,b,c,fast\n", "`cycles` must be a number, got 'fast'"),
        ("architecture,problem,mapping,cycles\na,b,c,-1\n", "`cycles` must be > 0, got -1"),
        ("architecture,problem,mapping,cycles\n", "no measured rows"),
    ],
)
def test_bad_measurements_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "measured.csv"
    path.write_text(text)
    (tmp_path / "t.yaml").write_text("timing: {name: t}")
    found = run("calibrate", path, "--timing-table", tmp_path / "t.yaml", "--fit", "run_cycles")
    assert found.code == 2
    assert message in found.err


def test_an_unknown_constant_is_refused(measured: Path, tmp_path: Path) -> None:
    found = run("calibrate", measured, "--timing-table", tmp_path / "start.yaml", "--fit", "speed")
    assert found.code == 2
    assert "--fit must name fill_drain_cycles" in found.err
