"""Kinds of cores of a system, and which core is of which (docs/explanation/many-cores.md, rules M121, M122)."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from codesign.arch.architecture import Architecture, LevelKind, StorageLevel
from codesign.arch.files import architecture_from_json, architecture_to_json
from codesign.arch.many_core import FIRST_KIND, Buffer, CoreKind, ManyCore, VectorMacCore, mesh_order
from codesign.arch.presets import fill_figures, load_preset
from codesign.core.errors import UserError
from codesign.core.files import read_structured

FREE = Buffer(2**20, 0.0, 0.0)
"""The small buffers of an architecture in its record; the exact mapper knows them better."""


def kinds_of(system: ManyCore) -> tuple[CoreKind, ...]:
    """All kinds of cores, that of `core` first."""
    return CoreKind(FIRST_KIND, system.core), *system.kinds


def places_by_count(width: int, height: int, stride: int, counts: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """Kinds of all places when the last cores of the mesh order are of further kinds, so many of each (rule M111).

    Raises:
        UserError: There are more of them than cores.
    """
    order, total = mesh_order(width, height, stride), sum(counts.values())
    if total > len(order) or min(counts.values()) < 0:
        raise UserError(f"{total} cores of further kinds do not fit a mesh of {width} x {height}", where="kinds")
    names = [FIRST_KIND] * (len(order) - total) + [name for name, n in counts.items() for _ in range(n)]
    kind = dict(zip(order, names, strict=True))
    return tuple(tuple(kind[x, y] for x in range(width)) for y in range(height))


def kind_counts(system: ManyCore) -> tuple[int, ...]:
    """How many cores each kind has."""
    if not system.kinds:
        return (system.cores,)
    return tuple(sum(row.count(kind.name) for row in system.places) for kind in kinds_of(system))


def kind_of_cores(system: ManyCore) -> list[int]:
    """Number of the kind of each core."""
    return [number for number, count in enumerate(kind_counts(system)) for _ in range(count)]


@cache
def whole_architecture(kind: CoreKind) -> Architecture:
    """The architecture that a kind names, with all energies and areas.

    Raises:
        UserError: The kind is a record, or there is no such architecture.
    """
    name = kind.architecture
    if name is None:
        raise UserError("a record is no architecture", where=f"kind {kind.name!r}")
    if name.startswith("{"):
        found = architecture_from_json(json.loads(name), f"kind {kind.name!r}")
    elif name.endswith((".yaml", ".yml", ".json")):
        found = _of_file(kind, Path(name))
    else:
        return load_preset(name)
    return found if found.technology is None else fill_figures(found)


def with_architecture(kind: CoreKind, folder: Path) -> CoreKind:
    """The kind with the architecture of its file, which counts from a folder, written out: a record of it needs no file."""
    name = kind.architecture
    if name is None or not name.endswith((".yaml", ".yml", ".json")):
        return kind
    return replace(kind, architecture=json.dumps(architecture_to_json(_of_file(kind, folder / name))))


def _of_file(kind: CoreKind, path: Path) -> Architecture:
    raw = read_structured(path)
    if not isinstance(raw, dict) or "architecture" not in raw:
        raise UserError("expected `architecture:`", where=f"kind {kind.name!r}, {path}")
    return architecture_from_json(raw["architecture"], str(path), folder=path.parent)


@cache
def own_architecture(kind: CoreKind) -> Architecture:
    """The architecture of a kind from its outermost buffer inwards, the buffer unbounded: the network fills it (rule M125).

    Raises:
        UserError: The kind has none, or it has no DRAM above a buffer with energies, or operands that are not of 8 bits.
    """
    where = f"kind {kind.name!r}"
    whole = whole_architecture(kind)
    buffer = _outer_buffer(whole, where)
    if whole.mac.energy_pj is None or any(level.energy is None for level in whole.levels):
        raise UserError("a level or the MAC has no energy", where=where, hint="name a technology")
    if whole.mac.bits != 8:
        raise UserError(f"cores of systems take elements of 8 bits, got MACs of {whole.mac.bits}", where=where)
    outer = replace(buffer, capacity_bytes=None, keep=frozenset({"input", "weight", "output"}))
    return replace(whole, levels=(outer, *whole.levels[2:]))


def _outer_buffer(whole: Architecture, where: str) -> StorageLevel:
    levels = whole.levels
    if len(levels) < 3 or levels[0].kind is not LevelKind.DRAM or levels[1].kind is LevelKind.DRAM:
        names = ", ".join(level.name for level in levels)
        raise UserError(f"a core's architecture is DRAM, a buffer and levels below it, got {names}", where=where)
    if levels[1].capacity_bytes is None:
        raise UserError(f"the buffer {levels[1].name!r} needs a capacity", where=where)
    return levels[1]


@cache
def record_of(kind: CoreKind) -> VectorMacCore:
    """A kind as a record: buffer, vector unit and number of MACs of an architecture (rule M125)."""
    if kind.core is not None:
        return kind.core
    inside, where = own_architecture(kind), f"kind {kind.name!r}"
    buffer = _outer_buffer(whole_architecture(kind), where)
    bytes_of_word, energy = buffer.word_bits / 8, buffer.energy
    assert energy is not None and buffer.capacity_bytes is not None
    words, _ = buffer.words_per_cycle
    big = Buffer(int(buffer.capacity_bytes), energy.read_pj / bytes_of_word, energy.fill_pj / bytes_of_word)
    x, y = 1, 1
    for level in inside.levels:
        x, y = x * level.fanout.x, y * level.fanout.y
    return VectorMacCore(
        FREE, FREE, FREE, FREE, big,
        vector=1, lanes=1, elements_a=x, elements_o=y, bus_words_per_cycle=2**20, bus_pj=0.0,
        mac_pj=inside.mac.energy_pj or 0.0,
        vector_unit_macs=kind.vector_unit_macs, vector_unit_pj=kind.vector_unit_pj,
        buffer_words_per_cycle=2**20 if words is None else max(1, round(words * bytes_of_word)),
        output_reserve_bytes=kind.output_reserve_bytes,
    )  # fmt: skip
