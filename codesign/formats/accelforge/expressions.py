"""Expressions inside AccelForge's files: numbers, sets of tensors, latencies."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from codesign.core.errors import UserError


@dataclass(frozen=True)
class Tensors:
    """A set of tensors within those of one operator.

    Args:
        members: Names.
        universe: All names of the operator.
        bits: Width of every tensor.
    """

    members: frozenset[str]
    universe: frozenset[str]
    bits: Mapping[str, float]

    def _with(self, members: frozenset[str]) -> "Tensors":
        return Tensors(members & self.universe, self.universe, self.bits)

    def __invert__(self) -> "Tensors":
        return self._with(self.universe - self.members)

    def __and__(self, other: "Tensors") -> "Tensors":
        return self._with(self.members & other.members)

    def __or__(self, other: "Tensors") -> "Tensors":
        return self._with(self.members | other.members)

    def __sub__(self, other: "Tensors") -> "Tensors":
        return self._with(self.members - other.members)

    def __bool__(self) -> bool:
        return bool(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __call__(self) -> "Tensors":
        """Itself: ``MainMemory.tensors()``."""
        return self

    @property
    def tensors(self) -> "Tensors":
        """Itself: ``MainMemory.tensors``."""
        return self

    @property
    def bits_per_value(self) -> float:
        """Width, where all members have the same."""
        widths = {self.bits[name] for name in self.members}
        if len(widths) != 1:
            raise UserError(f"bits_per_value of {sorted(self.members)} is not one number")
        return widths.pop()


@dataclass(frozen=True)
class Worst:
    """The largest of several sums of counts: ``forms[i][name]`` seconds for each call of action `name`."""

    forms: tuple[Mapping[str, float], ...]

    def __add__(self, other: Any) -> "Worst":
        if other == 0:
            return self
        if not isinstance(other, Worst):
            raise UserError("a latency adds a constant to a count of actions, which is not supported")
        return Worst(
            tuple({k: a.get(k, 0.0) + b.get(k, 0.0) for k in {*a, *b}} for a in self.forms for b in other.forms)
        )

    __radd__ = __add__

    def __mul__(self, factor: float) -> "Worst":
        return Worst(tuple({k: v * factor for k, v in form.items()} for form in self.forms))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> "Worst":
        return self * (0.0 if math.isinf(divisor) else 1.0 / divisor)


@dataclass(frozen=True)
class Action:
    """An action inside a latency expression."""

    name: str
    throughput: float

    @property
    def n_calls(self) -> Worst:
        """How often the action happens, as a value of expressions."""
        return Worst(({self.name: 1.0},))


def _largest(*values: Any) -> Any:
    found = list(values[0]) if len(values) == 1 and isinstance(values[0], list) else list(values)
    if any(isinstance(v, Worst) for v in found):
        return Worst(tuple(form for v in found if isinstance(v, Worst) for form in v.forms))
    return max(found)


def _total(values: list[Any]) -> Any:
    total: Any = 0
    for value in values:
        total = total + value
    return total


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_NAMES: dict[str, object] = {
    "inf": math.inf, "max": _largest, "min": min, "sum": _total, "len": len, "ceil": math.ceil, "floor": math.floor, "sqrt": math.sqrt,
    "log2": math.log2, "abs": abs, "round": round, "int": int, "float": float, "True": True, "False": False,
}  # fmt: skip
_ATTRIBUTES = {"tensors", "bits_per_value", "n_calls", "throughput"}


def evaluate(expression: Any, names: Mapping[str, Any], where: str) -> Any:
    """The value of an expression; what is not text stands for itself.

    Raises:
        UserError: An unknown name, or something these expressions do not have.
    """
    if not isinstance(expression, str):
        return expression
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise UserError(f"'{expression}' is no expression", where=where) from error
    return _value(tree, {**_NAMES, **names}, where)


def _value(node: ast.expr, names: Mapping[str, Any], where: str) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            if name not in names:
                raise UserError(f"unknown name '{name}' in an expression", where=where)
            return names[name]
        case ast.UnaryOp(op=op, operand=inner):
            value = _value(inner, names, where)
            if isinstance(op, ast.Invert):
                return ~value
            return not value if isinstance(op, ast.Not) else -value if isinstance(op, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, names, where), _value(right, names, where))
        case ast.BoolOp(op=op, values=values):
            results = [_value(v, names, where) for v in values]
            return all(results) if isinstance(op, ast.And) else any(results)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return _COMPARE[type(op)](_value(left, names, where), _value(right, names, where))
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, names, where) else other, names, where)
        case ast.Attribute(value=inner, attr=attr) if attr in _ATTRIBUTES:
            return getattr(_value(inner, names, where), attr)
        case ast.Call(func=function, args=arguments, keywords=[]):
            return _value(function, names, where)(*(_value(a, names, where) for a in arguments))
        case ast.GeneratorExp(elt=element, generators=[generator]) | ast.ListComp(elt=element, generators=[generator]):
            if not isinstance(generator.target, ast.Name) or generator.ifs:
                raise UserError("a generator in an expression has one name and no condition", where=where)
            items = _value(generator.iter, names, where)
            return [_value(element, {**names, generator.target.id: item}, where) for item in items]
    raise UserError(f"'{ast.unparse(node)}' is not supported in an expression", where=where)
