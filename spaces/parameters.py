"""Parameter types: what one knob of a design may be.

Every type is a finite, ordered list of *choices*; a design is one choice index per parameter. Ordered
types (`Integer`, `Ordinal`, `PowerOfTwo`) have neighbours one step away and one numeric coordinate
(the base-2 logarithm for non-negative numbers, because sizes act by ratios); a `Categorical` has neither.
A parameter with a `when` condition exists only where its parent has one of the named values.
"""

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from codesign.core.errors import UserError, unknown_name

Value = bool | int | float | str

MAX_CHOICES = 1 << 20
"""More values than this in one parameter is taken for a mistake; tables of choices are kept in memory."""


@dataclass(frozen=True)
class Condition:
    """A parameter is active only where `parameter` (itself active) has one of `values`."""

    parameter: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "values", tuple(plain_value(v, f"condition on {self.parameter!r}") for v in self.values)
        )
        if not self.values:
            raise UserError(f"condition on {self.parameter!r}: expected at least one value, got none")

    def to_json(self) -> dict[str, Any]:
        """The condition as plain JSON values."""
        return {"parameter": self.parameter, "values": list(self.values)}


def plain_value(value: object, where: str) -> Value:
    """A choice as a plain Python scalar (NumPy scalars become their Python twins).

    Raises:
        UserError: The value is not a finite number, a truth value or a string.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        if not math.isfinite(number):
            raise UserError(f"{where}: expected a finite number, got {number}")
        return number
    if isinstance(value, str):
        return str(value)
    raise UserError(f"{where}: expected a number, a truth value or a string, got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise UserError(
            f"parameter name: expected an identifier, got {name!r}", hint="use letters, digits and underscores"
        )


def _check_integer(value: object, field: str, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise UserError(f"parameter {name!r}: `{field}` must be an integer, got {value!r}")
    return int(value)


@dataclass(frozen=True)
class AbstractParameter(ABC):
    """One knob: a name, a finite list of choices and, optionally, when it exists at all."""

    name: str
    when: Condition | None = field(default=None, kw_only=True)

    kind: ClassVar[str]
    """What the type is called in files."""
    ordered: ClassVar[bool]
    """True where neighbouring choices are alike (a size), False for labels."""

    @property
    @abstractmethod
    def choices(self) -> Sequence[Value]:
        """All values in index order."""

    def to_json(self) -> dict[str, Any]:
        """The parameter as plain JSON values, read back by `parameter_from_json`."""
        described: dict[str, Any] = {"type": self.kind}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name != "when":
                described[entry.name] = list(value) if isinstance(value, tuple) else value
        if self.when is not None:
            described["when"] = self.when.to_json()
        return described

    @property
    def cardinality(self) -> int:
        """The number of choices."""
        return len(self.choices)

    def index(self, value: object) -> int:
        """The index of a value among the choices.

        Raises:
            UserError: The value is not one of them; the message lists or bounds them.
        """
        plain = plain_value(value, f"parameter {self.name!r}")
        # True equals 1 in Python; a design that says `banks: true` is a mistake, not one bank.
        for position in self._candidates(plain):
            choice = self.choices[position]
            if choice == plain and isinstance(choice, bool) == isinstance(plain, bool):
                return position
        raise UserError(f"parameter {self.name!r}: expected {self.describe()}, got {value!r}")

    def _candidates(self, value: Value) -> Sequence[int]:
        return range(self.cardinality)

    def describe(self) -> str:
        """The domain in words, for messages."""
        if self.cardinality <= 12:
            return "one of " + ", ".join(repr(c) for c in self.choices)
        return f"one of {self.cardinality} values from {self.choices[0]!r} to {self.choices[-1]!r}"

    def coordinates(self) -> NDArray[np.float64]:
        """The position of every choice in [0, 1]: ``k``.

        Non-negative numbers are placed by their base-2 logarithm (shifted by the smallest positive
        value where zero is among them), other numbers linearly, ordered labels by rank.
        """
        if not all(_is_number(c) for c in self.choices):
            return np.linspace(0.0, 1.0, self.cardinality) if self.cardinality > 1 else np.array([0.5])
        values = np.array(self.choices, dtype=np.float64)
        if values.min() >= 0 and values.max() > 0:
            shift = values[values > 0].min() if values.min() == 0 else 0.0
            values = np.log2(values + shift)
        span = values.max() - values.min()
        return (values - values.min()) / span if span > 0 else np.full(values.shape, 0.5)


@final
@dataclass(frozen=True)
class Integer(AbstractParameter):
    """Every whole number from `low` to `high`, both included.

    >>> Integer("banks", 1, 8).cardinality
    8
    """

    low: int
    high: int

    kind: ClassVar[str] = "integer"
    ordered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_name(self.name)
        low, high = _check_integer(self.low, "low", self.name), _check_integer(self.high, "high", self.name)
        if low > high:
            raise UserError(f"parameter {self.name!r}: `low` must be at most `high`, got {low} > {high}")
        if high - low >= MAX_CHOICES:
            raise UserError(
                f"parameter {self.name!r}: expected at most {MAX_CHOICES} values, got {high - low + 1}",
                hint="name the useful ones with Ordinal or PowerOfTwo",
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def choices(self) -> Sequence[int]:
        """The whole numbers in increasing order."""
        return range(self.low, self.high + 1)

    def _candidates(self, value: Value) -> Sequence[int]:
        return [int(value) - self.low] if not isinstance(value, str) and self.low <= value <= self.high else []


@final
@dataclass(frozen=True)
class PowerOfTwo(AbstractParameter):
    """The powers of two from `low` to `high`, both included and both powers of two.

    >>> list(PowerOfTwo("buffer_kib", 32, 256).choices)
    [32, 64, 128, 256]
    """

    low: int
    high: int

    kind: ClassVar[str] = "power_of_two"
    ordered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_name(self.name)
        for bound in ("low", "high"):
            value = _check_integer(getattr(self, bound), bound, self.name)
            if value < 1 or value & (value - 1):
                raise UserError(f"parameter {self.name!r}: `{bound}` must be a power of two, got {value}")
            object.__setattr__(self, bound, value)
        if self.low > self.high:
            raise UserError(f"parameter {self.name!r}: `low` must be at most `high`, got {self.low} > {self.high}")

    @cached_property
    def choices(self) -> Sequence[int]:
        """The powers in increasing order."""
        return tuple(1 << e for e in range(self.low.bit_length() - 1, self.high.bit_length()))


def _check_values(name: str, values: object) -> tuple[Value, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise UserError(f"parameter {name!r}: `values` must be a list, got {values!r}")
    plain = tuple(plain_value(v, f"parameter {name!r}") for v in values)
    if not plain:
        raise UserError(f"parameter {name!r}: expected at least one value, got none")
    if len(set(plain)) < len(plain):
        twice = next(v for k, v in enumerate(plain) if v in plain[:k])
        raise UserError(f"parameter {name!r}: values must differ, got {twice!r} twice")
    return plain


@final
@dataclass(frozen=True)
class Ordinal(AbstractParameter):
    """Given values with an order: numbers are kept in increasing order, labels as they were given.

    >>> Ordinal("pe_rows", [16, 4, 8]).choices
    (4, 8, 16)
    """

    values: Sequence[Value]

    kind: ClassVar[str] = "ordinal"
    ordered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_name(self.name)
        plain = _check_values(self.name, self.values)
        if all(_is_number(v) for v in plain):
            plain = tuple(sorted(plain, key=float))
        object.__setattr__(self, "values", plain)

    @property
    def choices(self) -> Sequence[Value]:
        """The given values in index order."""
        return self.values


@final
@dataclass(frozen=True)
class Categorical(AbstractParameter):
    """Labels without an order.

    >>> Categorical("dataflow", ["ws", "os"]).index("os")
    1
    """

    values: Sequence[Value]

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "values", _check_values(self.name, self.values))

    @property
    def choices(self) -> Sequence[Value]:
        """The given values in index order."""
        return self.values


_TYPES: dict[str, type[AbstractParameter]] = {t.kind: t for t in (Integer, PowerOfTwo, Ordinal, Categorical)}


def check_fields(value: object, required: Sequence[str], optional: Sequence[str], where: str) -> Mapping[str, Any]:
    """A JSON object with all `required` keys and no key that is neither required nor optional."""
    if not isinstance(value, Mapping):
        raise UserError(f"expected an object, got {value!r}", where=where)
    for key in required:
        if key not in value:
            raise UserError(f"missing field {key!r}", where=where)
    for key in value:
        if key not in required and key not in optional:
            raise unknown_name("field", str(key), [*required, *optional], where=where)
    return value


def parameter_from_json(value: object, where: str = "parameter") -> AbstractParameter:
    """The parameter that `AbstractParameter.to_json` wrote.

    Raises:
        UserError: An unknown type or field, or a value the type refuses.
    """
    if not isinstance(value, Mapping) or "type" not in value:
        raise UserError(f"expected an object with a `type`, got {value!r}", where=where)
    kind = str(value["type"])
    if kind not in _TYPES:
        raise unknown_name("parameter type", kind, _TYPES, where=where)
    domain = [entry.name for entry in fields(_TYPES[kind]) if entry.name not in ("name", "when")]
    data = check_fields(value, ("type", "name", *domain), ("when",), where)
    condition = None
    if data.get("when") is not None:
        when = check_fields(data["when"], ("parameter", "values"), (), f"{where}: when")
        condition = Condition(str(when["parameter"]), tuple(when["values"]))
    build: Any = _TYPES[kind]
    parameter: AbstractParameter = build(data["name"], *(data[f] for f in domain), when=condition)
    return parameter
