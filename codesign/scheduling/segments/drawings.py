"""Drawings of a tree on its system as SVG: meshes coloured by layer with link loads, the timeline by core, bars (rules M91 to M93)."""

from collections.abc import Sequence
from html import escape
from math import hypot

import numpy as np

from codesign.arch.core_kinds import kind_of_cores, kinds_of
from codesign.arch.core_network import LinkTable
from codesign.arch.many_core import ManyCore
from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.kernels import fabric
from codesign.scheduling.segments.system_arrays import links_of
from codesign.scheduling.segments.timeline import LayerRuns

CELL, GAP, MARGIN = 46, 20, 30
"""Side of a core, distance of cores, border of a drawing, pixels."""

SIDE, BOWS = 5.0, (56.0, 68.0)
"""Distance of a link from the line between its ends, and of a bow's control point in either direction, pixels."""

GOLDEN = 0.618034
"""Share of the colour circle between neighbouring layers: neighbours look different."""


def layer_colour(layer: int) -> str:
    """The colour of a layer."""
    return f"hsl({360 * (layer * GOLDEN % 1):.0f} 62% {76 - 6 * (layer % 3)}%)"


def kind_colour(kind: int) -> str:
    """The colour of a kind of cores."""
    return ("#5b6b7a", "#c8553d", "#2a7f62", "#7d4fa0")[kind]


def heat_colour(share: float) -> str:
    """From light grey over yellow to red for a share of 0 to 1."""
    share = min(max(share, 0.0), 1.0)
    return f"hsl({55 - 55 * share:.0f} {20 + 75 * share:.0f}% {82 - 36 * share:.0f}%)"


def link_shares(system: ManyCore, counter: IntArray, time: float) -> dict[int, tuple[int, float]]:
    """Words of every used link, by its number, and the share of the time it is busy (rule M92)."""
    table = links_of(system)
    rate = np.where(table.borders > 0, system.dies.words_per_cycle, system.links.words_per_cycle)
    words = counter[fabric.LINKS : fabric.LINKS + len(rate)]
    shares = words / rate / system.clock_ghz / max(time, 1.0)
    return {int(link): (int(words[link]), float(shares[link])) for link in np.flatnonzero(words)}


def _centre(system: ManyCore, x: float, y: float) -> tuple[float, float]:
    pitch = CELL + GAP
    return MARGIN + pitch * (x + 1) + CELL / 2, MARGIN + pitch * (system.height - 1 - y) + CELL / 2


def mesh_svg(system: ManyCore, runs: Sequence[LayerRuns], loads: dict[int, tuple[int, float]], busiest: float) -> str:
    """A mesh whose cores have the colours of their layers and whose links those of their loads.

    Args:
        system: The machine.
        runs: Layers to show; a core with several shows them as stripes.
        loads: Of links, see `link_shares`.
        busiest: The share that is drawn red.
    """
    pitch = CELL + GAP
    wide, high = pitch * (system.width + 2) + 2 * MARGIN, pitch * system.height + 2 * MARGIN
    parts = [f'<svg class="mesh" viewBox="0 0 {wide} {high}" width="{min(wide, 620)}">']
    parts += _die_boxes(system)
    table = links_of(system)
    for link, (words, share) in loads.items():
        parts.append(_link(system, table, link, words, share, busiest))
    if system.network.topology == "crossbar":
        parts.append(_switch(system))
    by_core: dict[int, list[LayerRuns]] = {}
    for run in runs:
        for core in range(run.first_core, run.past_core):
            by_core.setdefault(core, []).append(run)
    for core, (x, y) in enumerate(system.core_places):
        parts.append(_core(system, core, x, y, by_core.get(core, [])))
    for number, ports in enumerate(system.memories.ports):
        for x, y in ports:
            cx, cy = _centre(system, x, y)
            label = f"<title>port of DRAM {number} at ({x}, {y})</title>"
            parts.append(f'<circle class="port" cx="{cx:g}" cy="{cy:g}" r="9">{label}</circle>')
            parts.append(f'<text class="port" x="{cx:g}" y="{cy + 4:g}">{number}</text>')
    return "".join([*parts, "</svg>"])


def _die_boxes(system: ManyCore) -> list[str]:
    pitch = CELL + GAP
    wide, high = system.width // system.dies.x * pitch, system.height // system.dies.y * pitch
    return [
        f'<rect class="die" x="{MARGIN + pitch - GAP / 2 + 3 + i * wide:g}" y="{MARGIN - GAP / 2 + 3 + j * high:g}" '
        f'width="{wide - 6}" height="{high - 6}" rx="6"/>'
        for i in range(system.dies.x)
        for j in range(system.dies.y)
    ]


def _place(system: ManyCore, place: int) -> tuple[float, float]:
    """Column and row of a place; a crossbar stands in the middle, beside the core that has its place."""
    if place == system.grid.places:
        beside = 0.5 if system.width % 2 and system.height % 2 else 0.0
        return (system.width - 1) / 2 + beside, (system.height - 1) / 2 + beside
    return system.grid.where(place)


def _name(system: ManyCore, place: int) -> str:
    return "the crossbar" if place == system.grid.places else "({}, {})".format(*system.grid.where(place))


