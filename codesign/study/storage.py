"""Studies in a database: Optuna's tables hold the trials, so its dashboard opens them; one table of ours says who works on what.

Optuna numbers and stores trials, but two processes that ask at the same moment may be given the same design, and it has no place
for the mappings of a design (some 100 kB, which its dashboard would load with every trial). So `codesign_trials` has a row per
trial, made before it is evaluated:

* (study, number) and (study, design) are unique: a number is given once and no design is evaluated twice, whatever the database;
* `owner` and `beat` say which process evaluates it and when that was last heard of, so that the trials of a dead one are taken up;
* `trial` points to Optuna's trial; its change of state from running to finished, which happens once, is what counts a trial;
* `detail` holds layers, mappings and breakdowns as compressed JSON.
"""

import hashlib
import json
import os
import time
import weakref
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.core.point import Point, PointValue
from codesign.evaluation.records import DetailRecord, HeadRecord, TrialRecord
from codesign.study.former_records import former_name, present_head
from codesign.study.storage_errors import database_errors

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

HEAD = "codesign"
"""Optuna user attribute of a study: configuration and versions."""

RESULT = "result"
"""Optuna user attribute of a trial: its figures."""

_NOTE, _NOTE_VERSION = "dashboard:note_str:0", "dashboard:note_ver"
"""Optuna system attributes in which its dashboard looks for the text it shows beside a study."""

FORMAT = 1
"""Of the head and of the table."""

_OPEN_TRIES = 8

_HEAD_TRIES = 8


@dataclass(frozen=True)
class Claim:
    """A trial that some process took to evaluate.

    Args:
        number: Of the trial.
        point: The design.
        trial: Identifier of Optuna's trial; None when its owner died before making one.
        owner: The process; None when it gave the trial back.
        beat: When the owner was last heard of, seconds since the epoch.
    """

    number: int
    point: Point
    trial: int | None
    owner: str | None
    beat: float


@dataclass(frozen=True)
class StudySummary:
    """A study of a database, for lists.

    Args:
        name: Its name there.
        head: Configuration and versions.
        finished: Trials done.
        running: Trials being evaluated.
        started: When its first trial began; None before.
    """

    name: str
    head: HeadRecord
    finished: int
    running: int
    started: datetime | None


def design_key(point: Mapping[str, PointValue]) -> str:
    """A hash that is equal for equal designs."""
    return hashlib.sha256(json.dumps(dict(point), sort_keys=True).encode()).hexdigest()[:40]


def is_url(place: str) -> bool:
    """Whether a text is the URL of a database rather than a path."""
    return "://" in place


