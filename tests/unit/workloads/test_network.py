from dataclasses import replace
from typing import Any

import pytest

from codesign.core.errors import UserError
from codesign.workloads import operators
from codesign.workloads.builder import NetworkBuilder, broadcast_shape, conv_output, matmul_computation
from codesign.workloads.network import Network, NetworkTensor, Operator, OperatorKind
from codesign.workloads.network_json import content_hash, network_from_json, network_to_json
from codesign.workloads.zoo import build_model
from tests.attention_products import has_activation_weights


def tiny(batch: int = 1) -> Network:
    """conv -> relu -> (conv, skip) -> add -> pool -> fc."""
    net = NetworkBuilder("tiny", batch)
    x = net.input("image", (batch, 3, 8, 8))
    x = net.relu(net.conv(x, 4, 3, bias=True, name="a"))
    y = net.conv(x, 4, 3, name="b")
    x = net.residual(y, x, name="sum")
    x = net.linear(net.flatten(net.global_pool(x)), 10, name="fc")
    return net.build(x)


def relu(name: str, source: str, result: str) -> Operator:
    return Operator(name, OperatorKind.ACTIVATION, (source,), (result,), operations=4, function="relu")


def tensors(*names: str) -> list[NetworkTensor]:
    return [NetworkTensor(n, (4,)) for n in names]


def test_producers_consumers_and_totals() -> None:
    net = tiny()
    assert net.producers["a"].name == "a"
    assert "image" not in net.producers
    assert [o.name for o in net.consumers["relu"]] == ["b", "sum"]
    assert net.macs == 64 * 4 * 3 * 9 + 64 * 4 * 4 * 9 + 4 * 10
    assert net.parameter_elements == (4 * 3 * 9 + 4) + 4 * 4 * 9 + (4 * 10 + 10)
    assert net.parameter_bytes == net.parameter_elements  # 8 bits each
    assert [t.name for t in net.parameters(net.operator_by_name["a"])] == ["a.weight", "a.bias"]
    assert [t.name for t in net.activation_inputs(net.operator_by_name["sum"])] == ["b", "relu"]
    # bias 256, relu 256, addition 256, average over 4 x 64, bias 10
    assert sum(o.operations for o in net.operators) == 256 + 256 + 256 + 256 + 10


def test_equal_layers_are_one_group() -> None:
    groups = build_model("resnet50").distinct_layers()
    assert len(groups) == 24
    assert sum(g.count for g in groups) == 54
    assert sum(g.count * g.computation.macs for g in groups) == build_model("resnet50").macs
    for group in groups:
        assert group.count == len(group.operators)


def test_attention_products_have_no_parameters() -> None:
    net = build_model("bert_base", seq=16)
    products = [o for o in net.operators if has_activation_weights(net, o)]
    assert len(products) == 2 * 12
    assert all(not net.parameters(o) for o in products)
    assert not has_activation_weights(net, net.operator_by_name["layer1.ffn.up"])
    assert not has_activation_weights(net, net.operator_by_name["layer1.add1"])


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "bert_base", "gpt2_small", "inception_resnet_v1"])
def test_batch_scales_as_if_built_so(name: str) -> None:
    assert build_model(name).with_batch(3) == build_model(name, batch=3)
    assert build_model(name, batch=3).with_batch(1) == build_model(name)


def test_batch_scales_work_but_not_parameters() -> None:
    one, four = tiny(), tiny().with_batch(4)
    assert four.macs == 4 * one.macs
    assert [o.operations for o in four.operators] == [4 * o.operations for o in one.operators]
    assert four.parameter_bytes == one.parameter_bytes
    assert four.tensor_by_name["image"].shape == (4, 3, 8, 8)


