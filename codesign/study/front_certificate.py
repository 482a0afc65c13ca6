"""Writes the certificate of a proven front: every design of the space, evaluated or with a bound that an evaluated one settles."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.core.point import Point
from codesign.optim.certificate import Certificate
from codesign.study.front_check import FRONT, DesignFigures, FrontDocument, Task, key_of, settles, task_of
from codesign.study.specification import StudySpec
from codesign.study.study import Study
from codesign.verify.seal import seal

_PARTS = ("workload", "space", "choices", "search", "judge")
"""What of a study's specification a front depends on."""


def front_certificate(spec: StudySpec, study: Study, state: Certificate | None) -> FrontDocument:
    """The certificate of a study's front.

    Bounds here are closed ones, which the checker computes again. They are looser than the search's, so a design that they do not settle is
    evaluated too, and listed as such.

    Args:
        spec: Of the study.
        study: With its trials.
        state: What the search has proven.

    Raises:
        UserError: The front is not proven, or certificates do not cover the study.
    """
    if state is None or not state.proven:
        raise UserError(
            "no certificate is written: the front is not proven",
            hint="take --optimizer exact, and let it end by itself",
        )
    given = spec.to_json()
    asked = {key: given[key] for key in _PARTS if key in given}
    task = task_of(asked)
    figures = DesignFigures(task)
    document: FrontDocument = {
        "format": FRONT,
        "study": asked,
        "objectives": task.objectives,
        "epsilon": spec.search.epsilon or 0.0,
        "evaluated": [],
        "infeasible": [],
        "left_out": [],
    }
    for trial in study.trials:
        _add(document, figures, trial.point, trial.metrics, study.detail(trial.number))
    _add_others(document, task, figures)
    document["seal"] = seal(document)
    return document


def _add(
    document: FrontDocument, figures: DesignFigures, point: Point, metrics: Mapping[str, float], detail: Any
) -> None:
    """A design that was evaluated."""
    if not metrics:
        document["infeasible"].append({"point": dict(point)})
        return
    mappings = [layer["mapping"] for layer in detail["layers"]]
    values = figures.with_mappings(point, mappings)
    document["evaluated"].append({"point": dict(point), "values": values, "mappings": mappings})


def _add_others(document: FrontDocument, task: Task, figures: DesignFigures) -> None:
    """All designs that the search left out: those that closed bounds settle, and the others evaluated."""
    epsilon = document["epsilon"]
    done = {key_of(given["point"]) for given in (*document["evaluated"], *document["infeasible"])}
    for point in task.points:
        if key_of(point) in done:
            continue
        values = np.array([given["values"] for given in document["evaluated"]]).reshape(-1, len(task.objectives))
        bound = figures.least(point)
        if settles(values, bound, epsilon):
            document["left_out"].append({"point": dict(point), "bound": bound})
            continue
        found = task.evaluator(point)
        metrics = {} if found.metrics is None else found.metrics.to_dict()
        _add(document, figures, point, metrics, found.detail.to_json())


def write_front_certificate(path: Path, document: Mapping[str, Any]) -> None:
    """Write a certificate, a design a line."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n" + ",\n".join(f"  {json.dumps(item)}" for item in value) + "\n ]"
        else:
            text = json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    write_atomic(path, "{\n" + ",\n".join(parts) + "\n}\n")
