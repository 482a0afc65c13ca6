"""The COSMA experiment, small, and the commands of its page."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from experiments import cosma, cosma_scratchpad
from tests.command_line import run

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "cosma.md"


def test_experiment_writes_results_and_tables(tmp_path: Path, capsys: Any) -> None:
    rows = cosma.main(cosma.parse_args(["--smoke", "--out", str(tmp_path)]))
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["human"] == rows["human"]
    assert {row["proof"] for row in rows["human"]} == {"optimal"}
    for row in (*rows["human"], *rows["searched"]):
        assert all(row["cosma"] <= row[f"{order}+{policy.value}"] for order, policy in cosma.SCHEMES)
    tables = (tmp_path / "tables.md").read_text()
    assert "darts_v2 | M_R" in tables and "(paper: 84%)" in tables
    assert tables in capsys.readouterr().out
    assert (tmp_path / "fig3.svg").read_text().count("<svg") == (tmp_path / "fig4.svg").read_text().count("<svg") == 1
    again = cosma.main(cosma.parse_args(["--smoke", "--parts", "searched", "--out", str(tmp_path)]))
    assert again["human"] == rows["human"]  # kept from before


def test_scratchpad_sweep_trades_area_for_traffic(tmp_path: Path) -> None:
    points = cosma_scratchpad.main(cosma_scratchpad.parse_args(["--smoke", "--out", str(tmp_path)]))
    assert json.loads((tmp_path / "results.json").read_text())["points"] == points
    for name in {point["networks"] for point in points}:
        curve = [p for p in points if p["networks"] == name and p["feasible"]]
        moved = [p["dram_bytes"] for p in curve]
        assert len(curve) >= 2 and moved == sorted(moved, reverse=True) and moved[0] > moved[-1]
        assert [p["area_mm2"] for p in curve] == sorted(p["area_mm2"] for p in curve)
        assert all(p["proof"] == "optimal" for p in curve)
        assert curve[-1]["noncompulsory_bytes"] == 0 < curve[0]["noncompulsory_bytes"]
    assert [p["feasible"] for p in points].count(False) == 2
    assert "needs 1638400 bytes" in (tmp_path / "tables.md").read_text()


COMMANDS = [line for line in PAGE.read_text().splitlines() if line.startswith("codesign schedule")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: re.sub(r"[^a-zA-Z0-9]+", "-", c)[17:70])
def test_commands_of_the_page_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(command)[1:]
    for option, name in (("--html", "map.html"), ("--out", "out.json")):
        if option in words:
            words[words.index(option) + 1] = str(tmp_path / name)
    done = run(*words)
    assert (done.code, done.err.count("error")) == (0, 0)


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) >= 5
