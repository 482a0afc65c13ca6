import json
from pathlib import Path

import pytest

from experiments.timing_rank import main


def test_both_latencies_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--smoke", "--network", "alexnet", "--arch", "gemmini", "--out", str(tmp_path)]) == 0
    (found,) = json.loads(capsys.readouterr().out.splitlines()[-1])["architectures"]
    assert found["layers"] == 8
    assert 0 < found["spearman_median"] <= 1
    assert found["lost_worst"] >= found["lost_mean"] >= 0
    rows = json.loads((tmp_path / "timing_rank.json").read_text())["architectures"][0]["rows"]
    for row in rows:
        first, best = row["analytical_optimum"], row["event_optimum"]
        assert first["analytic_cycles"] <= best["analytic_cycles"]
        assert best["event_cycles"] <= first["event_cycles"]
        assert first["analytic_cycles"] <= first["event_cycles"]


def test_an_unknown_preset_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--smoke", "--arch", "gemini"]) == 2
    assert "gemini" in capsys.readouterr().err
