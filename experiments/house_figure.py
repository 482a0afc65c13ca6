"""The figure of the house: packages as rooms on floors, imports as arcs from the room that imports to the one that is imported."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

LEFT, TOP, FLOOR, GAP = 16.0, 56.0, 34.0, 8.0
"""Margins, height of a floor, and the gap between floors, in pixels."""
ROOM_WIDTH = 380.0
ARCS = 300.0
"""Width that the longest arc may take beside the rooms, in pixels."""
STYLE = (
    "text{font-family:sans-serif;font-size:13px;fill:#1f2937} .small{font-size:11px;fill:#4b5563}"
    " .room{fill:#eef2ff;stroke:#4f46e5} .bar{fill:#c7d2fe} .arc{fill:none;stroke:#0f766e} .up{fill:none;stroke:#dc2626}"
)


@dataclass(frozen=True)
class Room:
    """One package.

    Args:
        name: Of the package.
        floor: From the top; imports may only lead to a larger number.
        lines: Of its files, docstrings included.
        files: Number of its files.
    """

    name: str
    floor: int
    lines: int
    files: int


@dataclass(frozen=True)
class House:
    """All rooms, and how many imports lead from one to another."""

    rooms: tuple[Room, ...]
    imports: dict[tuple[str, str], int]


def draw_house(house: House) -> str:
    """The SVG, with one room a package, wider bars for more lines, and thicker arcs for more imports."""
    floors = max(r.floor for r in house.rooms) + 1
    height = TOP + floors * (FLOOR + GAP) + 28
    width = LEFT + ROOM_WIDTH + ARCS + 30
    body = "\n".join([*_heading(house), *_arcs(house, floors), *_rooms(house)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">\n'
        f"<style>{STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#0f766e"/></marker></defs>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _heading(house: House) -> Iterator[str]:
    lines = sum(r.lines for r in house.rooms)
    upwards = sum(1 for a, b in house.imports if _floor(house, a) >= _floor(house, b))
    yield f'<text x="{LEFT}" y="22">{lines:,} lines in {sum(r.files for r in house.rooms)} files; bars show lines by package</text>'
    yield (
        f'<text class="small" x="{LEFT}" y="40">arcs: who imports whom, {len(house.imports)} pairs, '
        f"{upwards} of them upwards or sideways; wider for more imports</text>"
    )


def _floor(house: House, name: str) -> int:
    return next(r.floor for r in house.rooms if r.name == name)


def _centre(floor: int) -> float:
    return TOP + floor * (FLOOR + GAP) + FLOOR / 2


def _rooms(house: House) -> Iterator[str]:
    most = max(r.lines for r in house.rooms)
    for room in house.rooms:
        beside = [r for r in house.rooms if r.floor == room.floor]
        width = (ROOM_WIDTH - GAP * (len(beside) - 1)) / len(beside)
        x = LEFT + beside.index(room) * (width + GAP)
        y = _centre(room.floor) - FLOOR / 2
        yield f'<rect class="room" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{FLOOR}" rx="3"/>'
        bar = min((ROOM_WIDTH - 2) * room.lines / most, width - 2)
        yield f'<rect class="bar" x="{x + 1:.1f}" y="{y + FLOOR - 7:.1f}" width="{bar:.1f}" height="6"/>'
        yield f'<text x="{x + 8:.1f}" y="{y + 18:.1f}">{escape(room.name)}</text>'
        yield f'<text class="small" x="{x + width - 8:.1f}" y="{y + 18:.1f}" text-anchor="end">{room.lines:,} lines</text>'


def _arcs(house: House, floors: int) -> Iterator[str]:
    x = LEFT + ROOM_WIDTH + 2
    for (source, target), count in sorted(house.imports.items()):
        upper, lower = _floor(house, source), _floor(house, target)
        reach = 24 + (ARCS - 24) * abs(lower - upper) / floors
        start, end = _centre(upper) + 4, _centre(lower) - 4
        kind = "arc" if lower > upper else "up"
        width = 0.6 + 0.7 * math.log10(count)
        yield (
            f'<path class="{kind}" d="M{x:.1f} {start:.1f} C{x + reach:.1f} {start:.1f} {x + reach:.1f} {end:.1f} {x:.1f} {end:.1f}" '
            f'stroke-width="{width:.2f}" stroke-opacity="0.45" marker-end="url(#tip)"><title>{escape(source)} imports '
            f"{escape(target)}: {count}</title></path>"
        )
