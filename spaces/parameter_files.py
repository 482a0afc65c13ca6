"""Parameters, rules and presets of a space as its file states them (docs/how-to/own-space.md)."""

from collections.abc import Iterator
from typing import Any

from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.core.quantities import Kind, read_quantity
from spaces.constraints import Constraint
from spaces.parameters import (
    AbstractParameter,
    Categorical,
    Condition,
    Integer,
    Ordinal,
    PowerOfTwo,
    Value,
    parameter_from_json,
)

_FORMS = {"values": Ordinal, "labels": Categorical, "integers": Integer, "powers_of_two": PowerOfTwo}


def read_parameters(value: Any, where: str) -> Iterator[AbstractParameter]:
    """The parameters under `parameters:`, by name or as `Space.to_json` writes them.

    Raises:
        UserError: One is malformed.
    """
    if isinstance(value, list):  # as `Space.to_json` writes them
        yield from (parameter_from_json(item, f"{where}: parameter {k}") for k, item in enumerate(value, start=1))
        return
    if not isinstance(value, dict):
        raise UserError(f"`parameters` must hold names and values, got {describe(value)}", where=f"{where}: space")
    for name, item in value.items():
        try:
            yield _read_parameter(str(name), item)
        except UserError as error:
            raise error.within(f"{where}: parameter {name!r}") from None


def _read_parameter(name: str, item: Any) -> AbstractParameter:
    if isinstance(item, list):
        return _make("values", name, item, None)
    if not isinstance(item, dict):
        raise UserError(
            f"expected a list of values or one of {', '.join(_FORMS)}, got {describe(item)}",
            hint="e.g. [4, 8, 16], or {integers: [1, 8]}",
        )
    given = [key for key in item if key in _FORMS]
    for key in item:
        if key not in (*_FORMS, "when"):
            raise unknown_name("key", str(key), [*_FORMS, "when"])
    if len(given) != 1:
        raise UserError(f"expected one of {', '.join(_FORMS)}, got {' and '.join(given) or 'none'}")
    if not isinstance(item[given[0]], list):
        raise UserError(f"`{given[0]}` must be a list, got {describe(item[given[0]])}")
    return _make(given[0], name, item[given[0]], _read_condition(item.get("when")))


def _read_condition(value: Any) -> Condition | None:
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) != 1:
        raise UserError(
            f"`when` must be one parameter with its values, got {describe(value)}",
            hint="e.g. when: {links: [systolic]}",
        )
    [(parameter, values)] = value.items()
    return Condition(str(parameter), tuple(_plain(v) for v in (values if isinstance(values, list) else [values])))


def _make(form: str, name: str, values: list[Any], when: Condition | None) -> AbstractParameter:
    plain = [_plain(v) for v in values]
    if form in ("integers", "powers_of_two"):
        if len(plain) != 2:
            raise UserError(f"`{form}` must be the lowest and the highest value, got {len(plain)} values")
        low, high = (int(v) if isinstance(v, float) and v.is_integer() else v for v in plain)
        made: Any = Integer if form == "integers" else PowerOfTwo
        return made(name, low, high, when=when)  # type: ignore[no-any-return]
    numeric = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in plain)
    return Ordinal(name, plain, when=when) if form == "values" and numeric else Categorical(name, plain, when=when)


def _plain(value: Any) -> Any:
    """A choice as it is, or the number that a size with a unit stands for (``64KiB`` is 65536)."""
    if isinstance(value, str):
        for kind in (Kind.BYTES, Kind.HERTZ):
            try:
                number = read_quantity(value, kind)
            except UserError:
                continue
            if number is not None:
                return int(number) if number.is_integer() else number
    return value


def read_rule(item: Any, number: int, where: str) -> Constraint:
    """A rule on parameters: a text, or `rule` with `name` and `reason`."""
    if isinstance(item, str):
        return Constraint(item, item)
    fields = Fields(item, f"{where}: constraint {number}")
    rule, reason = fields.text("rule"), fields.text("reason", "")
    name = fields.text("name", rule)
    fields.finish()
    return Constraint(name, rule, reason)


def read_preset(value: Any, where: str) -> dict[str, Value]:
    """A design as parameters and their values."""
    if not isinstance(value, dict):
        raise UserError(f"expected the parameters and their values, got {describe(value)}", where=where)
    return {str(key): _plain(item) for key, item in value.items()}
