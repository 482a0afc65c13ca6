"""Values while a kernel is translated: registers, constants, memory."""

from collections.abc import Callable
from dataclasses import dataclass

from codesign.core.compiler.types import Array, Record, Scalar


@dataclass(frozen=True)
class Number:
    """A scalar in a register, or a constant; `literal` where its value is known."""

    type: Scalar
    ref: str
    literal: int | float | None = None


@dataclass(frozen=True)
class Block:
    """An array: pointer to its first element, lengths, and strides in bytes where it is not contiguous."""

    type: Array
    data: str
    shape: tuple[str, ...]
    strides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """A tuple whose items are at hand."""

    type: Record
    items: "tuple[Stored, ...]"


@dataclass(frozen=True)
class Memory:
    """A tuple in memory that nothing writes to: a pointer to its words."""

    type: Record
    pointer: str


@dataclass(frozen=True)
class Elementwise:
    """An array expression: its element at given places, computed when asked for."""

    item: Scalar
    shape: tuple[str, ...]
    at: Callable[[tuple[str, ...]], Number]


@dataclass(frozen=True)
class Known:
    """A Python object that is known while compiling: a module, function, class or type of elements."""

    value: object


Stored = Number | Block | Group | Memory
Value = Stored | Elementwise | Known
