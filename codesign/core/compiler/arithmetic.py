"""Operators and mathematical functions on numbers, with Python's meaning.

Division by zero follows NumPy: infinity or nan for doubles, zero for integers. Integers wrap at 64 bits.
"""

import ast
from collections.abc import Callable

from codesign.core.compiler.builder import Builder, constant
from codesign.core.compiler.types import BOOL, FLOAT, INT, UINT, CompileError, Scalar
from codesign.core.compiler.values import Number

_COMPARISONS = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_BITS = {ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
_SIMPLE = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}


def common(b: Builder, left: Number, right: Number) -> tuple[Number, Number, Scalar]:
    """Both numbers as the type an operator works on."""
    kinds = {left.type, right.type}
    if FLOAT in kinds:
        to = FLOAT
    elif UINT in kinds:
        if any(n.type is INT and n.literal is None for n in (left, right)):
            raise CompileError("a kernel mixes signed and unsigned integers", hint="convert one of them")
        to = UINT
    else:
        to = INT
    return b.cast(left, to), b.cast(right, to), to


def binary(b: Builder, op: ast.operator, left: Number, right: Number) -> Number:
    """`left op right`."""
    if type(op) in _BITS and left.type is BOOL and right.type is BOOL:
        return Number(BOOL, b.let(f"{_BITS[type(op)]} i1 {left.ref}, {right.ref}"))
    folded = _folded(op, left, right)
    if folded is not None:
        return folded
    if isinstance(op, ast.Pow):
        return _power(b, left, right)
    x, y, kind = common(b, left, right)
    if isinstance(op, ast.Div):
        if kind is not FLOAT:
            x, y = b.cast(x, FLOAT), b.cast(y, FLOAT)
        return Number(FLOAT, b.let(f"fdiv double {x.ref}, {y.ref}"))
    if type(op) in _SIMPLE:
        prefix = "f" if kind is FLOAT else ""
        return Number(kind, b.let(f"{prefix}{_SIMPLE[type(op)]} {kind.llvm} {x.ref}, {y.ref}"))
    if isinstance(op, ast.FloorDiv | ast.Mod):
        return _floor_division(b, isinstance(op, ast.Mod), x, y, kind)
    if kind is not FLOAT and type(op) in _BITS:
        return Number(kind, b.let(f"{_BITS[type(op)]} i64 {x.ref}, {y.ref}"))
    if kind is not FLOAT and isinstance(op, ast.LShift):
        return Number(kind, b.let(f"shl i64 {x.ref}, {y.ref}"))
    if kind is not FLOAT and isinstance(op, ast.RShift):
        return Number(kind, b.let(f"{'lshr' if kind is UINT else 'ashr'} i64 {x.ref}, {y.ref}"))
    raise CompileError(f"kernels have no operator {type(op).__name__} on {left.type.name} and {right.type.name}")


def _folded(op: ast.operator, left: Number, right: Number) -> Number | None:
    """Sums, differences and products of known integers."""
    if left.literal is None or right.literal is None or {left.type, right.type} != {INT}:
        return None
    x, y = int(left.literal), int(right.literal)
    if isinstance(op, ast.Add):
        return constant(x + y)
    if isinstance(op, ast.Sub):
        return constant(x - y)
    if isinstance(op, ast.Mult):
        return constant(x * y)
    if isinstance(op, ast.LShift) and 0 <= y < 63:
        return constant(x << y)
    return None


def _floor_division(b: Builder, modulo: bool, x: Number, y: Number, kind: Scalar) -> Number:
    if kind is FLOAT:
        return _float_modulo(b, x, y) if modulo else _float_floor(b, x, y)
    if kind is UINT:
        return Number(UINT, b.let(f"{'urem' if modulo else 'udiv'} i64 {x.ref}, {y.ref}"))
    if y.literal is not None and y.literal > 0:
        divisor, zero = y.ref, None
    else:
        zero = b.let(f"icmp eq i64 {y.ref}, 0")
        divisor = b.let(f"select i1 {zero}, i64 1, i64 {y.ref}")
    rest = b.let(f"srem i64 {x.ref}, {divisor}")
    sign = b.let(f"xor i64 {rest}, {divisor}")
    opposite = b.let(f"icmp slt i64 {sign}, 0")
    uneven = b.let(f"icmp ne i64 {rest}, 0")
    below = b.let(f"and i1 {opposite}, {uneven}")
    if modulo:
        moved = b.let(f"add i64 {rest}, {divisor}")
        result = b.let(f"select i1 {below}, i64 {moved}, i64 {rest}")
    else:
        whole = b.let(f"sdiv i64 {x.ref}, {divisor}")
        less = b.let(f"sext i1 {below} to i64")
        result = b.let(f"add i64 {whole}, {less}")
    if zero is not None:
        result = b.let(f"select i1 {zero}, i64 0, i64 {result}")
    return Number(INT, result)


