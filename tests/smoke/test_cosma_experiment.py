"""The COSMA experiment, small, and the commands of its page."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from experiments import cosma
from tests.command_line import run

PAGE = Path(__file__).parents[2] / "docs" / "cosma.md"


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