def _sqlite_file(parsed: Any) -> Path | None:
    """The file of an SQLite URL, also of the form ``sqlite:///file:PATH?mode=ro&uri=true``; None for other databases."""
    if not parsed.drivername.startswith("sqlite") or parsed.database is None:
        return None
    return Path(parsed.database.removeprefix("file:"))


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite file."""
    return f"sqlite:///{path.absolute()}"


def public_url(url: str) -> str:
    """The URL without its password."""
    from sqlalchemy.engine import make_url

    return str(_parse(url, make_url).render_as_string(hide_password=True))


def without_password(url: str) -> str:
    """The URL with the password left out, as it may be written to a file (drivers find it in PGPASSWORD or ~/.pgpass)."""
    from sqlalchemy.engine import make_url

    parsed = _parse(url, make_url)
    return parsed.set(password=None).render_as_string() if parsed.password else url


def _parse(url: str, make_url: Any) -> Any:
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        parsed = make_url(url)
        if parsed.drivername == "postgresql" and not _installed("psycopg2"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        parsed.get_dialect()
    except NoSuchModuleError:
        raise UserError(
            f"--storage: unknown kind of database {parsed.drivername!r}", hint="sqlite, postgresql ..."
        ) from None
    except (ArgumentError, ValueError):
        example = "e.g. postgresql://user@host/name"
        raise UserError(f"--storage: {url!r} is not the URL of a database", hint=example) from None
    return parsed


def _installed(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None


def _table() -> Any:
    from sqlalchemy import Column, Float, Integer, LargeBinary, MetaData, String, Table, Text, UniqueConstraint

    return Table(
        "codesign_trials",
        MetaData(),
        Column("study", Integer, primary_key=True, autoincrement=False),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("design", String(40), nullable=False),
        Column("point", Text, nullable=False),
        Column("trial", Integer),
        Column("owner", String(200)),
        Column("beat", Float, nullable=False),
        Column("detail", LargeBinary),
        UniqueConstraint("study", "design"),
    )


@final
class Database:
    """A database of studies, opened.

    Args:
        url: Of SQLAlchemy: ``sqlite:///file``, ``postgresql://user@host/name``.
        create: Make the tables where they are missing.

    Raises:
        UserError: It cannot be reached, opened or (for `create`) written.
    """

    def __init__(self, url: str, *, create: bool) -> None:
        from sqlalchemy.engine import make_url

        parsed = _parse(url, make_url)
        self.url = parsed.render_as_string(hide_password=False)
        self.place = parsed.database if parsed.drivername.startswith("sqlite") else public_url(url)
        self._file = _sqlite_file(parsed)
        if self._file is not None and not create and not self._file.exists():
            raise UserError(f"no study database at {self._file}")
        self._writes = create
        if self._file is not None and not create and not os.access(self._file.parent, os.W_OK):
            # A file in write-ahead mode cannot be read without writing beside it, unless it is declared not to change.
            self.url = f"sqlite:///file:{self._file}?mode=ro&immutable=1&uri=true"
        self._table = _table()
        with database_errors(self.place):
            self._storage = self._open(create)
        self._engine = self._storage.engine
        self._close = weakref.finalize(self, self._engine.dispose)

    def _open(self, create: bool) -> Any:
        import optuna
        import sqlalchemy
        from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        if self._file is not None and create:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        options: dict[str, float | bool | dict[str, int]] = (
            {"connect_args": {"timeout": 60}} if self._file is not None else {"pool_pre_ping": True}
        )
        for attempt in range(_OPEN_TRIES):
            try:
                storage = optuna.storages.RDBStorage(self.url, engine_kwargs=options, skip_table_creation=not create)
                if create:
                    if self._file is not None:
                        with storage.engine.connect() as connection:
                            connection.execute(sqlalchemy.text("PRAGMA journal_mode=WAL"))
                    self._table.metadata.create_all(storage.engine)
                elif not sqlalchemy.inspect(storage.engine).has_table(self._table.name):
                    raise UserError(f"{self.place} holds no study of this program")
                return storage
            except (OperationalError, ProgrammingError, IntegrityError) as error:
                # Two processes that make the tables at the same moment: the one that comes second tries again.
                if not _is_race(error) or attempt + 1 == _OPEN_TRIES:
                    raise
                time.sleep(0.1 * (attempt + 1))
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close every connection; a SQLite file is left as one plain file when nobody else has it open."""
        import sqlalchemy
        from sqlalchemy.exc import SQLAlchemyError

        if self._file is not None and self._close.alive and self._writes:
            self._engine.dispose()
            try:
                with self._engine.connect() as connection:
                    connection.execute(sqlalchemy.text("PRAGMA busy_timeout=100"))
                    connection.execute(sqlalchemy.text("PRAGMA journal_mode=DELETE"))
            except SQLAlchemyError:
                pass  # others still use it, or it is read-only: the write-ahead file stays beside it
        self._close()

    def drop_session(self) -> None:
        """Forget this thread's session: one that Ctrl-C met inside a transaction cannot be used any more."""
        with database_errors(self.place):
            self._storage.remove_session()

    # ---- studies -------------------------------------------------------------------------------

    def studies(self) -> list[StudySummary]:
        """All studies of this program in the database, by name."""
        from optuna.trial import TrialState

        found = []
        with database_errors(self.place):
            for frozen in self._storage.get_all_studies():
                head = frozen.user_attrs.get(HEAD)
                if head is None:
                    continue  # some other user of Optuna
                trials = self._storage.get_all_trials(frozen._study_id, deepcopy=False)
                begun = [t.datetime_start for t in trials if t.datetime_start is not None]
                running = sum(t.state == TrialState.RUNNING for t in trials)
                found.append(
                    StudySummary(
                        frozen.study_name,
                        present_head(head),
                        len(trials) - running,
                        running,
                        min(begun) if begun else None,
                    )
                )
        return sorted(found, key=lambda s: s.name)

    def find(self, name: str) -> int | None:
        """The identifier of a study, by its name now or formerly; None where there is none."""
        for known in (name, former_name(name)):
            with database_errors(self.place), suppress(KeyError):
                if known is not None:
                    return int(self._storage.get_study_id_from_name(known))
        return None

    def create(self, name: str, objectives: Sequence[str], head: HeadRecord, note: str) -> int:
        """Make a study; where another process just made it, that one.

        Args:
            name: In the database.
            objectives: Minimised.
            head: Configuration and versions.
            note: Markdown that Optuna's dashboard shows beside the study.
        """
        import optuna

        directions = [optuna.study.StudyDirection.MINIMIZE] * len(objectives)
        with database_errors(self.place):
            try:
                study = int(self._storage.create_new_study(directions, name))
            except optuna.exceptions.DuplicatedStudyError:
                study = int(self._storage.get_study_id_from_name(name))
            self._storage.set_study_system_attr(study, "study:metric_names", list(objectives))
            self._storage.set_study_system_attr(study, _NOTE, note)
            self._storage.set_study_system_attr(study, _NOTE_VERSION, 1)
            if HEAD not in self._storage.get_study_user_attrs(study):
                self._storage.set_study_user_attr(study, HEAD, {"format": FORMAT, **head})
        return study

    def head(self, study: int) -> HeadRecord:
        """What `create` was given.

        Raises:
            UserError: The study is of another program, or of another version of the format.
        """
        found = None
        for attempt in range(_HEAD_TRIES):
            with database_errors(self.place):
                found = self._storage.get_study_user_attrs(study).get(HEAD)
            if found is not None:
                break
            time.sleep(0.05 * attempt)  # another process may be in the middle of making it
        if not isinstance(found, dict) or "config" not in found:
            raise UserError(f"the study in {self.place} was made by another program: it has no configuration")
        if found.get("format") != FORMAT:
            raise UserError(f"the study in {self.place} has format {found.get('format')!r}, expected {FORMAT}")
        return present_head(found)

    def is_empty(self, study: int) -> bool:
        """Whether a study has neither a configuration nor trials: its maker died in the middle."""
        with database_errors(self.place):
            attributes = self._storage.get_study_user_attrs(study)
            return HEAD not in attributes and not self._storage.get_n_trials(study)

    # ---- who works on what ---------------------------------------------------------------------

    def claims(self, study: int, known: Iterable[int] = ()) -> list[Claim]:
        """The trials of a study by number, those in `known` left out."""
        import sqlalchemy

        t = self._table
        query = sqlalchemy.select(t.c.number, t.c.point, t.c.trial, t.c.owner, t.c.beat).where(t.c.study == study)
        skip = set(known)
        first = next(k for k in range(len(skip) + 1) if k not in skip)
        query = query.where(t.c.number >= first).order_by(t.c.number)
        with database_errors(self.place), self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return [Claim(r.number, json.loads(r.point), r.trial, r.owner, r.beat) for r in rows if r.number not in skip]

    def claim(self, study: int, number: int, point: Mapping[str, PointValue], owner: str) -> bool:
        """Take a trial to evaluate; False where the number or the design is already someone's."""
        from sqlalchemy.exc import IntegrityError

        row = {
            "study": study,
            "number": number,
            "design": design_key(point),
            "point": json.dumps(dict(point)),
            "owner": owner,
            "beat": time.time(),
        }
        with database_errors(self.place):
            try:
                with self._engine.begin() as connection:
                    connection.execute(self._table.insert().values(**row))
            except IntegrityError:
                return False
        return True

    def seize(self, study: int, claim: Claim, owner: str) -> bool:
        """Take over a trial exactly as seen; False where somebody else was quicker or its owner gave a sign of life."""
        t = self._table
        change = t.update().where(t.c.study == study, t.c.number == claim.number, t.c.beat == claim.beat)
        change = change.where(t.c.owner.is_(None) if claim.owner is None else t.c.owner == claim.owner)
        with database_errors(self.place), self._engine.begin() as connection:
            return bool(connection.execute(change.values(owner=owner, beat=time.time())).rowcount == 1)

    def beat(self, study: int, numbers: Sequence[int], owner: str) -> None:
        """Give a sign of life for trials of this process."""
        self._update(study, numbers, owner, {"beat": time.time()})

    def release(self, study: int, numbers: Sequence[int], owner: str) -> None:
        """Give trials of this process back, so that others need not wait for the end of its signs of life."""
        self._update(study, numbers, owner, {"owner": None})

    def _update(self, study: int, numbers: Sequence[int], owner: str, values: Mapping[str, Any]) -> None:
        t = self._table
        mine = t.update().where(t.c.study == study, t.c.owner == owner, t.c.number.in_(list(numbers)))
        change = mine.values(values)
        with database_errors(self.place), self._engine.begin() as connection:
            connection.execute(change)

    # ---- trials --------------------------------------------------------------------------------

    def begin(self, study: int, number: int, point: Mapping[str, PointValue], distributions: Mapping[str, Any]) -> int:
        """Make Optuna's trial of a claimed one, or find the one that its dead owner had just made; returns its identifier."""
        import optuna

        running = optuna.trial.TrialState.RUNNING
        params = {name: value for name, value in point.items() if name in distributions}
        template = optuna.trial.FrozenTrial(
            number=-1,
            trial_id=-1,
            state=running,
            value=None,
            values=None,
            datetime_start=datetime.now(),
            datetime_complete=None,
            params=params,
            distributions={name: distributions[name] for name in params},
            user_attrs={"number": number},
            system_attrs={},
            intermediate_values={},
        )
        t = self._table
        with database_errors(self.place):
            trials = self._storage.get_all_trials(study, deepcopy=False, states=(running,))
            made = next((r._trial_id for r in trials if r.user_attrs.get("number") == number), None)
            trial = int(self._storage.create_new_trial(study, template)) if made is None else int(made)
            with self._engine.begin() as connection:
                connection.execute(t.update().where(t.c.study == study, t.c.number == number).values(trial=trial))
        return trial

    def finish(
        self,
        study: int,
        number: int,
        trial: int,
        owner: str,
        *,
        values: Sequence[float] | None,
        result: TrialRecord,
        shown: JsonObject,
        violations: Sequence[float],
        detail: DetailRecord,
    ) -> bool:
        """Record what a trial gave, durably; False where another process took it over (nothing is changed then).

        Args:
            study: Of the trial.
            number: Of the trial.
            trial: Optuna's identifier.
            owner: This process.
            values: Objectives; None when the design is infeasible or its evaluation failed.
            result: All figures as plain values.
            shown: Numbers and words that Optuna's dashboard shows in columns of their own.
            violations: By how much each constraint is exceeded, for Optuna; <= 0 where kept.
            detail: Layers, mappings and breakdowns.
        """
        import optuna

        state = optuna.trial.TrialState.FAIL if values is None else optuna.trial.TrialState.COMPLETE
        packed = zlib.compress(json.dumps(dict(detail)).encode(), 6)
        t = self._table
        with database_errors(self.place):
            try:
                mine = t.update().where(t.c.study == study, t.c.number == number, t.c.owner == owner)
                with self._engine.begin() as connection:
                    if connection.execute(mine.values(detail=packed)).rowcount == 0:
                        return False
                for key, value in (*shown.items(), (RESULT, dict(result))):
                    self._storage.set_trial_user_attr(trial, key, value)
                if violations:
                    self._storage.set_trial_system_attr(trial, "constraints", list(violations))
                return bool(self._storage.set_trial_state_values(trial, state, values))
            except optuna.exceptions.UpdateFinishedTrialError:
                return False

    def result(self, trial: int) -> TrialRecord | None:
        """The figures of a finished trial; None while it runs."""
        with database_errors(self.place):
            return _result(self._storage.get_trial(trial))

    def results(self, study: int) -> dict[int, TrialRecord]:
        """The figures of every finished trial by Optuna's identifier."""
        with database_errors(self.place):
            trials = self._storage.get_all_trials(study, deepcopy=False)
        return {t._trial_id: found for t in trials if (found := _result(t)) is not None}

    def detail(self, study: int, number: int) -> DetailRecord:
        """Layers, mappings and breakdowns of a trial; empty when there are none."""
        import sqlalchemy

        t = self._table
        query = sqlalchemy.select(t.c.detail).where(t.c.study == study, t.c.number == number)
        with database_errors(self.place), self._engine.connect() as connection:
            packed = connection.execute(query).scalar()
        loaded: DetailRecord = {} if packed is None else json.loads(zlib.decompress(packed))
        return loaded


