"""The certified gap of a study, as files beside it: how much better than its front any design may be, and what a later run goes on from."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

from codesign.core.files import read_kept, write_json
from codesign.optim.certify import CertifiedFront, Kept, certify
from codesign.optim.pareto import thinned
from codesign.optim.protocols import History, Problem
from codesign.study.proof import MOST_POINTS
from codesign.study.study import Study

CERTIFIED_FILE = "certified.json"
"""What is shown, for people and the report."""

STATE_FILE = "certified.npz"
"""What bounds showed of single designs or boxes, for a later run."""

_DIGITS = 3
"""Of CPU seconds that are written."""


class Certified(TypedDict):
    """What the program reads of that file."""

    certified_factor: float | None
    certify_cpu_seconds: float
    certify_finished: bool
    sentence: str
    trials: list[int]
    study: str


def certify_study(study: Study, problem: Problem, history: History, seconds: float) -> CertifiedFront | None:
    """Show how much better than a study's front any design may be, going on where an earlier run stopped; None where nothing was left to spend.

    Args:
        study: With its trials.
        problem: With bounds.
        history: All trials as told.
        seconds: CPU seconds to spend for these trials in all, those of earlier runs included.
    """
    earlier, same = _earlier(study), read_certified(study)
    spent = 0.0 if same is None else float(same["certify_cpu_seconds"])
    if same is not None and (spent >= seconds or same["certify_finished"]):
        return None
    kept = None if earlier is None else _state(study)
    found, state = certify(problem, history, seconds - spent, kept, spent)
    (study.folder / STATE_FILE).unlink(missing_ok=True)  # of another front
    write_certified(study, found)
    if state:
        arrays = dict(state)
        np.savez_compressed(study.folder / STATE_FILE, **cast(Any, arrays))
    return found


def write_certified(study: Study, found: CertifiedFront) -> Path:
    """Write what is shown; returns its path."""
    document = {
        **found.to_json(),
        "certify_cpu_seconds": round(found.cpu_seconds, _DIGITS),
        "sentence": found.sentence(),
        "objectives": list(study.objectives),
        "hypervolume_inner": found.hypervolume_inner,
        "hypervolume_outer": found.hypervolume_outer,
        "outer_front": thinned(found.outer, MOST_POINTS).tolist(),
        "steps": [[round(s, _DIGITS), factor] for s, factor in found.steps],
        "history": [],
        "trials": _numbers(study),
        "study": _digest(study, set(_numbers(study))),
    }
    path = study.folder / CERTIFIED_FILE
    write_json(path, document)
    return path


def read_certified(study: Study) -> Certified | None:
    """What is shown of a study's front as it is; None where nothing was looked at, or trials came since."""
    found = _earlier(study)
    return found if found is not None and set(found.get("trials", ())) == set(_numbers(study)) else None


def _earlier(study: Study) -> Certified | None:
    """What an earlier run showed of the same study, perhaps with fewer trials; None where none did."""
    document: Certified | None = read_kept(study.folder / CERTIFIED_FILE) or None
    if document is None:
        return None
    then, now = set(document.get("trials", ())), set(_numbers(study))
    if not then <= now or document.get("study") != _digest(study, then):
        return None
    return document


def _state(study: Study) -> Kept | None:
    path = study.folder / STATE_FILE
    if not path.exists():
        return None
    try:
        with np.load(path) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, zipfile.BadZipFile):  # cut short by a crash: nothing is lost but time
        return None


def _numbers(study: Study) -> list[int]:
    return sorted(t.number for t in study.trials)


def _digest(study: Study, numbers: set[int]) -> str:
    """What tells a study and some of its trials from others that used the folder before."""
    points = [[t.number, t.point] for t in sorted(study.trials, key=lambda t: t.number) if t.number in numbers]
    text = json.dumps([study.config, points], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
