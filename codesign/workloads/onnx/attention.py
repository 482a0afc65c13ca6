"""Attention as one ONNX operator: the two products and the softmax it consists of."""

import math
from dataclasses import dataclass
from typing import Any

from codesign.workloads import operators
from codesign.workloads.builder import OPERATIONS_PER_ELEMENT
from codesign.workloads.network import Operator, OperatorKind
from codesign.workloads.onnx.emit import Attributes, declare_new, emit_opaque, emit_part, needed
from codesign.workloads.onnx.graph_state import GraphState, Value


@dataclass(frozen=True)
class _Sizes:
    """Batch, heads of queries and of keys, query tokens, key tokens (cached ones included), width of a head of keys and values."""

    batch: int
    query_heads: int
    key_heads: int
    queries: int
    keys: int
    width: int
    value_width: int


def convert_attention(walk: GraphState, node: Any) -> None:
    """Scaled dot-product attention (`Attention` of ONNX 23, `MultiHeadAttention` and `GroupQueryAttention` of ONNX Runtime).

    Scale and mask belong to the softmax. Grouped queries share keys and values. A cache grows in place.
    """
    inputs = walk.inputs(node)
    packed = len(inputs) < 3 or inputs[1] is None or inputs[2] is None
    if packed or (node.op_type == "Attention" and node.domain not in ("", "ai.onnx")):
        emit_opaque(walk, node)
        return
    flags = Attributes(node)
    first_past = {"Attention": 4, "GroupQueryAttention": 3}.get(node.op_type, 6)
    query, key, value = (needed(inputs, i) for i in range(3))
    past = [inputs[i] if len(inputs) > i else None for i in (first_past, first_past + 1)]
    sizes = _sizes(query, key, value, past[0], flags)
    stem = node.name or node.output[0]
    keys = _grown(walk, node, stem, "keys", key, past[0], (sizes.batch, sizes.key_heads, sizes.keys, sizes.width), 1)
    values = _grown(
        walk, node, stem, "values", value, past[1], (sizes.batch, sizes.key_heads, sizes.keys, sizes.value_width), 2
    )
    shape = (sizes.batch, sizes.query_heads, sizes.queries, sizes.keys)
    has_scores = len(node.output) > 3 and node.output[3]
    scores = declare_new(walk, node.output[3] if has_scores else f"{stem}.scores", shape, query)
    weights = declare_new(walk, f"{stem}.weights", shape, query)
    result = walk.declare(walk.output(node))
    _product(walk, node, f"{stem}.qk", (walk.declare(query), keys, scores), sizes, sizes.keys, sizes.width)
    work = math.prod(shape) * OPERATIONS_PER_ELEMENT["softmax"]
    softmax = Operator(
        f"{stem}.softmax", OperatorKind.SOFTMAX, (scores,), (weights,), operations=work, function="softmax"
    )
    walk.emit(node, softmax)
    _product(walk, node, f"{stem}.pv", (weights, values, result), sizes, sizes.value_width, sizes.keys)


def _sizes(query: Value, key: Value, value: Value, past: Value | None, flags: Attributes) -> _Sizes:
    if len(query.shape) == 4:
        batch, query_heads, queries, width = query.shape
        key_heads, keys, value_width = key.shape[1], key.shape[2], value.shape[3]
    else:
        batch, queries, features = query.shape
        query_heads = flags.integer("q_num_heads", flags.integer("num_heads", 1))
        key_heads = flags.integer("kv_num_heads", query_heads)
        keys, width, value_width = key.shape[1], features // query_heads, value.shape[2] // key_heads
    cached = 0 if past is None else past.shape[2]
    return _Sizes(batch, query_heads, key_heads, queries, keys + cached, width, value_width)


def _grown(
    walk: GraphState,
    node: Any,
    stem: str,
    label: str,
    new: Value,
    past: Value | None,
    shape: tuple[int, ...],
    output: int,
) -> str:
    """The keys or values attended to: the new ones, appended to the cache if there is one."""
    named = len(node.output) > output and node.output[output]
    if past is None:
        if named:
            walk.values[node.output[output]] = new
        return walk.declare(new)
    grown = walk.declare(walk.output(node, output)) if named else declare_new(walk, f"{stem}.{label}", shape, new)
    inputs = (walk.declare(past), walk.declare(new))
    walk.emit(node, Operator(f"{stem}.append_{label}", OperatorKind.APPEND, inputs, (grown,), function="append"))
    return grown


def _product(
    walk: GraphState, node: Any, name: str, operands: tuple[str, str, str], sizes: _Sizes, columns: int, summed: int
) -> None:
    computation = operators.broadcast_matmul(
        M=sizes.queries,
        N=columns,
        K=summed,
        shared=sizes.batch * sizes.key_heads,
        input_only=sizes.query_heads // sizes.key_heads,
        bits=walk.settings.bits,
        partial_bits=walk.settings.partial_bits,
    )
    emit_part(walk, node, name, computation, operands)
