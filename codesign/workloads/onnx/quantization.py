"""Quantised graphs: the widths a file stores, dequantisation at the reader, packed weights (rules Q1-Q4 in docs/reference/workloads.md)."""

from dataclasses import replace
from typing import Any

from codesign.core.errors import UserError
from codesign.workloads.builder import matmul_computation
from codesign.workloads.network import NetworkTensor, Operator, OperatorKind
from codesign.workloads.onnx.element_types import scale_width, stored_bits
from codesign.workloads.onnx.emit import Attributes, emit_matrix, needed
from codesign.workloads.onnx.graph_state import GraphState, Value

_KNOWN = frozenset(
    {
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearConv",
        "QLinearMatMul",
        "MatMulNBits",
        "FakeQuantize",
    }
)
_MARKS = ("Quant", "QLinear", "QGemm", "QAttention", "NBits", "Bnb4", "FpQ4", "BFP")


def refuse_unknown(node: Any, where: str) -> None:
    """Refuse a quantised operator of which nothing is known (rule Q4).

    Raises:
        UserError: It is one.
    """
    if node.op_type not in _KNOWN and any(mark in node.op_type for mark in _MARKS):
        raise UserError(
            f"the quantised operator {node.op_type!r} is not known: its widths and its work would be guesses",
            where=where,
            hint=f"known: {', '.join(sorted(_KNOWN))}, and operators between quantise and dequantise pairs",
        )


def dequantize(walk: GraphState, node: Any) -> None:
    """`DequantizeLinear`: its readers read the stored elements with their share of the scales (rule Q2)."""
    inputs = walk.inputs(node)
    source, scale = needed(inputs, 0), needed(inputs, 1)
    zero = inputs[2] if len(inputs) > 2 else None
    if scale.elements > 1 and source.elements:
        bits = scale.elements * scale_width(scale.element_type)
        bits += 0 if zero is None else zero.elements * stored_bits(zero.element_type, 8)
        walk.scale_bits[source.tensor] = bits / source.elements
    walk.widths[source.tensor] = stored_bits(source.element_type, walk.settings.bits)
    walk.values[node.output[0]] = replace(source, element_type=walk.output(node).element_type, data=None)


def matmul_nbits(walk: GraphState, node: Any) -> None:
    """`MatMulNBits` of ONNX Runtime: a product with packed weights, a scale and perhaps a zero for every block (rule Q3)."""
    inputs, flags = walk.inputs(node), Attributes(node)
    a, packed, scales = needed(inputs, 0), needed(inputs, 1), needed(inputs, 2)
    inner, outer = flags.integer("K"), flags.integer("N")
    bits, block = flags.integer("bits", 4), flags.integer("block_size")
    if a.shape[-1] != inner:
        raise UserError(f"`MatMulNBits` sums over K = {inner}, its input has {a.shape[-1]} features")
    if not 2 <= bits <= 8 or block < 1:
        raise UserError(f"`MatMulNBits` needs 2 to 8 bits and a block >= 1, got {bits} and {block}")
    zero = inputs[3] if len(inputs) > 3 else None
    walk.widths[packed.tensor] = bits
    walk.scale_bits[packed.tensor] = (scale_width(scales.element_type) + (0 if zero is None else bits)) / block
    weights = Value(packed.tensor, (inner, outer), packed.element_type, packed.constant)
    settings = walk.settings
    computation, _ = matmul_computation(a.shape, weights.shape, bits=settings.bits, partial_bits=settings.partial_bits)
    bias = inputs[5] if len(inputs) > 5 else None
    emit_matrix(walk, node, OperatorKind.MATMUL, computation, (a, weights), bias, None)


def with_stored_widths(operator: Operator, tensors: dict[str, NetworkTensor]) -> Operator:
    """A matrix operator whose operands are as wide as the tensors behind them (rule Q1)."""
    return operator.with_tensors(lambda t, name: t.stored(tensors[name].bits, tensors[name].scale_bits))
