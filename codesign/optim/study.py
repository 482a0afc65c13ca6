"""The durable record of a search: a folder with what was asked for and every trial, written as it finishes.

* ``study.json``: space, workload, options, versions, seed, reference point. Written once.
* ``trials.jsonl``: one line a trial, appended and flushed to disk when the trial is done.
* ``details/N.json``: layers, mappings and breakdowns of trial N.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.core.files import write_json
from codesign.optim.hypervolume import hypervolume
from codesign.optim.outcomes import OutcomeConstraint, parse_constraints
from codesign.optim.pareto import nondominated

STUDY_FILE, TRIALS_FILE, DETAILS_FOLDER, REPORT_FILE = "study.json", "trials.jsonl", "details", "report.html"


@dataclass(frozen=True)
class Trial:
    """One evaluated design.

    Args:
        number: Position in the study, from 0.
        point: The design.
        metrics: Its figures by field name; empty when infeasible.
        infeasible: Resource, demand, limit and unit when it has no valid mapping; None otherwise.
        seconds: Wall-clock time of the evaluation.
        elapsed_s: Time since the study's run began when it was done.
    """

    number: int
    point: dict[str, Any]
    metrics: dict[str, float]
    infeasible: dict[str, Any] | None
    seconds: float
    elapsed_s: float

    def to_json(self) -> dict[str, Any]:
        """One line of ``trials.jsonl``."""
        return {
            "number": self.number,
            "point": self.point,
            "metrics": self.metrics,
            "infeasible": self.infeasible,
            "seconds": self.seconds,
            "elapsed_s": self.elapsed_s,
        }


@dataclass(frozen=True)
class StudyConfig:
    """What a study searches and how; two runs may share a folder only when all of this is equal.

    Args:
        space: Name and JSON of the design space.
        workload: Names, hashes, weights, batch and so on of the networks.
        objectives: Fields of the metrics to minimise.
        constraints: Bounds on metrics, such as ``power_w<=2``.
        optimizer: Name and options.
        mapper: Name and options of the inner search.
        evaluation: Options of the evaluation.
        seed: Of everything random.
    """

    space: dict[str, Any]
    workload: dict[str, Any]
    objectives: tuple[str, ...]
    constraints: tuple[str, ...]
    optimizer: str
    mapper: dict[str, Any]
    evaluation: dict[str, Any]
    seed: int

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {
            "space": self.space,
            "workload": self.workload,
            "objectives": list(self.objectives),
            "constraints": list(self.constraints),
            "optimizer": self.optimizer,
            "mapper": self.mapper,
            "evaluation": self.evaluation,
            "seed": self.seed,
        }


class Study:
    """A study folder, opened.

    Args:
        folder: Where it lives.
        config: What it searches.
        trials: Those already finished, in the order they did.
        versions: Of the packages that wrote it.
    """

    def __init__(
        self, folder: Path, config: dict[str, Any], trials: Sequence[Trial], versions: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self.config = config
        self.trials = list(trials)
        self.versions = dict(versions)

    @classmethod
    def open(cls, folder: str | Path) -> "Study":
        """Open a study to read it.

        Raises:
            UserError: The folder holds none, or its files are damaged.
        """
        place = Path(folder)
        try:
            head = json.loads((place / STUDY_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"no study in {place}", hint=f"expected {place / STUDY_FILE}") from None
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {place / STUDY_FILE}: {error}") from None
        if not isinstance(head, dict) or "config" not in head:
            raise UserError(f"{place / STUDY_FILE} is not the head of a study")
        return cls(place, head["config"], _read_trials(place / TRIALS_FILE), head.get("versions", {}))

    @classmethod
    def create_or_resume(cls, folder: str | Path, config: StudyConfig, versions: Mapping[str, str]) -> "Study":
        """Start a study in a folder, or go on with the one that is there.

        Raises:
            UserError: Another study is there; the message says what differs. The folder cannot be written.
        """
        place = Path(folder)
        plain = json.loads(json.dumps(config.to_json()))
        if (place / STUDY_FILE).exists():
            study = cls.open(place)
            differs = [key for key in plain if study.config.get(key) != plain[key]]
            if differs:
                key = differs[0]
                raise UserError(
                    f"{place} holds a study with another {key}: {_short(study.config.get(key), plain[key])}",
                    hint="give another --out, or the options it was started with",
                )
            return study
        write_json(place / STUDY_FILE, {"config": plain, "versions": dict(versions)})
        return cls(place, plain, (), versions)

    @property
    def objectives(self) -> tuple[str, ...]:
        """Fields of the metrics that are minimised."""
        return tuple(self.config["objectives"])

    @property
    def constraints(self) -> tuple[OutcomeConstraint, ...]:
        """Bounds on metrics."""
        return parse_constraints(self.config["constraints"])

    def add(self, trial: Trial, detail: Mapping[str, Any]) -> None:
        """Record a finished trial durably: once this returns, a crash does not lose it.

        Raises:
            UserError: The disk is full or the folder cannot be written; earlier trials are untouched.
        """
        line = json.dumps(trial.to_json()) + "\n"
        try:
            write_json(self.folder / DETAILS_FOLDER / f"{trial.number}.json", dict(detail))
            with (self.folder / TRIALS_FILE).open("a", encoding="utf-8") as stream:
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise UserError(f"cannot record trial {trial.number} in {self.folder}: {error.strerror}") from None
        self.trials.append(trial)

    def detail(self, number: int) -> dict[str, Any]:
        """Layers, mappings and breakdowns of a trial; empty when it was infeasible."""
        path = self.folder / DETAILS_FOLDER / f"{number}.json"
        if not path.exists():
            return {}
        loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return loaded

    def is_valid(self, trial: Trial) -> bool:
        """Whether a trial is feasible and keeps every constraint."""
        return not trial.infeasible and all(
            bool(c.satisfied(np.array([trial.metrics[c.metric]]))[0]) for c in self.constraints
        )

    def values(self, trials: Sequence[Trial]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Objectives, NaN for trials that are not valid: ``n x m``."""
        rows = [[t.metrics[o] if self.is_valid(t) else np.nan for o in self.objectives] for t in trials]
        return np.array(rows, dtype=np.float64).reshape(len(trials), len(self.objectives))

    def front(self) -> list[Trial]:
        """Valid trials no other one dominates, by the first objective."""
        valid = [t for t in self.trials if self.is_valid(t)]
        if not valid:
            return []
        best = nondominated(self.values(valid))
        chosen = [t for t, keep in zip(valid, best, strict=True) if keep]
        return sorted(chosen, key=lambda t: [t.metrics[o] for o in self.objectives])

    def reference_point(self) -> tuple[float, ...] | None:
        """The worst value of each objective among the valid ones of the first ten trials, times 1.1; then fixed."""
        values = self.values(self.trials[:10])
        seen = values[np.isfinite(values).all(axis=1)]
        return None if len(seen) == 0 else tuple((1.1 * seen.max(axis=0)).tolist())


