"""Calls: other kernels, named tuples, and the functions of Python, `math` and NumPy that kernels may use."""

import ast
import math
from collections.abc import Callable

import numpy as np

from codesign.core.compiler import arithmetic, arrays
from codesign.core.compiler.builder import constant
from codesign.core.compiler.context import Context, holds_array
from codesign.core.compiler.memory import bytes_of, from_refs, items_of, load, passed, refs, take, type_of_value
from codesign.core.compiler.source import Source
from codesign.core.compiler.types import (
    BOOL,
    FLOAT,
    INT,
    ITEMS,
    NONE,
    UINT,
    Array,
    CompileError,
    Record,
    Scalar,
    slots,
)
from codesign.core.compiler.values import Block, Elementwise, Group, Known, Memory, Number, Stored, Value


def call(t: Context, node: ast.Call) -> Value:
    """Translate a call of a function, a method or another kernel."""
    if isinstance(node.func, ast.Attribute):
        base = t.value(node.func.value)
        if not isinstance(base, Known):
            return _method(t, base, node)
        target = getattr(base.value, node.func.attr)
    else:
        known = t.value(node.func)
        if not isinstance(known, Known):
            raise CompileError(f"a kernel calls {ast.unparse(node.func)}, which is no function")
        target = known.value
    source = getattr(target, "source", None)
    if isinstance(source, Source):
        return _kernel(t, source, _ordered(t, source.parameters, node))
    if isinstance(target, type) and issubclass(target, tuple) and hasattr(target, "_fields"):
        values = _ordered(t, target._fields, node)
        return Group(Record(tuple(v.type for v in values), target), tuple(values))
    handler = _HANDLERS.get(target) if _hashable(target) else None
    if handler is None:
        raise CompileError(f"kernels cannot call {ast.unparse(node.func)}")
    return handler(t, node)


def _hashable(value: object) -> bool:
    return getattr(type(value), "__hash__", None) is not None


def _ordered(t: Context, names: tuple[str, ...], node: ast.Call) -> list[Stored]:
    """Arguments in the order of the parameters."""
    given = {name: t.stored(argument, "pass on") for name, argument in zip(names, node.args, strict=False)}
    given |= {keyword.arg: t.stored(keyword.value, "pass on") for keyword in node.keywords if keyword.arg}
    missing = [name for name in names if name not in given]
    if missing or len(node.args) > len(names):
        raise CompileError(f"{ast.unparse(node.func)} takes {len(names)} arguments", hint=f"missing: {missing}")
    return [given[name] for name in names]


def _kernel(t: Context, source: Source, values: list[Stored]) -> Value:
    b = t.b
    arguments = []
    for name, value in zip(source.parameters, values, strict=True):
        wanted = source.scalars.get(name)
        if wanted is not None and isinstance(value, Number):
            value = _as_declared(t, source, name, value, wanted)
        arguments.append(value)
    kinds = tuple(value.type for value in arguments)
    if source.apart:
        function, result = b.let(f"call ptr @{t.unit.reach(source, kinds)}()"), source.declared
    else:
        version = t.unit.version(source, kinds)
        function, result = f"@{version.symbol}", version.result
    texts = ["ptr %arena"]
    pointer = ""
    if isinstance(result, Array | Record):
        pointer = b.stack("i64", max(1, slots(result)))
        texts.append(f"ptr {pointer}")
    for value in arguments:
        texts += passed(b, value)
    if isinstance(result, Scalar) and result is not NONE:
        return Number(result, b.let(f"call {result.llvm} {function}({', '.join(texts)})"))
    b.do(f"call void {function}({', '.join(texts)})")
    if isinstance(result, Scalar):
        return Number(NONE, "")
    t.takes_memory = t.takes_memory or holds_array(result)
    found = load(b, result, pointer)
    if isinstance(found, Memory):  # in registers at once: the next call writes to the same memory
        return from_refs(found.type, iter(list(refs(b, found))))
    return found


def _as_declared(t: Context, source: Source, name: str, value: Number, wanted: Scalar) -> Number:
    if value.type is UINT:
        return value
    if value.type is FLOAT and wanted is not FLOAT:
        raise CompileError(f"{source.name} declares {name!r} as {wanted.name} and gets a float")
    if wanted is BOOL and value.type is INT:
        return value
    return t.b.cast(value, wanted)


def _method(t: Context, base: Value, node: ast.Call) -> Value:
    assert isinstance(node.func, ast.Attribute)
    name = node.func.attr
    if isinstance(base, Block | Elementwise):
        if name == "copy":
            return t.made(base)
        if name in ("sum", "prod", "min", "max", "any", "all") and not node.args:
            return arrays.reduced(t.b, name, base)
        block = t.made(base) if isinstance(base, Elementwise) else base
        if name == "ravel":
            return arrays.flat(t.b, block, (arrays.size_of(t.b, block).ref,))
        if name == "reshape":
            return arrays.flat(t.b, block, _shape(t, node.args))
    raise CompileError(f"kernels have no method {name!r}")


def _shape(t: Context, nodes: list[ast.expr]) -> tuple[str, ...]:
    value = t.value(nodes[0])
    if isinstance(value, Group | Memory):
        return tuple(t.b.cast(t.number_of(item), INT).ref for item in items_of(t.b, value))
    return tuple(t.integer(node).ref for node in nodes)


def _item_name(t: Context, node: ast.Call, position: int, default: str) -> str:
    """The type of elements that an argument or `dtype=` names."""
    given = node.args[position] if len(node.args) > position else None
    for keyword in node.keywords:
        given = keyword.value if keyword.arg == "dtype" else given
    if given is None:
        return default
    known = t.value(given)
    name = np.dtype(known.value).name if isinstance(known, Known) else ""  # type: ignore[call-overload]
    if name not in ITEMS:
        raise CompileError(f"kernels have no arrays of {ast.unparse(given)}")
    return name


