"""Indexing, views, and expressions over whole arrays."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codesign.core.compiler.arithmetic import binary, compare, least_or_most
from codesign.core.compiler.builder import Builder, constant
from codesign.core.compiler.memory import bytes_of, strides_of, take, type_of_value
from codesign.core.compiler.types import BOOL, FLOAT, INT, ITEMS, Array, CompileError, Scalar
from codesign.core.compiler.values import Block, Elementwise, Number


@dataclass(frozen=True)
class Span:
    """A slice `first:past` of an axis; None where it is left out."""

    first: Number | None
    past: Number | None


Index = Number | Span


def _wrapped(b: Builder, index: Number, length: str) -> str:
    """An index from the front: negative ones count from the end."""
    if index.type is FLOAT:
        raise CompileError("a kernel indexes an array with a float", hint="write int(...)")
    if index.type not in (INT, BOOL):
        index = b.cast(index, INT)
    if index.literal is not None:
        return index.ref if index.literal >= 0 else b.let(f"add i64 {length}, {index.ref}")
    ref = b.cast(index, INT).ref
    if ref in b.natural:
        return ref
    negative = b.let(f"icmp slt i64 {ref}, 0")
    moved = b.let(f"add i64 {ref}, {length}")
    return b.let(f"select i1 {negative}, i64 {moved}, i64 {ref}")


def _limit(b: Builder, bound: Number, length: str) -> str:
    """A bound of a slice, cut to the axis as Python does."""
    if bound.literal == 0:
        return "0"
    ref = _wrapped(b, bound, length)
    high = b.let(f"call i64 @llvm.smin.i64(i64 {ref}, i64 {length})")
    return b.let(f"call i64 @llvm.smax.i64(i64 {high}, i64 0)")


def element_address(b: Builder, block: Block, indices: Sequence[str]) -> str:
    """The address of an element whose indices count from the front."""
    item = ITEMS[block.type.item]
    if not block.strides:
        at = indices[0]
        for index, length in zip(indices[1:], block.shape[1:], strict=True):
            at = b.let(f"add i64 {b.let(f'mul i64 {at}, {length}')}, {index}")
        return b.let(f"getelementptr inbounds {item.llvm}, ptr {block.data}, i64 {at}")
    at = "0"
    for index, stride in zip(indices, block.strides, strict=True):
        at = b.let(f"add i64 {at}, {b.let(f'mul i64 {index}, {stride}')}")
    return b.let(f"getelementptr inbounds i8, ptr {block.data}, i64 {at}")


def load_element(b: Builder, item_name: str, address: str) -> Number:
    """An element as a number."""
    item = ITEMS[item_name]
    ref = b.load(item.llvm, address, item.alias)
    if item_name == "bool":
        return Number(BOOL, b.let(f"icmp ne i8 {ref}, 0"))
    if item_name in ("int32", "int8"):
        ref = b.let(f"sext {item.llvm} {ref} to i64")
    elif item_name == "uint8":
        ref = b.let(f"zext i8 {ref} to i64")
    elif item_name == "float32":
        ref = b.let(f"fpext float {ref} to double")
    return Number(item.value, ref)


def store_element(b: Builder, item_name: str, value: Number, address: str) -> None:
    """Write a number into an element."""
    item = ITEMS[item_name]
    if value.type is FLOAT and item.value is not FLOAT:
        raise CompileError("a kernel stores a float in an array of integers", hint="write int(...)")
    ref = b.cast(value, item.value).ref if item.value is not BOOL else b.truth(value)
    if item_name == "bool":
        ref = b.let(f"zext i1 {ref} to i8")
    elif item_name == "float32":
        ref = b.let(f"fptrunc double {ref} to float")
    elif item.llvm in ("i8", "i32"):
        ref = b.let(f"trunc i64 {ref} to {item.llvm}")
    b.store(item.llvm, ref, address, item.alias)


def address_of(b: Builder, block: Block, indices: Sequence[Index]) -> str:
    """The address that whole indices of every axis name."""
    refs = [_wrapped(b, i, n) for i, n in zip(indices, block.shape, strict=True) if isinstance(i, Number)]
    return element_address(b, block, refs)


def view(b: Builder, block: Block, indices: Sequence[Index]) -> Block:
    """The part of an array that indices and slices name; the array's own memory."""
    if len(indices) > block.type.ndim:
        raise CompileError(f"a kernel gives {len(indices)} indices to an array of {block.type.ndim} axes")
    full: list[Index] = [*indices, *[Span(None, None)] * (block.type.ndim - len(indices))]
    contiguous = block.type.contiguous and _stays_contiguous(full)
    strides = strides_of(b, block)
    at, shape, kept = "0", [], []
    for index, length, stride in zip(full, block.shape, strides, strict=True):
        if isinstance(index, Number):
            first = _wrapped(b, index, length)
        else:
            first = "0" if index.first is None else _limit(b, index.first, length)
            past = length if index.past is None else _limit(b, index.past, length)
            count = past if first == "0" else b.let(f"sub i64 {past}, {first}")
            if first != "0":
                count = b.let(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")
            shape.append(count)
            kept.append(stride)
        if first != "0":
            at = b.let(f"add i64 {at}, {b.let(f'mul i64 {first}, {stride}')}")
    data = block.data if at == "0" else b.let(f"getelementptr inbounds i8, ptr {block.data}, i64 {at}")
    kind = Array(block.type.item, len(shape), contiguous)
    return Block(kind, data, tuple(shape), () if contiguous else tuple(kept))


def _stays_contiguous(indices: Sequence[Index]) -> bool:
    """Whole indices first, then at most one cut, then whole axes."""
    k = 0
    while k < len(indices) and isinstance(indices[k], Number):
        k += 1
    return all(index == Span(None, None) for index in indices[k + 1 :])


def elementwise(b: Builder, value: Block | Elementwise) -> Elementwise:
    """An array as an expression of its elements."""
    if isinstance(value, Elementwise):
        return value
    item = value.type.item

    def at(places: tuple[str, ...]) -> Number:
        return load_element(b, item, element_address(b, value, places))

    return Elementwise(ITEMS[item].value, value.shape, at)


def combined(
    b: Builder, op: ast.operator | ast.cmpop, left: Number | Block | Elementwise, right: Number | Block | Elementwise
) -> Elementwise:
    """`left op right` element by element; numbers stand for arrays of them, short shapes for leading axes."""

    def apply(x: Number, y: Number) -> Number:
        return compare(b, op, x, y) if isinstance(op, ast.cmpop) else binary(b, op, x, y)

    parts = [v if isinstance(v, Number) else elementwise(b, v) for v in (left, right)]
    shape = max((p.shape for p in parts if isinstance(p, Elementwise)), key=len)

    def value(part: Number | Elementwise, places: tuple[str, ...]) -> Number:
        return part if isinstance(part, Number) else part.at(places[len(places) - len(part.shape) :])

    dry = Builder()  # the type of an element, without its code
    sample = [p if isinstance(p, Number) else Number(p.item, "undef") for p in parts]
    kind = compare(dry, op, *sample).type if isinstance(op, ast.cmpop) else binary(dry, op, *sample).type
    return Elementwise(kind, shape, lambda places: apply(value(parts[0], places), value(parts[1], places)))


def each(b: Builder, shape: Sequence[str], body: Callable[[tuple[str, ...]], None]) -> None:
    """Run a body for every place of a shape, the last axis fastest."""
    places: list[str] = []
    ends: list[tuple[str, str, str, str]] = []
    for length in shape:
        counter = b.stack("i64")
        head, inside, out = b.label(), b.label(), b.label()
        b.store("i64", "0", counter)
        b.begin(head)
        here = b.load("i64", counter)
        b.branch(b.let(f"icmp slt i64 {here}, {length}"), inside, out)
        b.begin(inside)
        places.append(here)
        ends.append((counter, here, head, out))
    body(tuple(places))
    for counter, here, head, out in reversed(ends):
        b.store("i64", b.let(f"add nsw i64 {here}, 1"), counter)
        b.jump(head)
        b.begin(out)


def assign(b: Builder, target: Block, value: Number | Block | Elementwise) -> None:
    """`target[...] = value`: a number everywhere, or element by element."""
    if isinstance(value, Block) and value.type == target.type and target.type.contiguous and len(target.shape) == 1:
        size = bytes_of(b, target.type.item, target.shape)
        b.do(f"call void @llvm.memmove.p0.p0.i64(ptr {target.data}, ptr {value.data}, i64 {size}, i1 false)")
        return
    source = value if isinstance(value, Number) else elementwise(b, value)

    def body(places: tuple[str, ...]) -> None:
        here = source if isinstance(source, Number) else source.at(places[len(places) - len(source.shape) :])
        store_element(b, target.type.item, here, element_address(b, target, places))

    each(b, target.shape, body)


def made(b: Builder, value: Block | Elementwise) -> Block:
    """An array of its own with the elements of an expression or another array."""
    kind = type_of_value(value)
    assert isinstance(kind, Array)
    block = take(b, kind.item, value.shape)
    assign(b, block, value)
    return block


def size_of(b: Builder, value: Block | Elementwise) -> Number:
    """The number of elements of an array."""
    size = constant(1)
    for length in value.shape:
        size = binary(b, ast.Mult(), size, Number(INT, length))
    return size


def flat(b: Builder, block: Block, shape: tuple[str, ...]) -> Block:
    """A contiguous array under another shape."""
    if not block.type.contiguous:
        raise CompileError("kernels reshape contiguous arrays only")
    return Block(Array(block.type.item, len(shape)), block.data, shape)


def reduced(b: Builder, how: str, value: Block | Elementwise) -> Number:
    """`sum`, `prod`, `min`, `max`, `any`, `all` over all elements in order."""
    source = elementwise(b, value)
    kind: Scalar = BOOL if how in ("any", "all") else source.item
    if how in ("sum", "prod") and kind is BOOL:
        kind = INT
    start = {"sum": 0, "prod": 1, "any": 0, "all": 1}.get(how)
    total = b.stack(kind.llvm)
    if start is None:
        first = source.at(("0",) * len(source.shape))
        b.store(kind.llvm, first.ref, total)
    else:
        b.store(kind.llvm, constant(start, kind).ref, total)

    def body(places: tuple[str, ...]) -> None:
        here, so_far = source.at(places), Number(kind, b.load(kind.llvm, total))
        b.store(kind.llvm, _folded(b, how, so_far, here).ref, total)

    each(b, source.shape, body)
    return Number(kind, b.load(kind.llvm, total))


def _folded(b: Builder, how: str, so_far: Number, here: Number) -> Number:
    if how in ("sum", "prod"):
        return binary(b, ast.Add() if how == "sum" else ast.Mult(), so_far, here)
    if how in ("min", "max"):
        return least_or_most(b, how == "min", [so_far, here])
    truth = Number(BOOL, b.truth(here))
    return binary(b, ast.BitOr() if how == "any" else ast.BitAnd(), so_far, truth)
