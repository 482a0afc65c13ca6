import logging
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from codesign.core.errors import UserError
from codesign.workloads.fuse import fuse
from codesign.workloads.load import load_network
from codesign.workloads.network import Network, OperatorKind
from codesign.workloads.onnx.reader import load_onnx
from tests.attention_products import has_activation_weights

Dim = int | str | None
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def value(name: str, shape: Sequence[Dim], element_type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element_type, shape)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def integers(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, Sequence[Dim]],
    outputs: Sequence[str],
    initializers: Sequence[onnx.TensorProto] = (),
    **model: Any,
) -> Path:
    graph = helper.make_graph(
        nodes,
        "graph",
        [value(n, s) for n, s in inputs.items()],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        list(initializers),
    )
    imports = model.pop("opset_imports", [helper.make_opsetid("", 21)])
    file = path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, **model), file)
    return file


def load_nodes(path: Path, *args: Any, **kwargs: Any) -> Network:
    """The network of these nodes; an axis with a name has length 1."""
    shapes = next(a for a in args if isinstance(a, dict))
    free = {axis: 1 for shape in shapes.values() for axis in shape if isinstance(axis, str) and axis != "k"}
    return load_onnx(save(path, *args, **kwargs), dims=free)


def only(network: Network, kind: OperatorKind) -> Any:
    (found,) = [o for o in network.operators if o.kind is kind]
    return found


# ---- a transformer block as PyTorch exports it: shapes computed from the input ---------------


