"""Dataclasses read from files by the types of their fields, and written as the fields that differ."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import pytest

from codesign.core.checks import check_least, check_numbers, check_whole
from codesign.core.errors import UserError
from codesign.core.fields import Fields
from codesign.core.specs import at_least, changed


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Part:
    size: int = at_least(1, 4)


@dataclass(frozen=True)
class Whole:
    name: str
    cost: float
    clock: float = field(default=1.0, metadata={"above": 0})
    count: int | None = at_least(2)
    colour: Colour = Colour.RED
    mode: Literal["a", "b"] = "a"
    names: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset({"x"})
    numbers: tuple[int, ...] = ()
    table: dict[str, int] = field(default_factory=dict)
    part: Part = field(default_factory=Part)

    def __post_init__(self) -> None:
        if self.name == "none":
            raise UserError("`name` must not be none")


def _read(given: dict[str, Any]) -> Whole:
    return Fields({"name": "w", "cost": 1} | given, "f").record(Whole, 0)


def test_what_is_left_out_or_empty_is_as_by_default() -> None:
    assert _read({"count": None, "colour": None}) == Whole("w", 1.0)


def test_every_type_is_read() -> None:
    given = {
        "count": 2,
        "colour": "blue",
        "mode": "b",
        "names": ["y", 7],
        "kinds": "y",
        "numbers": 3,
        "table": {"k": 5},
        "part": {"size": 2},
    }
    whole = _read(given)
    assert whole == Whole("w", 1.0, 1.0, 2, Colour.BLUE, "b", ("y", "7"), frozenset({"y"}), (3,), {"k": 5}, Part(2))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nmae": 1}, r"unknown key 'nmae' \(f\); did you mean 'name'\?"),
        ({"name": None}, r"`name` is missing \(f\)"),
        ({"name": "none"}, r"`name` must not be none \(f\)"),
        ({"cost": -1}, "`cost` must be a number >= 0, got -1"),
        ({"clock": 0}, "`clock` must be a number > 0, got 0"),
        ({"count": 1}, "`count` must be an integer >= 2, got 1"),
        ({"colour": "rde"}, "unknown `colour` 'rde' .*did you mean 'red'"),
        ({"mode": "c"}, "unknown `mode` 'c' .*known: a, b"),
        ({"names": [True]}, "`names` must be a list of names, got a list of 1"),
        ({"names": 7}, "`names` must be a list, got 7"),
        ({"numbers": ["x"]}, "`numbers` must be an integer, got 'x'"),
        ({"table": {"k": "x"}}, "`table.k` must be an integer, got 'x'"),
        ({"table": 1}, "`table` must be names with values, got 1"),
        ({"part": {"size": 0}}, r"`size` must be an integer >= 1, got 0 \(f, `part`\)"),
    ],
)
def test_what_does_not_fit_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _read(given)


def test_a_field_that_is_known_already_may_not_stand_in_the_file() -> None:
    with pytest.raises(UserError, match="unknown key 'name'"):
        Fields({"name": "w", "cost": 1}, "f").record(Whole, name="v")


def test_what_differs_is_written_and_read_back() -> None:
    assert changed(Whole("w", 1.0)) == {"name": "w", "cost": 1.0}
    whole = Whole("w", 1.0, colour=Colour.BLUE, kinds=frozenset({"b", "a"}), part=Part(2))
    value = changed(whole, "cost")
    assert value == {"name": "w", "colour": "blue", "kinds": ["a", "b"], "part": {"size": 2}}
    assert Fields(value, "f").record(Whole, cost=1.0) == whole


@pytest.mark.parametrize("value", [0, True, 1.0, "1", None])
def test_only_whole_numbers_are_whole(value: object) -> None:
    check_whole(n=1)
    with pytest.raises(UserError, match=r"`n` must be an integer >= 1, got .* \(here\)"):
        check_whole(n=value, where="here")


def test_a_number_below_the_least_is_refused_and_so_is_none_at_all() -> None:
    check_least(0, x=0)
    for value in (-0.5, float("nan")):
        with pytest.raises(UserError, match="`x` must be >= 0, got"):
            check_least(0, x=value)


def test_numbers_of_a_record_have_the_least_of_their_fields() -> None:
    check_numbers(Whole("w", 0.0), "here")
    for record, message in ((Part(0), "`size` must be >= 1, got 0"), (Whole("w", -1.0), "`cost` must be >= 0, got -1")):
        with pytest.raises(UserError, match=message):
            check_numbers(record, "here")
