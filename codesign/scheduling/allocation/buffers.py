"""Buffers, their files, and what an allocation of them must satisfy.

The file format is that of the published minimalloc benchmarks: CSV with the columns ``id``, ``lower``, ``upper``,
``size`` (lifetime ``lower <= t < upper``); a solution adds the column ``offset``.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.files import read_text

COLUMNS = ("id", "lower", "upper", "size")


@dataclass(frozen=True)
class Buffer:
    """Something that takes up `size` units of memory from `lower` until just before `upper`.

    Args:
        name: Unique, for people.
        lower: First moment of its life.
        upper: First moment after it; above `lower`.
        size: At least 1.
    """

    name: str
    lower: int
    upper: int
    size: int

    def __post_init__(self) -> None:
        check_least(1, size=self.size, where=f"buffer {self.name!r}")
        if self.upper <= self.lower:
            raise UserError(
                f"upper must be above lower, got lower {self.lower} and upper {self.upper}",
                where=f"buffer {self.name!r}",
            )


class AllocationStatus(Enum):
    """What is known about an instance."""

    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Allocation:
    """The outcome of an attempt to place buffers.

    Args:
        status: FEASIBLE with `offsets`; INFEASIBLE is proven; UNKNOWN when the time ran out.
        offsets: One address per buffer, or None.
        method: What decided it.
        nodes: Nodes of the search, 0 where none was needed.
    """

    status: AllocationStatus
    offsets: tuple[int, ...] | None
    method: str
    nodes: int = 0


def peak_load(buffers: Sequence[Buffer]) -> tuple[int, int]:
    """The largest sum of sizes alive at one moment, and the first such moment; no capacity below it suffices."""
    events = sorted([(b.lower, b.size) for b in buffers] + [(b.upper, -b.size) for b in buffers])
    load = peak = moment = 0
    for time, change in events:
        load += change
        if load > peak:
            peak, moment = load, time
    return peak, moment


def height(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    """The highest address used, exclusive."""
    return max((o + b.size for b, o in zip(buffers, offsets, strict=True)), default=0)


def parse_buffers(text: str, where: str) -> tuple[Buffer, ...]:
    """The buffers of a CSV text; further columns are ignored.

    Raises:
        UserError: A column is missing, a cell is not a whole number, an id occurs twice, or there are no rows.
    """
    reader = csv.DictReader(io.StringIO(text))
    header = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = header
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        raise UserError(
            f"missing column{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
            where=where,
            hint=f"the first line must name {','.join(COLUMNS)}",
        )
    buffers = []
    names: set[str] = set()
    for row in reader:
        line = f"{where}, line {reader.line_num}"
        name = (row["id"] or "").strip()
        if name in names:
            raise UserError(f"two buffers are named {name!r}", where=line)
        names.add(name)
        try:
            buffers.append(Buffer(name, *(_whole(row[c], c, line) for c in COLUMNS[1:])))
        except UserError as error:
            raise error if error.where == line else error.within(line) from None
    if not buffers:
        raise UserError("the file lists no buffers", where=where)
    return tuple(buffers)


def read_buffers(path: str | Path) -> tuple[Buffer, ...]:
    """The buffers in a CSV file."""
    return parse_buffers(read_text(path), str(path))


def format_buffers(buffers: Sequence[Buffer], offsets: Sequence[int] | None = None) -> str:
    """The CSV text of buffers, with their addresses if given."""
    columns = [*COLUMNS, "offset"] if offsets is not None else [*COLUMNS]
    lines = [",".join(columns)]
    for position, b in enumerate(buffers):
        cells = [b.name, str(b.lower), str(b.upper), str(b.size)]
        if offsets is not None:
            cells.append(str(offsets[position]))
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


def _whole(cell: str | None, column: str, where: str) -> int:
    try:
        return int((cell or "").strip())
    except ValueError:
        came = repr(cell) if cell else "nothing"
        raise UserError(f"{column} must be a whole number, got {came}", where=where) from None
