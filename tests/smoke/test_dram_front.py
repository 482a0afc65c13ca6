"""DRAM energies by device on a front of two designs."""

import json
from pathlib import Path

import pytest

from experiments.dram_front import Config, main, run
from tests.command_line import run as codesign

DIGITS = Path(__file__).parents[2] / "experiments" / "data" / "digits.onnx"


def test_more_row_hits_cost_less_and_the_study_itself_is_the_first_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explored = codesign(
        "explore", "--network", DIGITS, "--dims", "n=1", "--space", "scratchpad", "--optimizer", "random", "--trials", 2,
        "--mapper", "anneal", "--evaluations", 20, "--out", tmp_path / "study", "--format", "json",
    )  # fmt: skip
    assert explored.code == 0, explored.err
    rows = {row["dram"]: row for row in run(Config(tmp_path / "study", (0.0, 1.0), tmp_path / "out"))}
    assert rows["as explored"]["enter"] == rows["as explored"]["leave"] == 0
    least = min(x["metrics"]["energy_j"] for x in explored.json["front"])
    assert rows["as explored"]["least_energy_mj"] == pytest.approx(1e3 * least)
    for name in {n.partition("@")[0] for n in rows} - {"as explored"}:
        assert rows[f"{name}@1"]["least_energy_mj"] < rows[f"{name}@0"]["least_energy_mj"]
    assert json.loads((tmp_path / "out" / "dram_front.json").read_text("utf-8"))[0]["dram"] == "as explored"
    assert main(["--study", str(tmp_path / "study"), "--smoke"]) == 0
    assert "as explored" in capsys.readouterr().out
