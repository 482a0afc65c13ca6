"""How a node of an ONNX graph becomes an operator of a network: shared by the rules of all operators."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, final

from codesign.core.errors import UserError
from codesign.workloads.builder import same_padding
from codesign.workloads.computation import Computation
from codesign.workloads.network import PHASES, Operator, OperatorKind, Window
from codesign.workloads.onnx.graph_state import GraphState, Value


@final
class Attributes:
    """The attributes of a node; each is asked for by name and kind.

    An attribute without a default that the node lacks is a KeyError.
    """

    def __init__(self, node: Any) -> None:
        from onnx import helper

        self._values: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute that is a whole number."""
        return int(self._values[name] if default is None else self._values.get(name, default))

    def integers(self, name: str, default: Iterable[int] | None = None) -> tuple[int, ...]:
        """A list of whole numbers."""
        found = self._values[name] if default is None else self._values.get(name, default)
        return tuple(int(v) for v in found)

    def text(self, name: str, default: str | None = None) -> str:
        """An attribute that is a text."""
        found = self._values[name] if default is None else self._values.get(name, default)
        return found.decode() if isinstance(found, bytes) else str(found)


def emit_matrix(
    walk: GraphState,
    node: Any,
    kind: OperatorKind,
    computation: Computation,
    operands: tuple[Value, ...],
    extra: Value | None,
    window: Window | None,
    function: str = "",
) -> None:
    """Add the matrix operator that a node is; `extra` is a bias added to its result."""
    names = (*(walk.declare(v) for v in operands), walk.declare(walk.output(node)))
    name = node.name or node.output[0]
    emit_part(walk, node, name, computation, names, kind=kind, bias=extra, window=window, function=function)


def emit_part(
    walk: GraphState,
    node: Any,
    name: str,
    computation: Computation,
    operands: tuple[str, ...],
    *,
    kind: OperatorKind = OperatorKind.MATMUL,
    bias: Value | None = None,
    window: Window | None = None,
    function: str = "",
) -> None:
    """Add a matrix operator on declared tensors, the result last; a bias is added to it."""
    *read, output = operands
    more = () if bias is None else (walk.declare(bias),)
    walk.emit(
        node,
        Operator(
            name,
            kind,
            tuple(dict.fromkeys((*read, *more))),
            (output,),
            computation,
            operands,
            operations=0 if bias is None else walk.tensors[output].elements,
            window=window,
            function=function,
        ),
    )


def emit_phases(
    walk: GraphState,
    node: Any,
    parts: tuple[Computation, ...],
    image: Value,
    filters: Value,
    bias: Value | None,
) -> None:
    """Add the convolutions that a transposed one consists of, each with its taps, and what joins their results in place."""
    if len(parts) == 1:
        emit_matrix(walk, node, OperatorKind.CONV, parts[0], (image, filters), bias, None, "transposed")
        return
    result = walk.output(node)
    label = node.name or node.output[0]
    written = []
    for index, part in enumerate(parts):
        taps = filters
        if filters.constant:
            words = part.tensor_words(part.tensor("Weights"))
            shape = (*filters.shape[:2], words // math.prod(filters.shape[:2]))
            taps = replace(filters, tensor=f"{filters.tensor}.phases{index}", shape=shape, data=None)
        sizes = part.sizes
        lengths = zip(*(iter(part.tensor("Outputs").axes[-2 * (len(image.shape) - 2) :]),) * 2, strict=True)
        axes = [math.prod(sizes[axis.terms[0][0]] for axis in pair) for pair in lengths]
        output = declare_new(walk, f"{result.tensor}.phases{index}", (*result.shape[:2], *axes), result)
        operands = (walk.declare(image), walk.declare(taps), output)
        name = f"{label}.phases{index}"
        emit_part(walk, node, name, part, operands, kind=OperatorKind.CONV, bias=bias, function="transposed")
        written.append(output)
    joined = walk.declare(result)
    walk.emit(node, Operator(label, OperatorKind.CONCAT, tuple(written), (joined,), function=PHASES))


def emit_vector(
    walk: GraphState,
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


def emit_opaque(walk: GraphState, node: Any) -> None:
    """Keep an operator that is not understood, one operation for each element of its results, and say so."""
    outside = f"{node.domain}::" if node.domain not in ("", "ai.onnx") else ""
    walk.warn(f"operator {outside}{node.op_type} is not understood; kept as a vector operator, without MACs")
    work = sum(math.prod(walk.output(node, i).shape) for i, name in enumerate(node.output) if name)
    emit_vector(walk, node, OperatorKind.OPAQUE, node.op_type, work)


def declare_new(walk: GraphState, name: str, shape: tuple[int, ...], like: Value) -> str:
    """A tensor between the parts of one ONNX operator."""
    walk.values[name] = replace(like, tensor=name, shape=shape, constant=False, data=None)
    return walk.declare(walk.values[name])


def needed(inputs: list[Value | None], index: int) -> Value:
    """An input of a node that must be there."""
    value = inputs[index] if len(inputs) > index else None
    if value is None:
        raise UserError(f"input {index} is missing")
    return value


def turned(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with its last two axes exchanged."""
    return (*shape[:-2], shape[-1], shape[-2])


def factor_shapes(node: Any, a: Value, b: Value) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of the factors of a product, transposed where the node says so."""
    flags = Attributes(node)
    shape_a = turned(a.shape) if flags.integer("transA", 0) else a.shape
    return shape_a, turned(b.shape) if flags.integer("transB", 0) else b.shape


def per_axis(flags: Attributes, name: str, rank: int) -> tuple[int, ...]:
    """An attribute with one entry for each spatial axis; 1 when left out."""
    values = flags.integers(name, (1,) * rank)
    if len(values) != rank:
        raise UserError(f"`{name}` must have {rank} entries, got {list(values)}")
    return values


def window_padding(
    flags: Attributes,
    size: tuple[int, ...],
    out: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[tuple[int, int], ...]:
    """(before, after) of every axis, from `pads` or worked out for the automatic kinds."""
    rank = len(kernel)
    automatic = flags.text("auto_pad", "NOTSET")
    if automatic in ("NOTSET", "VALID"):
        none = (0,) * (2 * rank)
        pads = flags.integers("pads", none) if automatic == "NOTSET" else none
        return tuple((pads[i], pads[i + rank]) for i in range(rank))
    ends = []
    for length, o, k, s, d in zip(size, out, kernel, strides, dilations, strict=True):
        less, more = same_padding(length, o, k, s, d)
        ends.append((more, less) if automatic == "SAME_LOWER" else (less, more))
    return tuple(ends)
