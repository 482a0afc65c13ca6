"""Studies as files: JSON holds everything, CSV and Parquet one row per trial.

Columns: ``number``, ``status`` (ok, infeasible, failed), ``parameter:NAME`` and ``metric:NAME``, ``reason``, ``seconds``, ``elapsed_s``.
Configuration and versions travel in the metadata of a Parquet file, beside a CSV file as ``NAME.study.json``.
"""

import csv
import importlib
import io
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias, cast

from codesign.core.errors import MissingDependencyError, UserError
from codesign.core.files import csv_text, read_structured, read_text, write_atomic, write_json
from codesign.core.json_types import JsonObject
from codesign.evaluation.records import ConfigRecord, DetailRecord, HeadRecord, ParameterRecord
from codesign.study.config import StudyConfig
from codesign.study.former_records import present_config
from codesign.study.study import Study, Trial

SUFFIXES = (".json", ".csv", ".parquet")

_PARAMETER, _METRIC = "parameter:", "metric:"

_META = b"codesign"

Unchecked: TypeAlias = dict[str, Any]
"""What stands in a file, before it is looked at."""


def export_study(study: Study, path: Path) -> None:
    """Write a study to a file whose ending says the form.

    Raises:
        UserError: Another ending, or a file that cannot be written.
        MissingDependencyError: Parquet without pyarrow.
    """
    head: HeadRecord = {"config": study.config, "versions": study.versions}
    match path.suffix:
        case ".json":
            trials = [{**t.to_json(), "detail": study.detail(t.number)} for t in study.trials]
            write_json(path, {**head, "trials": trials})
        case ".csv":
            rows = rows_of(study)
            names = list(rows[0]) if rows else ["number"]
            write_atomic(path, csv_text([names, *([row[name] for name in names] for row in rows)]))
            write_json(_companion(path), head)
        case ".parquet":
            _write_parquet(rows_of(study), head, path)
        case _:
            raise _unknown(path)


def rows_of(study: Study) -> list[JsonObject]:
    """Trials as flat rows with the same columns, in the order they finished."""
    names = [p["name"] for p in _parameters(study.config)] or sorted({n for t in study.trials for n in t.point})
    metrics = list(dict.fromkeys(m for t in study.trials for m in t.metrics)) or list(study.objectives)
    return [
        {
            "number": t.number,
            "status": "ok" if not t.infeasible else t.infeasible.get("status", "infeasible"),
            **{_PARAMETER + n: t.point.get(n) for n in names},
            **{_METRIC + m: t.metrics.get(m) for m in metrics},
            "reason": json.dumps(t.infeasible) if t.infeasible else None,
            "seconds": t.seconds,
            "elapsed_s": t.elapsed_s,
        }
        for t in study.trials
    ]


def import_study(
    path: Path, out: Path, *, storage: str | None = None, name: str | None = None, like: Study | None = None
) -> Study:
    """Make a study of a file, or of the folder of a study in the plain files of an earlier version.

    Args:
        path: JSON, CSV, Parquet, or a folder with ``study.json`` and ``trials.jsonl``.
        out: Folder of the new study.
        storage: URL of its database, where that is elsewhere.
        name: Of the new study.
        like: A study whose configuration the trials have, for files that do not say it.

    Raises:
        UserError: A file that is none of these, no configuration, a trial that does not fit it.
    """
    head, trials = _read(path)
    if like is not None:
        head = {"config": like.config, "versions": like.versions}
    if not isinstance(head.get("config"), Mapping):
        raise UserError(
            f"{path} does not say what was searched", hint="give --like, a study of the same space and objectives"
        )
    if not trials:
        raise UserError(f"{path} holds no trial", hint="expected one row a trial under the line of names")
    config = _config(present_config(head["config"]), str(path))
    parsed = [_trial(row, config, f"{path}, trial {k}") for k, row in enumerate(trials)]
    study = Study.create_or_resume(out, config, head.get("versions", {}), storage=storage, name=name)
    known = {json.dumps(t.point, sort_keys=True) for t in study.trials}
    for trial, detail in sorted(parsed, key=lambda pair: pair[0].number):
        if json.dumps(trial.point, sort_keys=True) not in known:
            study.add(trial, detail)
    return study


def _read(path: Path) -> tuple[Unchecked, list[Unchecked]]:
    """What a file says of the study, and its trials."""
    if path.is_dir():
        return _read_folder(path)
    match path.suffix:
        case ".json":
            found = read_structured(path)
            if not isinstance(found, dict) or not isinstance(found.get("trials"), list):
                raise UserError(f"{path} is not an exported study: expected `config` and `trials`")
            return found, found["trials"]
        case ".csv":
            rows = list(csv.DictReader(io.StringIO(read_text(path))))
            beside = _companion(path)
            return (read_structured(beside) if beside.exists() else {}), [dict(row) for row in rows]
        case ".parquet":
            return _read_parquet(path)
        case _:
            raise _unknown(path)