def _result(trial: Any) -> TrialRecord | None:
    found: TrialRecord | None = trial.user_attrs.get(RESULT) if trial.state.is_finished() else None
    return found


def _is_race(error: BaseException) -> bool:
    text = str(error).lower()
    return any(part in text for part in ("already exists", "unique constraint", "duplicate key", "database is locked"))


def distributions_of(space: Mapping[str, Any]) -> dict[str, "BaseDistribution"]:
    """Optuna's distributions of the parameters in the JSON of a space; those it cannot express are left out.

    Sizes are numbers on a logarithmic axis (the values that a space allows are a subset), labels are categories.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    found: dict[str, BaseDistribution] = {}
    described = space.get("space", space)
    for parameter in described.get("parameters", []) if isinstance(described, Mapping) else []:
        values = parameter.get("values") or [parameter["low"], parameter["high"]]
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        if parameter["type"] == "categorical" or not numeric:
            found[parameter["name"]] = CategoricalDistribution(list(values))
        elif all(isinstance(v, int) for v in values):
            log = parameter["type"] != "integer" and min(values) > 0
            found[parameter["name"]] = IntDistribution(min(values), max(values), log=log)
        else:
            found[parameter["name"]] = FloatDistribution(min(values), max(values), log=min(values) > 0)
    return found
