import json
from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from experiments.budgets import Config, curves, main


def test_runs_are_kept_and_compared_in_one_frame(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--space",
        "gemmcore",
        "--optimizers",
        "random",
        "nsga2:5",
        "nsga2:5@16",
        "--trials",
        "12",
        "--seeds",
        "2",
    ]
    main([*arguments, "--out", str(tmp_path), "--figure", str(tmp_path / "curves.svg")])
    files = sorted(tmp_path.glob("*.json"))
    assert len(files) == 6
    found = curves(Config("gemmcore"), tmp_path)
    assert max(float(c.share[-1]) for c in found) <= 1.0 + 1e-9
    for curve in found:
        assert (np.diff(curve.share) >= -1e-12).all() and (np.diff(curve.proposing) >= 0.0).all()
        assert curve.trials[-1] == (16 if "@" in curve.optimizer else 12)
        assert curve.after(1e9, 1.0) != curve.after(1e9, 1.0), "a run that was shorter says nothing"
        assert curve.after(11.5 + float(curve.proposing[-1]), 1.0) <= curve.share[-1]
    before = [file.stat().st_mtime_ns for file in files]
    main([*arguments, "--out", str(tmp_path)])
    assert [file.stat().st_mtime_ns for file in files] == before, "finished runs are not made again"
    assert "2 seeds" in capsys.readouterr().out
    assert (tmp_path / "curves.svg").read_text().startswith("<?xml")


def test_the_best_product_is_told_over_the_best_of_all_runs(tmp_path: Path) -> None:
    main(
        [
            "--space",
            "gemmcore",
            "--objective",
            "edap",
            "--optimizers",
            "random",
            "--trials",
            "8",
            "--seeds",
            "2",
            "--out",
            str(tmp_path),
        ]
    )
    found = curves(Config("gemmcore", objective="edap"), tmp_path)
    assert min(float(c.share[-1]) for c in found) == pytest.approx(1.0)
    values = [json.loads(f.read_text())["values"] for f in sorted(tmp_path.glob("*.json"))]
    products = [min(np.prod(v) for v in run) for run in values]
    assert [float(c.share[-1]) for c in found] == pytest.approx([p / min(products) for p in products])


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--trials and --seeds must be at least 1"):
        main(["--trials", "0", "--out", str(tmp_path)])
    with pytest.raises(UserError, match="--objective must be 'front' or 'edap', got 'speed'"):
        main(["--objective", "speed", "--out", str(tmp_path)])
