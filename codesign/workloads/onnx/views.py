"""Operands that repeat the elements of another tensor, seen through (rule W3b).

Exporters write grouped queries as keys and values repeated for every head: Unsqueeze, Expand, Reshape (`repeat_kv`), Tile, Gather
with repeated indices, or a concatenation of one tensor with itself. Such a node is put off: a matrix product reads the
tensor behind it, once for all heads that share it, and only a reader that needs the repeated tensor itself makes it exist.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from codesign.workloads import operators
from codesign.workloads.computation import Computation
from codesign.workloads.network import Operator, OperatorKind
from codesign.workloads.onnx.emit import Attributes
from codesign.workloads.onnx.graph_state import Factors, GraphState, Repeated, Value
from codesign.workloads.onnx.operator_table import element_function, is_element_function, operator_entry


def plain(value: Value) -> Repeated:
    """A value as it is: row-major."""
    axes: list[Factors] = []
    stride = 1
    for length in reversed(value.shape):
        axes.append(((length, stride),) if length != 1 else ())
        stride *= length
    return Repeated(value, tuple(reversed(axes)))


def put_off(walk: GraphState, node: Any) -> Repeated | None:
    """What a node is that only repeats or rearranges elements of another tensor, some several times; None for any other."""
    source = walk.inputs(node)[0] if node.input else None
    if source is None or source.constant or len(node.output) != 1 or 0 in walk.output(node).shape:
        return None
    before = walk.repeated.get(source.tensor)
    if node.op_type == "Concat":
        after = _joined(walk, node)
    elif before is not None and before.repeats and _is_function_of(walk, node):
        after = _function(walk, node, before)
    else:
        after = _rearranged(walk, node, before or plain(source))
    return after if after is not None and after.repeats else None


def _rearranged(walk: GraphState, node: Any, view: Repeated) -> Repeated | None:
    """The view after a node that moves elements; None where the node does something else or the view cannot say it."""
    target = walk.output(node).shape
    axes: Sequence[Factors] | None = None
    if operator_entry(node.op_type).rule == "reshape":
        axes = _regrouped(view.axes, target)
    elif node.op_type == "Transpose":
        rank = len(target)
        axes = [view.axes[i] for i in Attributes(node).integers("perm", reversed(range(rank)))]
    elif node.op_type == "Expand":
        lengths = [math.prod(n for n, _ in axis) for axis in view.axes]
        missing = len(target) - len(lengths)
        axes = [((n, 0),) if n > 1 else () for n in target[:missing]]
        axes += [
            ((n, 0),) if n != old and old == 1 else axis
            for n, old, axis in zip(target[missing:], lengths, view.axes, strict=True)
        ]
    elif node.op_type == "Tile":
        lengths = [math.prod(n for n, _ in axis) for axis in view.axes]
        axes = [
            ((n // old, 0), *axis) if n != old else axis
            for n, old, axis in zip(target, lengths, view.axes, strict=True)
        ]
    elif node.op_type == "Gather":
        axes = _picked(walk, node, view)
    return None if axes is None else Repeated(view.base, tuple(axes))


def _regrouped(axes: Sequence[Factors], target: Sequence[int]) -> list[Factors] | None:
    """The same walk cut into other axes; None where an axis would end inside a loop that does not divide so."""
    pending = [factor for axis in axes for factor in axis][::-1]
    found: list[Factors] = []
    for length in target:
        axis: list[tuple[int, int]] = []
        rest = length
        while rest > 1:
            if not pending:
                return None
            extent, stride = pending.pop()
            if rest % extent == 0:
                axis.append((extent, stride))
                rest //= extent
            elif extent % rest == 0:
                inner = extent // rest
                axis.append((rest, stride * inner))
                pending.append((inner, stride))
                rest = 1
            else:
                return None
        found.append(tuple(axis))
    return found


def _picked(walk: GraphState, node: Any, view: Repeated) -> list[Factors] | None:
    """A gather whose constant indices name every place equally often, one after the other or in turn."""
    indices = walk.inputs(node)[1]
    if indices is None or indices.data is None or np.ndim(indices.data) != 1:
        return None
    chosen = np.asarray(indices.data)
    axis = Attributes(node).integer("axis", 0) % len(view.axes)
    length = math.prod(n for n, _ in view.axes[axis])
    times = len(chosen) // length if length else 0
    axes = list(view.axes)
    if times > 1 and np.array_equal(chosen, np.repeat(np.arange(length), times)):
        axes[axis] = (*axes[axis], (times, 0))
    elif times > 1 and np.array_equal(chosen, np.tile(np.arange(length), times)):
        axes[axis] = ((times, 0), *axes[axis])
    else:
        return None
    return axes


def _joined(walk: GraphState, node: Any) -> Repeated | None:
    """A concatenation of one tensor with itself, or of tensors that repeat alike (a cache and its new part)."""
    values = [v for v in walk.inputs(node) if v is not None]
    if not values or any(v.constant or not v.shape for v in values):
        return None
    axis = Attributes(node).integer("axis") % len(values[0].shape)
    if len(values) > 1 and len({v.tensor for v in values}) == 1:
        view = walk.repeated.get(values[0].tensor) or plain(values[0])
        axes = list(view.axes)
        axes[axis] = ((len(values), 0), *axes[axis])
        return Repeated(view.base, tuple(axes))
    views = [walk.repeated.get(v.tensor) for v in values]
    if any(v is None or not v.repeats for v in views):
        return None
    return _joined_bases(walk, node, [v for v in views if v is not None], axis)


def _joined_bases(walk: GraphState, node: Any, views: list[Repeated], axis: int) -> Repeated | None:
    """The tensors behind the views joined, where these repeat alike and walk their tensors from end to end."""
    first = views[0]
    for view in views:
        if not _is_dense(view) or any(stride == 0 for _, stride in view.axes[axis]):
            return None
        for i, (mine, others) in enumerate(zip(first.axes, view.axes, strict=True)):
            if i != axis and [(n, s == 0) for n, s in mine] != [(n, s == 0) for n, s in others]:
                return None
    kept = [[[n for n, s in a if s] for a in view.axes] for view in views]
    lengths = [math.prod(a) for a in kept[0]]
    lengths[axis] = sum(math.prod(k[axis]) for k in kept)
    stem = node.name or node.output[0]
    base = replace(first.base, tensor=f"{stem}.shared", shape=tuple(lengths), data=None)
    inputs = tuple(walk.declare(view.base) for view in views)
    walk.emit(node, Operator(f"{stem}.shared", OperatorKind.CONCAT, inputs, (walk.declare(base),), function="concat"))
    strides = [math.prod(lengths[i + 1 :]) for i in range(len(lengths))]
    axes: list[Factors] = []
    for i, old in enumerate(first.axes):
        if i == axis:
            axes.append(((lengths[i], strides[i]),))
            continue
        inner, factors = strides[i], []
        for extent, stride in reversed(old):
            factors.append((extent, inner if stride else 0))
            inner *= extent if stride else 1
        axes.append(tuple(reversed(factors)))
    return Repeated(base, tuple(axes))


def _is_dense(view: Repeated) -> bool:
    """Whether the loops that move walk the whole tensor row by row."""
    stride = 1
    for extent, step in reversed([f for axis in view.axes for f in axis if f[1]]):
        if step != stride:
            return False
        stride *= extent
    return stride == view.base.elements


def _is_function_of(walk: GraphState, node: Any) -> bool:
    """Whether a node applies a function to every element, with single numbers at most beside it."""
    others = [v for v in walk.inputs(node)[1:] if v is not None]
    return is_element_function(node.op_type) and all(v.constant and math.prod(v.shape) == 1 for v in others)


def _function(walk: GraphState, node: Any, view: Repeated) -> Repeated:
    """The function applied to the tensor behind the view instead of to every repetition."""
    kind, function, each = element_function(node)
    stem = node.name or node.output[0]
    base = replace(view.base, tensor=f"{stem}.shared", data=None)
    work = view.base.elements * each
    walk.emit(
        node,
        Operator(
            f"{stem}.shared",
            kind,
            (walk.declare(view.base),),
            (walk.declare(base),),
            operations=work,
            function=function,
        ),
    )
    return Repeated(base, view.axes)


# ---- products --------------------------------------------------------------------------------


def shared_product(a: Repeated, b: Repeated, *, bits: int, partial_bits: int | None) -> Computation | None:
    """The product of two views ``... x M x K`` and ``... x K x N`` that reads each tensor behind once; None where none says it.

    Heads that repeat one operand are an index of the other alone.
    """
    if len(a.axes) < 2 or len(b.axes) < 2:
        return None
    (rows, inner), (inner_b, columns) = a.axes[-2:], b.axes[-2:]
    if any(stride == 0 for axis in (rows, inner, inner_b, columns) for _, stride in axis):
        return None
    rank = max(len(a.axes), len(b.axes)) - 2
    left: list[Factors] = [()] * (rank + 2 - len(a.axes)) + list(a.axes[:-2])
    right: list[Factors] = [()] * (rank + 2 - len(b.axes)) + list(b.axes[:-2])
    pairs: list[tuple[int, int, int]] = []
    for mine, other in zip(left, right, strict=True):
        found = _common(mine, other)
        if found is None:
            return None
        pairs.extend(found)
    if any(s == 0 and t == 0 for _, s, t in pairs):
        return None
    return operators.broadcast_matmul(
        M=math.prod(n for n, _ in rows),
        N=math.prod(n for n, _ in columns),
        K=math.prod(n for n, _ in inner),
        shared=math.prod(n for n, s, t in pairs if s and t),
        input_only=math.prod(n for n, _, t in pairs if not t),
        weight_only=math.prod(n for n, s, _ in pairs if not s),
        bits=bits,
        partial_bits=partial_bits,
    )


def _common(a: Factors, b: Factors) -> list[tuple[int, int, int]] | None:
    """Two walks over one axis in common loops: (extent, stride of a, stride of b), innermost first."""
    if not a:
        return [(n, 0, s) for n, s in reversed(b)]
    if not b:
        return [(n, s, 0) for n, s in reversed(a)]
    mine, other = list(a), list(b)
    found = []
    while mine and other:
        (n, s), (m, t) = mine.pop(), other.pop()
        extent = min(n, m)
        if n % extent or m % extent:
            return None
        found.append((extent, s, t))
        if n > extent:
            mine.append((n // extent, s * extent))
        if m > extent:
            other.append((m // extent, t * extent))
    return None if mine or other else found
