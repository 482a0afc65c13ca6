"""What every ONNX operator is in a network: a computation, a vector operator, a view, or nothing at all."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from codesign.core.errors import UserError
from codesign.workloads import operators
from codesign.workloads.builder import OPERATIONS_PER_ELEMENT, matmul_computation
from codesign.workloads.computation import Computation, Role
from codesign.workloads.network import Operator, OperatorKind, Window

if TYPE_CHECKING:
    from codesign.workloads.onnx_walk import GraphWalk, Value

Rule = Callable[["GraphWalk", Any], None]

_FUNCTIONS = {
    "Relu": "relu",
    "LeakyRelu": "leaky_relu",
    "PRelu": "prelu",
    "ThresholdedRelu": "relu",
    "Elu": "elu",
    "Celu": "elu",
    "Selu": "selu",
    "Softplus": "softplus",
    "Sigmoid": "sigmoid",
    "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_swish",
    "Swish": "swish",
    "Mish": "mish",
    "Tanh": "tanh",
    "Gelu": "gelu",
    "BiasGelu": "gelu",
    "FastGelu": "gelu_tanh",
    "QuickGelu": "swish",
    "Erf": "erf",
    "Clip": "clip",
}
"""Functions of one element that have a name of ours."""

_UNARY = frozenset(
    [
        "Abs",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "BitwiseNot",
        "Ceil",
        "Cos",
        "Cosh",
        "Exp",
        "Floor",
        "IsInf",
        "IsNaN",
        "Log",
        "Neg",
        "Not",
        "Reciprocal",
        "Round",
        "Shrink",
        "Sign",
        "Sin",
        "Sinh",
        "Softsign",
        "Sqrt",
        "Tan",
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
    ]
)
_BINARY = frozenset(
    [
        "Add",
        "And",
        "BitShift",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Mean",
        "Min",
        "Mod",
        "Mul",
        "Or",
        "Pow",
        "Sub",
        "Sum",
        "Where",
        "Xor",
    ]
)
_REDUCTIONS = frozenset(
    [
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "ArgMax",
        "ArgMin",
        "CumSum",
    ]
)
_NORMALIZATIONS = {
    "BatchNormalization": "batch_norm",
    "LayerNormalization": "layer_norm",
    "SkipLayerNormalization": "layer_norm",
    "GroupNormalization": "group_norm",
    "InstanceNormalization": "instance_norm",
    "RMSNormalization": "rms_norm",
    "SimplifiedLayerNormalization": "rms_norm",
    "SkipSimplifiedLayerNormalization": "rms_norm",
    "LpNormalization": "l2_norm",
    "MeanVarianceNormalization": "layer_norm",
}
_VIEWS = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze"))
_NOTHING = frozenset(("Identity", "Dropout", "Cast", "CastLike"))
_MOVES = {
    "Concat": OperatorKind.CONCAT,
    "Split": OperatorKind.SLICE,
    "Slice": OperatorKind.SLICE,
    "Gather": OperatorKind.GATHER,
    "GatherElements": OperatorKind.GATHER,
    "GatherND": OperatorKind.GATHER,
    "Transpose": OperatorKind.TRANSPOSE,
    "DepthToSpace": OperatorKind.TRANSPOSE,
    "SpaceToDepth": OperatorKind.TRANSPOSE,
    "Pad": OperatorKind.RESIZE,
    "Expand": OperatorKind.RESIZE,
    "Tile": OperatorKind.RESIZE,
}


def convert(walk: "GraphWalk", node: Any) -> None:
    """Add what one node is to the network of the walk; its outputs have their shapes already."""
    rule = _RULES.get(node.op_type)
    if rule is None:
        outside = f"{node.domain}::" if node.domain not in ("", "ai.onnx") else ""
        walk.warn(f"operator {outside}{node.op_type} is not understood; kept as a vector operator, without MACs")
        work = sum(math.prod(walk.output(node, i).shape) for i, name in enumerate(node.output) if name)
        _emit_vector(walk, node, OperatorKind.OPAQUE, node.op_type, work)
        return
    rule(walk, node)


def attributes(node: Any) -> dict[str, Any]:
    """The attributes of a node as Python values; texts decoded."""
    from onnx import helper

    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in found.items()}


# ---- matrix operators ------------------------------------------------------------------------


def _conv(walk: "GraphWalk", node: Any) -> None:
    _emit_conv(walk, node, x=0, weight=1, bias=2)


def _quantized_conv(walk: "GraphWalk", node: Any) -> None:
    _emit_conv(walk, node, x=0, weight=3, bias=8)


def _emit_conv(walk: "GraphWalk", node: Any, *, x: int, weight: int, bias: int) -> None:
    inputs = walk.inputs(node)
    image, filters = _needed(inputs, x), _needed(inputs, weight)
    flags = attributes(node)
    out = walk.output(node).shape
    rank = len(out) - 2
    kernel = filters.shape[2:]
    strides, dilations = _per_axis(flags, "strides", rank), _per_axis(flags, "dilations", rank)
    groups = int(flags.get("group", 1))
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
    window = Window(kernel, strides, dilations, _padding(flags, image.shape[2:], out[2:], kernel, strides, dilations))
    extra = inputs[bias] if len(inputs) > bias else None
    _emit_matrix(walk, node, OperatorKind.CONV, computation, (image, filters), extra, window)


def _conv_transpose(walk: "GraphWalk", node: Any) -> None:
    inputs = walk.inputs(node)
    image, filters = _needed(inputs, 0), _needed(inputs, 1)
    flags = attributes(node)
    out = walk.output(node).shape
    rank = len(out) - 2
    strides, dilations = _per_axis(flags, "strides", rank), _per_axis(flags, "dilations", rank)
    kernel = filters.shape[2:]
    groups = int(flags.get("group", 1))
    if rank != 2 or set(dilations) != {1} or groups != 1:
        walk.warn("ConvTranspose with groups, dilation or other than 2 axes is kept as a vector operator, without MACs")
        _emit_vector(walk, node, OperatorKind.OPAQUE, node.op_type, math.prod(out) * math.prod(filters.shape[1:]))
        return
    if any(k % s for k, s in zip(kernel, strides, strict=True)):
        walk.warn("ConvTranspose whose stride does not divide its filter: taps are rounded up to whole phases")
    computation = operators.transposed_conv2d(
        N=out[0],
        K=out[1],
        C=image.shape[1],
        P=out[2],
        Q=out[3],
        R=kernel[0],
        S=kernel[1],
        stride=(strides[0], strides[1]),
        bits=walk.settings.bits,
        partial_bits=walk.settings.partial_bits,
    )
    extra = inputs[2] if len(inputs) > 2 else None
    _emit_matrix(walk, node, OperatorKind.CONV, computation, (image, filters), extra, None, "transposed")


def _gemm(walk: "GraphWalk", node: Any) -> None:
    inputs = walk.inputs(node)
    a, b = _needed(inputs, 0), _needed(inputs, 1)
    flags = attributes(node)
    shape_a = a.shape[::-1] if flags.get("transA") else a.shape
    shape_b = b.shape[::-1] if flags.get("transB") else b.shape
    extra = inputs[2] if len(inputs) > 2 else None
    _emit_product(walk, node, a, b, shape_a, shape_b, extra)


def _matmul(walk: "GraphWalk", node: Any) -> None:
    inputs = walk.inputs(node)
    flags = attributes(node)
    a, b = _needed(inputs, 0), _needed(inputs, 3 if node.op_type == "QLinearMatMul" else 1)
    shape_a = (*a.shape[:-2], a.shape[-1], a.shape[-2]) if flags.get("transA") else a.shape
    shape_b = (*b.shape[:-2], b.shape[-1], b.shape[-2]) if flags.get("transB") else b.shape
    _emit_product(walk, node, a, b, shape_a, shape_b, None)


def _emit_product(
    walk: "GraphWalk",
    node: Any,
    a: "Value",
    b: "Value",
    shape_a: tuple[int, ...],
    shape_b: tuple[int, ...],
    extra: "Value | None",
) -> None:
    if a.constant and not b.constant and len(shape_a) > 1 and len(shape_b) > 1:
        # the transposed product: parameters play the part of the weights whichever side they stand on
        a, b = b, a
        shape_a, shape_b = (*shape_b[:-2], shape_b[-1], shape_b[-2]), (*shape_a[:-2], shape_a[-1], shape_a[-2])
    computation, _ = matmul_computation(
        shape_a, shape_b, bits=walk.settings.bits, partial_bits=walk.settings.partial_bits
    )
    _emit_matrix(walk, node, OperatorKind.MATMUL, computation, (a, b), extra, None)


def _einsum(walk: "GraphWalk", node: Any) -> None:
    equation = str(attributes(node)["equation"]).replace(" ", "")
    terms, _, result = equation.partition("->")
    operands = terms.split(",")
    values = [_needed(walk.inputs(node), i) for i in range(len(operands))]
    plain = all(t.isalpha() and len(set(t)) == len(t) for t in operands) and (result.isalpha() or not result)
    if not plain or "->" not in equation or len(operands) < 2:
        walk.warn(f"Einsum {equation!r} is kept as a vector operator, without MACs")
        _emit_vector(walk, node, OperatorKind.OPAQUE, node.op_type, math.prod(walk.output(node).shape))
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
    _emit_matrix(walk, node, OperatorKind.MATMUL, computation, tuple(values), None, None)


def _emit_matrix(
    walk: "GraphWalk",
    node: Any,
    kind: OperatorKind,
    computation: Computation,
    operands: "tuple[Value, ...]",
    extra: "Value | None",
    window: Window | None,
    function: str = "",
) -> None:
    names = tuple(walk.declare(v) for v in operands)
    output = walk.declare(walk.output(node))
    more = (walk.declare(extra),) if extra is not None else ()
    work = math.prod(walk.output(node).shape) if extra is not None else 0
    walk.emit(
        node,
        Operator(
            node.name or node.output[0],
            kind,
            tuple(dict.fromkeys((*names, *more))),
            (output,),
            computation,
            (*names, output),
            operations=work,
            window=window,
            function=function,
        ),
    )


# ---- vector operators ------------------------------------------------------------------------


def _pool(walk: "GraphWalk", node: Any) -> None:
    flags = attributes(node)
    image, out = _needed(walk.inputs(node), 0).shape, walk.output(node).shape
    kernel = tuple(flags["kernel_shape"])
    strides, dilations = _per_axis(flags, "strides", len(kernel)), _per_axis(flags, "dilations", len(kernel))
    padding = _padding(flags, image[2:], out[2:], kernel, strides, dilations)
    function = {"MaxPool": "max", "AveragePool": "average"}.get(node.op_type, "lp")
    window = Window(kernel, strides, dilations, padding)
    _emit_vector(walk, node, OperatorKind.POOL, function, math.prod(out) * math.prod(kernel), window)


def _global_pool(walk: "GraphWalk", node: Any) -> None:
    image = _needed(walk.inputs(node), 0).shape
    kernel = image[2:]
    ones = (1,) * len(kernel)
    function = {"GlobalMaxPool": "max", "GlobalAveragePool": "average"}.get(node.op_type, "lp")
    window = Window(kernel, ones, ones, ((0, 0),) * len(kernel))
    _emit_vector(walk, node, OperatorKind.POOL, function, math.prod(image), window)


def _activation(walk: "GraphWalk", node: Any) -> None:
    function = _FUNCTIONS.get(node.op_type, node.op_type.lower())
    _per_element(walk, node, OperatorKind.ACTIVATION, function)


def _normalization(walk: "GraphWalk", node: Any) -> None:
    _per_element(walk, node, OperatorKind.NORMALIZATION, _NORMALIZATIONS[node.op_type])


def _softmax(walk: "GraphWalk", node: Any) -> None:
    function = "log_softmax" if node.op_type == "LogSoftmax" else "softmax"
    _per_element(walk, node, OperatorKind.SOFTMAX, function)


def _lrn(walk: "GraphWalk", node: Any) -> None:
    size = int(attributes(node)["size"])
    # a square and a sum per neighbour, then scale, power and division
    work = math.prod(walk.output(node).shape) * (2 * size + 3)
    _emit_vector(walk, node, OperatorKind.NORMALIZATION, "local_response_norm", work)


def _per_element(walk: "GraphWalk", node: Any, kind: OperatorKind, function: str) -> None:
    work = math.prod(walk.output(node).shape) * OPERATIONS_PER_ELEMENT.get(function, 1)
    _emit_vector(walk, node, kind, function, work)


def _elementwise(walk: "GraphWalk", node: Any) -> None:
    operands = max(1, sum(1 for n in node.input if n) - 1)
    function = {"Sum": "add"}.get(node.op_type, node.op_type.lower())
    if node.op_type == "Div" and _needed(walk.inputs(node), 0).constant:
        function = "reciprocal"  # unlike a division by a constant, not a scaling
    kind = OperatorKind.ELEMENTWISE
    _emit_vector(walk, node, kind, function, math.prod(walk.output(node).shape) * operands)


def _reduce(walk: "GraphWalk", node: Any) -> None:
    source = _needed(walk.inputs(node), 0)
    _emit_vector(walk, node, OperatorKind.REDUCE, node.op_type, math.prod(source.shape), parameters=False)


def _resize(walk: "GraphWalk", node: Any) -> None:
    flags = attributes(node)
    mode = str(flags.get("mode", "nearest"))
    rank = len(walk.output(node).shape)
    # linear interpolation blends 2 neighbours along each of at most 2 axes, cubic 4
    taps = {"nearest": 0, "linear": 2 ** min(2, rank - 2), "cubic": 4 ** min(2, rank - 2)}.get(mode, 0)
    _emit_vector(walk, node, OperatorKind.RESIZE, mode, math.prod(walk.output(node).shape) * taps, parameters=False)


def _move(walk: "GraphWalk", node: Any) -> None:
    kind = _MOVES[node.op_type]
    permutation: tuple[int, ...] = ()
    if node.op_type == "Transpose":
        rank = len(walk.output(node).shape)
        permutation = tuple(attributes(node).get("perm", reversed(range(rank))))
        source = _needed(walk.inputs(node), 0)
        moving = [axis for axis in permutation if source.shape[axis] != 1]
        if moving == sorted(moving):  # only axes of length one change places
            _emit_vector(walk, node, OperatorKind.RESHAPE, "reshape", 0)
            return
    has_data = node.op_type in ("Concat", "Gather", "GatherElements", "GatherND")
    _emit_vector(walk, node, kind, node.op_type.lower(), 0, parameters=has_data, permutation=permutation)


def _view(walk: "GraphWalk", node: Any) -> None:
    _emit_vector(walk, node, OperatorKind.RESHAPE, "reshape", 0, parameters=False)


def _nothing(walk: "GraphWalk", node: Any) -> None:
    walk.alias(node, _needed(walk.inputs(node), 0))


def _emit_vector(
    walk: "GraphWalk",
    node: Any,
    kind: OperatorKind,
    function: str,
    operations: int,
    window: Window | None = None,
    *,
    parameters: bool = True,
    permutation: tuple[int, ...] = (),
) -> None:
    """Add a vector operator that reads the activations of the node, and its parameters unless they are settings."""
    read = []
    for value in walk.inputs(node):
        if value is None or (value.constant and (not parameters or math.prod(value.shape) == 1)):
            continue  # one number is part of the instruction
        read.append(walk.declare(value))
    written = [
        walk.declare(walk.output(node, i))
        for i, name in enumerate(node.output)
        if name and (i == 0 or name in walk.used)
    ]
    walk.emit(
        node,
        Operator(
            node.name or node.output[0],
            kind,
            tuple(read),
            tuple(written),
            operations=operations,
            window=window,
            function=function,
            permutation=permutation,
        ),
    )


# ---- attributes ------------------------------------------------------------------------------


def _needed(inputs: "list[Value | None]", index: int) -> "Value":
    value = inputs[index] if len(inputs) > index else None
    if value is None:
        raise UserError(f"input {index} is missing")
    return value


def _per_axis(flags: dict[str, Any], name: str, rank: int) -> tuple[int, ...]:
    values = tuple(int(v) for v in flags.get(name, (1,) * rank))
    if len(values) != rank:
        raise UserError(f"`{name}` must have {rank} entries, got {list(values)}")
    return values


def _padding(
    flags: dict[str, Any],
    size: tuple[int, ...],
    out: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[tuple[int, int], ...]:
    """(before, after) of every axis, from `pads` or worked out for the automatic kinds."""
    rank = len(kernel)
    automatic = flags.get("auto_pad", "NOTSET")
    if automatic in ("NOTSET", "VALID"):
        pads = tuple(flags.get("pads", (0,) * (2 * rank))) if automatic == "NOTSET" else (0,) * (2 * rank)
        return tuple((int(pads[i]), int(pads[i + rank])) for i in range(rank))
    ends = []
    for length, o, k, s, d in zip(size, out, kernel, strides, dilations, strict=True):
        total = max(0, (o - 1) * s + d * (k - 1) + 1 - length)
        less, more = total // 2, total - total // 2
        ends.append((more, less) if automatic == "SAME_LOWER" else (less, more))
    return tuple(ends)


def _table() -> dict[str, Rule]:
    rules: dict[str, Rule] = {
        "Conv": _conv,
        "FusedConv": _conv,
        "ConvInteger": lambda walk, node: _emit_conv(walk, node, x=0, weight=1, bias=9),
        "QLinearConv": _quantized_conv,
        "ConvTranspose": _conv_transpose,
        "Gemm": _gemm,
        "FusedGemm": _gemm,
        "MatMul": _matmul,
        "FusedMatMul": _matmul,
        "MatMulInteger": _matmul,
        "QLinearMatMul": _matmul,
        "Einsum": _einsum,
        "LRN": _lrn,
        "Softmax": _softmax,
        "LogSoftmax": _softmax,
        "Hardmax": _softmax,
        "Resize": _resize,
        "Upsample": _resize,
    }
    rules |= dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool)
    rules |= dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"), _global_pool)
    rules |= dict.fromkeys((*_FUNCTIONS, *_UNARY), _activation)
    rules |= dict.fromkeys(_BINARY, _elementwise)
    rules |= dict.fromkeys(_REDUCTIONS, _reduce)
    rules |= dict.fromkeys(_NORMALIZATIONS, _normalization)
    rules |= dict.fromkeys(_MOVES, _move)
    rules |= dict.fromkeys(_VIEWS, _view)
    rules |= dict.fromkeys(_NOTHING, _nothing)
    return rules


_RULES = _table()
