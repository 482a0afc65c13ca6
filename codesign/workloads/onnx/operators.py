"""What every ONNX operator is in a network: a computation, a vector operator, a view, or nothing at all."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from codesign.core.errors import UserError
from codesign.workloads import operators
from codesign.workloads.builder import OPERATIONS_PER_ELEMENT, matmul_computation
from codesign.workloads.computation import Computation, Role
from codesign.workloads.network import Operator, OperatorKind, Window
from codesign.workloads.onnx.attention import convert_attention
from codesign.workloads.onnx.emit import (
    Attributes,
    emit_matrix,
    emit_opaque,
    emit_phases,
    emit_vector,
    factor_shapes,
    needed,
    per_axis,
    turned,
    window_padding,
)
from codesign.workloads.onnx.graph_state import GraphState, Repeated, Value
from codesign.workloads.onnx.operator_table import operator_entry
from codesign.workloads.onnx.quantization import dequantize, matmul_nbits
from codesign.workloads.onnx.recurrent import convert_recurrent
from codesign.workloads.onnx.views import plain, shared_product

Rule = Callable[[GraphState, Any], None]


def convert(walk: GraphState, node: Any) -> None:
    """Add what one node is to the network of the walk; its outputs have their shapes already."""
    RULES[operator_entry(node.op_type).rule](walk, node)


# ---- matrix operators ------------------------------------------------------------------------


_CONV_INPUTS = {"QLinearConv": (3, 8), "ConvInteger": (1, None)}
"""Which inputs are filters and bias, where they are not the second and the third."""


def _conv(walk: GraphState, node: Any) -> None:
    inputs = walk.inputs(node)
    weight, bias = _CONV_INPUTS.get(node.op_type, (1, 2))
    image, filters = needed(inputs, 0), needed(inputs, weight)
    flags = Attributes(node)
    out = walk.output(node).shape
    _check_ranks(image.shape, filters.shape, out)
    rank = len(out) - 2
    kernel = filters.shape[2:]
    strides, dilations = per_axis(flags, "strides", rank), per_axis(flags, "dilations", rank)
    groups = flags.integer("group", 1)
    if filters.shape[1] * groups != image.shape[1]:
        raise UserError(f"filters {list(filters.shape)} of {groups} groups do not fit {image.shape[1]} input channels")
    computation = operators.conv_nd(
        N=out[0],
        K=out[1],
        C=image.shape[1],
        G=groups,
        output=out[2:],
        kernel=kernel,
        stride=strides,
        dilation=dilations,
        bits=walk.settings.bits,
        partial_bits=walk.settings.partial_bits,
    )
    window = Window(
        kernel, strides, dilations, window_padding(flags, image.shape[2:], out[2:], kernel, strides, dilations)
    )
    extra = inputs[bias] if bias is not None and len(inputs) > bias else None
    emit_matrix(walk, node, OperatorKind.CONV, computation, (image, filters), extra, window)


def _check_ranks(image: tuple[int, ...], filters: tuple[int, ...], out: tuple[int, ...]) -> None:
    """ONNX's own inference is silent about filters of another rank than the image."""
    if len({len(image), len(filters), len(out)}) > 1 or len(image) < 3:
        raise UserError(f"filters {list(filters)} do not fit an input {list(image)} and an output {list(out)}")


def _conv_transpose(walk: GraphState, node: Any) -> None:
    """The convolutions that a transposed one consists of; several write their phases into one result, in place (rule W2)."""
    inputs = walk.inputs(node)
    image, filters = needed(inputs, 0), needed(inputs, 1)
    flags = Attributes(node)
    _check_ranks(image.shape, filters.shape, walk.output(node).shape)
    rank = len(image.shape) - 2
    groups = flags.integer("group", 1)
    if filters.shape[0] != image.shape[1]:
        raise UserError(f"filters {list(filters.shape)} do not fit {image.shape[1]} input channels")
    parts = operators.transposed_conv(
        N=image.shape[0],
        K=filters.shape[1] * groups,
        C=image.shape[1],
        size=image.shape[2:],
        kernel=filters.shape[2:],
        G=groups,
        stride=per_axis(flags, "strides", rank),
        dilation=per_axis(flags, "dilations", rank),
        bits=walk.settings.bits,
        partial_bits=walk.settings.partial_bits,
    )
    emit_phases(walk, node, parts, image, filters, inputs[2] if len(inputs) > 2 else None)