def _new(fill: int | None) -> Callable[[Context, ast.Call], Value]:
    def make(t: Context, node: ast.Call) -> Value:
        block = _taken(t, _item_name(t, node, 1, "float64"), _shape(t, node.args[:1]))
        return _filled(t, block, fill)

    return make


def _taken(t: Context, item: str, shape: tuple[str, ...]) -> Block:
    t.takes_memory = True
    return take(t.b, item, shape)


def _filled(t: Context, block: Block, fill: int | None) -> Block:
    if fill == 0:
        size = bytes_of(t.b, block.type.item, block.shape)
        t.b.do(f"call void @llvm.memset.p0.i64(ptr {block.data}, i8 0, i64 {size}, i1 false)")
    elif fill is not None:
        arrays.assign(t.b, block, constant(fill))
    return block


def _full(t: Context, node: ast.Call) -> Value:
    value = t.number(node.args[1])
    default = type_of_value(Elementwise(value.type, ("1",), lambda _: value))
    assert isinstance(default, Array)
    block = _taken(t, _item_name(t, node, 2, default.item), _shape(t, node.args[:1]))
    arrays.assign(t.b, block, value)
    return block


def _like(fill: int | None) -> Callable[[Context, ast.Call], Value]:
    def make(t: Context, node: ast.Call) -> Value:
        pattern = t.value(node.args[0])
        if not isinstance(pattern, Block):
            raise CompileError("kernels make arrays like other arrays only")
        return _filled(t, _taken(t, pattern.type.item, pattern.shape), fill)

    return make


def _counted(t: Context, node: ast.Call) -> Value:
    """`np.arange` of whole numbers."""
    bounds = [t.integer(argument) for argument in node.args]
    first, past = (bounds[0], bounds[1]) if len(bounds) > 1 else (constant(0), bounds[0])
    count = arithmetic.least_or_most(t.b, False, [constant(0), arithmetic.binary(t.b, ast.Sub(), past, first)])
    block = _taken(t, "int64", (count.ref,))
    numbers = Elementwise(INT, (count.ref,), lambda at: arithmetic.binary(t.b, ast.Add(), Number(INT, at[0]), first))
    arrays.assign(t.b, block, numbers)
    return block


def _concatenate(t: Context, node: ast.Call) -> Value:
    group = t.value(node.args[0])
    if not isinstance(group, Group):
        raise CompileError("kernels join a tuple of arrays")
    blocks = [item for item in group.items if isinstance(item, Block)]
    total = Number(INT, blocks[0].shape[0])
    for block in blocks[1:]:
        total = arithmetic.binary(t.b, ast.Add(), total, Number(INT, block.shape[0]))
    whole = _taken(t, blocks[0].type.item, (total.ref, *blocks[0].shape[1:]))
    first = constant(0)
    for block in blocks:
        past = arithmetic.binary(t.b, ast.Add(), first, Number(INT, block.shape[0]))
        arrays.assign(t.b, arrays.view(t.b, whole, [arrays.Span(first, past)]), block)
        first = past
    return whole


def _extreme(least: bool) -> Callable[[Context, ast.Call], Value]:
    def find(t: Context, node: ast.Call) -> Value:
        return arithmetic.least_or_most(t.b, least, [t.number(argument) for argument in node.args])

    return find


def _to(kind: Scalar) -> Callable[[Context, ast.Call], Value]:
    def convert(t: Context, node: ast.Call) -> Value:
        value = t.number(node.args[0])
        return Number(BOOL, t.b.truth(value)) if kind is BOOL else t.b.cast(value, kind)

    return convert


def _length(t: Context, node: ast.Call) -> Value:
    value = t.value(node.args[0])
    if isinstance(value, Group | Memory):
        return constant(len(value.type.items))
    if isinstance(value, Block):
        return Number(INT, value.shape[0])
    raise CompileError("kernels take the length of arrays and tuples only")


def _absolute(t: Context, node: ast.Call) -> Value:
    return arithmetic.absolute(t.b, t.number(node.args[0]))


def _mathematical(name: str) -> Callable[[Context, ast.Call], Value]:
    def apply(t: Context, node: ast.Call) -> Value:
        function = arithmetic.FUNCTIONS[name]
        return function(t.b, t.number(node.args[0]))

    return apply


_HANDLERS: dict[object, Callable[[Context, ast.Call], Value]] = {
    min: _extreme(True),
    max: _extreme(False),
    abs: _absolute,
    int: _to(INT),
    float: _to(FLOAT),
    bool: _to(BOOL),
    len: _length,
    np.int64: _to(INT),
    np.uint64: _to(UINT),
    np.float64: _to(FLOAT),
    np.bool_: _to(BOOL),
    np.empty: _new(None),
    np.zeros: _new(0),
    np.ones: _new(1),
    np.full: _full,
    np.arange: _counted,
    np.empty_like: _like(None),
    np.zeros_like: _like(0),
    np.concatenate: _concatenate,
    math.floor: _mathematical("math.floor"),
    math.ceil: _mathematical("math.ceil"),
    np.floor: _mathematical("np.floor"),
    np.ceil: _mathematical("np.ceil"),
}
for _name in ("sqrt", "exp", "log", "log2", "acos", "erfc", "isnan", "isfinite"):
    for _module in (math, np):
        if hasattr(_module, _name):
            _HANDLERS[getattr(_module, _name)] = _mathematical(_name)
