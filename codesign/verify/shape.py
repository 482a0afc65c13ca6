"""The form of a certificate's document, checked before it is read, so that what is damaged is named by its place."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from codesign.core.errors import UserError, closest

NUMBER, INTEGER, TEXT, FLAG, ANY = "a number", "an integer", "text", "true or false", "anything"
LARGEST = 2**62
"""Integers that no certificate has begin here; numbers where they leave the range of a double."""

AGAIN = "make it again with `codesign map --certificate`"


@final
@dataclass(frozen=True)
class ListOf:
    """A list, every element of one form.

    Args:
        form: Of the elements.
    """

    form: Any


@final
@dataclass(frozen=True)
class Row:
    """A list of so many elements, each of its own form.

    Args:
        forms: One for each element.
    """

    forms: tuple[Any, ...]


@final
@dataclass(frozen=True)
class ByName:
    """An object with any keys, every value of one form.

    Args:
        form: Of the values.
    """

    form: Any


@final
@dataclass(frozen=True)
class Record:
    """An object with known keys.

    Args:
        keys: Form by key, all of which must be there.
        more: Form by key of those that need not be.
    """

    keys: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)


_COUNTS = ListOf(Row((TEXT, INTEGER)))
_EVEN_CLAIM = Record({"keep": ByName(ListOf(TEXT)), "spatial": ByName(ByName(INTEGER)), "bound": NUMBER})
_LEVEL = Record(
    {"level": TEXT, "keep": ListOf(TEXT), "temporal": _COUNTS, "spatial": ListOf(Row((TEXT, INTEGER, ANY)))},
)
_PROOF = {"value": NUMBER, "constraints": ANY, "nest": ListOf(_LEVEL), "claims": ListOf(_EVEN_CLAIM)}
_WHOLE = {**dict.fromkeys(("format", "rules", "problem", "architecture"), ANY), "objective": TEXT, **_PROOF}
EVEN = Record(_WHOLE, {"shown": NUMBER})
"""A certificate of even mappings."""

IMPERFECT = Record({**_WHOLE, "imperfect": ListOf(_EVEN_CLAIM)}, {"shown": NUMBER})
"""The same with imperfect factors."""

_PLACES = {"places": ListOf(_EVEN_CLAIM), "mapping": ListOf(ANY)}
PLACES = Record({**_WHOLE, **_PLACES}, {"shown": NUMBER})
"""The same of uneven mappings."""

NETWORK = Record(
    {
        **dict.fromkeys(("format", "rules", "network", "architecture"), ANY),
        "objective": TEXT,
        "energy_pj": NUMBER,
        "latency_cycles": NUMBER,
        "bound": NUMBER,
        "layers": ListOf(
            Record({"operator": TEXT, **_PROOF}, {"shown": NUMBER, "imperfect": ListOf(_EVEN_CLAIM), **_PLACES})
        ),
    }
)
"""A certificate of a whole network."""

_TENSOR = Record({"name": TEXT, "axes": ListOf(_COUNTS), "output": FLAG, "bits": NUMBER})
_OPERATOR = Record({"name": TEXT, "bounds": ByName(INTEGER), "copy": FLAG, "tensors": ListOf(_TENSOR)})
_MEMORY = Record(
    {
        "name": TEXT,
        "capacity": ANY,
        "read": NUMBER,
        "write": NUMBER,
        "ports": ListOf(Row((NUMBER, NUMBER))),
        "bits": ByName(NUMBER),
    }
)
_FANOUT = Record(
    {"name": TEXT, "size": INTEGER, "dims": ListOf(TEXT), "shared": ListOf(TEXT), "min_usage": NUMBER},
)
_MACHINE = Record(
    {
        "memories": ListOf(_MEMORY),
        "fanouts": ListOf(ListOf(_FANOUT)),
        "mac_energy": NUMBER,
        "mac_seconds": NUMBER,
        "leak_w": NUMBER,
        "keeps": ListOf(ListOf(ListOf(TEXT))),
    }
)
_NODE = Record(
    {},
    {
        "loop": TEXT,
        "steps": INTEGER,
        "tile": INTEGER,
        "axis": TEXT,
        "store": TEXT,
        "hold": TEXT,
        "level": ANY,
        "held": FLAG,
    },
)
_CLAIM = Record({"spatial": ListOf(ListOf(_COUNTS)), "keeps": ListOf(ListOf(TEXT)), "bound": NUMBER})
UNEVEN = Record(
    {
        "format": ANY,
        "rules": ANY,
        "objective": TEXT,
        "value": NUMBER,
        "operator": _OPERATOR,
        "machine": _MACHINE,
        "nest": ListOf(_NODE),
        "claims": ListOf(_CLAIM),
    }
)
"""A certificate under LoopTree's rules."""


def check_form(value: Any, form: Any, where: str = "") -> None:
    """Refuse a document of another form.

    Args:
        value: What stands there.
        form: What should.
        where: The place, such as ``claims[2].bound``; empty for the whole.

    Raises:
        UserError: The first place that differs, with what was expected and what is there.
    """
    match form:
        case ListOf(inner):
            for i, item in enumerate(_of(value, list, "a list", where)):
                check_form(item, inner, f"{where}[{i}]")
        case Row(forms):
            if len(_of(value, list, "a list", where)) != len(forms):
                raise _broken(where, f"a list of {len(forms)}", value)
            for i, (item, inner) in enumerate(zip(value, forms, strict=True)):
                check_form(item, inner, f"{where}[{i}]")
        case ByName(inner):
            for key, item in _of(value, dict, "keys and values", where).items():
                check_form(item, inner, _inside(where, key))
        case Record():
            _check_record(_of(value, dict, "keys and values", where), form, where)
        case _:
            _check_plain(value, form, where)


def _check_record(value: dict[str, object], form: Record, where: str) -> None:
    for key in form.keys:
        if key not in value:
            near = closest(key, set(value) - set(form.keys))
            hint = AGAIN if near is None else f"it has {near!r} instead"
            raise UserError(f"the certificate is damaged: `{_inside(where, key)}` is missing", hint=hint)
    for key, item in value.items():
        known = form.keys.get(key, form.more.get(key, ANY))
        check_form(item, known, _inside(where, key))


def _check_plain(value: Any, form: str, where: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = number and abs(value) < LARGEST and value == int(value)
    fits = {
        NUMBER: number and (isinstance(value, float) or value.bit_length() <= sys.float_info.max_exp),
        INTEGER: whole,
        TEXT: isinstance(value, str),
        FLAG: isinstance(value, bool),
        ANY: True,
    }
    if not fits[form]:
        measured = number and not whole and abs(value) >= LARGEST
        raise _broken(where, f"{form} below 2**62" if measured else form, value)


def _of(value: Any, kind: type, said: str, where: str) -> Any:
    if not isinstance(value, kind):
        raise _broken(where, said, value)
    return value


def _broken(where: str, expected: str, value: Any) -> UserError:
    shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:37] + "..."
    return UserError(
        f"the certificate is damaged: `{where}` must be {expected}, got {shown}",
        hint=AGAIN,
    )


def _inside(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
