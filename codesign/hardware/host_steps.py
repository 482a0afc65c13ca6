"""What a host does to run a quantised network on a machine: steps over integers, by the rules of ONNX.

A convolution without padding on zero-free operands is the machine's. What stands around it is the host's: padding, zero points, scaling of 32-bit sums to
8 bits, maxima, additions. `data/network.c` does the same in C.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codesign.workloads.computation import Computation

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


def dequantise(values: Array, q: Quantisation) -> FloatArray:
    """Values of integers by `DequantizeLinear`."""
    return np.asarray((values - q.zero).astype(np.float32) * q.scale, np.float32)


def requantise(sums: Array, scale: np.float32 | FloatArray, result: Quantisation) -> Array:
    """Sums of 32 bits as 8-bit integers, as `QLinearConv` gives them.

    Args:
        sums: With the bias.
        scale: Of the input times that of the weights over that of the result, in single precision.
        result: How results are quantised.
    """
    scaled = sums.astype(np.int32).astype(np.float32) * scale
    bounded = np.clip(scaled, np.float32(result.low - result.zero), np.float32(result.high - result.zero))
    return np.asarray(np.rint(bounded), dtype=np.int64) + result.zero


@dataclass(frozen=True)
class HostValue:
    """A picture of integers, or the network's input.

    Args:
        name: Of the tensor.
        shape: Channels, rows, columns.
        quantisation: What the integers stand for; None for the input, which is in single precision.
    """

    name: str
    shape: tuple[int, int, int]
    quantisation: Quantisation | None

    @property
    def integers(self) -> Quantisation:
        """What they stand for, where they are integers."""
        assert self.quantisation is not None
        return self.quantisation


@dataclass(frozen=True)
class Quantise:
    """The step that makes integers of the network's input."""

    given: HostValue
    made: HostValue

    def run(self, values: Mapping[str, npt.NDArray[np.generic]], convolve: Convolve) -> Array:
        """The input as integers by scale and zero point."""
        return quantise(np.asarray(values[self.given.name], np.float32), self.made.integers)


@dataclass(frozen=True)
class Convolution:
    """A convolution: padding on the host, sums on the machine, scaling on the host.

    Args:
        name: Of the layer.
        given, made: Pictures.
        computation: What the machine computes, with tensors I, W, O.
        weights: (k, c, r, s), or (k, r, s) where each channel has its own picture.
        pads: Rows above, columns before, rows below, columns after.
        shift: Taken from integers so that they are signed.
        bias: By output channel, the zero point's share included.
        scale: By output channel: of the input times that of the weights over that of the result.
    """

    name: str
    given: HostValue
    made: HostValue
    computation: Computation
    weights: Array
    pads: tuple[int, int, int, int]
    shift: int
    bias: Array
    scale: FloatArray

    @property
    def operand_shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns that the machine reads: padded, what no window reaches left out."""
        c, rows, columns = self.computation.tensor("I").shape(self.computation.sizes)
        return c, rows, columns

    def operand(self, given: Array) -> Array:
        """The padded input as the machine reads it."""
        top, left, bottom, right = self.pads
        zero = self.given.integers.zero
        padded = np.pad(given, ((0, 0), (top, bottom), (left, right)), constant_values=zero) - self.shift
        _, rows, columns = self.operand_shape
        return np.ascontiguousarray(padded[:, :rows, :columns])

    def run(self, values: Mapping[str, npt.NDArray[np.generic]], convolve: Convolve) -> Array:
        """Integers of the convolution, its sums by the machine or by einsum."""
        operands = {"I": self.operand(np.asarray(values[self.given.name], np.int64)), "W": self.weights}
        sums = convolve(self.name, self.computation, operands)
        return requantise(sums + self.bias[:, None, None], self.scale[:, None, None], self.made.integers)


@dataclass(frozen=True)
class Maximum:
    """The largest of every window; what lies outside the picture is less than all.

    Args:
        given, made: Pictures.
        kernel, strides: Rows and columns.
        pads: Rows above, columns before, rows below, columns after.
    """

    given: HostValue
    made: HostValue
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]

    def run(self, values: Mapping[str, npt.NDArray[np.generic]], convolve: Convolve) -> Array:
        """Integers of the largest of every window."""
        top, left, bottom, right = self.pads
        given, low = np.asarray(values[self.given.name], np.int64), self.given.integers.low
        padded = np.pad(given, ((0, 0), (top, bottom), (left, right)), constant_values=low)
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.kernel, axis=(1, 2))
        return np.asarray(windows[:, :: self.strides[0], :: self.strides[1]].max(axis=(3, 4)))


@dataclass(frozen=True)
class Addition:
    """Two pictures added in single precision and quantised again."""

    given: HostValue
    other: HostValue
    made: HostValue

    def run(self, values: Mapping[str, npt.NDArray[np.generic]], convolve: Convolve) -> Array:
        """Integers of the sum of two tensors, scaled anew."""
        parts = [dequantise(np.asarray(values[x.name], np.int64), x.integers) for x in (self.given, self.other)]
        return quantise(parts[0] + parts[1], self.made.integers)


Step = Quantise | Convolution | Maximum | Addition


@dataclass(frozen=True)
class HostNetwork:
    """A network as steps.

    Args:
        steps: In their order; every picture is made once.
    """

    steps: tuple[Step, ...]

    @property
    def given(self) -> HostValue:
        """The network's input as a value of the host."""
        return self.steps[0].given

    @property
    def made(self) -> HostValue:
        """The network's result as a value of the host."""
        return self.steps[-1].made

    def run(self, picture: FloatArray, convolve: Convolve) -> Array:
        """The integers that the network gives for a picture of channels, rows and columns."""
        values: dict[str, npt.NDArray[np.generic]] = {self.given.name: np.asarray(picture, np.float32)}
        for step in self.steps:
            values[step.made.name] = step.run(values, convolve)
        return np.asarray(values[self.made.name], np.int64)


def convolve_exactly(name: str, computation: Computation, values: Mapping[str, Array]) -> Array:
    """The sums of a convolution step by matrix products in double precision, which hold integers below 2^53 exactly."""
    given, weights = values["I"].astype(np.float64), values["W"].astype(np.float64)
    sizes = computation.sizes
    windows = np.lib.stride_tricks.sliding_window_view(given, (sizes["r"], sizes["s"]), axis=(1, 2))
    steps = [next(k for d, k in axis.terms if d in "pq") for axis in computation.tensor("I").axes[1:]]
    windows = windows[:, :: steps[0], :: steps[1]][:, : sizes["p"], : sizes["q"]]
    if weights.ndim == 3:
        sums = np.einsum("kpqrs,krs->kpq", windows, weights)
    else:
        sums = np.tensordot(weights, windows, axes=((1, 2, 3), (0, 3, 4)))
    return np.asarray(np.rint(sums), np.int64)
