"""`python -m experiments.head_to_head`: every peer on a small part, the form of the last line, and data of another form."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data"
KEYS = {"problems", "equal_or_better", "proven", "ratio_median", "ratio_worst", "cpu_seconds", "their_cpu_seconds"}


def command(peer: str, data: Path, *more: str, out: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "experiments.head_to_head", "--peer", peer, "--data", str(data), "--out", str(out)]
    return subprocess.run([*line, *more], capture_output=True, text=True, check=False)


def last(run: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    assert set(found) >= KEYS
    return found


def test_factorflow(tmp_path: Path) -> None:
    found = last(command("factorflow", DATA / "factorflow", "--only", "gemmini", out=tmp_path))
    assert found["problems"] == found["proven"] == found["equal_or_better"] == found["reproduced"] == 2
    assert found["better"] == 1 and found["ratio_worst"] == pytest.approx(1.0) and found["their_cpu_seconds"] > 0


def test_accelforge(tmp_path: Path) -> None:
    found = last(command("accelforge", DATA / "accelforge" / "uneven", "--smoke", out=tmp_path))
    assert found["problems"] == found["proven"] == found["equal_or_better"] == 1


def test_airchitect_labels_are_held_against_a_bound(tmp_path: Path) -> None:
    data = tmp_path / "labels"
    data.mkdir()
    (data / "gemm.csv").write_text("M,N,GEMM_K,df,ConfigID,rewards\n64,8,4,dla,765,32\n64,8,4,eye,765,64\n")
    (data / "conv.csv").write_text("K,C,X,Y,R,S,df,ConfigID,rewards\n64,2,8,8,3,3,shi,767,1000\n")
    found = last(command("airchitect", data, out=tmp_path / "out"))
    assert (found["problems"], found["proven"], found["equal_or_better"], found["beyond_bound"]) == (3, 1, None, 0)
    assert found["ratio_worst"] == 1.0 and found["ratio_median"] == pytest.approx(0.648)


@pytest.mark.parametrize(
    ("peer", "message"),
    [("factorflow", "no machines"), ("accelforge", "no recorded runs"), ("airchitect", "no label tables")],
)
def test_a_folder_without_data_is_refused(peer: str, message: str, tmp_path: Path) -> None:
    run = command(peer, tmp_path, out=tmp_path / "out")
    assert run.returncode == 2 and message in run.stderr and "Traceback" not in run.stderr
