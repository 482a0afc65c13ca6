import json
from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.optim.optimizer import Optimizer
from codesign.optim.outcomes import parse_constraints
from codesign.optim.protocols import Problem
from experiments import optimizer_peers
from experiments.outer_loop import box_of


def test_runs_are_kept_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "peers.json"
    optimizer_peers.main(["--smoke", "--out", str(out)])
    runs = json.loads(out.read_text())
    assert [(r["optimizer"], r["seed"]) for r in runs] == [("mobo:black", 0), ("nsga2:5", 0)]
    for run in runs:
        assert len(run["shares"]) == len(run["wall_s"]) == 8
        assert 0.0 < run["shares"][-1] <= 1.0
    assert out.with_suffix(".csv").read_text().count("`small`") == 2
    monkeypatch.setattr(optimizer_peers, "run", lambda *_: pytest.fail("it was run again"))
    optimizer_peers.main(["--smoke", "--out", str(out)])
    with pytest.raises(UserError, match="holds a run of 8 trials, expected 40"):
        optimizer_peers.main(["--boxes", "small", "--optimizers", "nsga2:5=1", "--out", str(out)])


def test_ax_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ax.api.client", None)
    with pytest.raises(UserError, match="Ax is not installed"):
        optimizer_peers.optimizer_of("ax", box_of("small"), 0)


@pytest.mark.slow("oracle")
def test_plain_botorch_learns_from_designs_that_fail() -> None:
    box = box_of("leacp")
    problem = Problem(box.space, box.objectives, parse_constraints(["power<=0.5"]))
    optimizer = Optimizer(problem, optimizer_peers.PlainBoTorch(problem, samples=8, restarts=1, raw=16))
    for _ in range(17):
        (point,) = optimizer.ask(1)
        optimizer.tell(point, *box.evaluate(point))
    assert len(np.unique(optimizer.history().indices, axis=0)) == 17
    assert not optimizer.history().valid.all()