def _product(walk: GraphState, node: Any) -> None:
    inputs = walk.inputs(node)
    a, b = needed(inputs, 0), needed(inputs, 3 if node.op_type == "QLinearMatMul" else 1)
    shape_a, shape_b = factor_shapes(node, a, b)
    extra = inputs[2] if node.op_type.endswith("Gemm") and len(inputs) > 2 else None
    if a.constant and not b.constant and len(shape_a) > 1 and len(shape_b) > 1:
        # the transposed product: parameters play the part of the weights whichever side they stand on
        a, b = b, a
        shape_a, shape_b = turned(shape_b), turned(shape_a)
    bits, partial_bits = walk.settings.bits, walk.settings.partial_bits
    if a.tensor in walk.repeated or b.tensor in walk.repeated:
        left, right = _operand(walk, a, shape_a), _operand(walk, b, shape_b)
        shared = shared_product(left, right, bits=bits, partial_bits=partial_bits)
        if shared is not None:
            emit_matrix(walk, node, OperatorKind.MATMUL, shared, (left.base, right.base), extra, None)
            return
    computation, _ = matmul_computation(shape_a, shape_b, bits=bits, partial_bits=partial_bits)
    emit_matrix(walk, node, OperatorKind.MATMUL, computation, (a, b), extra, None)


def _operand(walk: GraphState, value: Value, shape: tuple[int, ...]) -> Repeated:
    """An operand as a view of the tensor behind it, its last two axes as the product wants them."""
    view = walk.repeated.get(value.tensor) or plain(value)
    if shape == value.shape or len(shape) < 2:
        return view
    return replace(view, axes=(*view.axes[:-2], view.axes[-1], view.axes[-2]))


def _einsum(walk: GraphState, node: Any) -> None:
    equation = Attributes(node).text("equation").replace(" ", "")
    terms, _, result = equation.partition("->")
    operands = terms.split(",")
    values = [needed(walk.inputs(node), i) for i in range(len(operands))]
    plain = all(t.isalpha() and len(set(t)) == len(t) for t in operands) and (result.isalpha() or not result)
    if not plain or "->" not in equation or len(operands) < 2:
        walk.warn(f"Einsum {equation!r} is kept as a vector operator, without MACs")
        emit_vector(walk, node, OperatorKind.OPAQUE, node.op_type, math.prod(walk.output(node).shape))
        return
    bounds = {d: n for term, v in zip(operands, values, strict=True) for d, n in zip(term, v.shape, strict=True)}
    names = ["Inputs", "Weights", *(f"Weights{i}" for i in range(2, len(operands)))]
    right = " * ".join(f"{n}[{','.join(t)}]" for n, t in zip(names, operands, strict=False))
    computation = Computation.parse(
        f"Outputs[{','.join(result)}] += {right}",
        bounds,
        bits=walk.settings.bits,
        partial_bits=walk.settings.partial_bits,
        roles=dict.fromkeys(names[1:], Role.WEIGHT) | {"Inputs": Role.INPUT},
    )
    emit_matrix(walk, node, OperatorKind.MATMUL, computation, tuple(values), None, None)


# ---- vector operators ------------------------------------------------------------------------


def _pool(walk: GraphState, node: Any) -> None:
    flags = Attributes(node)
    image, out = needed(walk.inputs(node), 0).shape, walk.output(node).shape
    kernel = flags.integers("kernel_shape")
    strides, dilations = per_axis(flags, "strides", len(kernel)), per_axis(flags, "dilations", len(kernel))
    padding = window_padding(flags, image[2:], out[2:], kernel, strides, dilations)
    window = Window(kernel, strides, dilations, padding)
    function = operator_entry(node.op_type).function
    emit_vector(walk, node, OperatorKind.POOL, function, math.prod(out) * math.prod(kernel), window)


def _global_pool(walk: GraphState, node: Any) -> None:
    image = needed(walk.inputs(node), 0).shape
    kernel = image[2:]
    ones = (1,) * len(kernel)
    window = Window(kernel, ones, ones, ((0, 0),) * len(kernel))
    emit_vector(walk, node, OperatorKind.POOL, operator_entry(node.op_type).function, math.prod(image), window)


def _per_element(walk: GraphState, node: Any) -> None:
    """Activations, normalisations, softmax."""
    entry = operator_entry(node.op_type)
    work = math.prod(walk.output(node).shape) * OPERATIONS_PER_ELEMENT.get(entry.function, 1)
    emit_vector(walk, node, OperatorKind(entry.rule), entry.function, work)


