"""A convolutional network of the zoo as an ONNX network of integers: `python -m experiments.zoo_integers --network resnet18 --out FILE`.

Shapes are the zoo's; weights are drawn (normal, of variance 2 / fan-in, 7 bits), since the zoo has none. Ranges of activations are those of one drawn picture. So the network
says nothing about pictures; it is for running hardware on layers of full size, to the last bit. Every channel has a weight scale of its own.

The network is made of standard operators: QuantizeLinear, QLinearConv, MaxPool, and DequantizeLinear-Add-QuantizeLinear for residuals. Functions (ReLU) are
in the ranges. The average before the last layer is a QLinearConv with weights of 1, that layer one of 1 x 1.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from codesign.core.errors import UserError
from codesign.hardware.host_steps import (
    Addition,
    Array,
    Convolution,
    FloatArray,
    HostValue,
    Maximum,
    Quantisation,
    convolve_exactly,
    dequantise,
    quantise,
)
from codesign.hardware.network import convolution
from codesign.workloads.load import load_network
from codesign.workloads.network import Operator, OperatorKind
from experiments.options import head_parser

MOST = 63
"""Largest weight: products of 8 bits by 7 add in pairs without saturation on every processor."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        network: Name in the zoo.
        operators: How many of its operators, from the first on; None for all.
        seed: Of weights and of the picture.
        out: The file.
    """

    network: str
    operators: int | None
    seed: int
    out: Path


class Maker:
    """Nodes as they grow, with the integers of one picture behind them."""

    def __init__(self, name: str, shape: tuple[int, int, int], seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        picture = self.rng.standard_normal(shape).astype(np.float32)
        q = self._range("q", float(picture.min()), float(picture.max()))
        self.names = {name: "q"}
        self.values = {name: HostValue(name, shape, q)}
        self.integers = {name: quantise(picture, q)}
        self.nodes.append(helper.make_node("QuantizeLinear", [name, "q.scale", "q.zero"], ["q"]))

    def _constant(self, name: str, value: Any, kind: type) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def _range(self, name: str, low: float, high: float, function: str = "") -> Quantisation:
        """The integers of values between two: from 0 on after a ReLU."""
        low, high = min(low, 0.0), max(high, 1e-3)
        if function:
            low, high = 0.0, min(high, 6.0) if function == "relu6" else high
        scale = np.float32((high - low) / 255)
        zero = round(-128 - low / float(scale))
        self._constant(f"{name}.scale", scale, np.float32)
        self._constant(f"{name}.zero", zero, np.int8)
        return Quantisation(scale, zero, -128, 127)

    def _keep(self, name: str, value: HostValue, integers: Array) -> None:
        self.values[name], self.integers[name], self.names[name] = value, integers, name

    def convolve(self, o: Operator, weights: FloatArray, stride: int, pads: tuple[int, int, int, int], made: str, function: str) -> None:  # fmt: skip
        """A layer with these weights (k, c, r, s), where c is 1 for channels that are apart."""
        given = self.values[o.inputs[0]]
        q, group = given.integers, given.shape[0] if weights.shape[1] == 1 and given.shape[0] > 1 else 1
        scales = (np.abs(weights).reshape(len(weights), -1).max(axis=1) / MOST).astype(np.float32)
        integers = np.rint(weights / scales[:, None, None, None]).astype(np.int64)
        bias = self.rng.integers(-1000, 1000, len(weights))
        padded = (given.shape[0], given.shape[1] + pads[0] + pads[2], given.shape[2] + pads[1] + pads[3])
        computation = convolution(padded, weights.shape, stride, apart=group > 1)
        whole = bias - q.zero * integers.sum(axis=(1, 2, 3))
        kept = integers[:, 0] if group > 1 else integers
        step = Convolution(o.name, given, given, computation, kept, pads, 0, whole, scales)
        sums = convolve_exactly(o.name, computation, {"I": step.operand(self.integers[o.inputs[0]]), "W": kept})
        real = (sums + whole[:, None, None]) * (q.scale * scales)[:, None, None]
        result = self._range(made, float(real.min()), float(real.max()), function)
        scale = (q.scale * scales).astype(np.float32) / result.scale
        value = HostValue(made, (len(weights), *sums.shape[1:]), result)
        step = Convolution(o.name, given, value, computation, kept, pads, 0, whole, scale)
        self._keep(made, value, step.run({given.name: self.integers[o.inputs[0]]}, lambda *_: sums))
        source = self.names[o.inputs[0]]
        inputs = [source, f"{source}.scale", f"{source}.zero", self._constant(f"{o.name}.w", integers, np.int8)]
        inputs += [self._constant(f"{o.name}.ws", scales, np.float32), self._constant(f"{o.name}.wz", np.zeros(len(weights)), np.int8)]  # fmt: skip
        inputs += [f"{made}.scale", f"{made}.zero", self._constant(f"{o.name}.b", bias, np.int32)]
        more = {"pads": list(pads), "strides": [stride, stride], "group": group}
        self.nodes.append(helper.make_node("QLinearConv", inputs, [made], name=o.name, **more))

    def layer(self, o: Operator, shapes: dict[str, tuple[int, ...]]) -> None:
        """A convolution, or a matrix product as one of 1 x 1."""
        shape = shapes[o.operands[1]] if o.kind is OperatorKind.CONV else (*reversed(shapes[o.operands[1]]), 1, 1)
        k, c, r, s = shape if len(shape) == 4 else (shape[0], 1, *shape[1:])
        weights = (self.rng.standard_normal((k, c, r, s)) * np.sqrt(2 / (c * r * s))).astype(np.float32)
        function = next((f for f in o.fused if f.startswith("relu")), "")
        stride, pads = (o.window.stride[0], _pads(o)) if o.window else (1, (0, 0, 0, 0))
        self.convolve(o, weights, stride, pads, o.outputs[0], function)

    def pool(self, o: Operator) -> None:
        """The largest, or the mean, of windows."""
        assert o.window is not None
        given, made = self.values[o.inputs[0]], o.outputs[0]
        side, strides = (o.window.kernel[0], o.window.kernel[1]), (o.window.stride[0], o.window.stride[1])
        if o.function == "average":
            ones = np.full((given.shape[0], 1, *side), 1 / (side[0] * side[1]), np.float32)
            self.convolve(o, ones, strides[0], _pads(o), made, "relu" if given.integers.zero == -128 else "")
            return
        step = Maximum(given, given, side, strides, _pads(o))
        found = step.run({given.name: self.integers[o.inputs[0]]}, convolve_exactly)
        self._keep(made, HostValue(made, (found.shape[0], found.shape[1], found.shape[2]), given.quantisation), found)
        self._constant(f"{made}.scale", given.integers.scale, np.float32)
        self._constant(f"{made}.zero", given.integers.zero, np.int8)
        more = {"kernel_shape": list(side), "strides": list(strides), "pads": list(_pads(o))}
        self.nodes.append(helper.make_node("MaxPool", [self.names[o.inputs[0]]], [made], name=o.name, **more))

    def add(self, o: Operator) -> None:
        """A residual."""
        made, parts = o.outputs[0], [self.values[x] for x in o.inputs]
        total = sum(dequantise(self.integers[x], v.integers) for x, v in zip(o.inputs, parts, strict=True))
        assert isinstance(total, np.ndarray)
        function = next((f for f in o.fused if f.startswith("relu")), "")
        value = HostValue(made, parts[0].shape, self._range(made, float(total.min()), float(total.max()), function))
        step = Addition(parts[0], parts[1], value)
        self._keep(made, value, step.run({v.name: self.integers[x] for x, v in zip(o.inputs, parts, strict=True)}, convolve_exactly))  # fmt: skip
        for i, x in enumerate(o.inputs):
            source = self.names[x]
            told = [source, f"{source}.scale", f"{source}.zero"]
            self.nodes.append(helper.make_node("DequantizeLinear", told, [f"{made}.in{i}"], name=f"{o.name}.in{i}"))
        self.nodes.append(helper.make_node("Add", [f"{made}.in0", f"{made}.in1"], [f"{made}.sum"], name=o.name))
        self.nodes.append(helper.make_node("QuantizeLinear", [f"{made}.sum", f"{made}.scale", f"{made}.zero"], [made]))


def _pads(o: Operator) -> tuple[int, int, int, int]:
    assert o.window is not None
    (top, bottom), (left, right) = o.window.padding
    return top, left, bottom, right


def integers_of(config: Config) -> onnx.ModelProto:
    """The network.

    Raises:
        UserError: An operator that is not one of these.
    """
    network = load_network(config.network)
    shapes = {t.name: t.shape for t in network.tensors}
    operators = network.operators[: config.operators]
    name = operators[0].inputs[0]
    maker = Maker(name, (shapes[name][1], shapes[name][2], shapes[name][3]), config.seed)
    for o in operators:
        if o.computation is not None:
            maker.layer(o, shapes)
        elif o.kind is OperatorKind.POOL:
            maker.pool(o)
        elif o.function == "add":
            maker.add(o)
        else:
            raise UserError(f"operator {o.name!r} ({o.kind.value} {o.function}) has no form in integers here")
    last = operators[-1].outputs[0]
    given = helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, *maker.values[name].shape])
    result = helper.make_tensor_value_info(last, TensorProto.INT8, [1, *maker.values[last].shape])
    graph = helper.make_graph(maker.nodes, config.network, [given], [result], maker.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def main() -> None:
    """Write the network; the last line is one JSON object."""
    parser = head_parser(__doc__, out=Path("runs/resnet18_int8.onnx"), seed=0, about_out="the ONNX file")
    parser.add_argument("--network", default="resnet18", help="name in the zoo, default resnet18")
    parser.add_argument("--operators", type=int, help="how many operators, from the first on")
    told = parser.parse_args()
    config = Config(told.network, told.operators, told.seed, told.out)
    model = integers_of(config)
    config.out.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(config.out))
    print(json.dumps({"network": config.network, "nodes": len(model.graph.node), "out": str(config.out)}))


if __name__ == "__main__":
    main()
