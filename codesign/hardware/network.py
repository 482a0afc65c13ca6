"""A quantised network on generated hardware, layer by layer through DRAM images.

Convolutions in integers (ONNX `QLinearConv`) run on the machine; its 32-bit sums lie in DRAM. What stands between them (zero points, scaling to 8 bits,
maxima) is done by the host, by the rules of ONNX, so that results can be compared bit for bit with ONNX Runtime.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError
from codesign.workloads.computation import Computation

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]

Convolve = Callable[[str, Computation, dict[str, Array]], Array]
"""Name of a layer, what it computes, its operands -> sums of 32 bits."""


@dataclass(frozen=True)
class Quantisation:
    """What integers stand for: ``scale (q - zero)``.

    Args:
        scale: Of one step.
        zero: The integer that stands for 0.
        low, high: Range of the integers.
    """

    scale: np.float32
    zero: int
    low: int
    high: int


def quantise(values: FloatArray, q: Quantisation) -> Array:
    """`QuantizeLinear`: to the nearest, halves to even, saturated."""
    rounded = np.rint(values / q.scale) + np.float32(q.zero)
    return np.asarray(np.clip(rounded, q.low, q.high), dtype=np.int64)


def requantise(sums: Array, scale: np.float32, result: Quantisation) -> Array:
    """Sums of 32 bits as 8-bit integers, as `QLinearConv` gives them.

    Args:
        sums: With the bias.
        scale: Of the input times that of the weights over that of the result, in single precision.
        result: How results are quantised.
    """
    scaled = sums.astype(np.int32).astype(np.float32) * scale
    bounded = np.clip(scaled, np.float32(result.low - result.zero), np.float32(result.high - result.zero))
    return np.asarray(np.rint(bounded), dtype=np.int64) + result.zero


def run_network(model: "onnx.ModelProto | str | Path", picture: FloatArray, convolve: Convolve) -> Array:
    """The integers that a quantised network gives.

    Args:
        model: ONNX with QuantizeLinear, QLinearConv and MaxPool.
        picture: Its input, shape (1, channels, rows, columns).
        convolve: Runs one convolution without padding on zero-free operands.

    Raises:
        UserError: Another operation, or an attribute that is not handled; the message names the node.
    """
    import onnx
    from onnx import numpy_helper

    loaded = onnx.load(str(model)) if isinstance(model, str | Path) else model
    constants = {i.name: numpy_helper.to_array(i) for i in loaded.graph.initializer}
    values: dict[str, Any] = {loaded.graph.input[0].name: np.asarray(picture, np.float32)}
    ranges: dict[str, Quantisation] = {}
    for node in loaded.graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        given, made = values[node.input[0]], node.output[0]
        if node.op_type == "QuantizeLinear":
            ranges[made] = _quantisation(constants, node.input[1], node.input[2])
            values[made] = quantise(given, ranges[made])
        elif node.op_type == "QLinearConv":
            ranges[made] = _quantisation(constants, node.input[6], node.input[7])
            values[made] = _convolution(node, attributes, constants, given, ranges[made], convolve)
        elif node.op_type == "MaxPool":
            ranges[made] = ranges[node.input[0]]
            values[made] = _maximum(node, attributes, given)
        else:
            raise UserError(
                f"`{node.op_type}` is not run on generated hardware",
                where=f"node {node.name or made!r}",
                hint="networks of QuantizeLinear, QLinearConv and MaxPool are",
            )
    return np.asarray(values[loaded.graph.output[0].name])


def _quantisation(constants: dict[str, Any], scale: str, zero: str) -> Quantisation:
    limits = np.iinfo(constants[zero].dtype)
    return Quantisation(np.float32(constants[scale]), int(constants[zero]), int(limits.min), int(limits.max))


def _convolution(
    node: Any, attributes: dict[str, Any], constants: dict[str, Any], x: Array, result: Quantisation, convolve: Convolve
) -> Array:
    where = f"node {node.name or node.output[0]!r}"
    if attributes.get("group", 1) != 1 or set(attributes.get("dilations", [1])) != {1}:
        raise UserError("a grouped or dilated QLinearConv is not run on generated hardware", where=where)
    strides = attributes.get("strides", [1, 1])
    if strides[0] != strides[1]:
        raise UserError(f"strides must be equal, got {strides}", where=where)
    weights = constants[node.input[3]].astype(np.int64)
    if constants[node.input[5]].any() or constants[node.input[4]].size != 1:
        raise UserError("weights must have one scale and the zero point 0", where=where)
    given = _quantisation(constants, node.input[1], node.input[2])
    shift = 128 if given.low == 0 else 0  # elements multiply signed bytes
    top, left, bottom, right = attributes.get("pads", [0, 0, 0, 0])
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=given.zero) - shift
    bias = constants[node.input[8]].astype(np.int64) if len(node.input) > 8 else np.zeros(len(weights), np.int64)
    bias = bias - (given.zero - shift) * weights.sum(axis=(1, 2, 3))
    scale = np.float32(np.float32(given.scale * np.float32(constants[node.input[4]])) / result.scale)
    computation = convolution(padded.shape[1:], weights.shape, strides[0])
    sums = convolve(node.name or node.output[0], computation, {"I": padded[0], "W": weights})
    return requantise(sums + bias[:, None, None], scale, result)[None]


def convolution(given: tuple[int, ...], weights: tuple[int, ...], stride: int) -> Computation:
    """A convolution without padding of an input (channels, rows, columns) by weights (k, c, r, s): 8-bit operands, 32-bit results."""
    k, c, r, s = weights
    p, q = (given[1] - r) // stride + 1, (given[2] - s) // stride + 1
    times = "" if stride == 1 else f"{stride}*"
    notation = f"O[k,p,q] += I[c,{times}p+r,{times}q+s] * W[k,c,r,s]"
    return integer_widths(Computation.parse(notation, k=k, c=c, p=p, q=q, r=r, s=s))


def integer_widths(computation: Computation, result_bits: int = 32) -> Computation:
    """8-bit operands, results of so many bits in DRAM, sums of 32 bits on chip: what the elements compute."""
    tensors = tuple(
        replace(t, bits=result_bits, partial_bits=32) if t.is_output else replace(t, bits=8, partial_bits=8)
        for t in computation.tensors
    )
    return replace(computation, tensors=tensors)


def _maximum(node: Any, attributes: dict[str, Any], x: Array) -> Array:
    side, strides = attributes["kernel_shape"], attributes.get("strides", [1, 1])
    if any(attributes.get("pads", [0])) or attributes.get("ceil_mode", 0):
        raise UserError("MaxPool with padding is not handled", where=f"node {node.name or node.output[0]!r}")
    windows = np.lib.stride_tricks.sliding_window_view(x, tuple(side), axis=(2, 3))
    return np.asarray(windows[:, :, :: strides[0], :: strides[1]].max(axis=(4, 5)))
