"""Bounds of boxes of designs: the best machine that any design of a box could be (rule LB12).

A box gives every parameter a range of choices. Its optimistic machine has of every part the largest capacity, the widest bandwidth, the least
energy, leakage and area that any choice in the box gives that part. Every value of every part is looked at, so nothing is assumed to be
monotone in a parameter. What cannot be ordered (which tensors a level keeps, how links work, the width of a word) must be the same in the
whole box: `BoxBounds.roots` splits the space until it is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import (
    AccessEnergy,
    Architecture,
    Arithmetic,
    Fanout,
    LevelKind,
    Links,
    Ports,
    StorageLevel,
)
from codesign.bounds.parts import BuiltSpace, Distinct, Figures, Parts, distinct_rows, shared_columns
from codesign.core.errors import UserError
from codesign.core.grid_space import GridSpace

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
PartFigures: TypeAlias = tuple[dict[str, float], dict[str, float], Any]
"""Of one part: figures that bounds take the least of, those they take the largest of, and what must be equal."""

MOST_CHOICES = 200_000
"""Choices of the ordered parameters of one part that are looked at, each built once."""

_PROBED = 8
"""Designs, and choices of each parameter, that are built to see what cannot be ordered."""


@final
@dataclass(frozen=True)
class PartGrid:
    """The figures of one part for all choices of the parameters it depends on.

    Args:
        columns: Of the parameters.
        least: Figures of which the least is optimistic: each an array over the choices.
        most: Figures of which the largest is optimistic.
        kind: Number of what must be equal: an array over the choices.
        kinds: What the numbers stand for.
    """

    columns: tuple[int, ...]
    least: Mapping[str, Floats]
    most: Mapping[str, Floats]
    kind: Indices
    kinds: tuple[Any, ...]

    def window(self, low: Indices, high: Indices) -> tuple[slice, ...]:
        """The choices inside a box."""
        return tuple(slice(int(low[c]), int(high[c]) + 1) for c in self.columns)

    def best(self, window: tuple[slice, ...]) -> tuple[dict[str, float], Any]:
        """The most optimistic figure of each kind in a window, and what is equal there.

        Raises:
            UserError: The window holds parts that cannot be compared.
        """
        kinds = self.kind[window]
        if (kinds != kinds.flat[0]).any():
            raise UserError("a box must be split until every part is of one kind")
        figures = {name: float(values[window].min()) for name, values in self.least.items()}
        figures.update({name: float(values[window].max()) for name, values in self.most.items()})
        return figures, self.kinds[int(kinds.flat[0])]


def why_no_boxes(space: BuiltSpace) -> str:
    """Why the boxes of a space have no bounds; empty where they have."""
    parts: Parts | None = getattr(space, "parts", None)
    if parts is None:
        return "its builder does not say which parameters each part depends on (`parts`)"
    grid = space.space
    sizes = {n: s if ordered else 1 for n, s, ordered in zip(grid.names, grid.cardinalities, grid.ordered, strict=True)}
    for part, groups in parts.items():
        for group in groups:
            if math.prod(sizes[name] for name in group) > MOST_CHOICES:
                return f"part {part!r} has more than {MOST_CHOICES:,} choices"
    return ""


@final
class BoxFigures:
    """Optimistic machines of boxes.

    Args:
        space: With `parts`.
    """

    def __init__(self, space: BuiltSpace) -> None:
        self._space: GridSpace = space.space
        self._build = getattr(space, "builder", space.build)  # points made here need no check
        self._parts: Parts = getattr(space, "parts", None) or {}
        self._sampled = self._space.sample(_PROBED, np.random.default_rng(0))
        self._names = [level.name for level in self._built(self._sampled[:1])[0].levels]
        self._kinds: dict[str, Callable[[Architecture], PartFigures]] = {}
        for k, name in enumerate(self._names):
            self._kinds[name] = partial(_level_figures, k=k)
            self._kinds[f"{name}.fanout"] = partial(_fanout_figures, k=k)
        self._kinds |= {"mac": _mac_figures, "clock": lambda a: ({}, {"clock_hz": a.clock_hz}, ())}
        self._extra = [self._columns(names) for names in self._parts.get("extra", ((),))]
        self._deciding = self._find_deciding()
        self._grids: dict[object, PartGrid] = {}
        self._made: dict[object, Any] = {}

    def _built(self, rows: Indices) -> list[Architecture]:
        return [self._build(point) for point in self._space.to_points(rows)]

    def _columns(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._space.names.index(n) for n in names)

    def _of_part(self, part: str) -> tuple[int, ...]:
        (names,) = self._parts.get(part, ((),))
        return self._columns(names)

    def _find_deciding(self) -> tuple[int, ...]:
        """Columns without an order, and those along which what cannot be ordered was seen to change."""
        found = {c for c, ordered in enumerate(self._space.ordered) if not ordered}
        found |= set(shared_columns(self._extra))
        for column, size in enumerate(self._space.cardinalities):
            if column in found:
                continue
            choices = np.unique(np.linspace(0, size - 1, min(size, _PROBED)).astype(np.int64))
            for row in self._sampled:
                rows = np.repeat(row[None], len(choices), axis=0)
                rows[:, column] = choices
                seen = {tuple(figures(a)[2] for figures in self._kinds.values()) for a in self._built(rows)}
                if len(seen) > 1:
                    found.add(column)
        return tuple(sorted(found))

    # ---- grids -----------------------------------------------------------------------------------

    def _base(self, row: Indices) -> Indices:
        """A sampled design with the deciding choices of a row."""
        base: Indices = self._sampled[0].copy()
        base[list(self._deciding)] = row[list(self._deciding)]
        return base

    def _group(
        self, columns: tuple[int, ...], row: Indices, figures: Callable[[Architecture], PartFigures]
    ) -> PartGrid:
        """The figures of all choices of the columns that are not deciding, deciding ones as in the row; equal designs are built once."""
        free = tuple(c for c in columns if c not in self._deciding)
        shape = self._shape(free)
        rows = np.repeat(self._base(row)[None], math.prod(shape), axis=0)
        if free:
            rows[:, free] = np.stack(np.unravel_index(np.arange(len(rows)), shape), axis=1)
        different, which = np.unique(self._space.canonical(rows), axis=0, return_inverse=True)
        found = [figures(machine) for machine in self._built(different)]
        return _grid_of(free, shape, found, which.ravel())

    def _grid(self, part: str, row: Indices) -> PartGrid:
        """All choices of a part, deciding ones as in the row; made when first asked for."""
        columns = self._of_part(part)
        key = (part, *(int(row[c]) for c in columns if c in self._deciding))
        if key not in self._grids:
            self._grids[key] = self._group(columns, row, self._kinds[part])
        return self._grids[key]

    def _rest(self, number: int, row: Indices) -> PartGrid:
        """Area and leakage of a group of the rest, less those of the base: groups and `_constant` add up."""
        columns = self._extra[number]
        key = ("extra", number, *(int(row[c]) for c in columns if c in self._deciding))
        if key not in self._grids:
            mine = self._sampled[0].copy()
            own = [c for c in columns if c in self._deciding]
            mine[own] = row[own]
            less = self._built(mine[None])[0]

            def figures(a: Architecture) -> PartFigures:
                area, leakage = a.extra_area_mm2 - less.extra_area_mm2, a.extra_leakage_mw - less.extra_leakage_mw
                return {"area": area, "leakage": leakage}, {}, ()

            self._grids[key] = self._group(columns, mine, figures)
        return self._grids[key]

    def _constant(self, row: Indices) -> tuple[float, float]:
        """Area and leakage of the rest of the base with the deciding choices of a row."""
        key = ("constant", self._base(row).tobytes())
        if key not in self._made:
            base = self._built(self._base(row)[None])[0]
            self._made[key] = base.extra_area_mm2, base.extra_leakage_mw
        found: tuple[float, float] = self._made[key]
        return found

    def _shape(self, columns: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self._space.cardinalities[c] for c in columns)

    # ---- boxes -----------------------------------------------------------------------------------

    def roots(self, low: Indices, high: Indices) -> list[tuple[Indices, Indices]]:
        """A box as boxes in each of which every part is of one kind."""
        found = []
        deciding = list(self._deciding)
        for choice in product(*(range(int(low[c]), int(high[c]) + 1) for c in deciding)):
            lower, upper = low.copy(), high.copy()
            lower[deciding], upper[deciding] = choice, choice
            found.append((lower, upper))
        return found

    def of(self, low: Indices, high: Indices) -> tuple[Figures, Floats, Floats]:
        """Optimistic machines of boxes, their least area in mm2 and leakage in W: ``n x d`` twice to ``n`` each.

        Only for boxes inside one of `roots`.
        """
        n = len(low)
        levels = [self._merged(name, low, high, _make_level(name)) for name in self._names]
        fanouts = [self._merged(f"{name}.fanout", low, high, _make_fanout) for name in self._names]
        macs, mac = self._merged("mac", low, high, _make_mac)
        clocks, clock = self._merged("clock", low, high, lambda figures, _: figures["clock_hz"])
        instances, area, leakage = np.ones(n), np.zeros(n), np.zeros(n)
        for (made, which), (fans, fan) in zip(levels, fanouts, strict=True):
            area += instances * np.array([0.0 if m.kind is LevelKind.DRAM else m.area_mm2 for m in made])[which]
            leakage += instances * np.array([m.leakage_mw for m in made])[which]
            instances *= np.array([size for _, size in fans])[fan]
        area += instances * np.array([m.area_mm2 for m in macs])[mac]
        leakage += instances * np.array([m.leakage_mw for m in macs])[mac]
        first, which = _windows(tuple(sorted({c for g in self._extra for c in g if c in self._deciding})), low, high)
        constant = np.array([self._constant(low[k]) for k in first])[which]
        area, leakage = area + constant[:, 0], leakage + constant[:, 1]
        for number in range(len(self._extra)):
            rest, which = self._merged(number, low, high, lambda figures, _: (figures["area"], figures["leakage"]))
            area += np.array([a for a, _ in rest])[which]
            leakage += np.array([w for _, w in rest])[which]
        bare = [([replace(m, area_mm2=None, leakage_mw=None) for m in made], which) for made, which in levels]
        arrays = [([fan for fan, _ in made], which) for made, which in fanouts]
        rest = np.array(clocks)[clock], np.zeros(n), np.zeros(n)
        return Figures.of(np.arange(n), bare, arrays, (macs, mac), rest), area, leakage * 1e-3

    def _merged(self, part: str | int, low: Indices, high: Indices, make: Any) -> Distinct:
        """The different parts (or groups of the rest, by number) of some boxes, made once each, and which one each box has."""
        columns = self._extra[part] if isinstance(part, int) else self._of_part(part)
        first, which = _windows(columns, low, high)
        made = []
        for k in first:
            key = (part, low[k, columns].tobytes(), high[k, columns].tobytes())
            if key not in self._made:
                grid = self._rest(part, low[k]) if isinstance(part, int) else self._grid(part, low[k])
                self._made[key] = make(*grid.best(grid.window(low[k], high[k])))
            made.append(self._made[key])
        return made, which


def _grid_of(
    columns: tuple[int, ...], shape: tuple[int, ...], found: Sequence[PartFigures], which: Indices
) -> PartGrid:
    kinds = list(dict.fromkeys(kind for _, _, kind in found))
    number = {kind: k for k, kind in enumerate(kinds)}

    def array(position: int, name: str) -> Floats:
        return np.array([f[position][name] for f in found], dtype=np.float64)[which].reshape(shape)

    return PartGrid(
        columns,
        {name: array(0, name) for name in found[0][0]},
        {name: array(1, name) for name in found[0][1]},
        np.array([number[kind] for _, _, kind in found], dtype=np.int64)[which].reshape(shape),
        tuple(kinds),
    )


def _windows(columns: tuple[int, ...], low: Indices, high: Indices) -> tuple[Indices, Indices]:
    """The first box of each different window on some columns, and which window each box has."""
    return distinct_rows(np.concatenate([low[:, columns], high[:, columns]], axis=1))


# ---- what is compared of each part ---------------------------------------------------------------


def _level_figures(architecture: Architecture, k: int) -> PartFigures:
    level = architecture.levels[k]
    energy = level.energy or AccessEnergy(0.0, 0.0, 0.0)
    least = {
        "read_pj": energy.read_pj,
        "fill_pj": energy.fill_pj,
        "update_pj": energy.update_pj,
        "area_mm2": level.area_mm2 or 0.0,
        "leakage_mw": level.leakage_mw or 0.0,
    }
    most = {
        "capacity_bytes": _or_infinite(level.capacity_bytes),
        "read": _or_infinite(level.words_per_cycle[0]),
        "write": _or_infinite(level.words_per_cycle[1]),
        "separate": float(level.ports is Ports.SEPARATE),
    }
    return least, most, (level.kind, level.word_bits, level.one_element_per_word, level.keep)


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


def _or_none(value: float) -> float | None:
    return None if math.isinf(value) else value


def _make_level(name: str) -> Any:
    def make(figures: Mapping[str, float], kind: Any) -> StorageLevel:
        what, word_bits, alone, keep = kind
        level = StorageLevel(
            name,
            what,
            _or_none(figures["capacity_bytes"]),
            word_bits,
            alone,
            keep,
            _or_none(figures["read"]),
            _or_none(figures["write"]),
            Ports.SEPARATE if figures["separate"] else Ports.SHARED,
            energy=AccessEnergy(figures["read_pj"], figures["fill_pj"], figures["update_pj"]),
            area_mm2=figures["area_mm2"],
            leakage_mw=figures["leakage_mw"],
        )
        return level

    return make


def _fanout_figures(architecture: Architecture, k: int) -> PartFigures:
    fanout = architecture.levels[k].fanout
    hops = 0.0 if fanout.size == 1 else _trunk(fanout.links, fanout.x, fanout.y)
    least = {"size": float(fanout.size), "drive_pj": fanout.hop_pj_per_bit * hops}
    placed = (fanout.x, fanout.y, fanout.mesh) if fanout.links is Links.MESH else None
    return least, {"x": float(fanout.x), "y": float(fanout.y)}, (fanout.links, placed)


def _make_fanout(figures: Mapping[str, float], kind: Any) -> tuple[Fanout, float]:
    """The widest network, a word on it as cheap as on the cheapest: a bus is driven whole, x + y hops long (rules N1-N3)."""
    links, placed = kind
    x, y = int(figures["x"]), int(figures["y"])
    mesh = None if placed is None else placed[2]
    return Fanout(x, y, links, figures["drive_pj"] / _trunk(links, x, y), mesh), figures["size"]


def _trunk(links: Links, x: int, y: int) -> float:
    """Hops that a word's energy is counted by: those of a bus that is driven whole, else one."""
    return 1.0 if links is Links.SYSTOLIC else float(x + y)


def _mac_figures(architecture: Architecture) -> PartFigures:
    mac = architecture.mac
    least = {"energy_pj": mac.least_energy_pj, "area_mm2": mac.area_mm2 or 0.0, "leakage_mw": mac.leakage_mw or 0.0}
    return least, {}, mac.bits


def _make_mac(figures: Mapping[str, float], bits: int) -> Arithmetic:
    return Arithmetic(bits, figures["energy_pj"], figures["area_mm2"], figures["leakage_mw"])
