"""`python -m experiments.manycore_kinds --smoke`: the last line is JSON."""

import json
from pathlib import Path

import pytest

from experiments import manycore_kinds


def test_two_kinds_are_compared_with_equal_cores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = tmp_path / "table.csv"
    monkeypatch.setattr("sys.argv", ["manycore_kinds", "--smoke", "--network", "squeezenet", "--table", str(table)])
    manycore_kinds.main()
    points = json.loads(capsys.readouterr().out.splitlines()[-1])["points"]
    assert [p["system"] for p in points] == ["tpu-quad", "split-quad", "tpu-duo"]
    assert points[0]["over_equal"] == 1.0 and all(
        p["simulated"] >= p["cycles"] * 0.99 and p["gap"] >= 0 for p in points
    )
    assert abs(points[2]["area_mm2"] / points[0]["area_mm2"] - 1) < 0.01, "equal area"
    assert len(table.read_text().splitlines()) == 4