def _lrn(walk: GraphState, node: Any) -> None:
    size = Attributes(node).integer("size")
    # a square and a sum per neighbour, then scale, power and division
    work = math.prod(walk.output(node).shape) * (2 * size + 3)
    emit_vector(walk, node, OperatorKind.NORMALIZATION, "local_response_norm", work)


def _elementwise(walk: GraphState, node: Any) -> None:
    operands = max(1, sum(1 for n in node.input if n) - 1)
    function = operator_entry(node.op_type).function
    if node.op_type == "Div" and needed(walk.inputs(node), 0).constant:
        function = "reciprocal"  # unlike a division by a constant, not a scaling
    emit_vector(walk, node, OperatorKind.ELEMENTWISE, function, math.prod(walk.output(node).shape) * operands)


def _reduce(walk: GraphState, node: Any) -> None:
    source = needed(walk.inputs(node), 0)
    emit_vector(walk, node, OperatorKind.REDUCE, node.op_type, math.prod(source.shape), parameters=False)


def _interpolate(walk: GraphState, node: Any) -> None:
    mode = Attributes(node).text("mode", "nearest")
    rank = len(walk.output(node).shape)
    # linear interpolation blends 2 neighbours along each of at most 2 axes, cubic 4
    taps = {"nearest": 0, "linear": 2 ** min(2, rank - 2), "cubic": 4 ** min(2, rank - 2)}.get(mode, 0)
    emit_vector(walk, node, OperatorKind.RESIZE, mode, math.prod(walk.output(node).shape) * taps, parameters=False)


def _move(walk: GraphState, node: Any) -> None:
    """Concatenations, slices, gathers, transpositions and what repeats or pads."""
    permutation: tuple[int, ...] = ()
    if node.op_type == "Concat" and _grows_a_cache(walk, node):
        names = tuple(walk.declare(needed(walk.inputs(node), i)) for i in (0, 1))
        label = node.name or node.output[0]
        output = walk.declare(walk.output(node))
        walk.emit(node, Operator(label, OperatorKind.APPEND, names, (output,), function="append"))
        return
    if node.op_type == "Transpose":
        rank = len(walk.output(node).shape)
        permutation = Attributes(node).integers("perm", reversed(range(rank)))
        source = needed(walk.inputs(node), 0)
        moving = [axis for axis in permutation if source.shape[axis] != 1]
        if moving == sorted(moving):  # only axes of length one change places
            emit_vector(walk, node, OperatorKind.RESHAPE, "reshape", 0)
            return
    has_data = node.op_type in ("Concat", "Gather", "GatherElements", "GatherND")
    entry = operator_entry(node.op_type)
    emit_vector(walk, node, OperatorKind(entry.rule), entry.function, 0, parameters=has_data, permutation=permutation)


def _grows_a_cache(walk: GraphState, node: Any) -> bool:
    """Whether a concatenation adds to an input of the graph and gives both back: a cache (rule W7).

    What it adds is a result, or another input that is no longer than the cache (attention alone, cut out of a model).
    """
    values = walk.inputs(node)
    if len(values) != 2 or values[0] is None or values[1] is None or values[1].constant:
        return False
    outside = {i.name for i in walk.model.graph.input}
    results = {o.name for o in walk.model.graph.output}
    cache, new = values[0], values[1]
    added = new.tensor not in outside or math.prod(new.shape) <= math.prod(cache.shape)
    return cache.tensor in outside and added and node.output[0] in results


def _view(walk: GraphState, node: Any) -> None:
    emit_vector(walk, node, OperatorKind.RESHAPE, "reshape", 0, parameters=False)


def _nothing(walk: GraphState, node: Any) -> None:
    walk.alias(node, needed(walk.inputs(node), 0))


RULES: dict[str, Rule] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "product": _product,
    "matmul_nbits": matmul_nbits,
    "einsum": _einsum,
    "attention": convert_attention,
    "recurrent": convert_recurrent,
    "pool": _pool,
    "global_pool": _global_pool,
    **dict.fromkeys(("activation", "normalization", "softmax"), _per_element),
    "local_response_norm": _lrn,
    "elementwise": _elementwise,
    "reduce": _reduce,
    **dict.fromkeys(("concat", "slice", "gather", "transpose", "resize"), _move),
    "interpolate": _interpolate,
    "reshape": _view,
    "nothing": _nothing,
    "dequantize": dequantize,
    "opaque": emit_opaque,
}
"""By the name that the table of operators has for it."""