def _float_rest(b: Builder, x: Number, y: Number) -> tuple[str, str, str]:
    """C's remainder, whether it is not 0, and whether its sign is not that of the divisor."""
    rest = b.let(f"frem double {x.ref}, {y.ref}")
    nonzero = b.let(f"fcmp une double {rest}, 0.0")
    negative = b.let(f"fcmp olt double {rest}, 0.0")
    turned = b.let(f"fcmp olt double {y.ref}, 0.0")
    differ = b.let(f"xor i1 {negative}, {turned}")
    return rest, nonzero, b.let(f"and i1 {differ}, {nonzero}")


def _float_modulo(b: Builder, x: Number, y: Number) -> Number:
    rest, nonzero, move = _float_rest(b, x, y)
    moved = b.let(f"fadd double {rest}, {y.ref}")
    signed = b.let(f"call double @llvm.copysign.f64(double 0.0, double {y.ref})")
    kept = b.let(f"select i1 {nonzero}, double {rest}, double {signed}")
    return Number(FLOAT, b.let(f"select i1 {move}, double {moved}, double {kept}"))


def _float_floor(b: Builder, x: Number, y: Number) -> Number:
    """CPython's `float_floor_div`: exact where x / y would round up to the next whole number."""
    rest, _, move = _float_rest(b, x, y)
    exact = b.let(f"fsub double {x.ref}, {rest}")
    quotient = b.let(f"fdiv double {exact}, {y.ref}")
    less = b.let(f"fsub double {quotient}, 1.0")
    near = b.let(f"select i1 {move}, double {less}, double {quotient}")
    floor = b.let(f"call double @llvm.floor.f64(double {near})")
    off = b.let(f"fsub double {near}, {floor}")
    up = b.let(f"fcmp ogt double {off}, 0.5")
    more = b.let(f"fadd double {floor}, 1.0")
    whole = b.let(f"select i1 {up}, double {more}, double {floor}")
    ratio = b.let(f"fdiv double {x.ref}, {y.ref}")
    signed_zero = b.let(f"call double @llvm.copysign.f64(double 0.0, double {ratio})")
    some = b.let(f"fcmp une double {near}, 0.0")
    value = b.let(f"select i1 {some}, double {whole}, double {signed_zero}")
    by_zero = b.let(f"fcmp oeq double {y.ref}, 0.0")
    return Number(FLOAT, b.let(f"select i1 {by_zero}, double {ratio}, double {value}"))


def _power(b: Builder, base: Number, exponent: Number) -> Number:
    """Whole known exponents by repeated squaring, others by `pow`."""
    n = exponent.literal
    if n is not None and exponent.type is INT and abs(n) <= 1024:
        kind = FLOAT if n < 0 or base.type is FLOAT else INT
        factor, result, rest = b.cast(base, kind), constant(1, kind), abs(int(n))
        first = True
        while rest:
            if rest & 1:
                result = factor if first else binary(b, ast.Mult(), result, factor)
                first = False
            rest >>= 1
            if rest:
                factor = binary(b, ast.Mult(), factor, factor)
        return binary(b, ast.Div(), constant(1.0), result) if n < 0 else result
    if base.type is not FLOAT and exponent.type is not FLOAT:
        raise CompileError("kernels raise integers to known powers only", hint="use float(base) ** exponent")
    x, y, _ = common(b, base, exponent)
    return Number(FLOAT, b.let(f"call double @llvm.pow.f64(double {x.ref}, double {y.ref})"))


