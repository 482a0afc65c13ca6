"""Types of values in kernels: scalars, arrays, tuples."""

from dataclasses import dataclass

import numpy as np

from codesign.core.errors import UserError


class CompileError(UserError):
    """A kernel uses something outside the compiled subset."""


@dataclass(frozen=True)
class Scalar:
    """A number or truth value in a register; `llvm` is its register type."""

    name: str
    llvm: str


INT = Scalar("int", "i64")
UINT = Scalar("uint", "i64")
FLOAT = Scalar("float", "double")
BOOL = Scalar("bool", "i1")
NONE = Scalar("none", "void")


@dataclass(frozen=True)
class Item:
    """An element of an array: how memory holds it and what it is once loaded."""

    llvm: str
    bytes: int
    value: Scalar
    alias: str
    """Name of its kind in the alias tree: memory of different kinds never overlaps."""


ITEMS = {
    "bool": Item("i8", 1, BOOL, "bool"),
    "uint8": Item("i8", 1, INT, "byte"),
    "int8": Item("i8", 1, INT, "byte"),
    "int32": Item("i32", 4, INT, "int32"),
    "int64": Item("i64", 8, INT, "int64"),
    "uint64": Item("i64", 8, UINT, "int64"),
    "float32": Item("float", 4, FLOAT, "float32"),
    "float64": Item("double", 8, FLOAT, "float64"),
}


@dataclass(frozen=True)
class Array:
    """A NumPy array; `contiguous` in row-major order, else with strides of its own."""

    item: str
    ndim: int
    contiguous: bool = True


@dataclass(frozen=True)
class Record:
    """A tuple, or a named tuple of class `cls`."""

    items: "tuple[Type, ...]"
    cls: type | None = None


Type = Scalar | Array | Record


def slots(kind: Type) -> int:
    """Words of eight bytes that a value of a type takes in a record."""
    if isinstance(kind, Scalar):
        return 1
    if isinstance(kind, Array):
        return 1 + kind.ndim * (1 if kind.contiguous else 2)
    return sum(slots(item) for item in kind.items)


def describe(kind: Type) -> str:
    """A type in one line, unique to it: part of the name that compiled code is kept under."""
    if isinstance(kind, Scalar):
        return kind.name
    if isinstance(kind, Array):
        return f"{kind.item}[{kind.ndim}{'' if kind.contiguous else 's'}]"
    name = "" if kind.cls is None else f"{kind.cls.__module__}.{kind.cls.__qualname__}"
    return f"{name}({','.join(describe(item) for item in kind.items)})"


def join(a: Type, b: Type) -> Type | None:
    """The least type that holds values of both, or None."""
    if a == b:
        return a
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        return _join_scalars(a, b)
    if isinstance(a, Array) and isinstance(b, Array):
        return Array(a.item, a.ndim, False) if (a.item, a.ndim) == (b.item, b.ndim) else None
    if isinstance(a, Record) and isinstance(b, Record) and len(a.items) == len(b.items):
        items = [join(x, y) for x, y in zip(a.items, b.items, strict=True)]
        if all(item is not None for item in items):
            return Record(tuple(item for item in items if item is not None), a.cls if a.cls is b.cls else None)
    return None


def _join_scalars(a: Scalar, b: Scalar) -> Scalar | None:
    order = [BOOL, INT, FLOAT]
    if a in order and b in order:
        return max(a, b, key=order.index)
    return None


def type_of(value: object) -> Type | None:
    """The type of an argument from Python, or None if kernels cannot take it."""
    if isinstance(value, bool | np.bool_):
        return BOOL
    if isinstance(value, np.uint64):
        return UINT
    if isinstance(value, int | np.integer):
        return INT
    if isinstance(value, float | np.floating):
        return FLOAT
    if isinstance(value, np.ndarray):
        if value.dtype.name not in ITEMS or not value.dtype.isnative:
            return None
        return Array(value.dtype.name, value.ndim, value.flags.c_contiguous)
    if isinstance(value, tuple):
        items = [type_of(item) for item in value]
        if all(item is not None for item in items):
            cls = type(value) if type(value) is not tuple else None
            return Record(tuple(item for item in items if item is not None), cls)
    return None
