"""The front in generated cycles beside the analytical one, on two designs of a small study."""

import json
import sys
from pathlib import Path

import pytest

from codesign.evaluation.specification import JudgeSpec, WorkloadSpec
from codesign.study.run import run_study
from codesign.study.specification import PlaceSpec, SearchSpec, StudySpec
from experiments import generated_front, layers_generated
from tests.oracle.test_generated_fronts import DIGITS

DIMS = {"n": 1}


def test_designs_are_judged_under_both_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_study(
        StudySpec(
            space="scratchpad",
            workload=WorkloadSpec(networks=(DIGITS,), dims=DIMS),
            judge=JudgeSpec(mapper="anneal", evaluations=30),
            search=SearchSpec(objectives=("latency", "energy", "area"), optimizer="random", trials=2, certify=0.0),
            place=PlaceSpec(out=str(tmp_path / "study")),
        )
    )
    run.study.close()
    out = tmp_path / "front.csv"
    arguments = ["generated_front", "--study", str(tmp_path / "study"), "--candidates", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    generated_front.main()
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["designs"] == 2 and found["ratio_worst"] >= found["ratio_median"]
    assert found["layer_ratio_median"] >= 1.0
    assert len(out.read_text("utf-8").splitlines()) == 3
    arguments = ["layers_generated", "--study", str(tmp_path / "study"), "--candidates", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    layers_generated.main()
    designs = json.loads(capsys.readouterr().out.splitlines()[-1])["designs"]
    lines = out.read_text("utf-8").splitlines()[1:]
    assert designs and sum(d["layers"] for d in designs) == len(lines)
    assert all(float(line.rsplit(",", 1)[1]) >= 1.0 for line in lines)
