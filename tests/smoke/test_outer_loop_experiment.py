import json
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from experiments.outer_loop import main


def test_the_comparison_runs_and_writes_its_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--smoke", "--out", str(tmp_path)])
    written = json.loads((tmp_path / "curves.json").read_text())
    assert {r["optimizer"] for r in written["results"]} == {"random", "mobo"}
    for result in written["results"]:
        curve = result["log_median"]
        assert len(curve) == 8
        assert curve == sorted(curve)
        assert 0 < curve[-1] <= 1
    assert "small" in capsys.readouterr().out


def test_an_unknown_box_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown box 'smal'"):
        main(["--boxes", "smal", "--out", str(tmp_path)])
