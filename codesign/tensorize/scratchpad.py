"""The scratchpad as a program sees it: banks, and a named buffer for each tensor."""

import math
from dataclasses import dataclass

from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible
from codesign.tensorize.schedule import Schedule
from codesign.workloads.computation import Tensor

_ELEMENT_BYTES = {8: 1, 16: 2, 32: 4, 64: 8}


@dataclass(frozen=True)
class Scratchpad:
    """An explicitly managed memory.

    Args:
        capacity_bytes: All banks together.
        banks: Number of equal banks, each with its own port; addresses run through one bank after the other.
    """

    capacity_bytes: int
    banks: int = 1

    def __post_init__(self) -> None:
        if self.capacity_bytes < 1 or self.banks < 1:
            raise UserError(f"scratchpad needs bytes and banks >= 1, got {self.capacity_bytes} and {self.banks}")
        if self.capacity_bytes % (8 * self.banks):
            raise UserError(
                f"capacity of {self.capacity_bytes} bytes does not give {self.banks} equal banks of whole 8-byte words"
            )

    @property
    def bank_bytes(self) -> int:
        """Bytes of one bank."""
        return self.capacity_bytes // self.banks


@dataclass(frozen=True)
class Buffer:
    """Where one tensor's part lies, row-major.

    Args:
        name: Its name in programs.
        tensor: The tensor.
        shape: Extent of each axis of the part.
        element_bytes: Width of one element there (partial sums may be wider than in DRAM).
        address: First byte.
        bank_bytes: Bytes of one bank, to tell bank and offset.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    element_bytes: int
    address: int
    bank_bytes: int

    @property
    def size_bytes(self) -> int:
        """Bytes it takes."""
        return math.prod(self.shape) * self.element_bytes

    def byte_of(self, at: tuple[int, ...]) -> int:
        """Address of an element."""
        flat = 0
        for position, extent in zip(at, self.shape, strict=True):
            flat = flat * extent + position
        return self.address + flat * self.element_bytes

    def place(self, at: tuple[int, ...]) -> str:
        """Address of an element as bank and offset, e.g. ``bank1+0x0040``."""
        bank, offset = divmod(self.byte_of(at), self.bank_bytes)
        return f"bank{bank}+0x{offset:04x}"

    @property
    def banks(self) -> range:
        """Banks it touches."""
        return range(self.address // self.bank_bytes, (self.address + self.size_bytes - 1) // self.bank_bytes + 1)


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


def allocate(schedule: Schedule, scratchpad: Scratchpad) -> tuple[Buffer, ...] | Infeasible:
    """A buffer for each tensor, or what does not fit.

    If the banks suffice, every tensor has banks of its own, so that a call reads and writes all operands at once;
    otherwise buffers follow each other and calls on a shared bank are serialised.
    """
    tensors = schedule.choice.computation.tensors
    shapes = [schedule.tile_shape(t) for t in tensors]
    widths = [element_bytes(t, t.partial_bits if t.is_output else t.bits) for t in tensors]
    sizes = [math.prod(shape) * width for shape, width in zip(shapes, widths, strict=True)]
    if sum(-(-size // 8) * 8 for size in sizes) > scratchpad.capacity_bytes:
        parts = ", ".join(f"{t.name} {size} bytes" for t, size in zip(tensors, sizes, strict=True))
        return Infeasible(
            "scratchpad capacity", sum(-(-s // 8) * 8 for s in sizes), scratchpad.capacity_bytes, "bytes", parts
        )
    whole = [-(-size // scratchpad.bank_bytes) * scratchpad.bank_bytes for size in sizes]
    own_banks = sum(whole) <= scratchpad.capacity_bytes
    buffers, address = [], 0
    for tensor, shape, width, size, banked in zip(tensors, shapes, widths, sizes, whole, strict=True):
        buffers.append(Buffer(f"s{tensor.name}", tensor.name, shape, width, address, scratchpad.bank_bytes))
        address += banked if own_banks else -(-size // 8) * 8
    return tuple(buffers)
