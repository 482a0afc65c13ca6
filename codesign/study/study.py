"""The durable record of a search: what was asked for, and every trial, written to a database as it finishes.

A study lives in ``FOLDER/study.db`` (SQLite) or in any database by URL; then ``FOLDER/study.json`` says which. Any number of processes
may work on one study; see `codesign.study.storage` for how trials are shared out.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.core.errors import UserError, unknown_name
from codesign.core.files import read_structured, write_json
from codesign.core.json_types import JsonObject
from codesign.core.point import Point, PointValue
from codesign.evaluation.records import ConfigRecord, DetailRecord, HeadRecord, TrialRecord
from codesign.optim.hypervolume import hypervolume
from codesign.optim.outcomes import OutcomeConstraint, parse_constraints
from codesign.optim.pareto import nondominated
from codesign.study.config import StudyConfig, check_same, default_name, is_low_fidelity, note_of
from codesign.study.owner import owner_id, owner_is_dead
from codesign.study.storage import Claim, Database, distributions_of, is_url, sqlite_url, without_password

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

DATABASE_FILE, POINTER_FILE, REPORT_FILE = "study.db", "study.json", "report.html"

LOCAL_NAME = "study"
"""Of the one study in a folder's own database."""

GRACE_S = 120.0
"""A process on another machine that was not heard of for so long is held for dead and its trials are taken up."""

BEAT_S = 15.0
"""How often a process gives a sign of life."""


@dataclass(frozen=True)
class Trial:
    """One evaluated design.

    Args:
        number: In the study, from 0, in the order in which designs were chosen.
        point: The design.
        metrics: Its figures by field name; empty when infeasible.
        infeasible: Resource, demand, limit and unit when it has no valid mapping; None otherwise.
        seconds: Wall-clock time of the evaluation.
        elapsed_s: Time since the study's run began when it was done.
    """

    number: int
    point: Point
    metrics: dict[str, float]
    infeasible: JsonObject | None
    seconds: float
    elapsed_s: float

    @property
    def reason(self) -> str:
        """The resource that was too small, or what else failed; empty where nothing did."""
        return "" if self.infeasible is None else str(self.infeasible["resource"])

    def to_json(self) -> TrialRecord:
        """The fields as plain values."""
        return {
            "number": self.number,
            "point": self.point,
            "metrics": self.metrics,
            "infeasible": self.infeasible,
            "seconds": self.seconds,
            "elapsed_s": self.elapsed_s,
        }


