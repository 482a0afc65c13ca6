"""Tables and progress bars that commands print."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

MIN_WIDTH = 120
"""Columns at least: a number that is cut short is worse than a line that wraps."""


def make_console() -> Console:
    """A console on stdout wide enough for the tables."""
    console = Console(highlight=False)
    return console if console.width >= MIN_WIDTH else Console(highlight=False, width=MIN_WIDTH)


def make_table(title: str, *columns: str, **style: Any) -> Table:
    """An empty table.

    Args:
        title: Above it.
        columns: Their heads. Numbers are in columns whose head ends in ``>``; one whose head ends in ``~`` is folded.
        style: Of rich's table, where it is another.
    """
    table = Table(title=title, **{"title_justify": "left", "box": box.SIMPLE_HEAD, **style})
    for head in columns:
        if head.endswith("~"):
            table.add_column(head[:-1], overflow="fold")
        else:
            table.add_column(head.removesuffix(">"), justify="right" if head.endswith(">") else "left", no_wrap=True)
    return table


def counting_bar(*fields: str, shown: bool = True) -> Progress:
    """A bar on stderr that counts what is done, and stays where `fields` are shown behind it."""
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *times, *map(TextColumn, fields))
    return Progress(*columns, console=Console(stderr=True), transient=not fields, disable=not shown)


@contextmanager
def counted_off(what: str, *, shown: bool = True) -> Iterator[Any]:
    """A bar that is told (how many are done, of how many)."""
    with counting_bar(shown=shown) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
