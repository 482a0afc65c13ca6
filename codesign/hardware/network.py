"""A quantised ONNX network as steps of a host and its machine.

Convolutions in integers (`QLinearConv`) run on the machine; its 32-bit sums lie in DRAM. What stands between them (zero points, scaling to 8 bits,
maxima, additions) is done by the host, by the rules of ONNX, so that results can be compared bit for bit with ONNX Runtime.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.core.errors import UserError
from codesign.hardware.host_steps import (
    Addition,
    Array,
    Convolution,
    Convolve,
    FloatArray,
    HostNetwork,
    HostValue,
    Maximum,
    Quantisation,
    Quantise,
    Step,
    quantise,
    requantise,
)
from codesign.workloads.computation import Computation
from codesign.workloads.onnx.emit import Attributes

if TYPE_CHECKING:
    import onnx

__all__ = ["Convolve", "Quantisation", "quantise", "read_network", "requantise", "run_network"]

KNOWN = "networks of QuantizeLinear, QLinearConv, MaxPool and DequantizeLinear-Add-QuantizeLinear are"


def run_network(model: "onnx.ModelProto | str | Path", picture: FloatArray, convolve: Convolve) -> Array:
    """The integers that a quantised network gives.

    Args:
        model: See `read_network`.
        picture: Its input, shape (1, channels, rows, columns).
        convolve: Runs one convolution without padding on zero-free operands.

    Raises:
        UserError: Another operation, or an attribute that is not handled; the message names the node.
    """
    return read_network(model, picture.shape[1:]).run(picture[0], convolve)[None]


def read_network(model: "onnx.ModelProto | str | Path", shape: Sequence[int] | None = None) -> HostNetwork:
    """The steps of a network for one picture.

    Args:
        model: ONNX with QuantizeLinear, QLinearConv, MaxPool, and additions between DequantizeLinear and QuantizeLinear.
        shape: Channels, rows, columns of its input; None if the model says them.

    Raises:
        UserError: Another operation, or an attribute that is not handled; the message names the node.
    """
    import onnx

    try:
        loaded = onnx.load(str(model)) if isinstance(model, str | Path) else model
    except Exception as error:  # protobuf's own kinds, or the file is missing
        raise UserError(f"not an ONNX network: {type(error).__name__}: {error}", where=str(model)) from None
    return _Reader(loaded, shape).read()


class _Reader:
    """Walks the nodes of a model in their order."""

    def __init__(self, model: Any, shape: Sequence[int] | None) -> None:
        from onnx import numpy_helper

        self.graph = model.graph
        self.constants = {i.name: numpy_helper.to_array(i) for i in self.graph.initializer}
        given = next(x for x in self.graph.input if x.name not in self.constants)
        known = [d.dim_value for d in given.type.tensor_type.shape.dim][1:] if shape is None else list(shape)
        if len(known) != 3 or min(known) < 1:
            raise UserError(
                f"the input must be pictures of known channels, rows, columns, got {known}",
                where=f"input {given.name!r}",
            )
        self.values = {given.name: HostValue(given.name, (known[0], known[1], known[2]), None)}
        self.floats: dict[str, str] = {}
        self.sums: dict[str, tuple[str, str]] = {}
        self.steps: list[Step] = []

    def read(self) -> HostNetwork:
        handlers = {
            "QuantizeLinear": self._quantise, "QLinearConv": self._convolution, "MaxPool": self._maximum,
            "DequantizeLinear": self._dequantise, "Add": self._add,
        }  # fmt: skip
        for node in self.graph.node:
            if node.op_type not in handlers:
                where = f"node {node.name or node.output[0]!r}"
                raise UserError(f"`{node.op_type}` is not run on generated hardware", where=where, hint=KNOWN)
            handlers[node.op_type](node, Attributes(node))
        result = self.graph.output[0].name
        if not self.steps or self.steps[-1].made.name != result:
            raise UserError("the last node must make the network's result", where=f"output {result!r}", hint=KNOWN)
        return HostNetwork(tuple(self.steps))

    def _value(self, node: Any, name: str) -> HostValue:
        if name not in self.values:
            raise UserError(f"{name!r} is no picture of integers", where=f"node {node.name or node.output[0]!r}", hint=KNOWN)  # fmt: skip
        return self.values[name]

    def _made(self, node: Any, shape: tuple[int, int, int], quantisation: Quantisation | None) -> HostValue:
        made = HostValue(node.output[0], shape, quantisation)
        self.values[made.name] = made
        return made

    def _quantisation(self, scale: str, zero: str) -> Quantisation:
        limits = np.iinfo(self.constants[zero].dtype)
        return Quantisation(
            np.float32(self.constants[scale]), int(self.constants[zero]), int(limits.min), int(limits.max)
        )

    def _quantise(self, node: Any, attributes: Attributes) -> None:
        quantisation = self._quantisation(node.input[1], node.input[2])
        if node.input[0] in self.sums:
            first, second = (self._value(node, x) for x in self.sums[node.input[0]])
            self.steps.append(Addition(first, second, self._made(node, first.shape, quantisation)))
            return
        given = self._value(node, node.input[0])
        self.steps.append(Quantise(given, self._made(node, given.shape, quantisation)))

    def _dequantise(self, node: Any, attributes: Attributes) -> None:
        given = self._value(node, node.input[0])
        if given.quantisation != self._quantisation(node.input[1], node.input[2]):
            raise UserError(
                "integers must stand for the same where they are read and made", where=f"node {node.name!r}"
            )
        self.floats[node.output[0]] = given.name

    def _add(self, node: Any, attributes: Attributes) -> None:
        if not all(x in self.floats for x in node.input):
            raise UserError("only dequantised pictures are added", where=f"node {node.name!r}", hint=KNOWN)
        first, second = (self.floats[x] for x in node.input)
        if self.values[first].shape != self.values[second].shape:
            raise UserError("pictures that are added must be of one shape", where=f"node {node.name!r}")
        self.sums[node.output[0]] = (first, second)

    def _convolution(self, node: Any, attributes: Attributes) -> None:
        where, constants = f"node {node.name or node.output[0]!r}", self.constants
        given, group = self._value(node, node.input[0]), attributes.integer("group", 1)
        weights = constants[node.input[3]].astype(np.int64)
        apart = group > 1 and group == given.shape[0] == len(weights) and weights.shape[1] == 1
        if (group != 1 and not apart) or set(attributes.integers("dilations", [1])) != {1}:
            raise UserError("a grouped or dilated QLinearConv is not run on generated hardware", where=where)
        strides = attributes.integers("strides", [1, 1])
        if strides[0] != strides[1]:
            raise UserError(f"strides must be equal, got {list(strides)}", where=where)
        _refuse_automatic_padding(node, attributes)
        if constants[node.input[5]].any():
            raise UserError("weights must have the zero point 0", where=where)
        q = self._quantisation(node.input[1], node.input[2])
        shift = 128 if q.low == 0 else 0  # elements multiply signed bytes
        pads = _sides(attributes)
        padded = (given.shape[0], given.shape[1] + pads[0] + pads[2], given.shape[2] + pads[1] + pads[3])
        computation = convolution(padded, weights.shape, strides[0], apart=apart)
        bias = constants[node.input[8]].astype(np.int64) if len(node.input) > 8 else np.zeros(len(weights), np.int64)
        bias = bias - (q.zero - shift) * weights.sum(axis=(1, 2, 3))
        result = self._quantisation(node.input[6], node.input[7])
        scale = (q.scale * constants[node.input[4]].astype(np.float32)).astype(np.float32) / result.scale
        sizes = computation.sizes
        made = self._made(node, (sizes["k"], sizes["p"], sizes["q"]), result)
        name, kept = node.name or node.output[0], weights[:, 0] if apart else weights
        by_channel = np.broadcast_to(np.asarray(scale, np.float32).reshape(-1), (len(weights),))
        self.steps.append(Convolution(name, given, made, computation, kept, pads, shift, bias, by_channel))

    def _maximum(self, node: Any, attributes: Attributes) -> None:
        given, side = self._value(node, node.input[0]), attributes.integers("kernel_shape")
        (down, across), pads = attributes.integers("strides", [1, 1]), _sides(attributes)
        where = f"node {node.name or node.output[0]!r}"
        if len(side) != 2 or attributes.integer("ceil_mode", 0) or set(attributes.integers("dilations", [1])) != {1}:
            raise UserError("MaxPool of other than plain windows in two dimensions is not handled", where=where)
        _refuse_automatic_padding(node, attributes)
        rows = (given.shape[1] + pads[0] + pads[2] - side[0]) // down + 1
        columns = (given.shape[2] + pads[1] + pads[3] - side[1]) // across + 1
        made = self._made(node, (given.shape[0], rows, columns), given.quantisation)
        self.steps.append(Maximum(given, made, (side[0], side[1]), (down, across), pads))


def _sides(attributes: Attributes) -> tuple[int, int, int, int]:
    """Padding above, left, below, right."""
    above, left, below, right = attributes.integers("pads", [0, 0, 0, 0])
    return above, left, below, right


def _refuse_automatic_padding(node: Any, attributes: Attributes) -> None:
    if (given := attributes.text("auto_pad", "NOTSET")) != "NOTSET":
        raise UserError(
            f"{node.op_type} must say its padding in numbers, got auto_pad={given!r}",
            where=f"node {node.name or node.output[0]!r}",
            hint="give `pads`",
        )


def convolution(given: tuple[int, ...], weights: tuple[int, ...], stride: int, *, apart: bool = False) -> Computation:
    """A convolution without padding: 8-bit operands, 32-bit results.

    Args:
        given: Channels, rows, columns.
        weights: Output channels, channels, rows, columns.
        stride: Of rows and columns.
        apart: Every channel has its own weights and result.
    """
    k, c, r, s = weights
    p, q = (given[1] - r) // stride + 1, (given[2] - s) // stride + 1
    times = "" if stride == 1 else f"{stride}*"
    if apart:
        notation = f"O[k,p,q] += I[k,{times}p+r,{times}q+s] * W[k,r,s]"
        return integer_widths(Computation.parse(notation, k=k, p=p, q=q, r=r, s=s))
    notation = f"O[k,p,q] += I[c,{times}p+r,{times}q+s] * W[k,c,r,s]"
    return integer_widths(Computation.parse(notation, k=k, c=c, p=p, q=q, r=r, s=s))


def integer_widths(computation: Computation, result_bits: int = 32) -> Computation:
    """8-bit operands, results of so many bits in DRAM, sums of 32 bits on chip: what the elements compute."""
    tensors = tuple(
        replace(t, bits=result_bits, partial_bits=32) if t.is_output else replace(t, bits=8, partial_bits=8)
        for t in computation.tensors
    )
    return replace(computation, tensors=tensors)