def attention_block(path: Path) -> Path:
    """Self-attention of 4 heads of 8 over ``batch x seq x 32``, reshapes driven by `Shape` of the input."""
    node = helper.make_node
    nodes = [
        node("LayerNormalization", ["x", "g", "b"], ["n"], axis=-1),
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"], axis=0),
        node("Gather", ["shape", "one"], ["seq"], axis=0),
        node("Concat", ["batch", "seq", "heads", "width"], ["split"], axis=0),
        node("Concat", ["batch", "seq", "minus"], ["merge"], axis=0),
    ]
    for letter, permutation in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", ["n", f"w{letter}"], [letter]),
            node("Reshape", [letter, "split"], [f"{letter}4"]),
            node("Transpose", [f"{letter}4"], [f"{letter}h"], perm=permutation),
        ]
    nodes += [
        node("MatMul", ["qh", "kh"], ["scores"], name="qk"),
        node("Div", ["scores", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["weights"], axis=-1),
        node("MatMul", ["weights", "vh"], ["context"], name="pv"),
        node("Transpose", ["context"], ["contextt"], perm=[0, 2, 1, 3]),
        node("Reshape", ["contextt", "merge"], ["merged"]),
        node("MatMul", ["merged", "wo"], ["projected"]),
        node("Add", ["bo", "projected"], ["biased"]),
        node("Add", ["x", "biased"], ["y"]),
    ]
    initializers = [
        *(weight(f"w{letter}", 32, 32) for letter in "qkvo"),
        *(weight(name, 32) for name in ("g", "b", "bo")),
        integers("zero", 0),
        integers("one", 1),
        integers("heads", 4),
        integers("width", 8),
        integers("minus", -1),
        numpy_helper.from_array(np.float32(8**0.5), "scale"),
    ]
    return save(path, nodes, {"x": ["batch", "seq", 32]}, ["y"], initializers)


@pytest.mark.parametrize(("batch", "seq"), [(1, 16), (3, 10), (2, 1)])
def test_attention_block_of_any_batch_and_length(tmp_path: Path, batch: int, seq: int) -> None:
    net = load_onnx(attention_block(tmp_path), batch=batch, seq=seq)
    products = [o for o in net.operators if o.kind is OperatorKind.MATMUL]
    assert net.macs == batch * (4 * seq * 32 * 32 + 2 * 4 * seq * seq * 8)
    assert [o.name for o in products if has_activation_weights(net, o)] == ["qk", "pv"]
    assert net.operator_by_name["qk"].computation.sizes == {"B": 4 * batch, "M": seq, "N": seq, "K": 8}  # type: ignore[union-attr]
    assert net.tensor_by_name["scores"].batch_axis == 0
    assert not net.fixed_batch
    assert net.warnings == ()
    assert net == load_onnx(attention_block(tmp_path), seq=seq, batch=7).with_batch(batch)


def test_shape_computations_leave_no_operators(tmp_path: Path) -> None:
    net = load_onnx(attention_block(tmp_path), dims={"seq": 16, "batch": 1})
    kinds = [o.kind for o in net.operators]
    assert OperatorKind.CONCAT not in kinds
    assert OperatorKind.GATHER not in kinds
    assert kinds.count(OperatorKind.RESHAPE) == 4


def test_fused_attention_block(tmp_path: Path) -> None:
    net = load_network(attention_block(tmp_path), seq=16, batch=1)
    by_name = net.operator_by_name
    # heads are read with strides, the bias joins its product, the scale joins the product before it
    assert [o.kind.value for o in net.operators] == [
        "normalization",
        *["matmul"] * 4,
        "softmax",
        *["matmul"] * 2,
        "elementwise",
    ]
    assert by_name["qk"].fused == ("div",)
    assert net.macs == load_network(attention_block(tmp_path), seq=16, batch=1, fuse=False).macs


def test_open_dimensions_must_be_given(tmp_path: Path) -> None:
    file = attention_block(tmp_path)
    with pytest.raises(
        UserError,
        match=r"axis 'seq' .* the free axes .* are batch \(axis 0 of x\), seq \(axis 1 of x\).*model\.onnx.*--dims seq=",
    ):
        load_onnx(file)
    assert load_onnx(file, seq=4) == load_onnx(file, seq=4, batch=1)
    with pytest.raises(UserError, match=r"unknown symbolic dimension 'sec'.*did you mean 'seq'"):
        load_onnx(file, dims={"sec": 4})
    with pytest.raises(UserError, match="`seq` must be an integer >= 1, got 0"):
        load_onnx(file, seq=0)
    with pytest.raises(UserError, match="`batch` must be an integer >= 1, got -2"):
        load_onnx(file, seq=4, batch=-2)
    with pytest.raises(UserError, match="`batch` is 2, but `dims` gives batch=3"):
        load_onnx(file, batch=2, dims={"batch": 3, "seq": 4})
    assert load_onnx(file, dims={"batch": 3, "seq": 4}) == load_onnx(file, batch=3, seq=4)


def test_axes_without_a_symbol_are_named_after_their_input(tmp_path: Path) -> None:
    file = save(
        tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [None, None, 8]}, ["y"], [weight("w", 8, 4)]
    )
    with pytest.raises(UserError, match=r"axes 'x\.0', 'x\.1' of the inputs have no length"):
        load_onnx(file)
    assert load_onnx(file, dims={"x.1": 5}, batch=2).macs == 2 * 5 * 8 * 4


# ---- batch -----------------------------------------------------------------------------------


def test_batch_in_the_file_is_kept_unless_another_is_asked_for(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Reshape", ["c", "target"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["y"], transB=1),
    ]
    file = save(
        tmp_path,
        nodes,
        {"x": [2, 3, 6, 6]},
        ["y"],
        [weight("w", 4, 3, 3, 3), integers("target", 2, 64), weight("v", 10, 64)],
    )
    macs_of_one = 16 * 4 * 27 + 640
    assert load_onnx(file).macs == 2 * macs_of_one
    assert load_onnx(file).batch == 2
    assert load_onnx(file, batch=5).macs == 5 * macs_of_one  # the constant 2 of the reshape follows
    assert load_network(file).macs == 2 * macs_of_one


def test_a_batch_that_cannot_change_says_why(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "per_sample"], ["y"])]
    file = save(tmp_path, nodes, {"x": [4, 8]}, ["y"], [weight("w", 8, 8), weight("per_sample", 4, 8)])
    net = load_onnx(file)
    assert (net.batch, net.fixed_batch) == (4, True)
    assert load_onnx(file, batch=4) == net
    with pytest.raises(UserError, match="the batch of this file is fixed at 4, asked for 2"):
        load_onnx(file, batch=2)


