"""The figures of the reports as Plotly figures, for notebooks."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codesign.core.plugins import need
from codesign.evaluation.metrics import UNITS
from codesign.report.recommend import LABELS

if TYPE_CHECKING:
    import plotly.graph_objects as go

SHADED = 0.2
"""Opacity of the band between quartiles."""


def _plotly() -> Any:
    need("plotly", "plot()")
    return need("plotly.graph_objects", "plot()")


def _axis(metric: str) -> str:
    """A metric's name with its unit."""
    name = LABELS.get(metric, metric)
    return f"{name} ({UNITS[metric]})" if metric in UNITS else name


def parts_figure(parts: Sequence[tuple[str, float]], unit: str, title: str) -> "go.Figure":
    """Shares of a total as bars, largest first.

    Args:
        parts: Name and value of each.
        unit: Of the values.
        title: Of the figure.
    """
    go = _plotly()
    ordered = sorted(parts, key=lambda part: part[1])
    figure = go.Figure(go.Bar(x=[v for _, v in ordered], y=[n for n, _ in ordered], orientation="h"))
    return figure.update_layout(title=title, xaxis_title=unit)


def layers_figure(rows: Sequence[Mapping[str, Any]], title: str) -> "go.Figure":
    """Cycles and energy of every distinct layer, times how often it runs."""
    go = _plotly()
    names = [row["layer"] for row in rows]
    cycles = [row["latency_cycles"] * row["count"] for row in rows]
    energy = [row["energy_pj"] * row["count"] for row in rows]
    figure = go.Figure([go.Bar(x=names, y=cycles, name="cycles"), go.Bar(x=names, y=energy, name="pJ", yaxis="y2")])
    return figure.update_layout(
        title=title,
        barmode="group",
        yaxis={"title": "cycles"},
        yaxis2={"title": "pJ", "overlaying": "y", "side": "right"},
    )


def front_figure(trials: Sequence[Mapping[str, Any]], objectives: Sequence[str], title: str) -> "go.Figure":
    """Every design in the plane of the first two objectives (in space, of three); those of the front stand out.

    Args:
        trials: Each with ``metrics``, ``point``, ``number`` and whether it is on the ``front``.
        objectives: Fields of the metrics.
        title: Of the figure.
    """
    go = _plotly()
    figure = go.Figure()
    for on_front, name in ((False, "dominated"), (True, "Pareto front")):
        chosen = [t for t in trials if t["metrics"] and bool(t["front"]) is on_front]
        axes = [[t["metrics"][o] for t in chosen] for o in objectives]
        text = [f"trial {t['number']}<br>" + "<br>".join(f"{k}={v}" for k, v in t["point"].items()) for t in chosen]
        look = {"name": name, "text": text, "mode": "markers", "opacity": 1.0 if on_front else 0.4}
        if len(objectives) >= 3:
            figure.add_trace(go.Scatter3d(x=axes[0], y=axes[1], z=axes[2], marker={"size": 4}, **look))
        else:
            figure.add_trace(go.Scatter(x=axes[0], y=axes[1], **look))
    labels = [_axis(o) for o in objectives]
    if len(objectives) >= 3:
        scene = {f"{axis}axis": {"title": labels[i], "type": "log"} for i, axis in enumerate("xyz")}
        return figure.update_layout(title=title, scene=scene)
    return figure.update_layout(title=title, xaxis_title=labels[0], yaxis_title=labels[1])


def timeline_figure(intervals: Sequence[tuple[str, str, float, float]], title: str) -> "go.Figure":
    """What runs when.

    Args:
        intervals: Resource, name, start and end in cycles.
        title: Of the figure.
    """
    go = _plotly()
    figure = go.Figure()
    for resource in dict.fromkeys(i[0] for i in intervals):
        rows = [i for i in intervals if i[0] == resource]
        figure.add_trace(
            go.Bar(
                base=[i[2] for i in rows],
                x=[i[3] - i[2] for i in rows],
                y=[resource] * len(rows),
                text=[i[1] for i in rows],
                textposition="none",
                orientation="h",
                name=resource,
            )
        )
    return figure.update_layout(title=title, xaxis_title="cycles", barmode="overlay")


def curves_figure(curves: Mapping[str, Sequence[Sequence[float]]], title: str) -> "go.Figure":
    """Hypervolume by trial: the median of every optimiser, and the band between its quartiles.

    Args:
        curves: Optimiser -> lower quartile, median, upper quartile after each trial.
        title: Of the figure.
    """
    go = _plotly()
    figure = go.Figure()
    for name, (low, median, high) in curves.items():
        trials = list(range(1, len(median) + 1))
        figure.add_trace(
            go.Scatter(
                x=[*trials, *reversed(trials)],
                y=[*high, *reversed(list(low))],
                fill="toself",
                line={"width": 0},
                opacity=SHADED,
                showlegend=False,
                hoverinfo="skip",
            )
        )
        figure.add_trace(go.Scatter(x=trials, y=list(median), mode="lines", name=name))
    return figure.update_layout(title=title, xaxis_title="trials", yaxis_title="hypervolume (decades)")
