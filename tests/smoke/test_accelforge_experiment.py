"""The comparison with AccelForge runs on its smallest problem and writes its table."""

import json
from pathlib import Path

from experiments import accelforge


def test_smallest_problem_is_compared(tmp_path: Path) -> None:
    rows = accelforge.main(accelforge.parse_args(["--smoke", "--data", "tests/data", "--out", str(tmp_path)]))
    assert json.loads((tmp_path / "results.json").read_text())["rows"] == json.loads(json.dumps(rows))
    (row,) = rows
    assert row["edp"]["proven"]
    assert row["energy"]["energy_j"] <= row["edp"]["energy_j"]
    assert row["latency"]["latency_s"] <= row["edp"]["latency_s"]
    assert (tmp_path / "table.md").read_text().count("exact mapper") == 3
