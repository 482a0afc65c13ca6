"""Checks of what people give; every message about a number has the same form.

`None` is a value that was left out: `check_whole` refuses it, the others take it.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeVar

from codesign.core.errors import UserError

T = TypeVar("T")


def check_whole(least: int = 1, /, *, where: str | None = None, **values: object) -> None:
    """Refuse a value that is no integer or is below the least.

    >>> check_whole(batch=0)
    Traceback (most recent call last):
    codesign.core.errors.UserError: `batch` must be an integer >= 1, got 0
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UserError(f"`{name}` must be an integer >= {least}, got {value!r}", where=where)


def check_least(least: float, /, *, where: str | None = None, **values: float | None) -> None:
    """Refuse a number below the least."""
    for name, value in values.items():
        if value is not None and not value >= least:
            raise UserError(f"`{name}` must be >= {least:g}, got {_shown(value)}", where=where)


def check_positive(*, where: str | None = None, hint: str | None = None, **values: float | None) -> None:
    """Refuse a number that is not above 0."""
    for name, value in values.items():
        if value is not None and not value > 0:
            raise UserError(f"`{name}` must be > 0, got {_shown(value)}", where=where, hint=hint)


def check_share(*, where: str | None = None, **values: float | None) -> None:
    """Refuse a number that is not from 0 to 1."""
    for name, value in values.items():
        if value is not None and not 0.0 <= value <= 1.0:
            raise UserError(f"`{name}` must be between 0 and 1, got {_shown(value)}", where=where)


def check_numbers(record: object, where: str) -> None:
    """Refuse a dataclass with a number below the `minimum` of its field's metadata; below 0 where that says none."""
    for item in fields(record):  # type: ignore[arg-type]
        value = getattr(record, item.name)
        if isinstance(value, int | float):
            check_least(item.metadata.get("minimum", 0), where=where, **{item.name: value})


def repeated(values: Sequence[T]) -> T | None:
    """The first value that stands in a sequence twice; None where all differ (none of them is None)."""
    if len(set(values)) == len(values):
        return None
    return next(v for v in values if values.count(v) > 1)


def _shown(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
