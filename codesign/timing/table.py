"""Timing tables: every constant of the event tier, with what it was measured on (docs/explanation/timing.md, rules E and T)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.architecture import Architecture, LevelKind
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields
from codesign.core.files import read_structured
from codesign.core.json_types import JsonObject
from codesign.core.specs import at_least, changed
from codesign.timing.derive import Machine

TABLES = Path(__file__).parent / "tables"


class Overlap(Enum):
    """What of a run may happen at the same time.

    EVENTS: operations wait for data, buffers and ports.
    PERFECT: nothing waits; the busiest resource alone says how long a run takes. This is the analytical model.
    WAITS: cycles are those of rules E12 and E13: waits in closed form, and shortened runs.
    GENERATED: what generated hardware overlaps (`codesign.hardware.timed`); the event engine refuses it.
    """

    EVENTS = "events"
    PERFECT = "perfect"
    WAITS = "waits"
    GENERATED = "generated"


class Transfers(Enum):
    """How a level is filled: tile by tile, each an event, or word by word while the array works."""

    TILE = "tile"
    STREAM = "stream"


class Swap(Enum):
    """When the buffers of an output alternate: with its own tile, or at every step of the level."""

    TILE = "tile"
    STEP = "step"


@dataclass(frozen=True)
class LevelTiming:
    """How one level moves tiles.

    Args:
        level: Its name.
        transfers: Whether its tiles are events.
        buffers: Tiles of each tensor it holds at a time; None is two where they fit, else one.
        swap: When the buffers of an output alternate.
        retain: If false, input tiles are loaded again at every step, changed or not.
        read_startup_cycles: Cycles a transfer out of the level holds its port before the first word.
        write_startup_cycles: Cycles a transfer into the level holds the sending port before the first word.
        latency_cycles: Cycles from the end of a transfer out of the level until its data can be used.
        early_release_cycles: Cycles before the end of its last use at which the buffer of a tile is free.
    """

    level: str
    transfers: Transfers = Transfers.TILE
    buffers: int | None = at_least(1)
    swap: Swap = Swap.TILE
    retain: bool = True
    read_startup_cycles: float = at_least(0, 0.0)
    write_startup_cycles: float = at_least(0, 0.0)
    latency_cycles: float = at_least(0, 0.0)
    early_release_cycles: float = at_least(0, 0.0)


@dataclass(frozen=True)
class Timing:
    """A timing table: what a machine's cycles hang on besides bandwidths.

    Args:
        name: For people.
        levels: One entry a level that differs from the default (registers stream, other levels move tiles).
        fill_drain_cycles: Cycles the array needs for a step besides its work: skew, reduction tree, write-back.
        issue_cycles: Cycles the host needs to issue the commands of a step.
        command_queue: Steps the host may issue ahead.
        steps_in_flight: Steps that may be unfinished at a time; None is no limit.
        run_cycles: Cycles of a run besides its steps.
        batch_outputs: Tiles of output the controller runs as a batch where stores are the longest (rule E11); None: it has none.
        overlap: Whether anything waits at all.
        constants: Named constants of models that hang on the machine (array pieces, caches); see the tables.
        source: Where the figures come from.
        fitted_on: What fitted figures were fitted on.
    """

    name: str
    levels: tuple[LevelTiming, ...] = ()
    fill_drain_cycles: float = at_least(0, 0.0)
    issue_cycles: float = at_least(0, 0.0)
    command_queue: int = at_least(1, 2)
    steps_in_flight: int | None = at_least(1)
    run_cycles: float = at_least(0, 0.0)
    batch_outputs: int | None = at_least(2)
    overlap: Overlap = Overlap.EVENTS
    constants: tuple[tuple[str, float], ...] = ()
    source: str = ""
    fitted_on: str = ""

    def constant(self, name: str) -> float:
        """A named constant.

        Raises:
            UserError: The table has no such constant.
        """
        found = dict(self.constants)
        if name not in found:
            raise UserError(f"constant `{name}` is missing", where=f"timing table {self.name!r}")
        return found[name]


def with_constants(timing: Timing, changed: Mapping[str, float]) -> Timing:
    """The table with some of its named constants replaced.

    Raises:
        UserError: It has no such constant.
    """
    known = dict(timing.constants)
    for name in changed:
        if name not in known:
            raise unknown_name("constant", name, known, where=f"timing table {timing.name!r}")
    return replace(timing, constants=tuple((known | dict(changed)).items()))


IDEAL = Timing("ideal", overlap=Overlap.PERFECT)
"""The analytical model: no latencies, no waiting."""

_LEVEL_CYCLES = ("read_startup_cycles", "write_startup_cycles", "latency_cycles", "early_release_cycles")


def timing_from_json(value: Any, where: str) -> Timing:
    """The table of what stands under `timing:`.

    Raises:
        UserError: A key is unknown, or a figure is missing, negative or of the wrong kind.
    """
    fields = Fields(value, f"{where}: timing")
    levels = tuple(_read_level(item, where) for item in fields.items("levels", []))
    constants = fields.raw("constants", {})
    if not isinstance(constants, dict):
        raise UserError("`constants` must be names and numbers", where=where)
    inner = Fields(constants, f"{where}: timing, `constants`")
    figures = tuple((key, inner.number(key, least=0)) for key in constants)
    return fields.record(Timing, levels=levels, constants=figures)


def _read_level(value: Any, where: str) -> LevelTiming:
    fields = Fields(value, f"{where}: timing, a level")
    fields.where = f"{where}: timing, level {fields.text('level')!r}"
    return fields.record(LevelTiming)


def timing_to_json(timing: Timing) -> JsonObject:
    """What stands under `timing:`; `timing_from_json` gives the same table back."""
    value = changed(timing, "levels", "constants")
    if timing.levels:
        value["levels"] = [changed(level) for level in timing.levels]
    if timing.constants:
        value["constants"] = dict(timing.constants)
    return value


def read_timing(path: str | Path) -> Timing:
    """The table of a YAML file with `timing:` at its top.

    Raises:
        UserError: There is no such file, or it is no timing table.
    """
    value = read_structured(path)
    if not isinstance(value, dict) or "timing" not in value:
        raise UserError("expected `timing:` at the top", where=str(path))
    return timing_from_json(value["timing"], str(path))


def named_tables() -> tuple[str, ...]:
    """Names of the tables that come with the project."""
    return tuple(sorted(path.stem for path in TABLES.glob("*.yaml")))


@cache
def load_timing(name: str) -> Timing:
    """A table by name, or by path.

    Raises:
        UserError: There is none.
    """
    if name == "ideal":
        return IDEAL
    path = TABLES / f"{name}.yaml"
    if path.exists():
        return read_timing(path)
    if "/" in name or name.endswith((".yaml", ".yml")):
        return read_timing(name)
    raise unknown_name("timing table", name, (*named_tables(), "ideal"))


def timing_for(architecture: Architecture) -> Timing:
    """The table named like the architecture, else one without latencies: buffers and ports alone make the difference."""
    if architecture.name in named_tables():
        return load_timing(architecture.name)
    return Timing("default", source="no latencies; two buffers where they fit")


def encode_timing(timing: Timing, architecture: Architecture) -> Machine:
    """The arrays of a table for an architecture.

    Raises:
        UserError: The table speaks of a level that the architecture does not have.
    """
    by_name = {level.level: level for level in timing.levels}
    for name in by_name:
        architecture.level(name)
    count = len(architecture.levels)
    level_int = np.zeros((count, 5), np.int64)
    level = np.zeros((count, 4))
    streams = False
    perfect = timing.overlap is Overlap.PERFECT
    for v, item in enumerate(architecture.levels):
        row = by_name.get(item.name)
        if row is None:
            kind = Transfers.STREAM if item.kind is LevelKind.REGISTERS and not perfect else Transfers.TILE
            row = LevelTiming(item.name, kind)
        streams = streams or row.transfers is Transfers.STREAM
        shared = getattr(getattr(item, "ports", None), "value", "") == "shared"
        level_int[v] = (not streams, row.buffers or 0, row.swap is Swap.STEP, row.retain, shared)
        level[v] = [getattr(row, key) for key in _LEVEL_CYCLES]
    return Machine(
        level_int=level_int,
        level=level,
        whole=np.array([timing.fill_drain_cycles, timing.issue_cycles]),
        queue=timing.command_queue,
        in_flight=timing.steps_in_flight or 0,
        round_up=0 if perfect else 1,
    )


def tile_buffers(timing: Timing, architecture: Architecture) -> tuple[str, ...]:
    """Names of the buffers of finite capacity whose tiles are events."""
    events = encode_timing(timing, architecture).level_int[:, 0]
    return tuple(
        level.name
        for level, is_event in zip(architecture.levels, events, strict=True)
        if is_event and level.capacity_bytes is not None
    )


def whole_cycles(cycles: float) -> int:
    """Cycles of a finished run: whole ones."""
    return math.ceil(cycles - 1e-9 * max(1.0, cycles))
