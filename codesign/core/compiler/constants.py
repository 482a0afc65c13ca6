"""Python objects as constants of kernels."""

import numpy as np

from codesign.core.compiler.builder import constant
from codesign.core.compiler.context import Versions
from codesign.core.compiler.types import FLOAT, INT, UINT, Array, Record
from codesign.core.compiler.values import Block, Group, Known, Value


def from_python(unit: Versions, value: object) -> Value:
    """A global number, tuple of numbers or array as a value; other objects stay `Known`."""
    if isinstance(value, bool | np.bool_):
        return constant(bool(value))
    if isinstance(value, np.uint64):
        return constant(int(value), UINT)
    if isinstance(value, int | np.integer):
        return constant(int(value), INT)
    if isinstance(value, float | np.floating):
        return constant(float(value), FLOAT)
    if isinstance(value, tuple):
        items = tuple(from_python(unit, item) for item in value)
        if any(isinstance(item, Known) for item in items):
            return Known(value)
        cls = type(value) if type(value) is not tuple else None
        return Group(Record(tuple(item.type for item in items), cls), items)  # type: ignore[union-attr,arg-type]
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        return Block(Array(array.dtype.name, array.ndim), unit.constant_array(array), tuple(map(str, array.shape)))
    return Known(value)
