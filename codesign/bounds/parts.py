"""The architectures of many designs, part by part: each distinct part is built once and shared.

A space of two million designs has a few hundred different memories and arrays. A space may say which parameters each part
depends on (`parts`); one that does not has every asked-for design built.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture, Arithmetic, Fanout, LevelKind, StorageLevel
from codesign.arch.constants import Constant, scaled_fanout, scaled_level, scaled_mac
from codesign.core.errors import UserError
from codesign.core.grid_space import GridSpace
from codesign.core.point import PointValue

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

Parts = Mapping[str, tuple[tuple[str, ...], ...]]
"""Name of a part -> groups of parameters; a part with several groups is a sum of one term per group (only ``extra`` may be).

Parts: LEVEL (sizes, energies, area), LEVEL.fanout, mac, clock, extra (area and leakage of the rest)."""


class BuiltSpace(Protocol):
    """What is needed of a hardware space here."""

    @property
    def space(self) -> Any:
        """The search space of its points (`GridSpace`)."""

    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        """The architecture of a point, energies and areas filled in."""


Distinct: TypeAlias = tuple[Sequence[Any], Indices]
"""The different values of a part, and which one each design has: ``n``."""


@final
@dataclass(frozen=True)
class Figures:
    """Designs with equally many levels, as indices into tables of their parts.

    Args:
        rows: Positions of these designs among those asked for: ``n``.
        levels: The distinct levels at each depth, fan-outs taken off.
        level: Which of them a design has: ``L x n``.
        fanouts: The distinct fan-outs at each depth.
        fanout: Which of them a design has: ``L x n``.
        macs: The distinct arithmetic.
        mac: Which of them a design has: ``n``.
        clock_hz: ``n``.
        extra_area_mm2: ``n``.
        extra_leakage_mw: ``n``.
    """

    rows: Indices
    levels: tuple[tuple[StorageLevel, ...], ...]
    level: Indices
    fanouts: tuple[tuple[Fanout, ...], ...]
    fanout: Indices
    macs: tuple[Arithmetic, ...]
    mac: Indices
    clock_hz: Floats
    extra_area_mm2: Floats
    extra_leakage_mw: Floats

    @classmethod
    def of(
        cls,
        rows: Indices,
        levels: Sequence[Distinct],
        fanouts: Sequence[Distinct],
        mac: Distinct,
        rest: Sequence[Floats],
    ) -> "Figures":
        """From the distinct parts at each depth, outermost first, and clock, area and leakage of the rest: ``n`` each."""
        return cls(
            rows, tuple(tuple(v) for v, _ in levels), np.array([i for _, i in levels]),
            tuple(tuple(v) for v, _ in fanouts), np.array([i for _, i in fanouts]), tuple(mac[0]), mac[1], *rest,
        )  # fmt: skip

    @property
    def depth(self) -> int:
        """Number of storage levels of the architectures."""
        return len(self.levels)

    def of_level(self, depth: int, figure: Callable[[StorageLevel], float]) -> Floats:
        """A figure of the level at that depth: ``n``."""
        return _looked_up([figure(v) for v in self.levels[depth]], self.level[depth])

    def of_fanout(self, depth: int, figure: Callable[[Fanout], float]) -> Floats:
        """A figure of the fan-out at that depth: ``n``."""
        return _looked_up([figure(v) for v in self.fanouts[depth]], self.fanout[depth])

    def of_mac(self, figure: Callable[[Arithmetic], float]) -> Floats:
        """A figure of the arithmetic: ``n``."""
        return _looked_up([figure(v) for v in self.macs], self.mac)

    def instances(self, depth: int) -> Floats:
        """Instances of the level at that depth; of the MACs at the depth past the last: ``n``."""
        count = np.ones(len(self.rows))
        for outer in range(depth):
            count = count * self.of_fanout(outer, lambda fanout: fanout.size)
        return count

    def scaled(self, factors: Mapping[Constant, float]) -> "Figures":
        """The same designs with some technology constants scaled."""
        return replace(
            self,
            levels=tuple(tuple(scaled_level(v, factors) for v in level) for level in self.levels),
            fanouts=tuple(tuple(scaled_fanout(f, factors) for f in fanout) for fanout in self.fanouts),
            macs=tuple(scaled_mac(m, factors) for m in self.macs),
            extra_leakage_mw=self.extra_leakage_mw * factors.get(Constant.LEAKAGE, 1.0),
        )

    def architecture(self, design: int) -> Architecture:
        """The architecture of one of these designs (its name and technology are not kept)."""
        levels = tuple(
            replace(self.levels[k][self.level[k, design]], fanout=self.fanouts[k][self.fanout[k, design]])
            for k in range(self.depth)
        )
        return Architecture(
            "design",
            levels,
            self.macs[self.mac[design]],
            float(self.clock_hz[design]),
            None,
            float(self.extra_area_mm2[design]),
            float(self.extra_leakage_mw[design]),
        )


def _looked_up(values: list[float], index: Indices) -> Floats:
    found: Floats = np.array(values, dtype=np.float64)[index]
    return found


def _refuse_zeros(figures: Figures) -> None:
    if any(v.sparsity.formats or v.sparsity.actions for level in figures.levels for v in level) or any(
        mac.zeros is not None for mac in figures.macs
    ):
        raise UserError(
            "the bounds of designs know dense accesses only, and a design of this space leaves zeros out",
            hint="take an optimiser that needs no bounds, for example nsga2 or random",
        )


def _one_by_one(built: Sequence[Architecture]) -> list[Figures]:
    found = []
    for depth in sorted({len(a.levels) for a in built}):
        rows = np.array([k for k, a in enumerate(built) if len(a.levels) == depth], dtype=np.int64)
        same = [built[k] for k in rows]
        levels = [_distinct([replace(a.levels[k], fanout=_NO_FANOUT) for a in same]) for k in range(depth)]
        fanouts = [_distinct([a.levels[k].fanout for a in same]) for k in range(depth)]
        rest = np.array([(a.clock_hz, a.extra_area_mm2, a.extra_leakage_mw) for a in same], dtype=np.float64)
        found.append(Figures.of(rows, levels, fanouts, _distinct([a.mac for a in same]), list(rest.T)))
    return found


_NO_FANOUT = Fanout()


def _distinct(values: Sequence[Any]) -> Distinct:
    """The different values in order of appearance, and which one each is."""
    seen: dict[Hashable, int] = {}
    index = np.array([seen.setdefault(v, len(seen)) for v in values], dtype=np.int64)
    return tuple(seen), index


@final
class PartTables:
    """The parts of a space's designs, each built when first asked for and remembered.

    Args:
        space: Of the rows.
        build: From a design to its architecture, figures filled in.
        parts: Which parameters each part depends on.
    """

    def __init__(
        self, space: GridSpace, build: Callable[[Mapping[str, PointValue]], Architecture], parts: Parts
    ) -> None:
        self._space, self._build, self._parts = space, build, parts
        self._column = {name: k for k, name in enumerate(space.names)}
        self._known: dict[str, dict[bytes, Any]] = {}
        self._levels: tuple[str, ...] = ()
        self._base: Indices = np.zeros((0, len(space.names)), dtype=np.int64)

    def figures(self, indices: Indices) -> Figures:
        """Some designs, at least one: ``n x d`` rows."""
        if not len(self._base):
            first = self._at(indices[0])
            self._levels = tuple(level.name for level in first.levels)
            self._base = indices[:1].copy()
        levels = [
            self._distinct(name, indices, lambda a, k=k: replace(a.levels[k], fanout=_NO_FANOUT))  # type: ignore[misc]
            for k, name in enumerate(self._levels)
        ]
        fanouts = [
            self._distinct(f"{name}.fanout", indices, lambda a, k=k: a.levels[k].fanout)  # type: ignore[misc]
            for k, name in enumerate(self._levels)
        ]
        mac = self._distinct("mac", indices, lambda a: a.mac)
        clocks, clock = self._distinct("clock", indices, lambda a: a.clock_hz)
        rest = self._sum_of_groups(indices)
        clock_hz = np.array(clocks, dtype=np.float64)[clock]
        return Figures.of(np.arange(len(indices)), levels, fanouts, mac, (clock_hz, rest[:, 0], rest[:, 1]))

    def _at(self, row: Indices) -> Architecture:
        return self._build(self._space.to_points(row[None])[0])

    def _values(self, key: str, rows: Indices, columns: list[int], take: Callable[[Architecture], Any]) -> list[Any]:
        """What is taken of a design for each row, which differ in some columns only as far as this is concerned."""
        known = self._known.setdefault(key, {})
        found = []
        for row in rows:
            choice = row[columns].tobytes()
            if choice not in known:
                known[choice] = take(self._at(row))
            found.append(known[choice])
        return found

    def _distinct(self, part: str, indices: Indices, take: Callable[[Architecture], Any]) -> Distinct:
        (names,) = self._parts.get(part, ((),))
        columns = [self._column[n] for n in names]
        first, which = distinct_rows(indices[:, columns])
        values, index = _distinct(self._values(part, indices[first], columns, take))
        return values, index[which]

    def _sum_of_groups(self, indices: Indices) -> Floats:
        """Area and leakage of the rest: ``n x 2``, sums of one term per group of columns.

        With all other columns at those of the first design ever asked for, a term is the figure less that of this design,
        which is added once. Columns of several groups, a technology for instance, change several terms at a time: this design
        takes them from the one asked for.
        """
        groups = [[self._column[n] for n in names] for names in self._parts.get("extra", ((),))]
        shared = shared_columns(groups)
        constant = self._rest_of("extra shared", indices, shared)
        total = constant
        for number, columns in enumerate(groups):
            total = total + self._rest_of(f"extra {number}", indices, sorted({*columns, *shared})) - constant
        return total

    def _rest_of(self, key: str, indices: Indices, columns: list[int]) -> Floats:
        """Area and leakage of the rest with all other columns at those of the first design ever asked for: ``n x 2``."""
        first, which = distinct_rows(indices[:, columns])
        rows = np.repeat(self._base, len(first), axis=0)
        rows[:, columns] = indices[first][:, columns]
        return np.asarray(np.array(self._values(key, rows, columns, _rest))[which])


def shared_columns(groups: Sequence[Sequence[int]]) -> list[int]:
    """The columns that several groups name."""
    return sorted({c for group in groups for c in group if sum(c in other for other in groups) > 1})


def _rest(architecture: Architecture) -> Floats:
    return np.array([architecture.extra_area_mm2, architecture.extra_leakage_mw], dtype=np.float64)


def figures_of(
    space: GridSpace,
    build: Callable[[Mapping[str, PointValue]], Architecture],
    indices: Indices,
    tables: PartTables | None,
) -> list[Figures]:
    """The parts of some designs: ``n x d`` rows to one value for each number of levels.

    Args:
        space: Of the rows.
        build: From a design to its architecture, figures filled in.
        indices: The designs.
        tables: The parts known so far, where the space says which parameters each depends on.

    Raises:
        UserError: Hardware among them knows zeros: a dense lower bound is none for it.
    """
    if tables is None:
        found = _one_by_one([build(point) for point in space.to_points(indices)])
    else:
        found = [tables.figures(indices)]
    for figures in found:
        _refuse_zeros(figures)
    return found


def combinations(columns: Sequence[Indices]) -> tuple[Indices, Indices]:
    """The different rows of some index columns, and which one each design has: ``k x c`` and ``n``."""
    first, which = projected(columns)
    return np.stack([np.asarray(c)[first] for c in columns], axis=1).astype(np.int64), which


def distinct_rows(rows: Indices) -> tuple[Indices, Indices]:
    """The first of equal rows, and which of these each row is equal to."""
    if not rows.shape[1]:
        return np.zeros(1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    return projected(list(rows.T))


def projected(columns: Sequence[Indices]) -> tuple[Indices, Indices]:
    """The first design of each different combination of some index columns, and which combination each design has."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        code = code * (int(column.max(initial=0)) + 1) + column
        if code.max(initial=0) > 1 << 40:  # keep numbers small: the product of many columns would overflow
            code = np.unique(code, return_inverse=True)[1].reshape(-1)
    most = int(code.max(initial=0)) + 1
    if most > 2 * len(code) + 1000:
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        return first, which.reshape(-1)
    number = np.zeros(most, dtype=np.int64)  # without sorting: millions of designs, few different codes
    number[code] = 1
    number = np.cumsum(number) - 1
    which = number[code]
    first = np.zeros(int(number[-1]) + 1, dtype=np.int64)
    first[which[::-1]] = np.arange(len(code) - 1, -1, -1)
    return first, which


def area_mm2(figures: Figures) -> Floats:
    """As `Architecture.area_mm2`, which a test holds it equal to."""
    total = figures.extra_area_mm2.copy()
    for depth in range(figures.depth):
        total += figures.instances(depth) * figures.of_level(
            depth, lambda level: 0.0 if level.kind is LevelKind.DRAM else level.area_mm2 or 0.0
        )
    return np.asarray(total + figures.instances(figures.depth) * figures.of_mac(lambda mac: mac.area_mm2 or 0.0))


def leakage_w(figures: Figures) -> Floats:
    """As `Architecture.leakage_w`, which a test holds it equal to."""
    total = figures.extra_leakage_mw + figures.instances(figures.depth) * figures.of_mac(lambda m: m.leakage_mw or 0.0)
    for depth in range(figures.depth):
        total += figures.instances(depth) * figures.of_level(depth, lambda level: level.leakage_mw or 0.0)
    return np.asarray(total * 1e-3)