def _read_folder(path: Path) -> tuple[Unchecked, list[Unchecked]]:
    head = read_structured(path / "study.json")
    trials = []
    for number, line in enumerate(read_text(path / "trials.jsonl").splitlines(), start=1):
        try:
            trial = json.loads(line)
        except ValueError:
            raise UserError(f"{path / 'trials.jsonl'}, line {number} is damaged", hint="remove that line") from None
        detail = path / "details" / f"{trial['number']}.json"
        trials.append({**trial, "detail": read_structured(detail) if detail.exists() else {}})
    return head, trials


def _trial(row: Unchecked, config: StudyConfig, where: str) -> tuple[Trial, DetailRecord]:
    try:
        if "point" in row:
            plain = {f.name: row[f.name] for f in fields(Trial)}
            trial = Trial(**plain)
        else:
            trial = _trial_of_row(row, config, where)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"not a trial: {type(error).__name__} {error}", where=where) from None
    missing = [o for o in config.objectives if o not in trial.metrics]
    if not trial.infeasible and missing:
        raise UserError(f"missing metric {missing[0]!r} of a feasible design", where=where)
    recorded = row.get("detail") if "point" in row else None
    return trial, cast(DetailRecord, dict(recorded or {}))


def _trial_of_row(row: Unchecked, config: StudyConfig, where: str) -> Trial:
    values = {p["name"]: p for p in _parameters(config.to_json())}
    point, metrics = {}, {}
    for column, value in row.items():
        if value is None or value == "":
            continue
        if column.startswith(_PARAMETER):
            name = column.removeprefix(_PARAMETER)
            if name not in values:
                raise UserError(f"the space has no parameter {name!r}", where=where)
            point[name] = _value(values[name], value, where)
        elif column.startswith(_METRIC):
            metrics[column.removeprefix(_METRIC)] = float(value)
    reason = row.get("reason") or None
    infeasible = json.loads(reason) if reason else None
    if infeasible is None and row.get("status", "ok") not in ("ok", "", None):
        infeasible = {"status": row["status"], "resource": str(row["status"]), "detail": ""}
    seconds, elapsed = (float(row.get(c) or 0.0) for c in ("seconds", "elapsed_s"))
    return Trial(int(row["number"]), point, {} if infeasible else metrics, infeasible, seconds, elapsed)


def _value(parameter: ParameterRecord, value: Any, where: str) -> Any:
    """A cell as a value of a parameter."""
    for choice in parameter.get("values") or ():
        if str(choice) == str(value):
            return choice
    if parameter.get("values"):
        raise UserError(f"parameter {parameter['name']!r}: {value!r} is not one of {parameter['values']}", where=where)
    return int(float(value))


def _parameters(config: ConfigRecord) -> list[ParameterRecord]:
    found: list[ParameterRecord] = config["space"].get("space", {}).get("parameters", [])
    return found


def _config(plain: Mapping[str, Any], where: str) -> StudyConfig:
    names = [f.name for f in fields(StudyConfig)]
    missing = [n for n in names if n not in plain]
    if missing:
        raise UserError(f"the configuration lacks {missing[0]!r}", where=where)
    values: Unchecked = {n: tuple(plain[n]) if n in ("objectives", "constraints") else plain[n] for n in names}
    return StudyConfig(**values)


def _companion(path: Path) -> Path:
    return path.with_suffix(".study.json")


def _write_parquet(rows: list[JsonObject], head: HeadRecord, path: Path) -> None:
    pa, parquet = _pyarrow()
    table = pa.Table.from_pylist(rows).replace_schema_metadata({_META: json.dumps(dict(head)).encode()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None


def _read_parquet(path: Path) -> tuple[Unchecked, list[Unchecked]]:
    pa, parquet = _pyarrow()
    try:
        table = parquet.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    meta = (table.schema.metadata or {}).get(_META)
    return ({} if meta is None else json.loads(meta)), table.to_pylist()


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingDependencyError(
            "Parquet files need the package 'pyarrow'", hint="pip install 'accel-codesign[parquet]', or use .csv"
        ) from None


def _unknown(path: Path) -> UserError:
    return UserError(f"cannot tell the form of {path}", hint=f"expected a file ending in {', '.join(SUFFIXES)}")
