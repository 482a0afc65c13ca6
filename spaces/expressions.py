"""Expressions over the parameters of a design: what a space's file sets fields of an architecture to, and metrics of its own.

A small part of Python's grammar, walked node by node and never run as code: numbers, texts, names, arithmetic, comparison, logic, ``a if c else
b``, lists, tables such as ``{'ws': 4, 'os': 8}[dataflow]``, and the functions of `FUNCTIONS`. Sizes and frequencies may have units: ``64KiB``, ``500MHz``.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, final

from codesign.core.errors import UserError, unknown_name
from codesign.core.quantities import UNITS, Kind

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "int": int,
    "sqrt": math.sqrt,
    "log2": math.log2,
}
"""What an expression may call."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.Not: operator.not_}

_LITERALS = {
    name: factor for name, (kind, factor) in UNITS.items() if kind in (Kind.BYTES, Kind.HERTZ) and name.isascii()
}
_WITH_UNIT = re.compile(
    rf"(?<![\w.])(\d+(?:\.\d+)?)\s?({'|'.join(sorted((re.escape(u) for u in _LITERALS), key=len, reverse=True))})(?!\w)"
)

MOST_POWER = 1024
"""Largest exponent: a mistyped power must not fill the memory."""


def without_units(text: str) -> str:
    """The expression with sizes and frequencies as plain numbers of bytes and hertz; texts in quotes stay as they are.

    >>> without_units("buffer <= 1.5MiB and clock_hz < 2 GHz")
    'buffer <= 1572864 and clock_hz < 2000000000'
    """

    def plain(match: re.Match[str]) -> str:
        value = float(match[1]) * _LITERALS[match[2]]
        return str(int(value)) if value.is_integer() else repr(value)

    pieces = re.split(r"('[^']*'|\"[^\"]*\")", text)
    return "".join(piece if k % 2 else _WITH_UNIT.sub(plain, piece) for k, piece in enumerate(pieces))


@final
@dataclass(frozen=True)
class Expression:
    """One expression.

    Args:
        text: As it was written.
        where: The file and the field, for messages.

    >>> Expression("buffer_kib * 1024 if deep else 64KiB").value({"buffer_kib": 8, "deep": False})
    65536
    """

    text: str
    where: str = "expression"

    def __post_init__(self) -> None:
        _check(self._tree(), self.text, self.where)

    def _tree(self) -> ast.expr:
        try:
            return ast.parse(without_units(self.text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
            raise UserError(f"not an expression: {self.text!r} ({reason})", where=self.where) from None

    @property
    def names(self) -> frozenset[str]:
        """The parameters it reads."""
        nodes = list(ast.walk(self._tree()))
        called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
        return frozenset(n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called)

    def check_names(self, known: Collection[str], kind: str = "parameter") -> None:
        """Refuse names that are not known.

        Raises:
            UserError: With the nearest known one.
        """
        for name in sorted(self.names):
            if name not in known:
                raise unknown_name(kind, name, known, where=f"{self.where}: {self.text!r}")

    def value(self, values: Mapping[str, Any]) -> Any:
        """What it is for a design.

        Args:
            values: Of the names it reads.

        Raises:
            UserError: It cannot be computed: a division by zero, a text where a number belongs, a name the design does not have.
        """
        try:
            return _value(self._tree(), values)
        except UserError as error:
            raise error.within(f"{self.where}: {self.text!r}") from None
        except (ArithmeticError, TypeError, ValueError, KeyError, IndexError) as error:
            shown = ", ".join(f"{n}={values[n]!r}" for n in sorted(self.names) if n in values)
            reason = f"{error!r} is not in the table" if isinstance(error, KeyError) else str(error)
            raise UserError(
                f"cannot compute {self.text!r} for {shown or 'any design'}: {reason}", where=self.where
            ) from None


def _check(node: ast.AST, text: str, where: str) -> None:
    """Refuse everything outside the small grammar."""
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords or not node.args:
            raise UserError(
                f"expected a call of one of {', '.join(FUNCTIONS)}, got {ast.unparse(node)!r}",
                where=f"{where}: {text!r}",
            )
        for argument in node.args:
            _check(argument, text, where)
        return
    if isinstance(node, ast.Constant) and not isinstance(node.value, bool | int | float | str):
        raise UserError(f"expected a number or a text, got {node.value!r}", where=f"{where}: {text!r}")
    plain = (
        ast.Name,
        ast.Load,
        ast.Constant,
        ast.BoolOp,
        ast.And,
        ast.Or,
        ast.UnaryOp,
        ast.BinOp,
        ast.Compare,
        ast.IfExp,
    )
    grouped = (ast.List, ast.Tuple, ast.Dict, ast.Subscript)
    if not isinstance(node, (*plain, *grouped, *_BINARY, *COMPARE, *_UNARY)):
        raise UserError(
            f"expected arithmetic, comparison, logic or a table, got {ast.unparse(node)!r}", where=f"{where}: {text!r}"
        )
    for child in ast.iter_child_nodes(node):
        _check(child, text, where)


def _value(node: ast.expr | None, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            if node.id not in values:
                raise UserError(f"the design has no {node.id!r}", hint="guard it: `x if CONDITION else y`")
            return values[node.id]
        case ast.UnaryOp():
            return _UNARY[type(node.op)](_value(node.operand, values))
        case ast.BinOp():
            return _binary(node, _value(node.left, values), _value(node.right, values))
        case ast.BoolOp():
            wanted = isinstance(node.op, ast.Or)
            return next((True for v in node.values if bool(_value(v, values)) is wanted), False) is wanted
        case ast.Compare():
            return _compare(node, values)
        case ast.IfExp():
            return _value(node.body if _value(node.test, values) else node.orelse, values)
        case ast.List() | ast.Tuple():
            return [_value(item, values) for item in node.elts]
        case ast.Dict():
            return {_value(k, values): _value(v, values) for k, v in zip(node.keys, node.values, strict=True)}
        case ast.Subscript():
            return _value(node.value, values)[_value(node.slice, values)]
        case ast.Call():
            return FUNCTIONS[getattr(node.func, "id", "")](*(_value(a, values) for a in node.args))
    raise UserError(f"expected an expression, got {ast.unparse(node) if node else 'nothing'!r}")


def _binary(node: ast.BinOp, left: Any, right: Any) -> Any:
    for side in (left, right):
        if not isinstance(side, (int, float)):
            raise UserError(f"expected a number, got {side!r}")
    if isinstance(node.op, ast.Pow) and abs(right) > MOST_POWER:
        raise UserError(f"an exponent must be at most {MOST_POWER}, got {right}")
    return _BINARY[type(node.op)](left, right)


def _compare(node: ast.Compare, values: Mapping[str, Any]) -> bool:
    left = _value(node.left, values)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, values)
        for other in right if isinstance(op, ast.In | ast.NotIn) else [right]:
            if isinstance(left, str) != isinstance(other, str):
                raise UserError(
                    f"{left!r} and {other!r} cannot be compared: one is a text",
                    hint="YAML reads on, off, yes and no as true and false; put them in quotes to have texts",
                )
        if not COMPARE[type(op)](left, right):
            return False
        left = right
    return True