def hypervolume_curve(values: np.ndarray[Any, np.dtype[np.float64]], reference: Sequence[float]) -> list[float]:
    """Hypervolume after each trial, in log10 of the objectives: decades to the power of their number.

    Args:
        values: ``n x m``, NaN where a trial is not valid.
        reference: The worst corner, in objective units.
    """
    logs = np.log10(values)
    corner = np.log10(np.array(reference)).tolist()
    return [hypervolume(logs[: k + 1], corner) for k in range(len(logs))]


def _read_trials(path: Path) -> list[Trial]:
    if not path.exists():
        return []
    trials = []
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines):
        if not line:
            continue
        try:
            trials.append(Trial(**json.loads(line)))
        except (ValueError, TypeError):
            if number == len(lines) - 1:
                # the process died while writing this line: cut it off, its trial is run again
                path.write_text("\n".join(lines[:-1]) + ("\n" if lines[:-1] else ""), encoding="utf-8")
                break
            raise UserError(f"{path}, line {number + 1} is damaged", hint="remove that line to go on") from None
    return trials


def _short(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                return f"{key}: {_short(old.get(key), new.get(key))}"
    text = f"{old!r}, asked for {new!r}"
    return text if len(text) < 200 else f"{str(old)[:80]} ..., asked for {str(new)[:80]} ..."
