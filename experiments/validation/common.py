"""What every comparison shares: errors, their summary, rank correlation, the folder's files."""

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError


@dataclass(frozen=True)
class Point:
    """One prediction beside its record.

    Args:
        name: Of the row.
        predicted: By the timing tier.
        measured: As recorded.
        group: For the figure.
    """

    name: str
    predicted: float
    measured: float
    group: str = ""

    @property
    def error(self) -> float:
        """Prediction over record, minus one; a record of zero is met or infinitely far."""
        if self.measured == 0:
            return 0.0 if self.predicted == 0 else math.inf
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True)
class Comparison:
    """A set's predictions.

    Args:
        name: Of the set.
        points: One a row.
        quantity: What is compared, with its unit.
        constants: Fitted constants by name.
        fitted_on: What they were fitted on.
        more: Further figures of the last line.
        missing: Rows that could not be compared, with the reason.
    """

    name: str
    points: Sequence[Point]
    quantity: str
    constants: dict[str, Any]
    fitted_on: str
    more: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """The last line a command prints."""
        errors = np.abs([p.error for p in self.points])
        figures: dict[str, Any] = {"set": self.name, "rows": len(self.points)}
        for key, share in (("median_error", 0.5), ("p90_error", 0.9), ("p99_error", 0.99), ("worst_error", 1.0)):
            figures[key] = float(np.quantile(errors, share)) if len(errors) else None
        figures["mean_error"] = float(errors.mean()) if len(errors) else None
        figures["exact_rows"] = int((errors == 0).sum())
        if len(self.points) > 2:
            figures["spearman"] = spearman([p.predicted for p in self.points], [p.measured for p in self.points])
        figures |= self.more
        figures["constants"] = self.constants
        figures["fitted_on"] = self.fitted_on
        if self.missing:
            figures["not_compared"] = self.missing
        return figures


def spearman(a: Iterable[float], b: Iterable[float]) -> float | None:
    """Rank correlation; ties take their mean rank. None where one side is constant."""
    from scipy.stats import rankdata

    ranks = [rankdata(np.asarray(list(x), float)) for x in (a, b)]
    if any(np.ptp(r) == 0 for r in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def read_rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a CSV file that must have certain columns.

    Raises:
        UserError: The file or a column is missing.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows, found = list(reader), reader.fieldnames or ()
    except OSError as error:
        raise UserError(f"cannot read the recorded rows: {error.strerror}", where=str(path)) from None
    for name in columns:
        if name not in found:
            raise UserError(f"column `{name}` is missing", where=str(path), hint=f"found: {', '.join(found)}")
    return rows


def integer(row: dict[str, str], column: str, where: str) -> int:
    """A whole number of a row."""
    try:
        return int(float(row[column]))
    except (TypeError, ValueError):
        raise UserError(f"column `{column}` must hold integers, got {row[column]!r}", where=where) from None


def read_json(path: Path) -> Any:
    """A JSON file.

    Raises:
        UserError: It is missing or malformed.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read the recorded rows: {error.strerror}", where=str(path)) from None
    except json.JSONDecodeError as error:
        raise UserError(f"not JSON: {error}", where=str(path)) from None
