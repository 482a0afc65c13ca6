"""Operators that compute each element of their result from the same element of their operands."""

from typing import Any

from codesign.workloads.builder import OPERATIONS_PER_ELEMENT
from codesign.workloads.network import OperatorKind

FUNCTIONS = {
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
    "Trilu": "trilu",
    "RotaryEmbedding": "rotary",
}
"""Functions of one element that have a name of ours."""

UNARY = frozenset(
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
BINARY = frozenset(
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


def is_element_function(op_type: str) -> bool:
    """Whether an operator works element by element on its first input."""
    return op_type in FUNCTIONS or op_type in UNARY or op_type in BINARY


def element_function(node: Any) -> tuple[OperatorKind, str, int]:
    """Kind, function and operations for each element of an operator that works element by element on one tensor."""
    if node.op_type in BINARY:
        return OperatorKind.ELEMENTWISE, {"Sum": "add"}.get(node.op_type, node.op_type.lower()), 1
    function = FUNCTIONS.get(node.op_type, node.op_type.lower())
    return OperatorKind.ACTIVATION, function, OPERATIONS_PER_ELEMENT.get(function, 1)