# ---- operators -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "filters", "attributes", "macs"),
    [
        ((1, 8, 10, 12), (16, 8, 3, 3), {"pads": [1, 1, 1, 1]}, 16 * 8 * 10 * 12 * 9),
        ((1, 8, 10, 12), (16, 4, 3, 3), {"group": 2, "strides": [2, 1]}, 16 * 4 * 4 * 10 * 9),
        ((1, 8, 10, 12), (8, 1, 3, 3), {"group": 8, "auto_pad": "SAME_UPPER"}, 8 * 10 * 12 * 9),
        ((1, 8, 10, 12), (16, 8, 3, 3), {"dilations": [2, 3]}, 16 * 8 * 6 * 6 * 9),
        ((1, 8, 10), (16, 8, 3), {}, 16 * 8 * 8 * 3),
        ((1, 8, 4, 5, 6), (16, 8, 3, 1, 2), {}, 16 * 8 * 2 * 5 * 5 * 6),
    ],
)
def test_convolutions(
    tmp_path: Path, shape: tuple[int, ...], filters: tuple[int, ...], attributes: dict[str, Any], macs: int
) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    assert load_nodes(tmp_path, [node], {"x": shape}, ["y"], [weight("w", *filters)]).macs == macs


def test_automatic_padding_becomes_numbers(tmp_path: Path) -> None:
    for kind, ends in (("SAME_UPPER", (0, 1)), ("SAME_LOWER", (1, 0)), ("VALID", (0, 0))):
        node = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad=kind, strides=[2, 2])
        net = load_nodes(tmp_path, [node], {"x": [1, 3, 8, 8]}, ["y"], [weight("w", 4, 3, 3, 3)])
        assert net.operators[0].window.padding == (ends, ends)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("filters", "attributes", "macs", "warned"),
    [
        ((8, 16, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}, 7 * 7 * 8 * 16 * 16, False),
        ((8, 2, 2, 2), {"strides": [2, 2], "group": 8}, 7 * 7 * 8 * 2 * 4, False),
        ((8, 16, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, 7 * 7 * 8 * 16 * 9, False),
        ((8, 16, 3, 2), {"strides": [2, 3]}, 7 * 7 * 8 * 16 * 6, False),
        ((8, 16, 3, 3), {"dilations": [2, 2]}, 7 * 7 * 8 * 16 * 9, False),
    ],
)
def test_transposed_convolutions(
    tmp_path: Path, filters: tuple[int, ...], attributes: dict[str, Any], macs: int, warned: bool
) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    net = load_nodes(tmp_path, [node], {"x": [1, 8, 7, 7]}, ["y"], [weight("w", *filters)])
    assert net.macs == macs
    assert net.parameter_elements == math.prod(filters)
    assert bool(net.warnings) is warned


def test_products_with_parameters_on_either_side(tmp_path: Path) -> None:
    right = load_nodes(
        tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [2, 5, 8]}, ["y"], [weight("w", 8, 3)]
    )
    left = load_nodes(
        tmp_path, [helper.make_node("MatMul", ["w", "x"], ["y"])], {"x": [2, 8, 5]}, ["y"], [weight("w", 3, 8)]
    )
    assert right.macs == left.macs == 2 * 5 * 8 * 3
    for net in (left, right):
        operator = net.operators[0]
        assert operator.operands == ("x", "w", "y")  # parameters are the weights
        assert not has_activation_weights(net, operator)


def test_einsum_is_its_own_notation(tmp_path: Path) -> None:
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation="bhid,bhjd->bhij")
    net = load_nodes(tmp_path, [node], {"a": [2, 3, 4, 5], "b": [2, 3, 6, 5]}, ["y"])
    assert net.macs == 2 * 3 * 4 * 6 * 5
    assert net.with_batch(4).macs == 2 * net.macs
    trace = helper.make_node("Einsum", ["a"], ["y"], equation="ii->")
    net = load_nodes(tmp_path, [trace], {"a": [4, 4]}, ["y"])
    assert net.macs == 0
    assert "kept as a vector operator" in net.warnings[0]


