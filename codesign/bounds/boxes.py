"""Bounds of boxes of designs: the best machine that any design of a box could be (rule LB12).

A box gives every parameter a range of choices. Its optimistic machine has of every part the largest capacity, the widest bandwidth, the least
energy, leakage and area that any choice in the box gives that part. Every value of every part is looked at, so nothing is assumed to be
monotone in a parameter. What cannot be ordered (which tensors a level keeps, how links work, the width of a word) must be the same in the
whole box: `BoxBounds.roots` splits the space until it is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, Links, Ports, StorageLevel
from codesign.bounds.parts import Figures, Parts
from codesign.core.errors import UserError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_CHOICES = 200_000
"""Choices of the parameters of one part that are looked at, each built once."""


class GridSpace(Protocol):
    """What is needed of a search space here."""

    @property
    def names(self) -> tuple[str, ...]:
        """The parameter names, in column order."""

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of choices of each parameter."""

    def to_points(self, indices: Indices) -> list[dict[str, Any]]:
        """Rows as dicts."""

    def sample(self, count: int, rng: np.random.Generator) -> Indices:
        """Valid rows drawn at random."""


class BuiltSpace(Protocol):
    """What is needed of a hardware space here."""

    @property
    def space(self) -> Any:
        """The search space of its points (`GridSpace`)."""

    def build(self, point: Mapping[str, Any]) -> Architecture:
        """The architecture of a point, energies and areas filled in."""


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

    def deciding(self) -> tuple[int, ...]:
        """The columns along which the kind changes."""
        return tuple(column for axis, column in enumerate(self.columns) if (np.diff(self.kind, axis=axis) != 0).any())


def why_no_boxes(space: BuiltSpace) -> str:
    """Why the boxes of a space have no bounds; empty where they have."""
    parts: Parts | None = getattr(space, "parts", None)
    if parts is None:
        return "its builder does not say which parameters each part depends on (`parts`)"
    sizes = dict(zip(space.space.names, space.space.cardinalities, strict=True))
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
        self._base = self._space.sample(1, np.random.default_rng(0))[0]
        first = self._built(self._base[None])[0]
        self._names = [level.name for level in first.levels]
        self._levels = [self._grid(name, lambda a, k=k: _level_figures(a, k)) for k, name in enumerate(self._names)]
        self._fanouts = [
            self._grid(f"{name}.fanout", lambda a, k=k: _fanout_figures(a, k)) for k, name in enumerate(self._names)
        ]
        self._mac = self._grid("mac", _mac_figures)
        self._clock = self._grid("clock", lambda a: ({}, {"clock_hz": a.clock_hz}, ()))
        self._shared, self._extra = self._extra_grids()
        self._made: dict[tuple[object, ...], Any] = {}

    def _built(self, rows: Indices) -> list[Architecture]:
        return [self._build(point) for point in self._space.to_points(rows)]

    def _group(self, columns: tuple[int, ...], base: Indices) -> list[Architecture]:
        """The machines of all choices of some columns, the others as in the base."""
        shape = [self._space.cardinalities[c] for c in columns]
        rows = np.repeat(base[None], math.prod(shape), axis=0)
        if columns:
            rows[:, columns] = np.stack(np.unravel_index(np.arange(len(rows)), shape), axis=1)
        return self._built(rows)

    def _columns(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._space.names.index(n) for n in names)

    def _grid(self, part: str, figures: Any) -> PartGrid:
        (names,) = self._parts.get(part, ((),))
        columns = self._columns(names)
        shape = tuple(self._space.cardinalities[c] for c in columns)
        found = [figures(a) for a in self._group(columns, self._base)]
        kinds = list(dict.fromkeys(kind for _, _, kind in found))
        number = {kind: k for k, kind in enumerate(kinds)}

        def array(position: int, name: str) -> Floats:
            return np.array([f[position][name] for f in found], dtype=np.float64).reshape(shape)

        return PartGrid(
            columns,
            {name: array(0, name) for name in found[0][0]},
            {name: array(1, name) for name in found[0][1]},
            np.array([number[kind] for _, _, kind in found], dtype=np.int64).reshape(shape),
            tuple(kinds),
        )

    def _extra_grids(self) -> tuple[tuple[int, ...], list[tuple[tuple[int, ...], Floats]]]:
        """Area and leakage of the rest as a sum of grids: columns that all groups share, and each group's grid ``... x 2``.

        A group's term is the figure less that of the base with the same shared columns; the first group also bears that.
        """
        groups = [self._columns(names) for names in self._parts.get("extra", ((),))]
        shared = tuple(c for c in groups[0] if all(c in g for g in groups)) if len(groups) > 1 else ()
        found = []
        for number, columns in enumerate(groups):
            shape = tuple(self._space.cardinalities[c] for c in columns)
            rest = np.array([(a.extra_area_mm2, a.extra_leakage_mw) for a in self._group(columns, self._base)])
            grid = rest.reshape(*shape, 2)
            if number:  # less the base's figure, for every choice of the shared columns
                at = tuple(
                    slice(None) if c in shared else slice(int(self._base[c]), int(self._base[c]) + 1) for c in columns
                )
                grid = grid - grid[at]
            found.append((columns, grid))
        return shared, found

    # ---- boxes -----------------------------------------------------------------------------------

    def roots(self, low: Indices, high: Indices) -> list[tuple[Indices, Indices]]:
        """A box as boxes in each of which every part is of one kind."""
        grids = [*self._levels, *self._fanouts, self._mac, self._clock]
        deciding = sorted({c for grid in grids for c in grid.deciding()} | set(self._shared))
        found = []
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
        levels = [
            self._merged(f"level {k}", grid, low, high, _make_level(self._names[k]))
            for k, grid in enumerate(self._levels)
        ]
        fanouts = [self._merged(f"fanout {k}", grid, low, high, _make_fanout) for k, grid in enumerate(self._fanouts)]
        macs, mac = self._merged("mac", self._mac, low, high, _make_mac)
        clocks, clock = self._merged("clock", self._clock, low, high, lambda f, _: f["clock_hz"])
        instances, area, leakage = np.ones(n), np.zeros(n), np.zeros(n)
        for (made, which), (fans, fan) in zip(levels, fanouts, strict=True):
            area += instances * np.array([m.area_mm2 or 0.0 for m, _ in made])[which]
            leakage += instances * np.array([m.leakage_mw or 0.0 for m, _ in made])[which]
            instances *= np.array([size for _, size in fans])[fan]
        area += instances * np.array([m.area_mm2 or 0.0 for m in macs])[mac]
        leakage += instances * np.array([m.leakage_mw or 0.0 for m in macs])[mac]
        for number, (columns, values) in enumerate(self._extra):
            least, which = self._least(f"extra {number}", columns, values, low, high)
            area += least[which, 0]
            leakage += least[which, 1]
        figures = Figures(
            np.arange(n),
            tuple(tuple(replace(m, area_mm2=None, leakage_mw=None) for m, _ in made) for made, _ in levels),
            np.array([which for _, which in levels]),
            tuple(tuple(f for f, _ in made) for made, _ in fanouts),
            np.array([which for _, which in fanouts]),
            tuple(macs), mac, np.array(clocks)[clock], np.zeros(n), np.zeros(n),
        )  # fmt: skip
        return figures, area, leakage * 1e-3

    def _merged(self, name: str, grid: PartGrid, low: Indices, high: Indices, make: Any) -> tuple[list[Any], Indices]:
        """The different parts of some boxes, made once each, and which one each box has."""
        first, which = _windows(grid.columns, low, high)
        made = []
        for k in first:
            window = grid.window(low[k], high[k])
            key = (name, tuple((s.start, s.stop) for s in window))
            if key not in self._made:
                self._made[key] = make(*grid.best(window))
            made.append(self._made[key])
        return made, which

    def _least(
        self, name: str, columns: tuple[int, ...], values: Floats, low: Indices, high: Indices
    ) -> tuple[Floats, Indices]:
        first, which = _windows(columns, low, high)
        least = []
        for k in first:
            window = tuple(slice(int(low[k, c]), int(high[k, c]) + 1) for c in columns)
            key = (name, tuple((s.start, s.stop) for s in window))
            if key not in self._made:
                self._made[key] = values[window].reshape(-1, 2).min(axis=0)
            least.append(self._made[key])
        return np.array(least), which


