"""Quantised ONNX files: widths as stored, scales with the weights, unknown quantisation refused (rules Q1-Q4)."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from codesign.core.errors import UserError
from codesign.workloads.load import load_network
from codesign.workloads.network import Network, OperatorKind


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    stored: list[onnx.TensorProto],
    kind: int = TensorProto.FLOAT,
) -> Network:
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info(n, kind, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, kind, s) for n, s in outputs.items()],
        stored,
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 10
    path.write_bytes(model.SerializeToString())
    return load_network(path, bits=16)


def empty(name: str, kind: int, *dims: int) -> onnx.TensorProto:
    """An initialiser without its elements."""
    tensor = TensorProto(name=name, dims=dims, data_type=kind)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="none.bin")
    return tensor


def scalar(name: str, value: float, kind: type = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, kind), name)


def test_quantise_dequantise_pairs(tmp_path: Path) -> None:
    """Eight-bit activations, four-bit weights with one scale for every 32 of them (Q1, Q2)."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "sw"], ["wd"], block_size=32, axis=0),
        helper.make_node("MatMul", ["xd", "wd"], ["y"]),
    ]
    stored = [scalar("sx", 0.1), scalar("zx", 0, np.int8), empty("w", TensorProto.INT4, 64, 48)]
    stored.append(empty("sw", TensorProto.FLOAT, 2, 48))
    network = save(tmp_path / "qdq.onnx", nodes, {"x": (4, 64)}, {"y": (4, 48)}, stored)
    product = next(o for o in network.operators if o.kind is OperatorKind.MATMUL)
    assert product.computation is not None
    widths = [(t.bits, t.scale_bits) for t in product.computation.tensors]
    assert widths == [(8, 0.0), (4, 1.0), (16, 0.0)]
    weights = network.tensor_by_name[product.operands[1]]
    assert weights.size_bytes == 64 * 48 * 4 // 8 + 2 * 48 * 4
    assert product.computation.macs == 4 * 48 * 64


def test_packed_weights(tmp_path: Path) -> None:
    """`MatMulNBits`: four bits, a half-precision scale and a zero for every 32 (Q3)."""
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s", "z"], ["y"], domain="com.microsoft", K=64, N=48, bits=4, block_size=32
    )
    stored = [
        empty("w", TensorProto.UINT8, 48, 2, 16),
        empty("s", TensorProto.FLOAT16, 96),
        empty("z", TensorProto.UINT8, 48),
    ]
    network = save(tmp_path / "n.onnx", [node], {"x": (1, 5, 64)}, {"y": (1, 5, 48)}, stored, TensorProto.FLOAT16)
    (product,) = network.operators
    assert product.computation is not None
    assert product.computation.macs == 5 * 48 * 64
    weights = network.tensor_by_name[product.operands[1]]
    assert (weights.bits, weights.scale_bits, weights.elements) == (4, 20 / 32, 64 * 48)
    assert [t.bits for t in product.computation.tensors] == [16, 4, 16]


def test_grouped_queries(tmp_path: Path) -> None:
    """`GroupQueryAttention`: 8 heads share 2 of keys; an 8-bit cache of 15 tokens grows by one (Q3)."""
    node = helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", "pk", "pv", "n", "t"],
        ["y", "k1", "v1"],
        domain="com.microsoft",
        num_heads=8,
        kv_num_heads=2,
    )
    inputs = {"q": (1, 1, 64), "k": (1, 1, 16), "v": (1, 1, 16), "pk": (1, 2, 15, 8), "pv": (1, 2, 15, 8)}
    stored = [numpy_helper.from_array(np.array([15], np.int32), "n"), scalar("t", 16, np.int32)]
    outputs = {"y": (1, 1, 64), "k1": (1, 2, 16, 8), "v1": (1, 2, 16, 8)}
    network = save(tmp_path / "gqa.onnx", [node], inputs, outputs, stored)
    assert network.macs == 2 * 8 * 16 * 8
    assert sum(o.kind is OperatorKind.APPEND for o in network.operators) == 2


@pytest.mark.parametrize("op", ["QAttention", "MatMulBnb4", "QLinearConcat", "BFPQuantizer"])
def test_unknown_quantisation_is_refused(tmp_path: Path, op: str) -> None:
    node = helper.make_node(op, ["x", "w"], ["y"], domain="com.microsoft")
    with pytest.raises(UserError, match=f"the quantised operator '{op}' is not known"):
        save(tmp_path / "x.onnx", [node], {"x": (4, 64)}, {"y": (4, 64)}, [empty("w", TensorProto.UINT8, 64, 64)])
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=32, N=48, bits=4, block_size=32
    )
    stored = [empty("w", TensorProto.UINT8, 48, 2, 16), empty("s", TensorProto.FLOAT, 96)]
    with pytest.raises(UserError, match="sums over K = 32, its input has 64"):
        save(tmp_path / "k.onnx", [node], {"x": (4, 64)}, {"y": (4, 48)}, stored)