def test_attention_operator_with_grouped_queries_and_a_cache(tmp_path: Path) -> None:
    node = helper.make_node(
        "Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"], q_num_heads=8, kv_num_heads=2, name="att"
    )
    shapes = {
        "q": ["batch", 1, 64],
        "k": ["batch", 1, 16],
        "v": ["batch", 1, 16],
        "pk": ["batch", 2, 31, 8],
        "pv": ["batch", 2, 31, 8],
    }
    file = save(tmp_path, [node], shapes, ["y", "nk", "nv"], opset_imports=[helper.make_opsetid("", 23)])
    net = load_onnx(file, batch=3)
    assert net.macs == 3 * 2 * 8 * 1 * 32 * 8
    assert net.warnings == ()
    appends = [o for o in net.operators if o.kind is OperatorKind.APPEND]
    assert [net.tensor_by_name[o.outputs[0]].shape for o in appends] == [(3, 2, 32, 8)] * 2
    sizes = net.operator_by_name["att.qk"].computation.sizes  # type: ignore[union-attr]
    assert sizes == {"B": 6, "A": 4, "M": 1, "N": 32, "K": 8}


def test_quantised_operators_are_matrix_operators(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("ConvInteger", ["x", "w"], ["c"]),
            helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Relu", ["f"], ["y"]),
        ],
        "g",
        [value("x", [1, 3, 6, 6], TensorProto.UINT8)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.uint8), "w")],
    )
    file = tmp_path / "q.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), file)
    net = load_onnx(file)
    assert net.macs == 16 * 4 * 27
    assert [o.kind.value for o in net.operators] == ["conv", "activation"]


def test_normalisation_and_scale_fold_into_the_convolution(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Mul", ["n", "gain"], ["g"]),
        helper.make_node("Relu", ["g"], ["y"]),
    ]
    parameters = [weight("w", 4, 3, 3, 3), weight("gain", 4, 1, 1), *(weight(n, 4) for n in "sbmv")]
    net = load_nodes(tmp_path, nodes, {"x": [1, 3, 6, 6]}, ["y"], parameters)
    (conv,) = fuse(net).operators
    assert conv.fused == ("batch_norm", "mul", "relu")
    assert conv.outputs == ("y",)
    assert fuse(net).parameter_elements == 4 * 27 + 4  # weights and one bias are left
    assert conv.operations == 2 * 64  # bias and relu


def test_square_and_reciprocal_are_not_scalings(tmp_path: Path) -> None:
    one = numpy_helper.from_array(np.float32(1), "one")
    for node in (helper.make_node("Mul", ["h", "h"], ["y"]), helper.make_node("Div", ["one", "h"], ["y"])):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), node]
        net = fuse(load_nodes(tmp_path, nodes, {"x": [1, 8]}, ["y"], [weight("w", 8, 4), one]))
        assert len(net.operators) == 2


def test_nothing_runs_for_identity_cast_and_dropout(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("Dropout", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    net = load_nodes(tmp_path, nodes, {"x": [1, 8]}, ["y"])
    assert [o.inputs for o in net.operators] == [("x",)]


def test_transposition_of_axes_of_length_one_moves_nothing(tmp_path: Path) -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), helper.make_node("Relu", ["t"], ["y"])]
    net = load_nodes(tmp_path, nodes, {"x": [4, 8, 1]}, ["y"])
    assert net.operators[0].kind is OperatorKind.RESHAPE
    moving = load_nodes(tmp_path, nodes, {"x": [4, 8, 2]}, ["y"])
    assert moving.operators[0].kind is OperatorKind.TRANSPOSE
    assert moving.operators[0].permutation == (0, 2, 1)


def test_vector_operators_count_their_work(tmp_path: Path) -> None:
    def work(node: onnx.NodeProto, *parameters: onnx.TensorProto) -> int:
        return load_nodes(tmp_path, [node], {"x": [1, 4, 6, 6]}, ["y"], parameters).operators[0].operations

    assert work(helper.make_node("Relu", ["x"], ["y"])) == 144
    assert work(helper.make_node("Softmax", ["x"], ["y"])) == 5 * 144
    assert work(helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])) == 4 * 9 * 4
    assert work(helper.make_node("GlobalAveragePool", ["x"], ["y"])) == 144
    assert work(helper.make_node("LRN", ["x"], ["y"], size=3)) == 9 * 144
    assert work(helper.make_node("Add", ["x", "b"], ["y"]), weight("b", 4, 1, 1)) == 144
    assert work(helper.make_node("Sum", ["x", "x", "x"], ["y"])) == 2 * 144
    assert work(helper.make_node("ReduceMean", ["x", "a"], ["y"]), integers("a", 2, 3)) == 144


