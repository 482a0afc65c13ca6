"""The front over designs and mappings: no recorded design beats it, power is refused, and mistakes are named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.evaluation.specification import JudgeSpec
from codesign.library.studies import front_json
from codesign.optim.pareto import nondominated
from codesign.study.mapping_front import (
    MAPPING_FRONT_FILE,
    Compromise,
    MappingFront,
    read_mapping_front,
    write_mapping_front,
)
from codesign.study.run import prepare, run_study
from codesign.study.specification import StudySpec

RULES = [
    "pe<=8",
    "links=='systolic'",
    "scratchpad_kib<=128",
    "local_bytes<=64",
    "banks<=8",
    "burst_bytes>=128",
    "bus_bits>=128",
]


def asked(folder: Path, **search: Any) -> StudySpec:
    return StudySpec.from_json(
        {
            "workload": {"networks": ["alexnet"]},
            "place": {"out": str(folder)},
            "space": "gemmcore",
            "search": {"optimizer": "exact", "epsilon": 0.5, "constraints": RULES, **search},
            "judge": {"per_design": "pareto"},
        }
    )


def test_every_recorded_design_is_equalled_by_a_compromise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codesign.study.mapping_front.LAYER_LIMIT_S", 600.0)  # compiling on a busy machine counts in it
    run = run_study(asked(tmp_path))
    found = run.mappings
    assert found is not None and found.proven and run.certificate is not None and run.certificate.proven
    names = run.study.objectives
    values = np.array([[c.metrics[o] for o in names] for c in found.compromises])
    assert nondominated(values).all() and len(values) > len(run.study.front())
    for trial in run.study.front():
        assert (values <= np.array([trial.metrics[o] for o in names]) * (1 + 1e-9)).all(axis=1).any()
    assert found.designs + found.skipped == len(run.study.trials)
    document = front_json(run.study, run.certificate, run.timed, found)
    assert len(document["per_design"]["front"]) == len(values) and (tmp_path / MAPPING_FRONT_FILE).exists()
    assert "every set proven complete" in found.sentence()
    run.study.close()


def test_what_it_does_not_decide_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not take power"):
        run_study(asked(tmp_path, objectives=["latency", "power"]))
    with pytest.raises(UserError, match="does not take power"):
        run_study(asked(tmp_path, constraints=["power_w<=2"]))
    with pytest.raises(UserError, match="unknown --per-design 'al'"):
        JudgeSpec(per_design="al")
    with pytest.raises(UserError, match="plays no part with --robust"):
        JudgeSpec(per_design="pareto", robust=True)
    with pytest.raises(UserError, match="judged layer by layer"):
        JudgeSpec(per_design="pareto", scheduler="soma")
    spec = asked(tmp_path)
    with pytest.raises(UserError, match="--per-design pareto has no bounds: mapper 'salsa'"):
        prepare(replace(spec, judge=replace(spec.judge, mapper="salsa")))


def test_a_written_front_is_read_back(tmp_path: Path) -> None:
    front = MappingFront((Compromise(4, {"pe_x": 8}, {"latency_s": 1.0, "energy_j": 2.5}),), 3, 9, proven=False)
    write_mapping_front(front, tmp_path)
    assert read_mapping_front(tmp_path) == front
    assert read_mapping_front(tmp_path / "elsewhere") is None


def test_a_damaged_front_is_named(tmp_path: Path) -> None:
    (tmp_path / MAPPING_FRONT_FILE).write_text('{"front": [{"trial": 1}]}')
    with pytest.raises(UserError, match=MAPPING_FRONT_FILE):
        read_mapping_front(tmp_path)
