"""Typed access to the keys of a file being read: every refusal names the place, the field, what was expected and what came."""

import dataclasses
import math
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from codesign.core.errors import UserError, closest, member_of, unknown_name
from codesign.core.json_types import JsonObject
from codesign.core.quantities import read_field

E = TypeVar("E", bound=Enum)
R = TypeVar("R")

_REQUIRED: Final = object()


class Fields:
    """One mapping (dictionary) of a file.

    Keys are asked for one by one; `finish` then refuses those that nobody asked for, with the nearest known key.

    Args:
        value: What stands in the file.
        where: The file, and the place in it.
        loose: Whether `-` and `_` in keys are the same (Timeloop writes both `word-bits` and `word_bits`).
    """

    def __init__(self, value: Any, where: str, *, loose: bool = False) -> None:
        if not isinstance(value, dict):
            raise UserError(f"expected keys and values, got {describe(value)}", where=where)
        self.where = where
        self._loose = loose
        self._given: JsonObject = {}
        for key, item in value.items():
            name = str(key).replace("-", "_") if loose else str(key)
            if name in self._given:
                raise UserError(f"`{name}` is given twice", where=where)
            self._given[name] = item
        self._asked: set[str] = set()

    def has(self, key: str) -> bool:
        """Whether the key is there and holds something."""
        self._asked.add(key)
        return self._given.get(key) is not None

    def first_of(self, *keys: str) -> str:
        """The one of several names of a field that is given; the first name if none is.

        Raises:
            UserError: More than one is given.
        """
        given = [key for key in keys if self.has(key)]
        if len(given) > 1:
            raise UserError(f"`{given[0]}` and `{given[1]}` say the same thing; give one", where=self.where)
        return given[0] if given else keys[0]

    def raw(self, key: str, default: Any = _REQUIRED) -> Any:
        """Whatever stands under the key.

        Raises:
            UserError: Nothing does, and there is no default.
        """
        self._asked.add(key)
        value = self._given.get(key)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise self._missing(key)
        return default

    def text(self, key: str, default: Any = _REQUIRED) -> Any:
        """A string; numbers are taken as written."""
        value = self.raw(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise self._wrong(key, "a name", value)
        return str(value)

    def number(
        self, key: str, default: Any = _REQUIRED, *, least: float | None = None, above: float | None = None
    ) -> Any:
        """A finite number; `1e9`, which YAML takes for a string, counts as one, and `108KiB` under a key that ends in `_bytes`."""
        value = self.raw(key, default)
        if value is default:
            return value
        number = self._in_unit(key, value)
        bound = f" >= {least:g}" if least is not None else f" > {above:g}" if above is not None else ""
        wrong = number is None or (least is not None and number < least) or (above is not None and number <= above)
        if wrong:
            raise self._wrong(key, f"a number{bound}", value)
        return float(cast(float, number))

    def integer(self, key: str, default: Any = _REQUIRED, *, least: int | None = None) -> Any:
        """An integer; `16.0` counts as one."""
        value = self.raw(key, default)
        if value is default:
            return value
        number = self._in_unit(key, value)
        if number is None or number != int(number) or (least is not None and number < least):
            raise self._wrong(key, "an integer" + (f" >= {least}" if least is not None else ""), value)
        return int(number)

    def flag(self, key: str, default: Any = _REQUIRED) -> Any:
        """True or false."""
        value = self.raw(key, default)
        if value is default:
            return value
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def choice(self, key: str, default: E) -> E:
        """One of the values of the enumeration that the default is of."""
        return member_of(type(default), self.text(key, default.value), f"`{key}`", self.where)

    def record(self, kind: type[R], least: float | None = None, /, **given: Any) -> R:
        """A dataclass whose fields stand here under their own names; keys that it does not have are refused.

        Args:
            kind: Its class. Its types say what a field holds: numbers, texts, truth values, enumerations, other dataclasses,
                tuples and tables of these. Metadata of a field bound its number: `minimum`, or `above`.
            least: The least of numbers whose metadata say none.
            given: Fields that are known already.

        Raises:
            UserError: A key is unknown or missing, or a value is of the wrong kind, out of range, or refused by the class.
        """
        for name, hint, bounds, needed in _shape(cast(Any, kind), least):
            if name in given:
                continue
            if needed or self.has(name):
                given[name] = self._typed(name, hint, bounds)
        self.finish()
        try:
            return kind(**given)
        except UserError as error:
            raise (error if error.where else error.within(self.where)) from None

    def _typed(self, key: str, hint: Any, bounds: Mapping[str, Any]) -> Any:
        """The value under a key, of the type that a field of a dataclass has."""
        if hint is str:
            return self.text(key)
        if hint is int:
            return self.integer(key, least=bounds.get("minimum"))
        if hint is float:
            return self.number(key, least=bounds.get("minimum"), above=bounds.get("above"))
        if hint is bool:
            return self.flag(key)
        value = self.raw(key)
        if isinstance(hint, type):
            if issubclass(hint, Enum):
                return member_of(hint, self.text(key), f"`{key}`", self.where)
            return Fields(value, f"{self.where}, `{key}`", loose=self._loose).record(hint)
        origin, inner = hint.__origin__, hint.__args__
        if origin is Literal:
            if value not in inner:
                raise unknown_name(f"`{key}`", str(value), inner, where=self.where)
            return value
        if origin is dict:
            if not isinstance(value, dict):
                raise self._wrong(key, "names with values", value)
            entries = Fields({f"{key}.{name}": item for name, item in value.items()}, self.where)
            return {str(name): entries._typed(f"{key}.{name}", inner[1], {}) for name in value}
        if inner[0] is str:
            return origin([value] if isinstance(value, str) else self.names(key))
        items = value if isinstance(value, list | tuple) else [value]  # a single one needs no brackets
        return origin(Fields({key: item}, self.where)._typed(key, inner[0], {}) for item in items)

    def items(self, key: str, default: Any = _REQUIRED) -> Any:
        """The list that a key holds."""
        value = self.raw(key, default)
        if value is default:
            return value
        if not isinstance(value, list | tuple):
            raise self._wrong(key, "a list", value)
        return value

    def names(self, key: str, default: Any = _REQUIRED) -> Any:
        """A list of names."""
        value = self.items(key, default)
        if value is default:
            return value
        for item in value:
            if isinstance(item, (bool, list, dict)) or item is None:
                raise self._wrong(key, "a list of names", value)
        return [str(item) for item in value]

    def child(self, key: str) -> "Fields":
        """The keys and values under a key; none when it is absent."""
        return Fields(self.raw(key, {}), f"{self.where}, `{key}`", loose=self._loose)

    def rest(self) -> dict[str, object]:
        """What nobody asked for; `finish` passes afterwards."""
        left: dict[str, object] = {key: self._given[key] for key in self.unasked()}
        self._asked.update(left)
        return left

    def asked(self) -> tuple[str, ...]:
        """The keys asked for so far, present or not."""
        return tuple(sorted(self._asked))

    def unasked(self) -> tuple[str, ...]:
        """The keys that are there and nobody has asked for."""
        return tuple(key for key in self._given if key not in self._asked)

    def finish(self) -> None:
        """Refuse keys that nobody asked for.

        Raises:
            UserError: With the nearest known key.
        """
        if not self._given.keys() <= self._asked:
            raise unknown_name("key", self.unasked()[0], self._asked, where=self.where)

    def _in_unit(self, key: str, value: Any) -> float | None:
        """The number, in the unit that the key names, of a value that may have a unit."""
        number = as_number(value)
        if number is None and isinstance(value, str):
            try:
                return read_field(key, value)
            except UserError as error:
                raise UserError(f"`{key}`: {error.message}", where=self.where, hint=error.hint) from None
        return number

    def _missing(self, key: str) -> UserError:
        near = closest(key, [name for name in self._given if name not in self._asked])
        return UserError(f"`{key}` is missing", where=self.where, hint=f"is {near!r} meant?" if near else None)

    def _wrong(self, key: str, expected: str, value: Any) -> UserError:
        return UserError(f"`{key}` must be {expected}, got {describe(value)}", where=self.where)


@cache
def _shape(kind: type[Any], least: float | None) -> list[tuple[str, Any, Mapping[str, Any], bool]]:
    """Names of the fields of a dataclass, their types without None, the bounds of their numbers, whether they must be given."""
    found: list[tuple[str, Any, Mapping[str, Any], bool]] = []
    hints = get_type_hints(kind)
    for item in (f for f in dataclasses.fields(kind) if f.init):
        hint = hints[item.name]
        if get_origin(hint) in (Union, types.UnionType):  # of a type and None
            hint = next(k for k in get_args(hint) if k is not type(None))
        bounds = item.metadata if item.metadata or least is None else {"minimum": least}
        found.append((item.name, hint, bounds, is_needed(item)))
    return found


def is_needed(item: dataclasses.Field[Any]) -> bool:
    """Whether a field of a dataclass has no default."""
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def as_number(value: Any) -> float | None:
    """The finite number a value of a file stands for; None when it is not one.

    >>> as_number("1e9"), as_number(True), as_number("many")
    (1000000000.0, None, None)
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def describe(value: Any) -> str:
    """A value of a file in a message: short, and in the words of files rather than of Python."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return f"keys {', '.join(str(k) for k in list(value)[:4])}" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