def _link(system: ManyCore, table: LinkTable, link: int, words: int, share: float, busiest: float) -> str:
    """A link beside the one back; links longer than the distance of two cores are bows along their rows or columns."""
    start, end, pitches = int(table.start[link]), int(table.end[link]), int(table.pitches[link])
    (ax, ay), (bx, by) = (_centre(system, *_place(system, place)) for place in (start, end))
    size = hypot(bx - ax, by - ay)
    nx, ny = -(by - ay) / size, (bx - ax) / size
    ox, oy, bow = -SIDE * nx, -SIDE * ny, 0.0
    if pitches > 1 and system.network.topology != "crossbar":
        bow = BOWS[start > end]
    relative = share / busiest if busiest else 0.0
    title = f"{_name(system, start)} to {_name(system, end)}: {words:,} words, busy {share:.0%} of the time"
    title += f", {pitches} pitches" if pitches > 1 else ""
    title += ", between dies" if table.borders[link] else ""
    if bow:  # both directions on one side, one outside the other
        side = 1 if start < end else -1
        mx, my = (ax + bx) / 2 + side * bow * nx, (ay + by) / 2 + side * bow * ny
        way = f'd="M{ax:g} {ay:g}Q{mx:g} {my:g} {bx:g} {by:g}" fill="none"'
    else:
        way = f'd="M{ax + ox:g} {ay + oy:g}L{bx + ox:g} {by + oy:g}"'
    return (
        f'<path class="link" {way} stroke="{heat_colour(relative)}" '
        f'stroke-width="{2 + 4 * relative:.1f}"><title>{title}</title></path>'
    )


def _switch(system: ManyCore) -> str:
    x, y = _centre(system, *_place(system, system.grid.places))
    return f'<circle class="port" cx="{x:g}" cy="{y:g}" r="{GAP / 2:g}"><title>the crossbar</title></circle>'


def _core(system: ManyCore, core: int, x: int, y: int, runs: Sequence[LayerRuns]) -> str:
    cx, cy = _centre(system, x, y)
    left, top = cx - CELL / 2, cy - CELL / 2
    names = escape(", ".join(run.name for run in runs)) or "idle"
    stripes = "".join(
        f'<rect x="{left + i * CELL / len(runs):.2f}" y="{top:g}" width="{CELL / len(runs):.2f}" height="{CELL}" '
        f'fill="{layer_colour(run.layer)}"/>'
        for i, run in enumerate(runs)
    )
    kind = kind_of_cores(system)[core]
    named = f" of kind {escape(kinds_of(system)[kind].name)}" if system.kinds else ""
    border = f' style="stroke:{kind_colour(kind)};stroke-width:4"' if system.kinds else ""
    return (
        f'<g><title>core {core}{named} at ({x}, {y}): {names}</title><rect class="core" x="{left:g}" y="{top:g}" width="{CELL}" '
        f'height="{CELL}"{border}/>{stripes}<text x="{cx:g}" y="{cy + 4:g}">{core}</text></g>'
    )


def timeline_svg(runs: Sequence[LayerRuns], cores: int, time: float) -> str:
    """Cores from top to bottom, time from left to right; a box is a layer from its first run to its last (rule M91)."""
    wide, row = 1100.0, max(4.0, min(18.0, 480.0 / cores))
    high = row * cores
    parts = [f'<svg class="timeline" viewBox="-46 -6 {wide + 60:g} {high + 34:g}" width="{wide + 60:g}">']
    for run in runs:
        x, size = run.start / time * wide, max((run.end - run.start) / time * wide, 0.4)
        share = run.busy / max(run.end - run.start, 1.0)
        title = f"{run.name}, {run.cores}, segment {run.segment}: {run.start:,.0f} to {run.end:,.0f} cycles, {run.runs} runs, busy {share:.0%}"
        y, tall = run.first_core * row, (run.past_core - run.first_core) * row
        parts.append(
            f'<rect x="{x:.2f}" y="{y:g}" width="{size:.2f}" height="{tall:g}" fill="{layer_colour(run.layer)}">'
            f"<title>{escape(title)}</title></rect>"
        )
        if size > 7 * len(run.name) and tall > 11:
            parts.append(f'<text x="{x + size / 2:.1f}" y="{y + tall / 2 + 4:g}">{escape(run.name)}</text>')
    for core in range(0, cores, max(1, cores // 8)):
        parts.append(f'<text class="axis" x="-6" y="{core * row + row:g}" style="text-anchor:end">core {core}</text>')
    for k in range(5):
        side = "end" if k == 4 else "middle"
        place = f'x="{wide * k / 4:g}" y="{high + 16:g}" style="text-anchor:{side}"'
        parts.append(f'<text class="axis" {place}>{time * k / 4:,.0f}</text>')
    return "".join([*parts, "</svg>"])


def bars_svg(values: Sequence[tuple[str, float]], unit: str) -> str:
    """Named values as bars, with their shares."""
    whole = sum(value for _, value in values) or 1.0
    most = max((value for _, value in values), default=0.0) or 1.0
    parts = [f'<svg class="bars" viewBox="0 0 620 {24 * len(values) + 4}" width="620">']
    for i, (name, value) in enumerate(values):
        y = 24 * i + 4
        parts.append(
            f'<text x="150" y="{y + 13}" style="text-anchor:end">{escape(name)}</text>'
            f'<rect class="bar" x="158" y="{y}" width="{300 * value / most:.1f}" height="17"/>'
            f'<text x="{164 + 300 * value / most:.1f}" y="{y + 13}" style="text-anchor:start">{value:,.4g} {unit}, {value / whole:.1%}</text>'
        )
    return "".join([*parts, "</svg>"])
