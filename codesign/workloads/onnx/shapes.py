"""Shapes of a node's outputs: ONNX's own inference on concrete inputs, then rules of our own where it has none."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.workloads.builder import broadcast_shape, matmul_computation
from codesign.workloads.onnx.emit import factor_shapes
from codesign.workloads.onnx.graph_state import GraphState, Value

Inferred = tuple[str, tuple[int, ...], int]

_DATA_ELEMENTS = 1024
"""Constants up to this size are shown to the inference: shapes, axes, pads, sizes, scales."""

_MICROSOFT_BINARY = frozenset({"BiasGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})


def infer_outputs(walk: GraphState, node: Any) -> Iterator[Inferred]:
    """(name, shape, element type) of every output of a node that has a name."""
    types = _infer_by_onnx(walk, node)
    for index, name in enumerate(node.output):
        if not name:
            continue
        inferred = types.get(name)
        if inferred is None or inferred[0] is None:
            shape = _infer_by_rule(walk, node, index)
            element_type = _element_type(walk, node) if inferred is None or not inferred[1] else inferred[1]
            yield name, shape, element_type
        else:
            yield name, inferred[0], inferred[1]


def _infer_by_onnx(walk: GraphState, node: Any) -> dict[str, tuple[tuple[int, ...] | None, int]]:
    import onnx

    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        schema = onnx.defs.get_schema(node.op_type, walk.opsets.get(domain, walk.opsets.get("ai.onnx", 1)), domain)
    except onnx.defs.SchemaError:
        return {}
    types, data = {}, {}
    for name, value in zip(node.input, walk.inputs(node), strict=True):
        if value is None:
            continue
        types[name] = onnx.helper.make_tensor_type_proto(value.element_type, value.shape)
        if value.data is not None and value.data.size <= _DATA_ELEMENTS:
            data[name] = onnx.numpy_helper.from_array(_reshape_data(walk, node, name, value))
    imports = [onnx.helper.make_opsetid(d, v) for d, v in walk.opsets.items()]
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=imports, ir_version=walk.model.ir_version
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError) as error:
        problem = str(error).strip().splitlines()[0]
        if "TypeInferenceError" in problem:
            return {}  # sequences, maps and optional values, which are not tensors
        if walk.guessed:
            return {}
        raise UserError(f"the shapes contradict {node.op_type}: {problem}") from None
    return {name: _read_type(proto) for name, proto in found.items()}


def _read_type(proto: Any) -> tuple[tuple[int, ...] | None, int]:
    tensor = proto.tensor_type
    if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
        return None, tensor.elem_type
    return tuple(d.dim_value for d in tensor.shape.dim), tensor.elem_type


def _reshape_data(walk: GraphState, node: Any, name: str, value: Value) -> Any:
    """The constant of a node; the target of a `Reshape` with the file's own batch in it follows another batch."""
    own, batch = walk.settings.own_batch, walk.settings.batch
    if node.op_type != "Reshape" or own is None or own == batch or name != node.input[1]:
        return value.data
    target = np.array(value.data)
    source = walk.value(node.input[0]).shape
    if target.size and (target > 0).all() and math.prod(source) * own == math.prod(target.tolist()) * batch:
        target[0] = target[0] * batch // own
    return target


def _infer_by_rule(walk: GraphState, node: Any, index: int) -> tuple[int, ...]:
    """Own rules for operators that ONNX does not know, and for shapes that depend on data."""
    inputs = [v for v in walk.inputs(node) if v is not None]
    if node.op_type == "FusedMatMul":
        return matmul_computation(*factor_shapes(node, inputs[0], inputs[1]), bits=8)[1]
    if node.op_type in _MICROSOFT_BINARY and index == 0:
        return broadcast_shape(inputs[0].shape, inputs[1].shape)
    if inputs and node.op_type in ("Gelu", "FastGelu", "QuickGelu", "SimplifiedLayerNormalization") and index == 0:
        return inputs[0].shape
    if node.op_type == "MatMulNBits" and index == 0:
        outer = next(a.i for a in node.attribute if a.name == "N")
        return (*inputs[0].shape[:-1], int(outer))
    if node.op_type == "GroupQueryAttention" and index < 3:
        return _grouped_shape(walk, node, index)
    if node.op_type == "MultiHeadAttention" and index == 0:
        return (*inputs[0].shape[:-1], inputs[2].shape[-1])
    stated = _stated_shape(walk, node.output[index])
    if stated is not None:
        return stated
    guess = inputs[0].shape if inputs else ()
    walk.guessed = True
    if node.output[index] in walk.used:
        walk.warn(f"shape of {node.output[index]!r} ({node.op_type}) cannot be inferred; taken to be its first input's")
    return guess


def _grouped_shape(walk: GraphState, node: Any, index: int) -> tuple[int, ...]:
    """Of the result of `GroupQueryAttention`, of its keys and of its values: (batch, heads of keys, tokens, width)."""
    flags = {a.name: a.i for a in node.attribute}
    query, key, _, past, *_ = [*walk.inputs(node), None, None]
    if query is None or key is None or index == 0:
        return () if query is None else query.shape
    heads = int(flags["kv_num_heads"])
    batch, tokens, features = key.shape
    return batch, heads, tokens + (0 if past is None else past.shape[2]), features // heads


def _stated_shape(walk: GraphState, name: str) -> tuple[int, ...] | None:
    """The shape that the file itself states for a value, if it is whole and for this batch."""
    if walk.settings.own_batch not in (None, walk.settings.batch):
        return None
    for info in (*walk.model.graph.value_info, *walk.model.graph.output):
        if info.name == name and info.type.HasField("tensor_type"):
            return _read_type(info.type)[0]
    return None


def _element_type(walk: GraphState, node: Any) -> int:
    import onnx

    first = next((v for v in walk.inputs(node) if v is not None), None)
    return int(onnx.TensorProto.FLOAT) if first is None else first.element_type
