"""`python -m experiments.head_to_head`: every peer on a small part, the form of the last line, and data of another form."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.head_peers import HeadToHeadConfig
from experiments.head_to_head import run

DATA = Path(__file__).parents[1] / "data"
KEYS = {"problems", "equal_or_better", "proven", "ratio_median", "ratio_worst", "cpu_seconds", "their_cpu_seconds"}


def command(peer: str, data: Path, *more: str, out: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "experiments.head_to_head", "--peer", peer, "--data", str(data), "--out", str(out)]
    return subprocess.run([*line, *more], capture_output=True, text=True, check=False)


def last(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert set(found) >= KEYS
    return found


def test_factorflow(tmp_path: Path) -> None:
    found = last(command("factorflow", DATA / "factorflow", "--only", "gemmini", out=tmp_path))
    assert found["problems"] == found["proven"] == found["equal_or_better"] == found["reproduced"] == 2
    assert found["better"] == 1 and found["ratio_worst"] == pytest.approx(1.0) and found["their_cpu_seconds"] > 0


def test_accelforge(tmp_path: Path) -> None:
    found = last(command("accelforge", DATA / "accelforge" / "uneven", "--smoke", out=tmp_path))
    assert found["problems"] == found["proven"] == found["equal_or_better"] == 1


@pytest.mark.parametrize("peer", ["timeloop", "zigzag"])
def test_searches_recorded_by_others(peer: str, tmp_path: Path) -> None:
    found = run(HeadToHeadConfig(peer, DATA / peer, smoke=True, out=tmp_path))
    assert found["problems"] == found["proven"] == found["equal_or_better"] != 0
    assert found.get("reproduced", found["problems"]) == found["problems"]


def test_a_comparison_writes_its_row_of_the_table(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    for _ in range(2):  # the second replaces the first
        run(HeadToHeadConfig("timeloop", DATA / "timeloop", out=tmp_path, table=table))
    with table.open(encoding="utf-8", newline="") as stream:
        head, *rows = csv.reader(stream)
    with (DATA.parents[1] / "docs/results/data/head-to-head.csv").open(encoding="utf-8", newline="") as stream:
        recorded_head, *recorded = csv.reader(stream)
    (row,) = rows
    (same,) = (r for r in recorded if r[0] == row[0])
    assert head == recorded_head and row[:6] + row[7:] == same[:6] + same[7:]  # all but our CPU seconds


def test_airchitect(tmp_path: Path) -> None:
    found: dict[str, Any] = run(HeadToHeadConfig("airchitect", DATA / "airchitect", only="conv 1", out=tmp_path))
    assert found["problems"] == found["proven"] == found["reproduced"] == found["optimal"] == 111
    assert found["better"] == 0 and found["ratio_worst"] == found["ratio_median"] == 1.0
    data = tmp_path / "labels"
    data.mkdir()
    head = "M,N,GEMM_K,df,ConfigID,rewards\n"
    (data / "gemm.csv").write_text(head + "4,640,342,eye,573,68401\n4,640,342,eye,573,1\n")
    changed = run(HeadToHeadConfig("airchitect", data, out=tmp_path / "out"))
    assert (changed["reproduced"], changed["not_mapped"], changed["ratio_worst"]) == (1, 1, None)
    (data / "gemm.csv").write_text(head + "4,640,342,eye,some,68401\n")
    refused = command("airchitect", data, out=tmp_path / "out")
    assert refused.returncode == 2 and "row 1" in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("peer", "message"),
    [("factorflow", "no machines"), ("accelforge", "no recorded runs"), ("airchitect", "no label tables")],
)
def test_a_folder_without_data_is_refused(peer: str, message: str, tmp_path: Path) -> None:
    refused = command(peer, tmp_path, out=tmp_path / "out")
    assert refused.returncode == 2 and message in refused.stderr and "Traceback" not in refused.stderr