def test_bad_batch() -> None:
    for batch in (0, -1, True, 1.5):
        with pytest.raises(UserError, match="`batch` must be an integer >= 1"):
            tiny().with_batch(batch)  # type: ignore[arg-type]
        with pytest.raises(UserError, match="`batch` must be an integer >= 1"):
            build_model("resnet18", batch=batch)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the shapes hold for batch 1 only, asked for 2"):
        replace(tiny(), fixed_batch=True).with_batch(2)


def test_widths() -> None:
    net = tiny().with_bits(16, 32)
    assert {t.bits for t in net.tensors} == {16}
    assert net.parameter_bytes == 2 * tiny().parameter_bytes
    assert {o.computation.output.partial_bits for o in net.operators if o.computation} == {32}
    assert NetworkTensor("t", (3,), bits=4).size_bytes == 2  # packed, rounded up


def test_sorted_puts_producers_first() -> None:
    net = Network.sorted("n", [relu("second", "b", "c"), relu("first", "a", "b")], tensors("a", "b", "c"), ["a"], ["c"])
    assert [o.name for o in net.operators] == ["first", "second"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"operators": [relu("f", "b", "c"), relu("g", "c", "b")]},
            "the graph has a cycle: f <- g <- f",
        ),
        (
            {"operators": [relu("f", "b", "a"), relu("g", "c", "b")]},
            "tensor 'a' is an input or a parameter and cannot be produced",
        ),
        ({"operators": [relu("f", "a", "b"), relu("f", "b", "c")]}, "operator 'f' is defined twice"),
        ({"operators": [relu("f", "a", "b"), relu("g", "a", "b")]}, "tensor 'b' has two producers, 'f' and this one"),
        ({"operators": [relu("f", "A", "b")]}, "unknown tensor 'A'"),
        ({"operators": [relu("f", "a", "b")]}, "tensor 'c' has no producer"),
        ({"operators": []}, "expected at least one operator, got none"),
        ({"inputs": ["z"]}, "unknown tensor 'z'"),
        ({"outputs": ["z"]}, "unknown tensor 'z'"),
        ({"tensors": tensors("a", "a", "b", "c")}, "tensor 'a' is defined twice"),
        ({"batch": 0}, "`batch` must be an integer >= 1, got 0"),
    ],
)
def test_graphs_that_are_none(changes: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {
        "operators": [relu("f", "a", "b"), relu("g", "b", "c")],
        "tensors": tensors("a", "b", "c"),
        "inputs": ["a"],
        "outputs": ["c"],
    }
    with pytest.raises(UserError) as caught:
        Network.sorted("n", **{**fields, **changes})
    assert message in str(caught.value)
    assert "network 'n'" in str(caught.value)


def test_unsorted_constructor_call_says_how_to_mend_it() -> None:
    with pytest.raises(UserError, match=r"'g' stands before the producer of 'b'.*Network\.sorted"):
        Network("n", (relu("g", "b", "c"), relu("f", "a", "b")), tuple(tensors("a", "b", "c")), ("a",), ("c",))


def test_self_cycle_is_named() -> None:
    with pytest.raises(UserError, match="the graph has a cycle: f <- f"):
        Network.sorted("n", [relu("f", "b", "b")], tensors("b"), [], ["b"])


def test_operands_must_have_the_sizes_of_the_computation() -> None:
    gemm = operators.gemm(M=2, N=3, K=4)
    names = ("x", "w", "y")
    shapes = {"x": (2, 4), "w": (4, 5), "y": (2, 3)}
    operator = Operator("p", OperatorKind.MATMUL, ("x", "w"), ("y",), gemm, names)
    all_tensors = [NetworkTensor(n, s, is_parameter=n == "w") for n, s in shapes.items()]
    with pytest.raises(UserError, match=r"tensor 'w' has 20 elements \[4, 5\], but Weights\[K,N\] .* has 12"):
        Network.sorted("n", [operator], all_tensors, ["x"], ["y"])


def test_batch_dimension_must_be_a_multiple_of_the_batch() -> None:
    operator = tiny().operator_by_name["fc"]
    assert operator.computation is not None
    with pytest.raises(UserError, match="dimension 'M' must be a multiple of the batch 2, got 3"):
        Network.sorted(
            "n",
            [
                replace(
                    operator,
                    inputs=("x", "w"),
                    operands=("x", "w", "fc"),
                    computation=operator.computation.with_bounds(M=3),
                )
            ],
            [NetworkTensor("x", (3, 4)), NetworkTensor("w", (4, 10), is_parameter=True), NetworkTensor("fc", (3, 10))],
            ["x"],
            ["fc"],
            batch=2,
        )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": OperatorKind.MATMUL}, "kind 'matmul' and its computation contradict each other"),
        ({"outputs": ()}, "an operator needs an output"),
        ({"operations": -1}, "`operations` must be an integer >= 0, got -1"),
        ({"operands": ("a", "b")}, "`operands` and `batch_dim` belong to a computation"),
    ],
)
def test_bad_operators(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        replace(relu("f", "a", "b"), **fields)
    assert message in str(caught.value)


def test_bad_matrix_operators() -> None:
    gemm = operators.gemm(M=2, N=3, K=4)
    good = Operator("p", OperatorKind.MATMUL, ("x", "w"), ("y",), gemm, ("x", "w", "y"))
    with pytest.raises(UserError, match="expected 3 operands"):
        replace(good, operands=("x", "y"))
    with pytest.raises(UserError, match="every operand must be an input, the last one the output"):
        replace(good, operands=("x", "z", "y"))
    with pytest.raises(UserError, match="unknown dimension 'B'"):
        replace(good, batch_dim="B")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": (-1,)}, "shape of tensor 't' must be integers >= 0, got [-1]"),
        ({"shape": (2.0,)}, "must be integers >= 0"),
        ({"bits": 0}, "`bits` must be an integer >= 1, got 0 (tensor 't')"),
        ({"batch_axis": 2}, "`batch_axis` of tensor 't' must be an axis of [4]"),
        ({"batch_axis": 0, "is_parameter": True}, "is a parameter and cannot depend on the batch"),
    ],
)
def test_bad_tensors(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        NetworkTensor(**{"name": "t", "shape": (4,), **fields})
    assert message in str(caught.value)


# ---- the file form ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "gpt2_small", "densenet121"])
def test_file_form_round_trip(name: str) -> None:
    net = build_model(name, partial_bits=24)
    again = network_from_json(network_to_json(net))
    assert again == net
    assert content_hash(again) == content_hash(net)


def test_hash_depends_on_content_only() -> None:
    net = tiny()
    assert content_hash(replace(net, name="other", warnings=("w",))) == content_hash(net)
    assert content_hash(net.with_batch(2)) != content_hash(net)
    assert content_hash(net.with_bits(16)) != content_hash(net)
    # pinned: a cache on disk must recognise a network after a restart and on another machine
    assert content_hash(net) == "c54f7252e4b97a6cf1a3e7197f3c4e73152046a81f09d44f081c51f8399224e5"


def test_file_may_list_operators_in_any_order() -> None:
    value = network_to_json(tiny())
    value["operators"].reverse()
    assert [o.name for o in network_from_json(value).operators] == [o.name for o in tiny().operators]


@pytest.mark.parametrize(
    ("path", "bad", "message"),
    [
        ((), [], "expected keys and values, got a list of 0"),
        (("operatos",), [], "unknown key 'operatos' (net.json: network); did you mean 'operators'?"),
        (("format",), "other", "`format` must be 'codesign-network-1', got 'other'"),
        (("operators",), None, "`operators` is missing"),
        (("tensors", "image", "shape"), [1, "3"], "`shape` must be a list of integers, got [1, '3']"),
        (("tensors", "image", "batch_axis"), 7, "`batch_axis` of tensor 'image' must be an axis"),
        (("operators", 0, "kind"), "cnov", "unknown `kind` 'cnov' (net.json: operator 'a'); did you mean 'conv'?"),
        (("operators", 0, "operations"), True, "`operations` must be an integer, got true"),
        (("operators", 0, "computation", "notation"), "O[n] += ", "expected a name"),
        (("operators", 0, "computation", "bounds", "N"), "one", "`N` must be an integer >= 1, got 'one'"),
        (("operators", 0, "computation", "tensors"), {"Inputs": {"role": "ghost"}}, "unknown `role` 'ghost'"),
        (("operators", 0, "computation", "tensors"), {"Ghost": {}}, "unknown tensor 'Ghost'"),
        (("operators", 0, "window", "padding"), [1, 1], "`padding` must be a list of pairs of integers"),
        (("fixed_batch",), "yes", "`fixed_batch` must be true or false, got 'yes'"),
        (("inputs",), "image", "`inputs` must be a list, got 'image'"),
    ],
)
def test_bad_files_name_the_place(path: tuple[Any, ...], bad: object, message: str) -> None:
    value: Any = network_to_json(tiny())
    if not path:
        value = bad
    else:
        inner = value
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = bad
    with pytest.raises(UserError) as caught:
        network_from_json(value, where="net.json")
    assert message in str(caught.value)
    assert "net.json" in str(caught.value)


def test_missing_fields() -> None:
    for field in ("operators", "tensors", "inputs", "outputs"):
        value = network_to_json(tiny())
        del value[field]
        with pytest.raises(UserError, match=f"`{field}` is missing"):
            network_from_json(value)


# ---- the builder -----------------------------------------------------------------------------


def test_output_lengths() -> None:
    assert conv_output(224, 7, 2, 6) == 112
    assert conv_output(112, 3, 2, 0) == 55
    assert conv_output(112, 3, 2, 0, ceil_mode=True) == 56
    assert conv_output(10, 3, 1, 0, dilation=2) == 6


def test_same_padding_puts_the_odd_element_last() -> None:
    net = NetworkBuilder("n")
    net.conv(net.input("x", (1, 3, 224, 224)), 8, 3, stride=2, name="c")
    window = net.operators[0].window
    assert window is not None
    assert window.padding == ((0, 1), (0, 1))
    assert net.shape("c") == (1, 8, 112, 112)


def test_matmul_shapes_and_dimensions() -> None:
    attention, shape = matmul_computation((2, 12, 128, 64), (2, 12, 64, 128), bits=8)
    assert shape == (2, 12, 128, 128)
    assert attention.sizes == {"B": 24, "M": 128, "N": 128, "K": 64}
    linear, shape = matmul_computation((2, 128, 64), (64, 256), bits=8)
    assert (linear.sizes, shape) == ({"M": 256, "N": 256, "K": 64}, (2, 128, 256))
    shared_keys, shape = matmul_computation((2, 12, 1, 64), (2, 1, 64, 128), bits=8)
    assert shape == (2, 12, 1, 128)
    assert str(shared_keys) == "Outputs[B,A,M,N] += Inputs[B,A,M,K] * Weights[B,K,N]"
    assert matmul_computation((64,), (64, 3), bits=8)[1] == (3,)
    assert matmul_computation((3, 64), (64,), bits=8)[1] == (3,)
    assert matmul_computation((64,), (64,), bits=8)[1] == ()


def test_builder_refuses_impossible_shapes() -> None:
    with pytest.raises(UserError, match=r"cannot multiply \[2, 3\] by \[4, 5\]: 3 is not 4"):
        matmul_computation((2, 3), (4, 5), bits=8)
    with pytest.raises(UserError, match="cannot be broadcast"):
        broadcast_shape((2, 3), (4, 3))
    net = NetworkBuilder("n")
    x = net.input("x", (1, 3, 4, 4))
    with pytest.raises(UserError, match="cannot reshape"):
        net.reshape(x, (1, 49))
    with pytest.raises(UserError, match="`padding` must be 'same', 'valid' or numbers"):
        net.conv(x, 4, 3, padding="full")
