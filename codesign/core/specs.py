"""Specifications: frozen dataclasses that are files too.

A specification is nested frozen dataclasses of plain values: texts, numbers, truth values, tuples and tables of them,
other specifications. What its files may hold follows from its types, and what its fields mean from its docstrings; nothing is
said twice.
"""

from dataclasses import MISSING, field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

from codesign.core.errors import unknown_name
from codesign.core.fields import Fields
from codesign.core.json_types import JsonObject

S = TypeVar("S")


def at_least(least: float, default: float | None = None) -> Any:
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


def changed(record: Any, *apart: str) -> JsonObject:
    """The fields of a dataclass that are not as by default, as its file holds them; without those named."""
    found: JsonObject = {}
    for name, default in _defaults(cast(Any, type(record))):
        if name not in apart and (value := getattr(record, name)) != default:
            found[name] = plain(value)
    return found


@cache
def _defaults(kind: type[Any]) -> tuple[tuple[str, object], ...]:
    made = ((f, f.default if f.default_factory is MISSING else f.default_factory()) for f in fields(kind))
    return tuple((item.name, default) for item, default in made)


_AS_THEY_ARE = (str, int, float, dict, type(None))


def plain(value: Any) -> Any:
    """A value of a field as its file holds it."""
    if isinstance(value, _AS_THEY_ARE):
        return value
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    if is_dataclass(value):
        return spec_to_json(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset):
        return sorted(value)
    return value


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
    return Fields(value, where).record(kind)


def check_keys(kind: type[Any], value: JsonObject, where: str) -> None:
    """Refuse keys that a specification, or one inside it, does not know.

    Args:
        kind: Its class.
        value: What stands in the file; it need not be whole.
        where: The file, for messages.

    Raises:
        UserError: An unknown key; the nearest is named.
    """
    known, hints = [item.name for item in fields(cast(Any, kind)) if item.init], get_type_hints(kind)
    for key, item in value.items():
        if key not in known:
            raise unknown_name("key", str(key), known, where=where)
        if is_dataclass(hints[key]) and isinstance(item, dict):
            check_keys(cast(type[Any], hints[key]), item, f"{where}, `{key}`")


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
