"""What every result of the library can do: plain values, a table, a figure, a notebook's view."""

import html
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from codesign.core.json_types import JsonObject
from codesign.core.plugins import need

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

ROWS_SHOWN = 30
"""Rows of a table that a notebook shows."""


class AbstractResult(ABC):
    """A result. Subclasses are final frozen dataclasses with units in the names of their figures."""

    @abstractmethod
    def to_json(self) -> JsonObject:
        """Everything as plain values, in the form of ``--format json``."""

    @abstractmethod
    def headline(self) -> JsonObject:
        """The few figures that answer the question, by name with unit."""

    @abstractmethod
    def rows(self) -> list[JsonObject]:
        """The parts of the result, one a row: layers, levels, trials, operators."""

    @abstractmethod
    def plot(self) -> "go.Figure":
        """The figure that the report of such a result shows.

        Raises:
            MissingDependencyError: Plotly is not installed.
        """

    def to_frame(self) -> "pd.DataFrame":
        """`rows` as a data frame.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return need("pandas", "to_frame()").DataFrame(self.rows())

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline, then the rows."""
        items = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(_shown(value))}</td></tr>"
            for name, value in self.headline().items()
        )
        return f"<table>{items}</table>{_table(self.rows())}"


def _table(rows: list[JsonObject]) -> str:
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_shown(row.get(name)))}</td>" for name in names) + "</tr>"
        for row in rows[:ROWS_SHOWN]
    )
    more = f"<p>{len(rows) - ROWS_SHOWN} more rows; to_frame() has all</p>" if len(rows) > ROWS_SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
