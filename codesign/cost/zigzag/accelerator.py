"""ZigZag's accelerator files in full: per-operand chains of memories, their ports, and the array dimensions they serve.

`codesign.formats.zigzag.architecture` makes one chain of levels of such a file and drops what the project's `Architecture` has
no word for; here nothing that changes a number is dropped.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.formats.zigzag.architecture import OPERANDS, read_accelerator, read_reach
from codesign.workloads.computation import Role

DIRECTIONS = ("tl", "fl", "th", "fh")
"""Data moves of one memory and operand: to the level below, from it, to the level above, from it."""


@dataclass(frozen=True)
class Port:
    """A physical port of a memory.

    Args:
        name: Unique within the memory.
        min_bits: Bits of the smallest access; a transfer is rounded up to a multiple of it.
        max_bits: Bits of one access; access energies are per this many bits.
        serves: Pairs (role, direction), first served first; a role and direction is served by one port.
    """

    name: str
    min_bits: int
    max_bits: int
    serves: tuple[tuple[Role, str], ...]


@dataclass(frozen=True)
class Memory:
    """One memory of the hierarchy.

    Args:
        name: Unique within the accelerator.
        size_bits: Of one instance.
        read_energy: Per read of `Port.max_bits`.
        write_energy: Per write of `Port.max_bits`.
        area: Of one instance, in the file's unit.
        operands: Roles it holds, in the file's order.
        ports: Its ports.
        served: Array dimensions along which one instance serves all units; along the others there is one instance a unit.
        keeps_half_free: Whether half of it is kept for double buffering.
    """

    name: str
    size_bits: int
    read_energy: float
    write_energy: float
    area: float
    operands: tuple[Role, ...]
    ports: tuple[Port, ...]
    served: frozenset[str]
    keeps_half_free: bool = False

    @property
    def usable_bits(self) -> int:
        """Bits that tiles may fill."""
        return self.size_bits // 2 if self.keeps_half_free else self.size_bits

    def port(self, role: Role, direction: str) -> int | None:
        """Index of the port that serves a role in a direction; None when none does."""
        for index, port in enumerate(self.ports):
            if (role, direction) in port.serves:
                return index
        return None


@dataclass(frozen=True)
class Accelerator:
    """An accelerator as ZigZag describes it. Energies have the file's unit (pJ by habit).

    Args:
        name: A label for people.
        memories: Inner ones before outer ones, as in the file; an operand passes through those that hold it.
        array: Pairs (array dimension, size).
        mac_energy: Of one multiply-accumulate.
    """

    name: str
    memories: tuple[Memory, ...]
    array: tuple[tuple[str, int], ...]
    mac_energy: float

    @cached_property
    def array_sizes(self) -> dict[str, int]:
        """Size by array dimension."""
        return dict(self.array)

    def chain(self, role: Role) -> tuple[int, ...]:
        """Indices of the memories that hold a role, innermost first."""
        return tuple(i for i, memory in enumerate(self.memories) if role in memory.operands)

    def instances(self, memory: Memory) -> int:
        """How many there are of a memory."""
        count = 1
        for dim, size in self.array:
            count *= 1 if dim in memory.served else size
        return count


def accelerator_from_zigzag(value: Any, where: str = "accelerator") -> Accelerator:
    """The accelerator of a file.

    Raises:
        UserError: It is malformed, or an operand has no memory or no outermost one that serves the whole array.
    """
    name, sizes, mac_energy, memories = read_accelerator(value, where)
    read = tuple(_memory(key, item, sizes, f"{where}: memory {key!r}") for key, item in memories.items())
    result = Accelerator(name, read, tuple(sizes.items()), mac_energy)
    _check(result, where)
    return result


def _check(accelerator: Accelerator, where: str) -> None:
    for operand, role in OPERANDS.items():
        chain = accelerator.chain(role)
        if not chain:
            raise UserError(f"no memory holds operand {operand}", where=where)
        previous: frozenset[str] = frozenset()
        for index in chain:
            memory = accelerator.memories[index]
            if not previous <= memory.served:
                raise UserError(
                    f"memory {memory.name!r} serves less of the array than the memory of {operand} inside it",
                    where=where,
                    hint="memories are listed from the array outwards",
                )
            previous = memory.served
            _check_ports(memory, role, operand, is_top=index == chain[-1], where=where)
        if not {dim for dim, size in accelerator.array if size > 1} <= previous:
            raise UserError(
                f"the outermost memory of {operand}, {accelerator.memories[chain[-1]].name!r}, must serve the whole array",
                where=where,
            )


def _check_ports(memory: Memory, role: Role, operand: str, *, is_top: bool, where: str) -> None:
    below = ("tl", "fl") if role is Role.OUTPUT else ("tl",)
    above = () if is_top else ("th", "fh") if role is Role.OUTPUT else ("fh",)
    for direction in (*below, *above):
        if memory.port(role, direction) is None:
            raise UserError(
                f"no port serves `{operand}, {direction}`",
                where=f"{where}: memory {memory.name!r}",
                hint="name it in the `allocation` of a port",
            )


def _memory(name: str, value: Any, sizes: dict[str, int], where: str) -> Memory:
    fields = Fields(value, where)
    if fields.flag("auto_cost_extraction", False):
        raise UserError("`auto_cost_extraction` cannot be followed", where=where, hint="give r_cost and w_cost")
    if fields.integer("latency", 1, least=0) > 1:
        raise UserError("a `latency` of more than one cycle cannot be expressed", where=where)
    fields.text("mem_type", None)
    # supporting double buffering costs nothing by itself: it is used where the tiles leave room (rule Z12)
    fields.flag("double_buffering_support", False)
    operands, served = read_reach(fields, sizes)
    memory = Memory(
        name=name,
        size_bits=fields.integer("size", least=1),
        read_energy=fields.number("r_cost", least=0),
        write_energy=fields.number("w_cost", least=0),
        area=fields.number("area", 0.0, least=0),
        operands=tuple(OPERANDS[o] for o in operands),
        ports=_ports(fields.items("ports"), operands, where),
        served=frozenset(served),
        keeps_half_free=fields.flag("force_double_buffering", False),
    )
    fields.finish()
    return memory


def _ports(items: list[Any], operands: list[str], where: str) -> tuple[Port, ...]:
    ports: list[Port] = []
    taken: set[tuple[Role, str]] = set()
    for item in items:
        fields = Fields(item, f"{where}: port")
        kind = fields.text("type")
        if kind not in ("read", "write", "read_write"):
            raise unknown_name("port type", kind, ["read", "write", "read_write"], where=fields.where)
        widest = fields.integer("bandwidth_max", least=1)
        least = fields.integer("bandwidth_min", widest, least=1)
        if widest % least:
            raise UserError(
                f"`bandwidth_max` {widest} must be a multiple of `bandwidth_min` {least}", where=fields.where
            )
        possible = {"read": ("tl", "th"), "write": ("fl", "fh")}.get(kind, DIRECTIONS)
        name = fields.text("name", f"port_{len(ports) + 1}")
        given = fields.items("allocation", None)
        if given is None:  # every operand, in every direction the type allows
            every = [(OPERANDS[o], d) for o in operands for d in possible]
            serves = [item for item in every if item not in taken]
        else:
            serves = [_allocation(text, possible, fields.where) for text in given]
        if len({*serves, *taken}) < len(serves) + len(taken):
            raise UserError("an operand is served twice in the same direction", where=fields.where)
        taken.update(serves)
        fields.finish()
        ports.append(Port(name, least, widest, tuple(serves)))
    return tuple(ports)


def _allocation(value: Any, possible: tuple[str, ...], where: str) -> tuple[Role, str]:
    parts = re.split(r"\s*,\s*", str(value).strip())
    if len(parts) != 2 or parts[0] not in OPERANDS or parts[1] not in DIRECTIONS:
        raise UserError(f"an allocation must be like 'I1, tl', got {describe(value)}", where=where)
    if parts[1] not in possible:
        raise UserError(f"direction {parts[1]!r} does not go through a port of this type", where=where)
    return OPERANDS[parts[0]], parts[1]
