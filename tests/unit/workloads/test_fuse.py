import re

import pytest

from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.fuse import fuse
from codesign.workloads.network import OperatorKind
from codesign.workloads.zoo import ZOO, build_model

LARGE = "llama|mistral|qwen|mamba|whisper_[sl]"
LIGHT = [n for n in sorted(ZOO) if not re.match("mixtral|deepseek", n) and ("block" in n or not re.match(LARGE, n))]
"""Models that are quickly built: of the largest, one block (test_models_of_today.py has them whole)."""


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.thinned(5)
def test_fusing_keeps_macs_results_and_interface(name: str) -> None:
    net = build_model(name)
    fused = fuse(net)
    assert fused.macs == net.macs
    assert fused.inputs == net.inputs
    assert fused.distinct_layers() != () or net.macs == 0
    assert sum(g.count for g in fused.distinct_layers()) == sum(g.count for g in net.distinct_layers())
    assert len(fused.operators) <= len(net.operators)
    assert not any(o.kind is OperatorKind.RESHAPE for o in fused.operators)
    assert sum(o.operations for o in fused.operators) <= sum(o.operations for o in net.operators)
    assert fuse(fused) == fused
    assert fuse(net.with_batch(2)) == fused.with_batch(2)


def test_residual_block_becomes_three_operators() -> None:
    net = NetworkBuilder("n")
    x = net.input("x", (1, 8, 4, 4))
    y = net.relu(net.batch_norm(net.conv(x, 8, 3, name="a")))
    y = net.batch_norm(net.conv(y, 8, 3, name="b"))
    fused = fuse(net.build(net.relu(net.residual(y, x))))
    assert [(o.name, o.fused) for o in fused.operators] == [
        ("a", ("batch_norm", "relu")),
        ("b", ("batch_norm",)),
        ("add", ("relu",)),
    ]
    assert [t.name for t in fused.parameters(fused.operators[0])] == ["a.weight", "a.bias"]
    # what the host writes is what the last function wrote
    assert fused.operators[0].operands[-1] == fused.operators[0].outputs[0] == "relu"


def test_a_result_with_two_readers_is_not_overwritten() -> None:
    net = NetworkBuilder("n")
    x = net.conv(net.input("x", (1, 8, 4, 4)), 8, 3)
    y = net.relu(x)
    fused = fuse(net.build(y, net.conv(x, 8, 3)))
    assert [o.kind.value for o in fused.operators] == ["conv", "activation", "conv"]


def test_what_depends_on_one_tensor_alone_is_one_function() -> None:
    net = NetworkBuilder("n")
    x = net.conv(net.input("x", (1, 8, 4, 4)), 8, 3)
    (conv, function) = fuse(net.build(net.residual(x, net.relu(x)))).operators
    assert (conv.fused, function.function, function.inputs) == ((), "relu+add", ("conv",))
    assert function.operations == 2 * 8 * 16


def test_a_network_output_is_not_overwritten() -> None:
    net = NetworkBuilder("n")
    x = net.conv(net.input("x", (1, 8, 4, 4)), 8, 3)
    flat = net.flatten(x)
    fused = fuse(net.build(flat, net.relu(x)))
    assert [o.kind.value for o in fused.operators] == ["conv", "activation"]
    assert fused.outputs == ("conv", "relu")


def test_bias_that_is_there_takes_the_shift() -> None:
    net = NetworkBuilder("n")
    x = net.batch_norm(net.conv(net.input("x", (1, 8, 4, 4)), 8, 3, bias=True))
    (conv,) = fuse(net.build(x)).operators
    assert conv.inputs == ("x", "conv.weight", "conv.bias")
    assert conv.operations == 8 * 16


def test_normalisation_after_a_function_cannot_be_folded() -> None:
    net = NetworkBuilder("n")
    x = net.batch_norm(net.relu(net.conv(net.input("x", (1, 8, 4, 4)), 8, 3)))
    (conv,) = fuse(net.build(x)).operators
    assert conv.fused == ("relu", "batch_norm")
    assert len(conv.inputs) == 2 + 4  # its four parameters are still read
    assert conv.operations == 8 * 16 + 2 * 8 * 16


def test_per_pixel_addition_is_not_a_bias() -> None:
    net = NetworkBuilder("n")
    x = net.linear(net.input("x", (1, 16, 8)), 8, bias=False)
    y = net.elementwise("add", x, net.parameter("positions", (16, 8)))
    (product,) = fuse(net.build(y)).operators
    assert product.inputs == ("x", "linear.weight", "positions")


def test_shared_weights_are_not_scaled() -> None:
    net = NetworkBuilder("n")
    x = net.input("x", (4, 8))
    shared = net.parameter("shared", (8, 8))
    gain = net.parameter("gain", (8,))
    y = net.elementwise("mul", net.linear(x, 8, bias=False, weight=shared), gain)
    z = net.linear(y, 8, bias=False, weight=shared)
    first, second = fuse(net.build(z)).operators
    assert (first.fused, first.inputs) == (("mul",), ("x", "shared", "gain"))
    assert second.fused == ()


def test_chosen_functions_only() -> None:
    net = NetworkBuilder("n")
    x = net.activation(net.linear(net.input("x", (4, 8)), 8), "gelu")
    network = net.build(x)
    assert len(fuse(network, frozenset({"relu"})).operators) == 2
    assert len(fuse(network).operators) == 1


def test_transposition_read_by_others_stays() -> None:
    net = NetworkBuilder("n")
    x = net.input("x", (1, 4, 8))
    turned = net.transpose(net.linear(x, 8), (0, 2, 1))
    product = net.matmul(x, turned)
    assert [o.kind.value for o in fuse(net.build(product)).operators] == ["matmul", "matmul"]
    both = net.build(product, net.softmax(turned))
    assert OperatorKind.TRANSPOSE in {o.kind for o in fuse(both).operators}


def test_a_network_of_views_is_left_alone() -> None:
    net = NetworkBuilder("n")
    network = net.build(net.flatten(net.input("x", (1, 4, 8))))
    assert fuse(network) == network
