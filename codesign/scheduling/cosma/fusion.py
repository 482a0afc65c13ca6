"""Operators that run within another: normalisation and activations on the way out, activations and padding on the way in.

An accelerator that computes a convolution applies the scale and shift of a batch normalisation and an activation to
each result before it writes it, and an activation or zero padding to each operand as it reads it; the tensor between
the two never exists. Two operators can be joined when that tensor is read by nobody else and is no network output.
"""

from collections.abc import Callable
from dataclasses import replace

from codesign.scheduling.cosma.graph import Operator, OperatorGraph

_HOSTS = ("conv", "linear", "gemm", "add", "cat", "concat", "mm", "bmm", "matmul", "convolution")
_ON_THE_WAY_OUT = (
    "batch_norm",
    "relu",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "sigmoid",
    "hard_swish",
    "hard_sigmoid",
    "silu",
    "swish",
    "mish",
    "gelu",
    "gelu_tanh",
    "softplus",
    "selu",
    "prelu",
    "clip",
    "tanh",
    "leaky_relu",
    "elu",
    "clamp",
    "add",
    "sub",
    "mul",
    "div",
    "dropout",
)
"""With one operand: what else they take is a parameter or a number."""
_ON_THE_WAY_IN = ("relu", "pad")


def fuse_operators(graph: OperatorGraph) -> OperatorGraph:
    """The graph with normalisation, activations and padding run within their neighbours.

    Parameters of joined operators add up. Kinds are joined with ``+`` in order of execution.
    """
    graph = _join(graph, _ends_within)
    return _join(graph, _starts_within)


def _ends_within(first: Operator, second: Operator) -> bool:
    """Whether `second` is applied to the results of `first`."""
    return _is(first.kind.split("+")[0], _HOSTS) and len(second.inputs) == 1 and _is(second.kind, _ON_THE_WAY_OUT)


def _starts_within(first: Operator, second: Operator) -> bool:
    """Whether `first` is applied to the operands of `second`."""
    one_operand = len(first.inputs) == 1 and len(second.inputs) == 1
    return one_operand and _is(first.kind, _ON_THE_WAY_IN)


def _is(kind: str, names: tuple[str, ...]) -> bool:
    """Whether a kind such as ``relu_``, ``conv2d`` or ``add_`` is one of the names, variants included."""
    base = kind.rstrip("_")
    return base in names or base.rstrip("0123456789d") in names


def _join(graph: OperatorGraph, joins: Callable[[Operator, Operator], bool]) -> OperatorGraph:
    """Join neighbours as long as there are some that `joins`."""
    operators = list(graph.operators)
    readers: dict[str, int] = {}
    for operator in operators:
        for tensor in set(operator.inputs):
            readers[tensor] = readers.get(tensor, 0) + 1
    maker = {t: i for i, o in enumerate(operators) for t in o.outputs}
    moved: dict[int, int] = {}
    for position, second in enumerate(operators):
        if len(second.inputs) == 0:
            continue
        tensor = second.inputs[0]
        source = maker[tensor]
        first = operators[source]
        private = readers[tensor] == 1 and tensor not in graph.outputs and len(first.outputs) == 1
        if first.inputs and private and joins(first, second):
            operators[position] = replace(
                first,
                kind=f"{first.kind}+{second.kind}",
                outputs=second.outputs,
                parameter_bytes=first.parameter_bytes + second.parameter_bytes,
                macs=first.macs + second.macs,
                weight_bytes=first.weight_bytes + second.weight_bytes,
            )
            moved[source] = position
    kept = tuple(o for i, o in enumerate(operators) if i not in moved)
    made = {t for o in kept for t in o.outputs}
    return OperatorGraph(graph.name, kept, tuple(t for t in graph.tensors if t.name in made), graph.outputs)
