"""Certificates of fronts: written after a proof, accepted, and refused with their line when anything in them is changed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import codesign
from codesign.core.errors import UserError
from codesign.evaluation.specification import JudgeSpec, WorkloadSpec
from codesign.study.front_certificate import front_certificate, write_front_certificate
from codesign.study.front_check import FRONT, DesignFigures, task_of
from codesign.study.run import run_study
from codesign.study.specification import PlaceSpec, SearchSpec, StudySpec
from codesign.verify.seal import SEAL, seal
from codesign.workloads.network_json import network_to_json
from experiments.attacks.hardware_spaces import random_network, random_space

SPACE = random_space(5)
NAME = f"{__name__}:SPACE"


def specification(
    folder: Path, objectives: tuple[str, ...] = ("latency_s", "energy_j", "area_mm2"), **search: Any
) -> StudySpec:
    network = folder / "network.json"
    network.write_text(json.dumps(network_to_json(random_network(5))))
    return StudySpec(
        WorkloadSpec((str(network),)),
        PlaceSpec(str(folder / "study")),
        NAME,
        search=SearchSpec("exact", objectives=objectives, certify=0.0, **search),
    )


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("front")
    spec = specification(folder, epsilon=0.1)
    found = codesign.explore(spec)
    document = found.front_certificate()
    found.study.close()
    write_front_certificate(folder / "front.json", document)
    return json.loads((folder / "front.json").read_text()), folder


def test_a_front_that_is_proven_is_accepted(proof: tuple[dict[str, Any], Path]) -> None:
    document, folder = proof
    assert document["left_out"] and document["evaluated"]
    verdict = codesign.check_certificate(folder / "front.json")
    assert verdict.accepted, verdict.reason
    assert f"{len(document['left_out'])} designs left out have bounds computed again" in verdict.reason
    assert "8 of" in verdict.reason


def test_no_closed_bound_is_above_an_evaluation(proof: tuple[dict[str, Any], Path]) -> None:
    task = task_of(proof[0]["study"])
    figures = DesignFigures(task)
    checked = 0
    for point in task.points:
        found = task.evaluator(point)
        if found.metrics is None:
            assert figures.fits_nothing(point)
            continue
        values = found.metrics.to_dict()
        assert all(b <= values[o] for b, o in zip(figures.least(point), task.objectives, strict=True))
        checked += 1
    assert checked == len(proof[0]["evaluated"]) + len(proof[0]["left_out"])


def raised(part: str, key: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        row = document[part][0][key]
        row[0] *= 1 + 1e-9

    return change


def moved(document: dict[str, Any]) -> None:
    document["left_out"].append(document["left_out"].pop(0))
    document["left_out"][-1] = document["left_out"][0]


def better(document: dict[str, Any]) -> None:
    document["epsilon"] = document["study"]["search"]["epsilon"] = 0.0


def shortened(document: dict[str, Any]) -> None:
    document["evaluated"].pop()


DAMAGES = [
    (raised("left_out", "bound"), "`left_out[0].bound` is"),
    (raised("evaluated", "values"), "`evaluated[0].values` is"),
    (moved, "is no design of the space, or listed twice"),
    (shortened, "designs of the space are not listed"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES)
def test_damage_is_refused_by_arithmetic_and_with_its_line(
    proof: tuple[dict[str, Any], Path], damage: Callable[[dict[str, Any]], None], reason: str, tmp_path: Path
) -> None:
    document = json.loads(json.dumps(proof[0]))
    damage(document)
    path = tmp_path / "front.json"
    write_front_certificate(path, document)
    refused = codesign.check_certificate(path)
    assert not refused.accepted and refused.reason.startswith("line ") and reason in refused.reason
    write_front_certificate(path, {**document, SEAL: seal(document)})
    forged = codesign.check_certificate(path)
    assert not forged.accepted and reason in forged.reason


def test_an_epsilon_that_was_not_proven_is_refused(proof: tuple[dict[str, Any], Path]) -> None:
    document = json.loads(json.dumps(proof[0]))
    better(document)
    verdict = codesign.check_certificate({**document, SEAL: seal(document)})
    assert not verdict.accepted and "no evaluated design is within 0 of its bound" in verdict.reason


def test_another_version_and_a_missing_part(proof: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    path = tmp_path / "front.json"
    write_front_certificate(path, {**proof[0], "format": FRONT[:-1] + "0"})
    with pytest.raises(UserError, match=f"line 2: not a certificate of this version: `format` must be '{FRONT}'"):
        codesign.check_certificate(path)
    with pytest.raises(UserError, match="a part of it lacks 'left_out'"):
        codesign.check_certificate({k: v for k, v in proof[0].items() if k != "left_out"})


def test_what_is_not_proven_or_not_covered_is_told(tmp_path: Path) -> None:
    spec = specification(tmp_path, trials=1)
    run = run_study(spec)
    with pytest.raises(UserError, match="the front is not proven"):
        front_certificate(spec, run.study, run.certificate)
    run.study.close()
    limited = specification(tmp_path, constraints=("power_w<=2",))
    with pytest.raises(UserError, match="it has constraints on metrics"):
        task_of(limited.to_json())
    with pytest.raises(UserError, match="which proves nothing"):
        task_of(StudySpec(limited.workload, limited.place, NAME).to_json())
    with pytest.raises(UserError, match="mapper 'anneal' proves nothing"):
        task_of(replace(specification(tmp_path), judge=JudgeSpec(mapper="anneal")).to_json())
