"""`experiments.uneven` runs, small, and its results hang together."""

import json
from pathlib import Path

from experiments import uneven


def test_even_and_uneven_optima_stand_beside_each_other(tmp_path: Path) -> None:
    arguments = ["--smoke", "--presets", "gemmini", "--divide", "16", "--out", str(tmp_path)]
    rows = uneven.main(uneven.parse_args([*arguments, "--time-limit", "30"]))
    assert json.loads((tmp_path / "results.json").read_text())["rows"] == json.loads(json.dumps(rows))
    assert [row["objective"] for row in rows] == ["energy", "edp"]
    for row in rows:
        assert row["uneven"]["value"] <= row["even"]["value"] * (1 + 1e-9)
        assert (row["uneven"]["proof"] == "gap") == (row["uneven"]["gap"] > 0)
    assert "| architecture |" in (tmp_path / "table.md").read_text()
