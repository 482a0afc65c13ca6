"""Reading and writing the structured files of the project: YAML and JSON, with errors that name the place."""

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from codesign.core.errors import UserError


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        UserError: The file is missing, unreadable or not text.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except IsADirectoryError:
        raise UserError(f"expected a file, got a folder: {path}") from None
    except UnicodeDecodeError:
        raise UserError(f"expected a text file, got binary data: {path}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def parse_structured(text: str, where: str) -> Any:
    """The value of a YAML or JSON text (JSON is a subset of YAML 1.2 as used here).

    Raises:
        UserError: The text is neither; the message gives line and column.
    """
    try:
        if text.lstrip().startswith("{"):
            return json.loads(text)
    except json.JSONDecodeError:
        pass  # flow-style YAML also starts with a brace
    import yaml  # a command line that is read needs none

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise yaml_mistake(error, where) from None


def yaml_mistake(error: Exception, where: str) -> UserError:
    """What is wrong with a YAML text, with line and column where the reader knows them."""
    mark = getattr(error, "problem_mark", None)
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return UserError(f"not valid YAML or JSON: {problem}", where=f"{where}{place}")


def read_structured(path: str | Path) -> Any:
    """The value of a YAML or JSON file.

    Raises:
        UserError: The file is missing, unreadable or neither.
    """
    return parse_structured(read_text(path), str(path))


def read_kept(path: Path) -> Any:
    """The keys and values that a file beside a study keeps; none where there is no file, or it holds something else."""
    found = read_structured(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def write_atomic(path: str | Path, text: str) -> None:
    """Write a file so that a reader, or a crash, sees the old text or the new one, never a part.

    Raises:
        UserError: The folder cannot be written.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            os.chmod(temporary, 0o644)  # a temporary file is the owner's alone; a report is to be shown
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def write_json(path: str | Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_atomic(path, json.dumps(value, indent=1) + "\n")


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV, the names of columns first."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()
