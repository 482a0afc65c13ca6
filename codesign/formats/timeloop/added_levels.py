"""Levels that keep nothing, added so that files with one place per level can say a mapping.

Timeloop's files give each level one list of temporal loops, then one list of spatial loops, each dimension once, on one axis.
A mapping may unroll a dimension along both axes of a fan-out, come back to a dimension, or loop over time between the fan-out of a level
and what the next one keeps. A further level below, which keeps no tensor and costs nothing, takes the loops that do not fit: the fan-out of
the level becomes two fan-outs whose sizes multiply to it. Data pass such a level by, so no access count changes; users of Timeloop know them as
dummy buffers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from codesign.arch.architecture import AccessEnergy, Architecture, Fanout, LevelKind, StorageLevel
from codesign.core.errors import UserError
from codesign.mapping.mapping import Axis, LevelMapping, Mapping, Node, Spatial, Storage, Temporal

AXES: tuple[Axis, Axis] = ("x", "y")

Factors = dict[str, int]
"""Factor by dimension."""


@dataclass
class _Stage:
    """One level of the files: a level of the machine, or one added below it.

    Args:
        level: Its position in the machine.
        keep: Tensors held there; none on an added level.
        temporal: Loops over time, outermost first, each dimension once.
        along: Spatial loops by axis.
        added: Whether it is an added level.
    """

    level: int
    keep: list[str] = field(default_factory=list)
    temporal: Factors = field(default_factory=dict)
    along: dict[Axis, Factors] = field(default_factory=lambda: {"x": {}, "y": {}})
    added: bool = False

    @property
    def spatial(self) -> bool:
        """Whether it has spatial loops."""
        return any(self.along.values())

    def used(self, axis: Axis) -> int:
        """Children in use along an axis."""
        return math.prod(self.along[axis].values())


@dataclass(frozen=True)
class Leveled:
    """A mapping with one place per level, and the machine it is of.

    Args:
        levels: What each level does, outermost first.
        architecture: The machine; itself where no level was added.
        added: Names of the added levels.
    """

    levels: tuple[LevelMapping, ...]
    architecture: Architecture
    added: tuple[str, ...]

    @property
    def mapping(self) -> Mapping:
        """The mapping as a loop nest on the architecture with the added levels."""
        return Mapping.from_levels(self.levels)


def level_by_level(mapping: Mapping, architecture: Architecture, *, allow_added: bool = True) -> Leveled:
    """The mapping in a form with one place per level, on the machine with the levels that this needs.

    Where a dimension lies along both axes of a fan-out and all its iterations fit one of them, they are laid there and no level is added.
    No count depends on the axis, nor on an added level.

    Args:
        mapping: A valid one of the architecture.
        architecture: The machine.
        allow_added: Whether levels may be added.

    Raises:
        UserError: Tensors of one level are kept at different places of the nest (an uneven mapping), which no added level can say; or a level would
            have to be added and may not.
    """
    stages = [part for stage in _stages(mapping, architecture) for part in _one_axis_each(stage, architecture)]
    names = _names(stages, architecture)
    added = tuple(name for name, stage in zip(names, stages, strict=True) if stage.added)
    if added and not allow_added:
        name = next(architecture.levels[stage.level].name for stage in stages if stage.added)
        raise UserError(
            f"the loops of level {name!r} need an added level below it: {_reason(mapping, name)}",
            where="mapping",
            hint="allow added levels, or take a mapping with one loop a dimension at each level, on one axis",
        )
    levels = tuple(
        LevelMapping(
            name,
            tuple(stage.keep),
            tuple(stage.temporal.items()),
            tuple((dim, factor, axis) for axis in AXES for dim, factor in stage.along[axis].items()),
        )
        for name, stage in zip(names, stages, strict=True)
    )
    if not added:
        return Leveled(levels, architecture, ())
    machine = _split_fanouts(stages, architecture)
    renamed = tuple(replace(level, name=name) for level, name in zip(machine, names, strict=True))
    return Leveled(levels, replace(architecture, levels=renamed), added)


def _reason(mapping: Mapping, level: str) -> str:
    """What does not fit one place."""
    axes: dict[str, set[Axis]] = {}
    for node in mapping.loops:
        if isinstance(node, Spatial) and node.level == level:
            axes.setdefault(node.dim, set()).add(node.axis)
    twice = next((dim for dim, found in axes.items() if len(found) > 1), None)
    return (
        f"{twice!r} is unrolled along both axes"
        if twice
        else "a dimension has two loops, or a loop stands inside the fan-out"
    )


def _stages(mapping: Mapping, architecture: Architecture) -> list[_Stage]:
    """The nest cut into stages: storage, loops over time, spatial loops."""
    stages = [_Stage(0)]
    for position, node in enumerate(mapping.nodes):
        stage = stages[-1]
        if isinstance(node, Temporal):
            if not stage.spatial and (node.dim not in stage.temporal or next(reversed(stage.temporal)) == node.dim):
                stage.temporal[node.dim] = stage.temporal.get(node.dim, 1) * node.factor
                continue
            stages.append(_next_stage(stage, mapping.nodes[position + 1 :], architecture))
            stages[-1].temporal[node.dim] = node.factor
            continue
        level = architecture.level_index[node.level]
        if level < stage.level:
            raise _uneven(f"{_what(node)} stands inside loops of level {architecture.levels[stage.level].name!r}")
        while stages[-1].level < level:
            stages.append(_Stage(stages[-1].level + 1))
        stage = stages[-1]
        if isinstance(node, Storage):
            if stage.temporal or stage.spatial or stage.added:
                raise _uneven(f"{node.tensor!r} is kept at {node.level!r} inside loops of that level")
            stage.keep.append(node.tensor)
        else:
            stage.along[node.axis][node.dim] = stage.along[node.axis].get(node.dim, 1) * node.factor
    while stages[-1].level < len(architecture.levels) - 1:
        stages.append(_Stage(stages[-1].level + 1))
    return stages


def _next_stage(stage: _Stage, rest: Sequence[Node], architecture: Architecture) -> _Stage:
    """Where a loop over time goes that the stage cannot take: the next level, if nothing is kept there later, else an added one."""
    below = stage.level + 1
    if below == len(architecture.levels) or not stage.spatial:
        return _Stage(stage.level, added=True)
    kept = any(isinstance(node, Storage) and node.level == architecture.levels[below].name for node in rest)
    return _Stage(stage.level, added=True) if kept else _Stage(below)


def _one_axis_each(stage: _Stage, architecture: Architecture) -> Iterator[_Stage]:
    """The stage, or two of them where a dimension lies along both axes and cannot be laid along one."""
    if not stage.along["x"].keys() & stage.along["y"].keys():
        yield stage
        return
    fanout = architecture.levels[stage.level].fanout
    totals: Factors = {}
    for axis in AXES:
        for dim, factor in stage.along[axis].items():
            totals[dim] = totals.get(dim, 1) * factor
    for choice in product(AXES, repeat=len(totals)):
        along: dict[Axis, Factors] = {"x": {}, "y": {}}
        for axis, (dim, factor) in zip(choice, totals.items(), strict=True):
            along[axis][dim] = factor
        laid = replace(stage, along=along)
        if laid.used("x") <= fanout.x and laid.used("y") <= fanout.y:
            yield laid
            return
    yield replace(stage, along={"x": stage.along["x"], "y": {}})
    yield _Stage(stage.level, along={"x": {}, "y": stage.along["y"]}, added=True)


def _split_fanouts(stages: Sequence[_Stage], architecture: Architecture) -> list[StorageLevel]:
    """The levels of all stages. Those of one level share its fan-out: the one with spatial loops has it, of two each has one axis."""
    levels: list[StorageLevel] = []
    for position, level in enumerate(architecture.levels):
        own = [stage for stage in stages if stage.level == position]
        spatial = [stage for stage in own if stage.spatial] or own[-1:]
        for stage in own:
            x = level.fanout.x if stage is spatial[0] else 1
            y = level.fanout.y if stage is spatial[-1] else 1
            fanout = replace(level.fanout, x=x, y=y)
            levels.append(_passed_by(level, fanout) if stage.added else replace(level, fanout=fanout))
    return levels


def _passed_by(level: StorageLevel, fanout: Fanout) -> StorageLevel:
    """A level below another that keeps nothing and costs nothing."""
    return StorageLevel(
        name=level.name,
        kind=LevelKind.REGISTERS,
        capacity_bytes=max(1.0, level.word_bits / 8),  # one word: files must give a size
        word_bits=level.word_bits,
        one_element_per_word=level.one_element_per_word,
        keep=frozenset(),
        energy=None if level.energy is None else AccessEnergy(0.0, 0.0, 0.0),
        area_mm2=None if level.area_mm2 is None else 0.0,
        fanout=fanout,
    )


def _names(stages: Sequence[_Stage], architecture: Architecture) -> list[str]:
    """The names of the levels of all stages, all different."""
    taken = {level.name for level in architecture.levels}
    names: list[str] = []
    for stage in stages:
        base = name = architecture.levels[stage.level].name
        number = 2
        while stage.added and name in taken:
            name = f"{base}_part{number}"
            number += 1
        taken.add(name)
        names.append(name)
    return names


def _what(node: Spatial | Storage) -> str:
    if isinstance(node, Storage):
        return f"{node.tensor!r}, kept at {node.level!r},"
    return f"the spatial loop over {node.dim!r} below {node.level!r}"


def _uneven(reason: str) -> UserError:
    return UserError(f"{reason}; files with one place per level cannot say that", where="mapping")