class Study:
    """A study, opened.

    Args:
        folder: Of its report, and of its database unless that is elsewhere.
        name: In the database.
        config: The search as recorded: space, networks, objectives, optimiser.
        versions: Of the packages that began it.
        database: Where it is kept.
        identifier: Of the study in the database.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        config: ConfigRecord,
        versions: Mapping[str, str],
        database: Database,
        identifier: int,
    ) -> None:
        self.folder = folder
        self.name = name
        self.config = config
        self.versions = dict(versions)
        self.trials: list[Trial] = []
        self._database = database
        self._id = identifier
        self._owner = owner_id()
        self._mine: dict[int, Claim] = {}
        self._others: dict[int, Claim] = {}
        self._done: set[int] = set()
        self._distributions: dict[str, BaseDistribution] | None = None
        self._read_all()

    # ---- opening -------------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: str | Path, storage: str | None = None, name: str | None = None) -> "Study":
        """Open a study to read it.

        Args:
            folder: Where `create_or_resume` put it, or the file of its database.
            storage: URL of its database, where that is not in the folder.
            name: Of the study, where the database holds several.

        Raises:
            UserError: There is none, or its database cannot be read.
        """
        place = Path(folder)
        if place.suffix == ".db" and not place.is_dir():
            place, storage = place.parent, sqlite_url(place)
        url, recorded = _locate(place, storage)
        database = Database(url, create=False)
        chosen = name or recorded or _only_study(database)
        identifier = database.find(chosen)
        if identifier is None:
            raise unknown_name("study", chosen, [s.name for s in database.studies()], where=database.place)
        head = database.head(identifier)
        return cls(place, chosen, head["config"], head.get("versions", {}), database, identifier)

    @classmethod
    def at(cls, place: str | Path | None, storage: str | None = None, name: str | None = None) -> "Study":
        """Open a study by what a person names.

        Args:
            place: Folder, .db file or URL; with `storage` the folder its report goes to (default: the current one).
            storage: URL of its database.
            name: Of the study there.

        Raises:
            UserError: Nothing is named, two databases are, or there is no such study.
        """
        if place is not None and is_url(str(place)):
            if storage is not None:
                raise UserError(f"two databases: {str(place)!r} and `storage` {storage!r}", hint="give one")
            return cls.open(Path(), storage=str(place), name=name)
        if place is None and storage is None:
            raise UserError("which study?", hint="give its folder, a .db file, or `storage` with `name`")
        return cls.open(place or Path(), storage=storage, name=name)

    @classmethod
    def create_or_resume(
        cls,
        folder: str | Path,
        config: StudyConfig,
        versions: Mapping[str, str],
        *,
        storage: str | None = None,
        name: str | None = None,
        pointer: bool = True,
    ) -> "Study":
        """Start a study, or go on with the one that is there.

        Args:
            folder: For its report, and for ``study.db`` when no storage is given.
            config: The search as recorded: space, networks, objectives, optimiser.
            versions: Of the packages that run it.
            storage: URL of a database elsewhere.
            name: Of the study; made of the configuration, or the folder's one study, where absent.
            pointer: Write which database and study it is into the folder, where the database is elsewhere.

        Raises:
            UserError: Another study is there; the message says what differs. The database cannot be reached or written.
        """
        place = Path(folder)
        plain: ConfigRecord = json.loads(json.dumps(config.to_json()))
        _refuse_files_of_old(place)
        url = storage if storage is not None else sqlite_url(place / DATABASE_FILE)
        chosen = name or (default_name(plain) if storage is not None else LOCAL_NAME)
        database = Database(url, create=True)
        identifier = database.find(chosen)
        if identifier is None or database.is_empty(identifier):
            made: HeadRecord = {"config": plain, "versions": dict(versions)}
            identifier = database.create(chosen, plain["objectives"], made, note_of(plain))
        head = database.head(identifier)
        where = f"{place / DATABASE_FILE}" if storage is None else f"study {chosen!r} in {database.place}"
        recorded = head["config"].copy()  # constraints may be written otherwise, e.g. with spaces
        recorded["constraints"] = [str(c) for c in parse_constraints(recorded["constraints"])]
        check_same(recorded, plain, where)
        if storage is not None and pointer:
            write_json(place / POINTER_FILE, {"storage": without_password(url), "study": chosen})
        return cls(place, chosen, head["config"], head.get("versions", {}), database, identifier)

    def close(self) -> None:
        """Give back what this process did not finish, and close the database."""
        try:
            self.release()
        finally:
            self._database.close()

    @property
    def objectives(self) -> tuple[str, ...]:
        """Fields of the metrics that are minimised."""
        return tuple(self.config["objectives"])

    @property
    def constraints(self) -> tuple[OutcomeConstraint, ...]:
        """Bounds on metrics that a design must keep to count as feasible."""
        return parse_constraints(self.config["constraints"])

    @property
    def storage(self) -> str:
        """Where the database is, without its password."""
        return str(self._database.place)

    @property
    def label(self) -> str:
        """The study in messages: its folder where the database is there, else its name and database."""
        own = self.storage == str((self.folder / DATABASE_FILE).absolute()) and self.name == LOCAL_NAME
        return str(self.folder) if own else f"study {self.name!r} in {self.storage}"

    # ---- recording -----------------------------------------------------------------------------

    def sync(self) -> list[Trial]:
        """Learn what other processes did; returns the trials they finished since the last call, oldest first."""
        fresh = []
        self._others = {}
        for claim in self._database.claims(self._id, self._done | set(self._mine)):
            trial = self._read(claim)
            if trial is None:
                self._others[claim.number] = claim
            else:
                fresh.append(trial)
        fresh.sort(key=_order)
        for trial in fresh:
            self._append(trial)
        return fresh

    @property
    def running_elsewhere(self) -> list[Claim]:
        """Trials of other processes at the last `sync`."""
        return list(self._others.values())

    def claim(self, point: Mapping[str, PointValue], limit: int | None = None) -> int | None:
        """Take the next trial for a design; its number, or None where the study has `limit` trials or the design is taken."""
        number = len(self._done) + len(self._mine) + len(self._others)
        if limit is not None and number >= limit:
            return None
        self._mine[number] = Claim(number, dict(point), None, self._owner, 0.0)  # first, for Ctrl-C while it is written
        if not self._database.claim(self._id, number, point, self._owner):
            del self._mine[number]
            return None
        self._begin(number)
        return number

    def take_over(self, grace_s: float = GRACE_S) -> Claim | None:
        """Take up a trial whose process is dead, gave it back, or was not heard of for `grace_s`; None where there is none."""
        for number, claim in sorted(self._others.items()):
            lost = claim.owner is None or owner_is_dead(claim.owner) or time.time() - claim.beat > grace_s
            if not lost or not self._database.seize(self._id, claim, self._owner):
                continue
            (now,) = (c for c in self._database.claims(self._id) if c.number == number)
            if self._read(now) is not None:
                continue  # it was finished in between; the next `sync` finds it
            del self._others[number]
            self._mine[number] = now
            if now.trial is None:
                self._begin(number)
            return now
        return None

    def beat(self) -> None:
        """Tell other processes that this one lives. Safe to call from another thread."""
        numbers = list(self._mine)
        if numbers:
            self._database.beat(self._id, numbers, self._owner)

    def after_interruption(self) -> None:
        """Make the database usable again where Ctrl-C may have met it at work."""
        self._database.drop_session()

    def release(self) -> None:
        """Give back the trials that this process took and did not finish; the next one takes them up."""
        numbers, self._mine = list(self._mine), {}
        if numbers:
            self._database.release(self._id, numbers, self._owner)

    def finish(self, trial: Trial, detail: DetailRecord) -> bool:
        """Record a trial this process took, durably: once this returns, a crash does not lose it.

        Returns:
            False where another process took it over meanwhile (this one was held for dead): then it counts there, once.

        Raises:
            UserError: The disk is full or the database cannot be reached; earlier trials are untouched.
        """
        claim = self._mine[trial.number]
        assert claim.trial is not None
        failed = bool(trial.infeasible) or not all(o in trial.metrics for o in self.objectives)
        recorded = self._database.finish(
            self._id,
            trial.number,
            claim.trial,
            self._owner,
            values=None if failed else [trial.metrics[o] for o in self.objectives],
            result=trial.to_json(),
            shown=self._shown(trial),
            violations=[] if failed else self._violations(trial),
            detail=detail,
        )
        del self._mine[trial.number]
        if recorded:
            self._append(trial)
        return recorded

    def add(self, trial: Trial, detail: DetailRecord) -> None:
        """Record a trial that is already finished, under the next free number.

        Raises:
            UserError: The study has that design, or the database cannot be written.
        """
        self.sync()
        number = self.claim(trial.point)
        if number is None:
            raise UserError(f"the study already has the design {dict(trial.point)}", where=self.label)
        self.finish(replace(trial, number=number), detail)

    def detail(self, number: int) -> DetailRecord:
        """Layers, mappings and breakdowns of a trial; empty when it was infeasible."""
        return self._database.detail(self._id, number)

    def _begin(self, number: int) -> None:
        if self._distributions is None:
            self._distributions = distributions_of(self.config["space"])
        claim = self._mine[number]
        trial = self._database.begin(self._id, number, claim.point, self._distributions)
        self._mine[number] = replace(claim, trial=trial)

    def _read_all(self) -> None:
        results = self._database.results(self._id)
        found = []
        for claim in self._database.claims(self._id):
            if claim.trial in results:
                found.append(Trial(**results[claim.trial]))
            else:
                self._others[claim.number] = claim
        for trial in sorted(found, key=_order):
            self._append(trial)

    def _read(self, claim: Claim) -> Trial | None:
        result = None if claim.trial is None else self._database.result(claim.trial)
        return None if result is None else Trial(**result)

    def _append(self, trial: Trial) -> None:
        self._done.add(trial.number)
        self.trials.append(trial)

    def _shown(self, trial: Trial) -> JsonObject:
        """Metrics that are not objectives, or why the design failed: columns of their own in Optuna's dashboard."""
        if trial.infeasible:
            return {"infeasible": trial.reason}
        return {name: value for name, value in trial.metrics.items() if name not in self.objectives}

    def _violations(self, trial: Trial) -> list[float]:
        return [
            (trial.metrics[c.metric] - c.bound) * (1 if c.upper else -1)
            for c in self.constraints
            if c.metric in trial.metrics
        ]

    # ---- reading -------------------------------------------------------------------------------

    def is_valid(self, trial: Trial) -> bool:
        """Whether a trial is feasible and keeps every constraint."""
        return not trial.infeasible and all(c.kept_by(trial.metrics) for c in self.constraints)

    def trial(self, number: int) -> Trial:
        """The trial of that number.

        Raises:
            UserError: There is none.
        """
        found = next((t for t in self.trials if t.number == number), None)
        if found is None:
            raise UserError(f"{self.label} has no trial {number}", hint=f"it has {len(self.trials)} trials")
        return found

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


