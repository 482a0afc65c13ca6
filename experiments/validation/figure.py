"""The rows of a comparison as CSV, and predicted against recorded as a scatter plot in SVG."""

import csv
import math
from pathlib import Path

from experiments.validation.common import Comparison

_COLOURS = ("#1f6fb4", "#c8571b", "#3a8c3f", "#8b3fa0", "#7a6a2f", "#b3263d", "#2f8c8c", "#555555")
_SIZE, _MARGIN = 520, 70


def write_rows(comparison: Comparison, folder: Path) -> Path:
    """`SET.csv`: row, group, predicted, recorded, error."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{comparison.name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("row", "group", "predicted", "recorded", "error"))
        for p in comparison.points:
            writer.writerow((p.name, p.group, f"{p.predicted:.10g}", f"{p.measured:.10g}", f"{p.error:.6f}"))
    return path


def write_scatter(comparison: Comparison, folder: Path) -> Path:
    """`SET.svg`: logarithmic axes, the diagonal, and lines 10 % off it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{comparison.name}.svg"
    points = [p for p in comparison.points if p.predicted > 0 and p.measured > 0]
    values = [v for p in points for v in (p.predicted, p.measured)] or [1.0, 10.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    inner = _SIZE - 2 * _MARGIN

    def x(value: float) -> float:
        return _MARGIN + (math.log10(value) - low) / (high - low) * inner

    def y(value: float) -> float:
        return _SIZE - x(value)

    groups = list(dict.fromkeys(p.group for p in comparison.points))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_SIZE}" height="{_SIZE}" fill="white"/>',
        f'<text x="{_SIZE / 2}" y="24" text-anchor="middle" font-size="15">{comparison.name}: {comparison.quantity}</text>',
    ]
    for power in range(low, high + 1):
        at = x(10.0**power)
        out.append(
            f'<path d="M{at:.1f} {_MARGIN}V{_SIZE - _MARGIN}M{_MARGIN} {_SIZE - at:.1f}H{_SIZE - _MARGIN}" stroke="#ddd"/>'
        )
        out.append(f'<text x="{at:.1f}" y="{_SIZE - _MARGIN + 18}" text-anchor="middle">{_power(power)}</text>')
        out.append(f'<text x="{_MARGIN - 8}" y="{_SIZE - at + 4:.1f}" text-anchor="end">{_power(power)}</text>')
    a, b = 10.0**low, 10.0**high
    for factor, dash in ((1.0, ""), (1.1, "4 4"), (1 / 1.1, "4 4")):
        end = min(b, b / factor)
        start = max(a, a / factor)
        out.append(
            f'<path d="M{x(start):.1f} {y(start * factor):.1f}L{x(end):.1f} {y(end * factor):.1f}" stroke="#888" '
            f'stroke-dasharray="{dash}" fill="none"/>'
        )
    for p in points:
        colour = _COLOURS[groups.index(p.group) % len(_COLOURS)]
        out.append(
            f'<circle cx="{x(p.measured):.1f}" cy="{y(p.predicted):.1f}" r="2.6" fill="{colour}" fill-opacity="0.6"/>'
        )
    for i, group in enumerate(g for g in groups if g):
        out.append(
            f'<circle cx="{_MARGIN + 14}" cy="{_MARGIN + 14 + 17 * i}" r="4" fill="{_COLOURS[i % len(_COLOURS)]}"/>'
        )
        out.append(f'<text x="{_MARGIN + 24}" y="{_MARGIN + 18 + 17 * i}">{group}</text>')
    out.append(f'<text x="{_SIZE / 2}" y="{_SIZE - 20}" text-anchor="middle">recorded</text>')
    out.append(
        f'<text x="20" y="{_SIZE / 2}" text-anchor="middle" transform="rotate(-90 20 {_SIZE / 2})">predicted</text>'
    )
    out.append("</svg>")
    path.write_text("\n".join(out) + "\n", encoding="utf-8")
    return path


def _power(power: int) -> str:
    return f"{10**power:,}" if 0 <= power < 5 else f"1e{power}"