def compare(b: Builder, op: ast.cmpop, left: Number, right: Number) -> Number:
    """`left op right` as a truth value."""
    if type(op) not in _COMPARISONS:
        raise CompileError(f"kernels have no comparison {type(op).__name__} of numbers")
    name = _COMPARISONS[type(op)]
    x, y, kind = common(b, left, right)
    if kind is FLOAT:
        how = "une" if name == "ne" else f"o{name}"
        return Number(BOOL, b.let(f"fcmp {how} double {x.ref}, {y.ref}"))
    sign = "" if name in ("eq", "ne") else "u" if kind is UINT else "s"
    return Number(BOOL, b.let(f"icmp {sign}{name} i64 {x.ref}, {y.ref}"))


def negative(b: Builder, value: Number) -> Number:
    """`-value`."""
    if value.literal is not None and value.type in (INT, FLOAT):
        return constant(-value.literal, value.type)
    if value.type is FLOAT:
        return Number(FLOAT, b.let(f"fneg double {value.ref}"))
    return Number(INT, b.let(f"sub i64 0, {b.cast(value, INT).ref}"))


def inverted(b: Builder, value: Number) -> Number:
    """`~value`."""
    return Number(INT, b.let(f"xor i64 {b.cast(value, INT).ref}, -1"))


def least_or_most(b: Builder, least: bool, values: list[Number]) -> Number:
    """`min` or `max` of numbers: the first of equals, as Python's."""
    result = values[0]
    for value in values[1:]:
        if result.type is BOOL and value.type is BOOL:
            x, y, kind = b.cast(result, INT), b.cast(value, INT), INT
        else:
            x, y, kind = common(b, result, value)
        better = compare(b, ast.Lt() if least else ast.Gt(), y, x)
        result = Number(kind, b.let(f"select i1 {better.ref}, {kind.llvm} {y.ref}, {kind.llvm} {x.ref}"))
    return result


def absolute(b: Builder, value: Number) -> Number:
    """`abs(value)`."""
    if value.type is FLOAT:
        return Number(FLOAT, b.let(f"call double @llvm.fabs.f64(double {value.ref})"))
    x = b.cast(value, INT)
    return Number(INT, b.let(f"call i64 @llvm.abs.i64(i64 {x.ref}, i1 false)"))


def _function(name: str) -> Callable[[Builder, Number], Number]:
    def call(b: Builder, value: Number) -> Number:
        return Number(FLOAT, b.let(f"call double @{name}(double {b.cast(value, FLOAT).ref})"))

    return call


def _whole(name: str) -> Callable[[Builder, Number], Number]:
    """`math.floor` and `math.ceil` give integers."""

    def call(b: Builder, value: Number) -> Number:
        return b.cast(_function(name)(b, value), INT)

    return call


def _is_nan(b: Builder, value: Number) -> Number:
    x = b.cast(value, FLOAT)
    return Number(BOOL, b.let(f"fcmp uno double {x.ref}, {x.ref}"))


def _is_finite(b: Builder, value: Number) -> Number:
    size = absolute(b, b.cast(value, FLOAT))
    return Number(BOOL, b.let(f"fcmp olt double {size.ref}, {constant(float('inf')).ref}"))


FUNCTIONS: dict[str, Callable[[Builder, Number], Number]] = {
    "sqrt": _function("llvm.sqrt.f64"),
    "exp": _function("exp"),
    "log": _function("log"),
    "log2": _function("log2"),
    "acos": _function("acos"),
    "erfc": _function("erfc"),
    "isnan": _is_nan,
    "isfinite": _is_finite,
    "np.floor": _function("llvm.floor.f64"),
    "np.ceil": _function("llvm.ceil.f64"),
    "math.floor": _whole("llvm.floor.f64"),
    "math.ceil": _whole("llvm.ceil.f64"),
}
"""Functions of one number, by name; those that differ between `math` and NumPy by both names."""

DECLARATIONS = """\
declare double @llvm.floor.f64(double)
declare double @llvm.ceil.f64(double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.fabs.f64(double)
declare double @llvm.copysign.f64(double, double)
declare double @llvm.pow.f64(double, double)
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare double @exp(double) memory(none) nounwind
declare double @log(double) memory(none) nounwind
declare double @log2(double) memory(none) nounwind
declare double @acos(double) memory(none) nounwind
declare double @erfc(double) memory(none) nounwind
"""
