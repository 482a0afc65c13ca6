"""Specifications: frozen dataclasses that are files too.

A specification is nested frozen dataclasses of plain values: texts, numbers, truth values, tuples and tables of them,
other specifications. What its files may hold follows from its types, and what its fields mean from its docstrings; nothing is
said twice.
"""

import contextlib
import math
import types
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import describe
from codesign.core.json_types import JsonObject

S = TypeVar("S")


def at_least(least: int, default: int | None = None) -> Any:
    """A field of a specification that holds a number of at least so much."""
    return field(default=default, metadata={"minimum": least})


# ---- to files -----------------------------------------------------------------------------------


def spec_to_json(spec: Any) -> JsonObject:
    """A specification as plain values; what is None or an empty list is left out.

    `spec_from_json` makes it again.
    """
    found: JsonObject = {}
    for item in fields(spec):
        value = plain(getattr(spec, item.name))
        if value is not None and value not in ([], {}):
            found[item.name] = value
    return found


def plain(value: Any) -> Any:
    """A value of a field as its file holds it."""
    if is_dataclass(value):
        return spec_to_json(value)
    return [plain(v) for v in value] if isinstance(value, tuple) else value


# ---- from files ---------------------------------------------------------------------------------


def spec_from_json(kind: type[S], value: Any, where: str) -> S:
    """A specification from plain values.

    Args:
        kind: Its class.
        value: What stands in the file.
        where: The file, for messages.

    Raises:
        UserError: An unknown key (the nearest is named), a missing one, a value of another type, or one that the class refuses.
    """
    if not isinstance(value, dict):
        raise UserError(f"expected keys and values, got {describe(value)}", where=where)
    known = {item.name: item for item in _fields_of(kind)}
    check_keys(kind, value, where)
    hints = get_type_hints(kind)
    given: JsonObject = {}
    for name, item in known.items():
        if value.get(name) is not None:
            given[name] = _read(hints[name], value[name], name, where)
        elif is_needed(item):
            raise UserError(f"`{name}` is missing", where=where)
    try:
        return kind(**given)
    except UserError as error:
        raise error if error.where is not None else error.within(where) from None


def check_keys(kind: type[Any], value: JsonObject, where: str) -> None:
    """Refuse keys that a specification, or one inside it, does not know.

    Args:
        kind: Its class.
        value: What stands in the file; it need not be whole.
        where: The file, for messages.

    Raises:
        UserError: An unknown key; the nearest is named.
    """
    known, hints = [item.name for item in _fields_of(kind)], get_type_hints(kind)
    for key, item in value.items():
        if key not in known:
            raise unknown_name("key", str(key), known, where=where)
        if is_dataclass(hints[key]) and isinstance(item, dict):
            check_keys(cast(type[Any], hints[key]), item, f"{where}, `{key}`")


def _read(kind: Any, value: Any, name: str, where: str) -> Any:
    if is_dataclass(kind):
        return spec_from_json(cast(type[Any], kind), value, f"{where}, `{name}`")
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (k for k in get_args(kind) if k is not type(None))
        return _read(inner, value, name, where)
    if origin is dict:
        if not isinstance(value, dict):
            raise UserError(f"`{name}` must be names with values, got {describe(value)}", where=where)
        return {str(key): _read(get_args(kind)[1], item, f"{name}.{key}", where) for key, item in value.items()}
    if origin is tuple:
        (inner, _) = get_args(kind)
        items = value if isinstance(value, list | tuple) else [value]  # a single one needs no brackets
        return tuple(_read(inner, item, name, where) for item in items)
    if origin is Literal:
        if value not in get_args(kind):
            raise unknown_name(f"`{name}`", str(value), get_args(kind), where=where)
        return value
    return _scalar(kind, value, name, where)


_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _scalar(kind: type[Any], value: Any, name: str, where: str) -> Any:
    if kind is float and isinstance(value, str):  # YAML takes 1e-3 for a text
        with contextlib.suppress(ValueError):
            value = float(value)
    good = {
        bool: isinstance(value, bool),
        int: isinstance(value, int) and not isinstance(value, bool),
        float: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
        str: isinstance(value, str),
    }[kind]
    if not good:
        raise UserError(f"`{name}` must be {_EXPECTED[kind]}, got {describe(value)}", where=where)
    return float(value) if kind is float else value


def merged(below: JsonObject, above: JsonObject) -> JsonObject:
    """Two nested tables as one; where both say something, the second counts.

    >>> merged({"search": {"trials": 40, "seed": 1}}, {"search": {"trials": 10}})
    {'search': {'trials': 10, 'seed': 1}}
    """
    found = dict(below)
    for key, value in above.items():
        old = found.get(key)
        found[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return found


def _fields_of(kind: type[Any]) -> tuple[Field[Any], ...]:
    return tuple(item for item in fields(kind) if item.init)


def is_needed(item: Field[Any]) -> bool:
    """Whether a field has no default."""
    return item.default is MISSING and item.default_factory is MISSING