def _locate(place: Path, storage: str | None) -> tuple[str, str | None]:
    """The URL of the database of a folder, and the study's name when the folder says it."""
    if storage is not None:
        return storage, None
    if (place / DATABASE_FILE).exists():
        return sqlite_url(place / DATABASE_FILE), LOCAL_NAME
    _refuse_files_of_old(place)
    pointer = place / POINTER_FILE
    if not pointer.exists():
        raise UserError(f"no study in {place}", hint=f"expected {place / DATABASE_FILE}, or --storage")
    found = read_structured(pointer)
    if not isinstance(found, dict) or not isinstance(found.get("storage"), str):
        raise UserError(f"{pointer} does not say where the study is", hint="give --storage and --study")
    return found["storage"], found.get("study")


def _refuse_files_of_old(place: Path) -> None:
    if (place / "trials.jsonl").exists() and not (place / DATABASE_FILE).exists():
        raise UserError(
            f"{place} holds a study in the files of an earlier version",
            hint="bring it in with: codesign study import FOLDER --out NEW",
        )


def _only_study(database: Database) -> str:
    names = [s.name for s in database.studies() if not is_low_fidelity(s.head["config"])]
    if len(names) != 1:
        listed = ", ".join(names[:20]) or "none"
        raise UserError(f"{database.place} holds {len(names)} studies: {listed}", hint="choose one with --study")
    return names[0]


def _order(trial: Trial) -> tuple[float, int]:
    return trial.elapsed_s, trial.number
