"""Numbers with units as people write them: ``108KiB``, ``500MHz``, ``5ms``, ``2W``. One table for files, expressions and options."""

import math
import re
from enum import Enum

from codesign.core.errors import UserError


class Kind(Enum):
    """What a quantity measures; the value is the unit it is counted in."""

    BYTES = "bytes"
    SECONDS = "s"
    HERTZ = "Hz"
    JOULES = "J"
    WATTS = "W"
    SQUARE_MILLIMETRES = "mm2"


_PREFIXES = {"G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}
_BASES = {
    Kind.SECONDS: ("s", "mµunp"),
    Kind.HERTZ: ("Hz", "kMG"),
    Kind.JOULES: ("J", "mµunpf"),
    Kind.WATTS: ("W", "kmµun"),
}
UNITS: dict[str, tuple[Kind, float]] = {
    "B": (Kind.BYTES, 1.0),
    "kB": (Kind.BYTES, 1e3),
    "MB": (Kind.BYTES, 1e6),
    "GB": (Kind.BYTES, 1e9),
    "KiB": (Kind.BYTES, 1024.0),
    "MiB": (Kind.BYTES, 1024.0**2),
    "GiB": (Kind.BYTES, 1024.0**3),
    "mm2": (Kind.SQUARE_MILLIMETRES, 1.0),
    "mm²": (Kind.SQUARE_MILLIMETRES, 1.0),
    "um2": (Kind.SQUARE_MILLIMETRES, 1e-6),
    "µm²": (Kind.SQUARE_MILLIMETRES, 1e-6),
    **{
        prefix + base: (kind, _PREFIXES[prefix])
        for kind, (base, prefixes) in _BASES.items()
        for prefix in ("", *prefixes)
    },
}
"""Every unit, with what it measures and how many of that kind's own unit it is."""

_LOWER = {name.lower(): name for name in ("B", "kB", "MB", "GB", "KiB", "MiB", "GiB")}
"""Byte units may be written in any case."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµ²]+[2²]?)\s*")

_EXAMPLES = {
    Kind.BYTES: "64KiB",
    Kind.SECONDS: "5ms",
    Kind.HERTZ: "500MHz",
    Kind.JOULES: "2mJ",
    Kind.WATTS: "2W",
    Kind.SQUARE_MILLIMETRES: "4mm2",
}
_DECIMAL = re.compile(r"[KkMG]i?", re.ASCII)


def read_quantity(text: str, kind: Kind) -> float | None:
    """The number a text with a unit stands for, in the kind's own unit; None where the text is no number with a unit.

    Args:
        text: E.g. ``108KiB``; a space may stand before the unit.
        kind: The kind of quantity that is expected, a time or an energy for example.

    Raises:
        UserError: The unit is unknown or measures something else.

    >>> read_quantity("108KiB", Kind.BYTES), read_quantity("5 ms", Kind.SECONDS), read_quantity("12", Kind.BYTES)
    (110592.0, 0.005, None)
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    value, unit = float(match[1]), match[2]
    unit = _LOWER.get(unit.lower(), unit)
    known = [name for name, (measured, _) in UNITS.items() if measured is kind and name.isascii()]
    if unit not in UNITS:
        hint = (
            "write KiB, MiB or GiB (of 1024), kB, MB or GB (of 1000)"
            if kind is Kind.BYTES and _DECIMAL.fullmatch(unit)
            else None
        )
        raise UserError(f"unknown unit {unit!r} in {text.strip()!r}", hint=hint or f"known: {', '.join(known)}")
    measured, factor = UNITS[unit]
    if measured is not kind:
        raise UserError(f"expected a quantity in {kind.value}, got {text.strip()!r}", hint=f"e.g. {_EXAMPLES[kind]}")
    result = value * factor
    nearest = round(result)
    return float(nearest) if nearest and math.isclose(result, nearest, rel_tol=1e-12) else result


def parse_size(text: str, field: str) -> int:
    """A number of bytes: ``65536``, ``64KiB``, ``1.5MiB``.

    Args:
        text: What was given.
        field: Of what, for the message.

    Raises:
        UserError: It is none, or not a whole number of bytes >= 0.

    >>> parse_size("1.5MiB", "--capacity")
    1572864
    """
    try:
        value = float(text) if re.fullmatch(rf"\s*{_NUMBER}\s*", text) else read_quantity(text, Kind.BYTES)
    except UserError as error:
        raise UserError(f"`{field}`: {error.message}", hint=error.hint) from None
    if value is None or value < 0 or value != int(value):
        raise UserError(f"`{field}` must be a whole number of bytes such as 65536 or 64KiB, got {text!r}")
    return int(value)


_KEY_KINDS = (
    ("_bytes", Kind.BYTES, 1.0),
    ("_bytes_per_cycle", Kind.BYTES, 1.0),
    ("_hz", Kind.HERTZ, 1.0),
    ("_pj", Kind.JOULES, 1e12),
    ("_mw", Kind.WATTS, 1e3),
    ("_w", Kind.WATTS, 1.0),
    ("_mm2", Kind.SQUARE_MILLIMETRES, 1.0),
    ("_s", Kind.SECONDS, 1.0),
    ("_j", Kind.JOULES, 1.0),
)
"""End of a field's name -> what it measures, and how many of the field's unit one of the kind's is."""


def kind_of(field: str) -> tuple[Kind, float] | None:
    """What a field measures by its name, and how many of its unit one of the kind's own is; None where the name has no unit.

    >>> kind_of("read_pj")[1], kind_of("banks")
    (1000000000000.0, None)
    """
    return next(((kind, scale) for end, kind, scale in _KEY_KINDS if field.endswith(end)), None)


def read_field(field: str, text: str) -> float | None:
    """The number in the field's own unit that a text with a unit stands for; None where the field or the text has no unit.

    Raises:
        UserError: The unit is unknown or measures something else.

    >>> read_field("capacity_bytes", "108KiB"), read_field("read_pj", "0.5nJ"), read_field("banks", "4KiB")
    (110592.0, 500.0, None)
    """
    found = kind_of(field)
    if found is None:
        return None
    value = read_quantity(text, found[0])
    return None if value is None else _rounded(value * found[1])


def _rounded(value: float) -> float:
    """Without the dust of a scale factor: 0.1 nJ is 100 pJ."""
    return float(f"{value:.12g}") if value else value