def test_operators_of_onnx_runtime(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    nodes = [
        helper.make_node("SkipLayerNormalization", ["x", "x2", "g"], ["n"], domain="com.microsoft"),
        helper.make_node("FusedMatMul", ["n", "w"], ["h"], domain="com.microsoft", transB=1),
        helper.make_node("BiasGelu", ["h", "b"], ["a"], domain="com.microsoft"),
        helper.make_node("FastGelu", ["a"], ["f"], domain="com.microsoft"),
        helper.make_node("MultiHeadAttention", ["f", "f", "v"], ["y"], domain="com.microsoft", num_heads=2),
    ]
    shapes = {"x": ["batch", 5, 8], "x2": ["batch", 5, 8], "v": ["batch", 5, 6]}
    net = load_nodes(
        tmp_path, nodes, shapes, ["y"], [weight("g", 8), weight("w", 4, 8), weight("b", 4)], opset_imports=imports
    )
    assert net.warnings == ()
    assert net.with_batch(2).macs == 2 * (5 * 8 * 4 + 5 * 5 * 4 + 5 * 5 * 6)
    assert net.tensor_by_name["y"].shape == (1, 5, 6)


def test_attention_operator_with_heads_apart_and_scores_wanted(tmp_path: Path) -> None:
    node = helper.make_node("Attention", ["q", "k", "v"], ["y", "", "", "scores"])
    shapes = {"q": ["batch", 4, 3, 8], "k": ["batch", 4, 7, 8], "v": ["batch", 4, 7, 16]}
    net = load_nodes(tmp_path, [node], shapes, ["y", "scores"], opset_imports=[helper.make_opsetid("", 23)])
    assert net.macs == 4 * 3 * 7 * (8 + 16)
    assert [net.tensor_by_name[n].shape for n in net.outputs] == [(1, 4, 3, 16), (1, 4, 3, 7)]


def test_packed_attention_is_not_understood(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    node = helper.make_node("Attention", ["x", "w", "b"], ["y"], domain="com.microsoft", num_heads=2)
    parameters = [weight("w", 8, 24), weight("b", 24)]
    net = load_nodes(tmp_path, [node], {"x": [1, 5, 8]}, ["y"], parameters, opset_imports=imports)
    assert any("com.microsoft::Attention is not understood" in w for w in net.warnings)


def test_quantised_convolution_and_product(tmp_path: Path) -> None:
    def scale(name: str) -> list[onnx.TensorProto]:
        return [numpy_helper.from_array(np.float32(1), f"{name}s"), numpy_helper.from_array(np.uint8(0), f"{name}z")]

    filters = numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.uint8), "w")
    matrix = numpy_helper.from_array(np.zeros((64, 5), np.uint8), "m")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "as", "az"], ["q"]),
        helper.make_node("QLinearConv", ["q", "as", "az", "w", "as", "az", "as", "az"], ["c"]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("QLinearMatMul", ["f", "as", "az", "m", "as", "az", "as", "az"], ["y"]),
    ]
    net = load_nodes(tmp_path, nodes, {"x": [1, 3, 6, 6]}, ["y"], [filters, matrix, *scale("a")])
    assert net.macs == 16 * 4 * 27 + 64 * 5
    assert all(len(net.parameters(o)) == 1 for o in net.operators if o.macs)


def test_resizing(tmp_path: Path) -> None:
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    for mode, taps in (("nearest", 0), ("linear", 4), ("cubic", 16)):
        node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode)
        (resize,) = load_nodes(tmp_path, [node], {"x": [1, 3, 4, 4]}, ["y"], [scales]).operators
        assert resize.operations == taps * 3 * 64


# ---- what is not understood ------------------------------------------------------------------


