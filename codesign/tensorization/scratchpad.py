"""The scratchpad as a program sees it: banks, and a named buffer for each tensor."""

import math
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass

from codesign.arch.architecture import Architecture
from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.cost.arrays import may_keep
from codesign.cost.cost import Infeasible
from codesign.mapping.mapping import Mapping
from codesign.tensorization.schedule import Schedule
from codesign.workloads.computation import Computation, Tensor

_ELEMENT_BYTES = {8: 1, 16: 2, 32: 4, 64: 8}
_ALIGNMENT_BYTES = 8
"""Buffers begin at multiples of the widest element, so that no element straddles two banks."""


@dataclass(frozen=True)
class Scratchpad:
    """An explicitly managed memory.

    Args:
        capacity_bytes: All banks together.
        banks: Number of equal banks, each with its own port; addresses run through one bank after the other.
        name: Its name in programs.
    """

    capacity_bytes: int
    banks: int = 1
    name: str = "scratchpad"

    def __post_init__(self) -> None:
        check_least(1, where="scratchpad", capacity_bytes=self.capacity_bytes, banks=self.banks)
        if self.capacity_bytes % (_ALIGNMENT_BYTES * self.banks):
            raise UserError(
                f"capacity of {self.capacity_bytes} bytes does not give {self.banks} equal banks of whole 8-byte words"
            )

    @property
    def bank_bytes(self) -> int:
        """Bytes of one bank."""
        return self.capacity_bytes // self.banks


@dataclass(frozen=True)
class Region:
    """A memory at its place in the one address space of a program."""

    memory: Scratchpad
    address: int


Memories = MappingABC[str, Scratchpad]
"""The memory that each tensor is kept in, by tensor name."""


def memories_of(
    computation: Computation, architecture: Architecture, mapping: Mapping | None = None
) -> dict[str, Scratchpad]:
    """The on-chip memory of a design that each tensor of a computation enters first.

    That is where the mapping keeps it first after the outermost level or, without one, the outermost on-chip level that may
    keep it: Gemmini keeps operands in its scratchpad and partial sums in its accumulator.

    Raises:
        UserError: A tensor has no such level, or the level has no capacity or several instances.
    """
    found = {}
    for tensor in computation.tensors:
        if mapping is not None:
            names = mapping.levels_of(tensor.name)[1:]
        else:
            names = tuple(v.name for v in architecture.levels[1:] if may_keep(v.keep, tensor))
        if not names:
            raise UserError(f"no on-chip level keeps {tensor.name!r}", where=f"architecture {architecture.name!r}")
        found[tensor.name] = scratchpad_of(architecture, names[0])
    return found


def scratchpad_of(architecture: Architecture, level_name: str) -> Scratchpad:
    """A level of a design as the memory of a program.

    Raises:
        UserError: It has no capacity, or several instances.
    """
    level, where = architecture.level(level_name), f"architecture {architecture.name!r}, level {level_name!r}"
    if level.capacity_bytes is None:
        raise UserError("a program needs a memory of known capacity", where=where)
    instances = architecture.instances[architecture.level_index[level_name]]
    if instances > 1:
        raise UserError(f"a program drives one memory, the design has {instances} of this level", where=where)
    try:
        unit = _ALIGNMENT_BYTES * level.banks  # bytes that do not fill a word of every bank are left out
        return Scratchpad(int(level.capacity_bytes) // unit * unit, level.banks, level.name)
    except UserError as error:
        raise error.within(where) from None


@dataclass(frozen=True)
class Buffer:
    """Where one tensor's part lies, row-major.

    Args:
        name: Its name in programs.
        tensor: The tensor.
        shape: Extent of each axis of the part.
        element_bytes: Width of one element there (partial sums may be wider than in DRAM).
        address: First byte.
        region: The memory it lies in.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    element_bytes: int
    address: int
    region: Region

    @property
    def size_bytes(self) -> int:
        """Bytes that the buffer takes in the scratchpad."""
        return math.prod(self.shape) * self.element_bytes

    @property
    def place(self) -> str:
        """Its address as memory, bank and offset, e.g. ``scratchpad.bank1+0x0040``."""
        bank, offset = divmod(self.address - self.region.address, self.region.memory.bank_bytes)
        return f"{self.region.memory.name}.bank{bank}+0x{offset:04x}"

    def shares_bank(self, other: "Buffer") -> bool:
        """Whether both touch one bank."""
        if self.region != other.region:
            return False
        mine, theirs = self._banks(), other._banks()
        return mine[0] <= theirs[1] and theirs[0] <= mine[1]

    def _banks(self) -> tuple[int, int]:
        start, width = self.address - self.region.address, self.region.memory.bank_bytes
        return start // width, (start + self.size_bytes - 1) // width


def element_bytes(tensor: Tensor, bits: int) -> int:
    """Bytes of one element.

    Raises:
        UserError: The width is not one that bytes address.
    """
    if bits not in _ELEMENT_BYTES:
        raise UserError(
            f"elements of {tensor.name!r} are {bits} bits wide; a program addresses bytes",
            hint="use 8, 16, 32 or 64 bits",
        )
    return _ELEMENT_BYTES[bits]


def allocate(schedule: Schedule, memories: Memories) -> tuple[Buffer, ...] | Infeasible:
    """A buffer for each tensor, in the computation's order, or what does not fit.

    If the banks of a memory suffice, every tensor has banks of its own, so that a call reads and writes all operands at
    once; otherwise buffers follow each other and calls on a shared bank are serialised.
    """
    found: dict[str, Buffer] = {}
    origin = 0
    for memory in dict.fromkeys(memories[t.name] for t in schedule.choice.computation.tensors):
        kept = [t for t in schedule.choice.computation.tensors if memories[t.name] == memory]
        placed = _place(schedule, kept, Region(memory, origin))
        if isinstance(placed, Infeasible):
            return placed
        found.update({b.tensor: b for b in placed})
        origin += memory.capacity_bytes
    return tuple(found[t.name] for t in schedule.choice.computation.tensors)


def _place(schedule: Schedule, tensors: list[Tensor], region: Region) -> tuple[Buffer, ...] | Infeasible:
    memory = region.memory
    shapes = [schedule.tile_shape(t) for t in tensors]
    widths = [element_bytes(t, t.partial_bits if t.is_output else t.bits) for t in tensors]
    sizes = [math.prod(shape) * width for shape, width in zip(shapes, widths, strict=True)]
    aligned = [-(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for size in sizes]
    if sum(aligned) > memory.capacity_bytes:
        parts = ", ".join(f"{t.name} {size} bytes" for t, size in zip(tensors, sizes, strict=True))
        return Infeasible(f"{memory.name} capacity", sum(aligned), memory.capacity_bytes, "bytes", parts)
    whole = [-(-size // memory.bank_bytes) * memory.bank_bytes for size in sizes]
    own_banks = sum(whole) <= memory.capacity_bytes
    buffers, address = [], region.address
    for tensor, shape, width, step in zip(tensors, shapes, widths, whole if own_banks else aligned, strict=True):
        buffers.append(Buffer(f"s{tensor.name}", tensor.name, shape, width, address, region))
        address += step
    return tuple(buffers)
