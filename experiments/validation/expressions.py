"""Arithmetic as recorded checks write it: paths such as `stats.bank[0].cycles.act`, numbers, `+ - * /`, brackets."""

import ast
from collections.abc import Callable

from codesign.core.errors import UserError

Number = int | float


def evaluate(text: str, look_up: Callable[[str], Number], where: str) -> Number:
    """Value of an expression; `/` of two integers drops the remainder, as in C.

    Args:
        text: The expression.
        look_up: The value of a path.
        where: For messages.

    Raises:
        UserError: It is not of this form.

    >>> evaluate("(a.b + 7) / 2", lambda path: 4, "here")
    5
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        raise UserError(f"cannot read the expression {text!r}", where=where) from None
    return _value(tree.body, look_up, text, where)


def _value(node: ast.expr, look_up: Callable[[str], Number], text: str, where: str) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, look_up, text, where)
        case ast.BinOp(left=left, op=operation, right=right):
            a, b = _value(left, look_up, text, where), _value(right, look_up, text, where)
            return _combined(a, operation, b, text, where)
        case ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call():
            return look_up(ast.unparse(node))
    raise UserError(f"cannot read the expression {text!r}", where=where)


def _combined(a: Number, operation: ast.operator, b: Number, text: str, where: str) -> Number:
    match operation:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.Div() if b:
            return int(a / b) if isinstance(a, int) and isinstance(b, int) else a / b
    raise UserError(f"cannot compute the expression {text!r}", where=where)