def test_unknown_operator_is_named_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Frobnicate", ["h", "p"], ["f"], domain="acme"),
        helper.make_node("Relu", ["f"], ["y"]),
    ]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("acme", 1)]
    with caplog.at_level(logging.WARNING):
        net = load_nodes(
            tmp_path, nodes, {"x": ["b", 8]}, ["y"], [weight("w", 8, 4), weight("p", 4)], opset_imports=imports
        )
    opaque = only(net, OperatorKind.OPAQUE)
    assert (opaque.function, opaque.inputs) == ("Frobnicate", ("h", "p"))
    assert "operator acme::Frobnicate is not understood" in " ".join(net.warnings)
    assert sum("Frobnicate is not understood" in r.getMessage() for r in caplog.records) == 1
    assert fuse(net).warnings == net.warnings
    assert net.with_batch(3).macs == 3 * 32


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent_operators_are_unrolled(tmp_path: Path, kind: str, gates: int, directions: int) -> None:
    steps, features, hidden = 5, 3, 4
    direction = "bidirectional" if directions == 2 else "forward"
    node = helper.make_node(kind, ["x", "w", "r"], ["y", "last"], hidden_size=hidden, direction=direction, name="r1")
    parameters = [weight("w", directions, gates * hidden, features), weight("r", directions, gates * hidden, hidden)]
    file = save(tmp_path, [node], {"x": [steps, "batch", features]}, ["y", "last"], parameters)
    net = load_onnx(file, batch=2)  # the first axis is time; the symbol says where the batch is
    assert (net.batch, net.fixed_batch) == (2, False)
    assert net == load_onnx(file, dims={"batch": 2}) == load_onnx(file, batch=1).with_batch(2)
    # zeros before the first step need no product
    per_sample = directions * gates * hidden * (steps * features + (steps - 1) * hidden)
    assert net.macs == 2 * per_sample
    assert net.warnings == ()
    assert [g.count for g in net.distinct_layers()] == [1, steps - 1]
    assert [net.tensor_by_name[n].shape for n in net.outputs] == [
        (steps, directions, 2, hidden),
        (directions, 2, hidden),
    ]


def test_shapes_that_depend_on_data_are_guessed_and_said_so(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"]),
        helper.make_node("Transpose", ["n"], ["t"], perm=[1, 0, 2]),  # the guess has another rank
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    net = load_nodes(tmp_path, nodes, {"x": [4, 8]}, ["y", "t"], [weight("w", 8, 2)])
    assert any("shape of 'n' (NonZero) cannot be inferred" in w for w in net.warnings)
    assert net.macs == 4 * 8 * 2
    assert {o.function for o in net.operators} >= {"NonZero", "Transpose"}


def test_sums_over_the_batch_make_it_fixed(tmp_path: Path) -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("MatMul", ["t", "x"], ["y"])]
    net = load_nodes(tmp_path, nodes, {"x": [4, 8]}, ["y"])
    assert net.with_batch(8).macs == 8 * 8 * 8  # one bound grows: that is fine
    square = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    assert load_nodes(tmp_path, square, {"x": [4, 8]}, ["y"]).fixed_batch  # two do


def test_inputs_must_be_tensors_of_known_rank(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
        [onnx.ValueInfoProto(name="y")],
    )
    file = tmp_path / "rank.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), file)
    with pytest.raises(UserError, match="input 'x' has no shape"):
        load_onnx(file)


def test_constant_subgraphs_have_no_macs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["ab"]),
        helper.make_node("MatMul", ["x", "ab"], ["y"]),
    ]
    net = load_nodes(tmp_path, nodes, {"x": [1, 8]}, ["y"], [weight("a", 8, 4), weight("b", 4, 2)])
    assert [o.name for o in net.operators] == ["y"]
    assert net.macs == 16
    assert net.tensor_by_name["ab"].is_parameter
    with pytest.raises(UserError, match="every result of this graph is constant"):
        load_nodes(tmp_path, nodes[:1], {}, ["ab"], [weight("a", 8, 4), weight("b", 4, 2)])


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    body = [helper.make_node("MatMul", ["a", "b"], ["h"]), helper.make_node("Relu", ["h"], ["c"])]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    function = helper.make_function("mine", "Layer", ["a", "b"], ["c"], body, [helper.make_opsetid("", 21)])
    node = helper.make_node("Layer", ["x", "w"], ["y"], domain="mine")
    net = load_nodes(
        tmp_path, [node], {"x": [1, 8]}, ["y"], [weight("w", 8, 4)], opset_imports=imports, functions=[function]
    )
    assert net.macs == 32
    assert net.warnings == ()


