"""Every study of `experiments.exact` runs, small, and its results hang together."""

import json
from pathlib import Path

import pytest

from experiments import exact


@pytest.mark.parametrize("options", [[], ["--free-bypass", "--presets", "gemmini"]])
@pytest.mark.parametrize("study", ["presets", "reference"])
def test_layers_are_mapped_to_proven_optima(study: str, options: list[str], tmp_path: Path) -> None:
    arguments = ["--smoke", "--study", study, "--out", str(tmp_path), "--time-limit", "1", *options]
    rows = exact.main(exact.parse_args(arguments))
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["rows"] == json.loads(json.dumps(rows))
    assert document["config"]["study"] == study
    assert {r["objective"] for r in rows} == {"energy", "edp"}
    for row in rows:
        assert row["energy_pj"] > 0
        assert row["proof"] == "optimal" or options
        assert (row["proof"] == "gap") == (row["gap"] > 0)
    assert (tmp_path / "table.md").read_text().count("| architecture |") == 2


def test_designs_are_reproduced_by_their_seeds(tmp_path: Path) -> None:
    arguments = ["--smoke", "--study", "scratchpad", "--seed", "3", "--out", str(tmp_path)]
    first, second = (exact.main(exact.parse_args(arguments))[0] for _ in range(2))
    assert first["design"] == 4
    assert {k: v for k, v in first.items() if k != "cpu_seconds"} == {
        k: v for k, v in second.items() if k != "cpu_seconds"
    }
    assert first["layers"] > 0 and first["proven"] <= first["layers"]
