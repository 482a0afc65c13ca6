"""A LeNet-like network for handwritten digits, trained and quantised: `python -m experiments.train_digits`.

Writes `experiments/data/digits.onnx` (float weights) and `digits_int8.onnx` (QLinearConv, 7-bit weights, 8-bit activations). Data are the 8 x 8 digits of
scikit-learn (UCI, Optical Recognition of Handwritten Digits), doubled to 16 x 16. A rectifier is the saturation of an activation whose zero point
is -128. Weights have 7 bits, as ONNX Runtime's own quantiser offers (`reduce_range`): its 8-bit kernels may saturate in 16 bits on processors without VNNI.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from experiments.options import head_parser

FloatArray = npt.NDArray[np.float32]

DATA = Path(__file__).parent / "data"
LAYERS = ((6, 1, 5, True), (16, 6, 3, True), (32, 16, 2, False), (10, 32, 1, False))
"""Convolutions without padding: output and input channels, side of the filter, whether a 2 x 2 maximum follows."""

SIDE = 16


def digits() -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Pictures (n x 1 x 16 x 16, 0 to 1) and their digits."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pictures = (found.images / 16).astype(np.float32).repeat(2, 1).repeat(2, 2)
    return pictures[:, None], found.target.astype(np.int64)


def trained(seed: int, epochs: int) -> list[tuple[FloatArray, FloatArray]]:
    """Weights and biases after so many passes over the first 1,500 pictures."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    parts: list[torch.nn.Module] = []
    for i, (k, c, side, pooled) in enumerate(LAYERS):
        parts.append(torch.nn.Conv2d(c, k, side))
        parts += [torch.nn.ReLU()] if i + 1 < len(LAYERS) else []
        parts += [torch.nn.MaxPool2d(2)] if pooled else []
    net = torch.nn.Sequential(*parts, torch.nn.Flatten())
    pictures, wanted = (torch.from_numpy(a[:1500]) for a in digits())
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(pictures)).split(64):
            loss = torch.nn.functional.cross_entropy(net(pictures[batch]), wanted[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    convolutions = [p for p in parts if isinstance(p, torch.nn.Conv2d)]
    return [(p.weight.detach().numpy(), p.bias.detach().numpy()) for p in convolutions if p.bias is not None]


def float_model(weights: list[tuple[FloatArray, FloatArray]]) -> onnx.ModelProto:
    """The network in floating point."""
    nodes, constants, at = [], [], "picture"
    for i, ((w, b), (_, _, _, pooled)) in enumerate(zip(weights, LAYERS, strict=True)):
        constants += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        nodes.append(helper.make_node("Conv", [at, f"w{i}", f"b{i}"], [f"c{i}"], name=f"conv{i}"))
        at = f"c{i}"
        if i + 1 < len(LAYERS):
            nodes.append(helper.make_node("Relu", [at], [f"r{i}"]))
            at = f"r{i}"
        if pooled:
            nodes.append(helper.make_node("MaxPool", [at], [f"p{i}"], kernel_shape=[2, 2], strides=[2, 2]))
            at = f"p{i}"
    return _model(nodes, constants, at, TensorProto.FLOAT, TensorProto.FLOAT)


def quantised(weights: list[tuple[FloatArray, FloatArray]], ranges: list[tuple[float, float]]) -> onnx.ModelProto:
    """The network in integers.

    Args:
        weights: Of the float network.
        ranges: Least and largest value of the picture and of each layer's result.
    """
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(name: str, value: Any, kind: type) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    scales, zeros = [], []
    for i, (low, high) in enumerate(ranges):
        rectified = i < len(ranges) - 1
        low = 0.0 if rectified else min(low, 0.0)
        scale = np.float32((high - low) / 255)
        zero = -128 if rectified else round(-128 - low / float(scale))
        scales.append(constant(f"scale{i}", scale, np.float32))
        zeros.append(constant(f"zero{i}", zero, np.int8))
    values = {c.name: numpy_helper.to_array(c) for c in constants}
    nodes.append(helper.make_node("QuantizeLinear", ["picture", scales[0], zeros[0]], ["q"]))
    at = "q"
    for i, ((w, b), (_, _, _, pooled)) in enumerate(zip(weights, LAYERS, strict=True)):
        scale = np.float32(np.abs(w).max() / 63)
        q = np.clip(np.rint(w / scale), -63, 63)
        bias = np.rint(b / (values[f"scale{i}"] * scale))
        inputs = [at, scales[i], zeros[i], constant(f"w{i}", q, np.int8), constant(f"ws{i}", scale, np.float32), constant(f"wz{i}", 0, np.int8)]  # fmt: skip
        inputs += [scales[i + 1], zeros[i + 1], constant(f"b{i}", bias, np.int32)]
        nodes.append(helper.make_node("QLinearConv", inputs, [f"c{i}"], name=f"conv{i}"))
        at = f"c{i}"
        if pooled:
            nodes.append(helper.make_node("MaxPool", [at], [f"p{i}"], kernel_shape=[2, 2], strides=[2, 2]))
            at = f"p{i}"
    return _model(nodes, constants, at, TensorProto.FLOAT, TensorProto.INT8)


def _model(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], last: str, given: int, result: int) -> onnx.ModelProto:  # fmt: skip
    """A checked model of opset 17 with any number of pictures."""
    picture = helper.make_tensor_value_info("picture", given, ["n", 1, SIDE, SIDE])
    scores = helper.make_tensor_value_info(last, result, ["n", 10, 1, 1])
    graph = helper.make_graph(nodes, "digits", [picture], [scores], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def ranges_of(model: onnx.ModelProto, pictures: FloatArray) -> list[tuple[float, float]]:
    """Least and largest value of the picture and of each convolution's result, over these pictures."""
    import onnxruntime

    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    names = [f"c{i}" for i in range(len(LAYERS))]
    known = {o.name for o in wide.graph.output}
    wide.graph.output.extend(
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names if n not in known]
    )
    session = onnxruntime.InferenceSession(wide.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(names, {"picture": pictures})
    return [(float(a.min()), float(a.max())) for a in (pictures, *found)]


def accuracy(model: onnx.ModelProto) -> float:
    """Share of the pictures after the first 1,500 that are told right."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    pictures, wanted = digits()
    scores = np.asarray(session.run(None, {"picture": pictures[1500:]})[0])
    return float((scores.reshape(len(scores), -1).argmax(1) == wanted[1500:]).mean())


def main() -> None:
    """Train, quantise, write."""
    parser = head_parser(__doc__, out=DATA, seed=0)
    parser.add_argument("--epochs", type=int, default=12)
    given = parser.parse_args()
    weights = trained(given.seed, given.epochs)
    model = float_model(weights)
    integers = quantised(weights, ranges_of(model, digits()[0][:500]))
    given.out.mkdir(parents=True, exist_ok=True)
    for name, made in (("digits.onnx", model), ("digits_int8.onnx", integers)):
        (given.out / name).write_bytes(made.SerializeToString())
    print(json.dumps({"accuracy": accuracy(model), "accuracy_int8": accuracy(integers)}))


if __name__ == "__main__":
    main()