# ---- weights that are not there --------------------------------------------------------------


def test_weights_may_be_plain_inputs_without_values(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"])
    net = load_nodes(tmp_path, [node], {"x": [1, 3, 8, 8], "w": [4, 3, 3, 3], "b": [4]}, ["y"])
    assert net.inputs == ("x",)
    assert net.parameter_elements == 4 * 27 + 4
    with pytest.raises(UserError, match="parameter 'w' has an axis of unknown length"):
        load_nodes(tmp_path, [node], {"x": [1, 3, 8, 8], "w": ["k", 3, 3, 3], "b": [4]}, ["y"])


def test_weights_may_be_in_a_file_that_is_missing(tmp_path: Path) -> None:
    external = weight("w", 8, 4)
    external.ClearField("raw_data")
    external.data_location = TensorProto.EXTERNAL
    external.external_data.add(key="location", value="gone.bin")
    net = load_nodes(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 8]}, ["y"], [external])
    assert net.macs == 32


def test_weights_may_be_stripped(tmp_path: Path) -> None:
    stripped = weight("w", 8, 4)
    stripped.ClearField("raw_data")
    net = load_nodes(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 8]}, ["y"], [stripped])
    assert net.macs == 32


def test_constant_nodes_and_quantised_weights(tmp_path: Path) -> None:
    target = numpy_helper.from_array(np.array([0, -1], np.int64))
    nodes = [
        helper.make_node("Constant", [], ["target"], value=target),
        helper.make_node("Reshape", ["x", "target"], ["f"]),
        helper.make_node("QuantizeLinear", ["f", "s", "z"], ["fq"]),
        helper.make_node("DequantizeLinear", ["fq", "s", "z"], ["fd"]),
        helper.make_node("DequantizeLinear", ["wq", "s", "z"], ["w"]),
        helper.make_node("MatMul", ["fd", "w"], ["y"]),
    ]
    parameters = [
        numpy_helper.from_array(np.zeros((24, 4), np.uint8), "wq"),
        numpy_helper.from_array(np.float32(1), "s"),
        numpy_helper.from_array(np.uint8(0), "z"),
    ]
    net = load_nodes(tmp_path, nodes, {"x": ["b", 2, 3, 4]}, ["y"], parameters)
    assert [o.function or o.kind.value for o in net.operators] == [
        "reshape",
        "quantizelinear",
        "matmul",
    ]
    assert net.with_batch(3).macs == 3 * 24 * 4
    assert net.tensor_by_name["wq"].is_parameter


# ---- files that are not networks -------------------------------------------------------------


def test_truncated_file(tmp_path: Path) -> None:
    whole = attention_block(tmp_path).read_bytes()
    cut = tmp_path / "cut.onnx"
    for length in (0, 1, 10, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:length])
        with pytest.raises(UserError, match="truncated or not ONNX") as caught:
            load_network(cut, seq=4)
        assert "cut.onnx" in str(caught.value)


@pytest.mark.parametrize("content", [b"resnet50", b"\x89PNG\r\n\x1a\n", b"{}", b"\x00" * 64, b"\xff" * 64])
def test_other_files(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other.onnx"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"truncated or not ONNX.*other\.onnx"):
        load_network(file)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such file.*gone\.onnx"):
        load_network(tmp_path / "gone.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(UserError, match=r"expected a file, got a folder.*folder\.onnx"):
        load_network(tmp_path / "folder.onnx")


def test_contradictory_graphs(tmp_path: Path) -> None:
    conv = [helper.make_node("Conv", ["x", "w"], ["y"], name="c1")]
    with pytest.raises(UserError, match=r"model\.onnx: node 'c1'"):
        load_nodes(tmp_path, conv, {"x": [1, 3, 8, 8]}, ["y"], [weight("w", 4, 5, 3, 3)])
    product = [helper.make_node("MatMul", ["x", "w"], ["y"], name="m1")]
    with pytest.raises(UserError, match=r"the shapes contradict MatMul.*node 'm1'"):
        load_nodes(tmp_path, product, {"x": [1, 3]}, ["y"], [weight("w", 4, 5)])
    backwards = [helper.make_node("Relu", ["b"], ["y"]), helper.make_node("Relu", ["x"], ["b"])]
    with pytest.raises(UserError, match="value 'b' is read before any node produces it"):
        load_nodes(tmp_path, backwards, {"x": [1, 3]}, ["y"])


def test_options_that_do_not_apply(tmp_path: Path) -> None:
    fixed = save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 8]}, ["y"], [weight("w", 8, 4)])
    with pytest.raises(UserError, match="`seq` was given, but the file has no symbolic sequence axis"):
        load_network(fixed, seq=4)
    with pytest.raises(UserError, match="`phase` applies to zoo networks"):
        load_network(fixed, phase="decode")
    with pytest.raises(UserError, match="all axes of the inputs are fixed"):
        load_network(fixed, dims={"n": 3})


