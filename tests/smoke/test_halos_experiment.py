"""The experiment on shared windows, small."""

import json
from pathlib import Path

from experiments import halos


def test_a_chain_is_fused_both_ways(tmp_path: Path) -> None:
    (row,) = halos.main(halos.parse_args(["--smoke", "--out", str(tmp_path)]))
    assert row["with"]["value"] < row["without"]["value"]
    assert row["with"]["halos"]["kept"] == {"conv": True}
    assert json.loads((tmp_path / "results.json").read_text())["rows"][0]["network"] == row["network"]
