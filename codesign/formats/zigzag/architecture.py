"""ZigZag's accelerator files (`memories`, `operational_array`), as far as one chain of levels can say them.

Memories become levels, each keeping the operands it is listed with: I1 the inputs, I2 the weights, O the
outputs. Costs are per word of the widest port; what is lost is said in docs/reference/files.md and in warnings.
"""

import logging
import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, StorageLevel
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.workloads.computation import Role

_log = logging.getLogger(__name__)

OPERANDS = {"I1": Role.INPUT, "I2": Role.WEIGHT, "O": Role.OUTPUT}
"""Memory operand -> what it is to the hardware."""

_Mesh = tuple[int, int]


def architecture_from_zigzag(value: Any, where: str = "accelerator") -> Architecture:
    """The architecture of an accelerator file.

    Raises:
        UserError: It is malformed, or the memories do not form one chain.
    """
    name, sizes, mac_energy, memories = read_accelerator(value, where)
    if sum(size > 1 for size in sizes.values()) > 2:
        text = f"an array of {len(sizes)} dimensions cannot be expressed; X and Y are all"
        raise UserError(text, where=f"{where}, `operational_array`")
    read = [_read_memory(key, item, sizes, f"{where}: memory {key!r}") for key, item in memories.items()]
    ordered = _outermost_first(read, list(memories))
    meshes = [mesh for _, mesh in ordered] + [_mesh_of(sizes, ())]
    if meshes[0] != (1, 1):
        raise UserError("the outermost memory must serve the whole array", where=where)
    if ordered[0][0].keep != frozenset(role.value for role in OPERANDS.values()):
        raise UserError(
            f"the outermost memory {ordered[0][0].name!r} must hold all operands",
            where=where,
            hint="it needs I1, I2 and O",
        )
    levels = []
    for (level, _), (outer, inner) in zip(ordered, pairwise(meshes), strict=True):
        if inner[0] % outer[0] or inner[1] % outer[1]:
            raise UserError(
                f"memory {level.name!r} is shared along another dimension than the memories inside it: no single chain of levels",
                where=where,
            )
        levels.append(replace(level, fanout=Fanout(inner[0] // outer[0], inner[1] // outer[1])))
    _log.warning("%s: areas have no unit there and are left out", where)
    return Architecture(name, tuple(levels), Arithmetic(energy_pj=mac_energy))


def _outermost_first(read: list[tuple[StorageLevel, _Mesh]], listed: list[str]) -> list[tuple[StorageLevel, _Mesh]]:
    """By number of instances; equal ones in reverse order of the file, which lists inner memories first."""
    return sorted(read, key=lambda entry: (math.prod(entry[1]), -listed.index(entry[0].name)))


def read_accelerator(value: Any, where: str) -> tuple[str, dict[str, int], float, dict[str, Any]]:
    """What both forms of an accelerator begin with: its name, sizes by array dimension, energy of a MAC, and what the file says of each memory."""
    fields = Fields(value, where)
    name = fields.text("name", "accelerator")
    array = fields.child("operational_array")
    names, sizes = array.names("dimensions"), array.items("sizes")
    mac_energy = array.number("unit_energy", least=0)
    array.number("unit_area", None, least=0)
    array.finish()
    if len(names) != len(sizes):
        raise UserError(f"{len(names)} dimensions but {len(sizes)} sizes", where=array.where)
    if len(set(names)) < len(names):
        raise UserError(f"`dimensions` must differ, got {', '.join(names)}", where=array.where)
    for dim, size in zip(names, sizes, strict=True):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UserError(f"size of {dim} must be an integer >= 1, got {describe(size)}", where=array.where)
    memories = fields.raw("memories")
    fields.finish()
    if not isinstance(memories, dict) or not memories:
        raise UserError(f"`memories` must hold named memories, got {describe(memories)}", where=where)
    return name, dict(zip(names, sizes, strict=True)), mac_energy, memories


def read_reach(fields: Fields, sizes: dict[str, int]) -> tuple[list[str], list[str]]:
    """Operands that a memory holds, and array dimensions that it serves."""
    operands, served = fields.names("operands"), fields.names("served_dimensions")
    for operand in operands:
        if operand not in OPERANDS:
            raise unknown_name("operand", operand, OPERANDS, where=fields.where)
    for dim in served:
        if dim not in sizes:
            raise unknown_name("array dimension", dim, sizes, where=fields.where)
    return operands, served


def axes_of(sizes: dict[str, int]) -> dict[str, str]:
    """The mesh axis of each array dimension: the first one larger than 1 is X, the other Y."""
    large = [name for name, size in sizes.items() if size > 1]
    return {name: "x" if large.index(name) == 0 else "y" for name in large}


def _mesh_of(sizes: dict[str, int], served: tuple[str, ...]) -> _Mesh:
    """Instances along X and Y of a memory that serves whole dimensions of the array."""
    axes = axes_of(sizes)
    counts = {"x": 1, "y": 1}
    for name, axis in axes.items():
        if name not in served:
            counts[axis] = sizes[name]
    return counts["x"], counts["y"]


def _read_memory(name: str, value: Any, sizes: dict[str, int], where: str) -> tuple[StorageLevel, _Mesh]:
    fields = Fields(value, where)
    size = fields.integer("size", least=1)
    read_cost, write_cost = fields.number("r_cost", 0.0, least=0), fields.number("w_cost", 0.0, least=0)
    fields.number("area", None, least=0)
    if fields.integer("latency", 1, least=0) > 1:
        _log.warning("%s: a latency of more than one cycle is left out", where)
    for key in ("auto_cost_extraction", "double_buffering_support", "force_double_buffering"):
        if fields.flag(key, False):
            raise UserError(f"`{key}` cannot be expressed", where=where)
    fields.text("mem_type", None)
    operands, served = read_reach(fields, sizes)
    read_bits, write_bits = _ports(fields, where)
    fields.finish()
    level = StorageLevel(
        name=name,
        kind=LevelKind.DRAM if "dram" in name.lower() else LevelKind.SRAM if served else LevelKind.REGISTERS,
        capacity_bytes=size / 8,
        word_bits=read_bits,
        keep=frozenset(OPERANDS[o].value for o in operands),
        read_bandwidth_words_per_cycle=1.0,
        write_bandwidth_words_per_cycle=write_bits / read_bits,
        energy=AccessEnergy(read_cost, write_cost * read_bits / write_bits, write_cost * read_bits / write_bits),
    )
    return level, _mesh_of(sizes, tuple(served))


def _ports(fields: Fields, where: str) -> tuple[int, int]:
    """Bits per cycle that can be read and written."""
    read = write = 0
    for item in fields.items("ports"):
        port = Fields(item, f"{where}: port")
        port.text("name", None)
        kind = port.text("type")
        bits = port.integer("bandwidth_max", least=1)
        if port.integer("bandwidth_min", bits, least=1) != bits:
            _log.warning("%s: bandwidth_min below bandwidth_max is left out: accesses are fractions of words", where)
        port.raw("allocation", None)
        port.finish()
        if kind not in ("read", "write", "read_write"):
            raise unknown_name("port type", kind, ["read", "write", "read_write"], where=where)
        read += bits if kind != "write" else 0
        write += bits if kind != "read" else 0
        if kind == "read_write":
            _log.warning("%s: its read_write port limits reads and writes each, not their sum", where)
    if not read or not write:
        raise UserError("needs a port that reads and one that writes", where=where)
    return read, write