def _windows(columns: tuple[int, ...], low: Indices, high: Indices) -> tuple[Indices, Indices]:
    """The first box of each different window on some columns, and which window each box has."""
    if not columns:
        return np.zeros(1, dtype=np.int64), np.zeros(len(low), dtype=np.int64)
    keys = np.ascontiguousarray(np.concatenate([low[:, columns], high[:, columns]], axis=1))
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


# ---- what is compared of each part ---------------------------------------------------------------


def _level_figures(architecture: Architecture, k: int) -> tuple[dict[str, float], dict[str, float], Any]:
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
        "read": _or_infinite(level.read_bandwidth_words_per_cycle),
        "write": _or_infinite(level.write_bandwidth_words_per_cycle),
        "separate": float(level.ports is Ports.SEPARATE),
    }
    return least, most, (level.kind, level.word_bits, level.one_element_per_word, level.keep)


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


def _or_none(value: float) -> float | None:
    return None if math.isinf(value) else value


def _make_level(name: str) -> Any:
    def make(figures: Mapping[str, float], kind: Any) -> tuple[StorageLevel, None]:
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
        return level, None

    return make


def _fanout_figures(architecture: Architecture, k: int) -> tuple[dict[str, float], dict[str, float], Any]:
    fanout = architecture.levels[k].fanout
    trunk = 1.0 if fanout.links is Links.SYSTOLIC else float(fanout.x + fanout.y)
    hops = 0.0 if fanout.size == 1 else trunk
    least = {"size": float(fanout.size), "drive_pj": fanout.hop_pj_per_bit * hops}
    return least, {"x": float(fanout.x), "y": float(fanout.y)}, fanout.links


def _make_fanout(figures: Mapping[str, float], links: Links) -> tuple[Fanout, float]:
    """The widest network, a word on it as cheap as on the cheapest: a bus is driven whole, x + y hops long (rules N1-N3)."""
    x, y = int(figures["x"]), int(figures["y"])
    trunk = 1.0 if links is Links.SYSTOLIC else float(x + y)
    return Fanout(x, y, links, figures["drive_pj"] / trunk), figures["size"]


def _mac_figures(architecture: Architecture) -> tuple[dict[str, float], dict[str, float], Any]:
    mac = architecture.mac
    least = {"energy_pj": mac.least_energy_pj, "area_mm2": mac.area_mm2 or 0.0, "leakage_mw": mac.leakage_mw or 0.0}
    return least, {}, mac.bits


def _make_mac(figures: Mapping[str, float], bits: int) -> Arithmetic:
    return Arithmetic(bits, figures["energy_pj"], figures["area_mm2"], figures["leakage_mw"])