@pytest.mark.parametrize("damage", ["output", "attribute", "operator", "weights"])
def test_a_node_that_does_not_fit_its_operator_is_refused(damage: str, tmp_path: Path) -> None:
    model = onnx.load(str(LIGHT / "light_squeezenet.onnx"))
    node = next(n for n in model.graph.node if n.op_type == ("MaxPool" if damage == "attribute" else "Conv"))
    if damage == "output":
        del node.output[:]
    elif damage == "attribute":
        del node.attribute[:]
    elif damage == "weights":
        del node.input[1]  # the bias stands where the filters were
    else:
        node.op_type = "LSTM"
    onnx.save(model, str(tmp_path / "damaged.onnx"))
    with pytest.raises(UserError, match=r"damaged\.onnx: node"):
        load_network(tmp_path / "damaged.onnx")


@pytest.mark.parametrize(
    "name", ["batch", "batch_size", "N", "n", "bs", "BATCH", "s77", "x_dynamic_axes_1", "unk__6", "nbatch"]
)
def test_an_open_axis_that_is_called_a_batch_is_one(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    path = save(tmp_path, nodes, {"x": [name, 8]}, ["y"], [weight("w", 8, 4)])
    assert load_network(path).macs == 8 * 4 and load_network(path).batch == 1
    assert caplog.messages[0].endswith(
        f"axis {name!r} (axis 0 of x) is taken for the batch, which is 1 unless --batch or --dims {name}=NUMBER says otherwise"
    )
    caplog.clear()
    assert load_network(path, batch=3).macs == 3 * 8 * 4 and load_network(path, dims={name: 5}).macs == 5 * 8 * 4
    assert not caplog.messages


def test_axes_that_were_listed_for_each_input_are_one_batch(tmp_path: Path) -> None:
    shapes: dict[str, Any] = {"x": ["x_dynamic_axes_1", 8], "z": ["z_dynamic_axes_1", 8]}
    path = save(tmp_path, [helper.make_node("Add", ["x", "z"], ["y"])], shapes, ["y"], [])
    assert load_network(path).batch == 1 and load_network(path, batch=2).batch == 2


@pytest.mark.parametrize("name", ["rows", "height", "seq", "tokens", "sigma1", None])
def test_any_other_open_axis_is_asked_for(tmp_path: Path, name: str | None) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    path = save(tmp_path, nodes, {"x": [name, 8]}, ["y"], [weight("w", 8, 4)])
    shown = name or "x.0"
    with pytest.raises(
        UserError, match=rf"axis '{re.escape(shown)}' of the inputs has no length.*--dims {re.escape(shown)}="
    ):
        load_network(path)


def test_a_batch_of_the_file_needs_no_word(tmp_path: Path) -> None:
    fixed = save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [4, 8]}, ["y"], [weight("w", 8, 4)])
    assert load_network(fixed).warnings == () and load_network(fixed).batch == 4


def test_a_fault_of_a_rule_on_a_valid_node_is_not_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 8]}, ["y"], [weight("w", 8, 4)])

    def broken(walk: object, node: object) -> None:
        raise TypeError("a slip of ours")

    monkeypatch.setattr("codesign.workloads.onnx.walk.convert", broken)
    with pytest.raises(TypeError, match="a slip of ours"):
        load_network(path)
