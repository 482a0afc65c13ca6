import json
from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.optim.pareto import nondominated
from experiments.outer_loop import main
from experiments.random_box import KINDS, random_box


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


def test_boxes_drawn_at_random_are_summed_up_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--random", "5", "--optimizers", "random", "--trials", "12", "--seeds", "1", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    for kind in (*KINDS, "all"):
        assert f"{kind:9s} random" in said


@pytest.mark.parametrize("number", range(10))
def test_a_random_box_has_a_front_of_designs_that_work(number: int) -> None:
    box = random_box(number)
    designs = box.space.to_points(box.space.enumerate())
    answers = [box.evaluate(point) for point in designs[:: max(1, len(designs) // 50)]]
    assert any(works for _, works in answers)
    assert all(set(values) == set(box.objectives) for values, works in answers if works)
    exact = box.exact_front()
    assert len(exact) == nondominated(exact).sum()
    seen = np.array([[values[o] for o in box.objectives] for values, works in answers if works])
    assert not ((seen[:, None, :] < exact[None]).all(axis=2)).any()
    assert box.works.all() == (KINDS[number % len(KINDS)] not in ("corner", "failing"))
