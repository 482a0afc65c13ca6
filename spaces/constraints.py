"""Known validity rules of a space: named predicates over a design, with the reason a person is told.

A rule is either an expression (kept in JSON, evaluated on many designs at once) or a Python callable.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from codesign.core.errors import UserError, unknown_name
from spaces.expressions import COMPARE, without_units

Columns = Mapping[str, NDArray[Any]]
Design = Mapping[str, Any]

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "min": lambda *a: np.minimum.reduce(np.broadcast_arrays(*a)),
    "max": lambda *a: np.maximum.reduce(np.broadcast_arrays(*a)),
    "abs": np.abs,
    "round": np.round,
    "floor": np.floor,
    "ceil": np.ceil,
    "int": np.trunc,
    "sqrt": np.sqrt,
    "log2": np.log2,
}
"""The functions of `spaces.expressions`, on the values of many designs."""


def _check_node(node: ast.AST, names: set[str], where: str) -> None:
    """Refuse everything but arithmetic, comparison and logic over the parameters."""
    if isinstance(node, ast.Name):
        if node.id not in names:
            error = unknown_name("parameter", node.id, names, where=where)
            raise UserError(error.message, where=where, hint=f"{error.hint}; a label stands in quotes: '{node.id}'")
        return
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in _CALLS or node.keywords or not node.args:
            raise UserError(f"expected a call of one of {', '.join(_CALLS)}, got {ast.unparse(node)!r}", where=where)
        for argument in node.args:
            _check_node(argument, names, where)
        return
    if isinstance(node, ast.Constant):
        if not isinstance(node.value, bool | int | float | str):
            raise UserError(f"expected a number or a string, got {node.value!r}", where=where)
        return
    allowed = (
        ast.Expression,
        ast.IfExp,
        ast.BoolOp,
        ast.And,
        ast.Or,
        ast.UnaryOp,
        ast.Not,
        ast.USub,
        ast.BinOp,
        ast.Compare,
    )
    known = isinstance(node, (*allowed, *_BINARY, *COMPARE, ast.Tuple, ast.List, ast.Load))
    if not known:
        raise UserError(f"expected arithmetic, comparison or logic, got {ast.unparse(node)!r}", where=where)
    for child in ast.iter_child_nodes(node):
        _check_node(child, names, where)


def _contained(left: Any, container: ast.expr, columns: Columns) -> Any:
    members = container.elts if isinstance(container, ast.Tuple | ast.List) else [container]
    inside: Any = False
    for member in members:
        inside = np.logical_or(inside, left == _evaluate(member, columns))
    return inside


def _compare(node: ast.Compare, columns: Columns) -> Any:
    left, result = _evaluate(node.left, columns), np.bool_(True)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, ast.In | ast.NotIn):
            inside = _contained(left, right_node, columns)
            result = np.logical_and(result, inside if isinstance(op, ast.In) else np.logical_not(inside))
            continue
        right = _evaluate(right_node, columns)
        result = np.logical_and(result, COMPARE[type(op)](left, right))
        left = right
    return result


def _evaluate(node: ast.expr, columns: Columns) -> Any:
    match node:
        case ast.Name():
            return columns[node.id]
        case ast.Constant():
            return node.value
        case ast.BinOp():
            return _BINARY[type(node.op)](_evaluate(node.left, columns), _evaluate(node.right, columns))
        case ast.UnaryOp():
            value = _evaluate(node.operand, columns)
            return np.logical_not(value) if isinstance(node.op, ast.Not) else -value
        case ast.BoolOp():
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            result = _evaluate(node.values[0], columns)
            for value in node.values[1:]:
                result = join(result, _evaluate(value, columns))
            return result
        case ast.Compare():
            return _compare(node, columns)
        case ast.IfExp():
            return np.where(*(_evaluate(part, columns) for part in (node.test, node.body, node.orelse)))
        case ast.Call():
            return _CALLS[getattr(node.func, "id", "")](*(_evaluate(a, columns) for a in node.args))
    raise UserError(f"expected arithmetic, comparison or logic, got {ast.unparse(node)!r}")


@final
@dataclass(frozen=True)
class Constraint:
    """One known validity rule.

    In an expression a parameter that does not exist in a design (its condition does not hold) reads as 0,
    or as an empty string if its values are labels.

    Args:
        name: What the rule is called in reports.
        rule: An expression over the parameters such as ``"pe_rows * pe_cols <= 1024"`` (arithmetic,
            comparisons, `and`, `or`, `not`, `in`, ``a if c else b``, the functions of `spaces.expressions`, sizes such as
            ``64KiB``), or a callable that takes one design (a dict) and says whether it is valid.
        reason: What a person is told when the rule is broken; the expression itself when empty.
    """

    name: str
    rule: str | Callable[[Design], bool]
    reason: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.rule, str):
            try:
                ast.parse(without_units(self.rule), mode="eval")
            except SyntaxError as error:
                raise UserError(
                    f"not an expression: {self.rule!r} ({error.msg})", where=f"constraint {self.name!r}"
                ) from None
        elif not callable(self.rule):
            raise UserError(
                f"expected an expression or a callable, got {self.rule!r}", where=f"constraint {self.name!r}"
            )

    @property
    def names(self) -> frozenset[str]:
        """The parameters that the expression reads; empty for a callable, of which nothing is known."""
        if not isinstance(self.rule, str):
            return frozenset()
        nodes = ast.walk(ast.parse(without_units(self.rule), mode="eval"))
        return frozenset(node.id for node in nodes if isinstance(node, ast.Name) and node.id not in _CALLS)

    def check_names(self, names: set[str]) -> None:
        """Raise a UserError where the expression uses anything but these parameters and the allowed operators."""
        if isinstance(self.rule, str):
            _check_node(ast.parse(without_units(self.rule), mode="eval"), names, f"constraint {self.name!r}")

    def holds(self, columns: Columns, points: Callable[[], list[dict[str, Any]]], count: int) -> NDArray[np.bool_]:
        """Which of `count` designs obey the rule: ``n``.

        Args:
            columns: The value of every parameter in every design, for expressions.
            points: The same designs as dicts, made only when the rule is a callable.
            count: The number of designs.
        """
        if not isinstance(self.rule, str):
            return np.array([bool(self.rule(point)) for point in points()], dtype=np.bool_).reshape(count)
        with np.errstate(all="ignore"):
            try:
                value = _evaluate(ast.parse(without_units(self.rule), mode="eval").body, columns)
            except (TypeError, np.exceptions.DTypePromotionError, OverflowError) as error:
                raise UserError(f"cannot evaluate {self.rule!r}: {error}", where=f"constraint {self.name!r}") from None
        return np.broadcast_to(np.asarray(value).astype(bool), (count,)).copy()

    def explain(self) -> str:
        """The reason in words."""
        text = self.reason or (self.rule if isinstance(self.rule, str) else "")
        return f"{self.name}: {text}" if text else self.name


def column_values(choices: tuple[Any, ...]) -> tuple[NDArray[Any], Any]:
    """The choices as an array for vectorised rules, and what stands for "does not exist"."""
    if all(isinstance(c, int | float) for c in choices):
        whole = all(float(c).is_integer() and abs(c) < math.ldexp(1, 53) for c in choices)
        return np.array(choices, dtype=np.int64 if whole else np.float64), 0
    return np.array(choices, dtype=object), ""
