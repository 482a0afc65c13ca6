"""One ONNX file, three ways to run it: MACs and weights are the same, and those of closed formulas.

What would have caught a dilation taken for a dense filter, weights dropped because they are inputs, keys counted once a head.
"""

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.scheduling.cosma.load import load_graph
from codesign.scheduling.soma.model.from_network import graph_from_network
from codesign.workloads.load import load_network
from codesign.workloads.network import Network, OperatorKind
from codesign.workloads.traffic import operator_traffic
from tests.attention_products import has_activation_weights
from tests.examples import examples
from tests.onnx_models import REPEATS, GraphMaker, LlamaBlock


def weight_bytes(network: Network) -> int:
    """Weights that the layers read, each as often as a layer reads it."""
    return sum(
        network.tensor_by_name[n].size_bytes
        for o in network.operators
        for n in dict.fromkeys(o.operands[:-1])
        if network.tensor_by_name[n].is_parameter
    )


def check(path: Path, macs: int, weights: int, dims: dict[str, int] | None = None) -> None:
    """Every path counts these, and the layerwise one reads no more than every operand once."""
    network = load_network(path, dims=dims)
    graph = graph_from_network(network)
    plain = load_graph(path, dims=dims)
    assert network.macs == macs
    assert network.batch * sum(layer.ops for layer in graph.layers if layer.is_matrix) == macs
    assert plain.macs == macs
    assert weight_bytes(network) == weights
    assert sum(layer.weight_bytes for layer in graph.layers) == weights
    assert plain.weight_bytes == weights


@dataclass(frozen=True)
class Image:
    """A chain of convolutions: what each is, and what it costs."""

    kinds: tuple[tuple[str, int, int, int, int, int], ...]
    stored: bool

    def save(self, path: Path) -> tuple[int, int]:
        """Write the file; returns its MACs and weights."""
        g = GraphMaker(self.stored)
        channels, size = 4, 16
        x = g.input("x", 1, channels, size, size)
        macs = weights = 0
        for kind, out, kernel, stride, dilation, groups in self.kinds:
            out = out * groups
            each = channels // groups if channels % groups == 0 else channels
            groups = groups if channels % groups == 0 else 1
            span = (kernel - 1) * dilation + 1
            if kind == "up":
                pads = [(span - 1) // 2] * 4
                w = g.weight(channels, out // groups, kernel, kernel)
                x = g.node(
                    "ConvTranspose", x, w, strides=[stride] * 2, dilations=[dilation] * 2, group=groups, pads=pads
                )
                macs += size * size * channels * (out // groups) * kernel * kernel
                weights += channels * (out // groups) * kernel * kernel
                size = (size - 1) * stride + span - 2 * pads[0]
            else:
                pads = [span // 2] * 4
                w = g.weight(out, each, kernel, kernel)
                x = g.node("Conv", x, w, strides=[stride] * 2, dilations=[dilation] * 2, group=groups, pads=pads)
                size = (size + 2 * pads[0] - span) // stride + 1
                macs += size * size * out * each * kernel * kernel
                weights += out * each * kernel * kernel
            channels = out
            x = g.node("Mul", x, g.node("Sigmoid", x))
        g.save(path, x)
        return macs, weights


KIND = st.tuples(
    st.sampled_from(["conv", "conv", "up"]),
    st.sampled_from([2, 4, 6]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from([1, 1, 2]),
)


@examples(60)
@given(st.lists(KIND, min_size=1, max_size=3), st.booleans())
def test_random_convolutional_networks(kinds: list[tuple[str, int, int, int, int, int]], stored: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        check(path, *Image(tuple(kinds), stored).save(path))


@examples(40)
@given(
    st.sampled_from([(4, 1), (4, 2), (8, 2), (6, 3), (4, 4)]),
    st.sampled_from([8, 16]),
    st.sampled_from(REPEATS),
    st.booleans(),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 9),
    st.one_of(st.none(), st.integers(1, 40)),
)
def test_random_decoder_blocks(
    heads: tuple[int, int], width: int, repeat: str, stored: bool, scaled: bool, batch: int, seq: int, past: int | None
) -> None:
    block = LlamaBlock(heads[0] * width, heads[0], heads[1], 24)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        block.save(path, past=None if past is None else "past", repeat=repeat, stored=stored, scaled=scaled)
        dims = {"batch": batch, "seq": seq} | ({} if past is None else {"past": past})
        check(path, block.macs(batch, seq, past or 0), block.weights, dims)
        network = load_network(path, dims=dims)
        attended = seq + (past or 0)
        products = [o for o in network.operators if has_activation_weights(network, o)]
        assert len(products) == 2
        operands = sum(network.tensor_by_name[o.operands[1]].elements for o in products)
        assert operands == block.cache_elements(batch, attended)  # keys and values once, not once a head


@pytest.mark.parametrize("repeat", REPEATS)
def test_shared_keys_are_read_once_whatever_the_file_writes(tmp_path: Path, repeat: str) -> None:
    block = LlamaBlock(256, 8, 2, 64)
    network = load_network(block.save(tmp_path / "net.onnx", repeat=repeat), dims={"batch": 2, "seq": 1, "past": 31})
    graph = graph_from_network(network)
    scores = next(layer for layer in graph.layers if layer.on_chip_weights)
    # 2 key heads, each read by the 4 query heads that share it as rows of one product
    assert (scores.groups, scores.H, scores.K) == (2, 4, 2 * 32)
    outside = [graph.external_inputs[e] for layer in graph.layers for e in layer.whole_ext_prevs]
    assert sum(math.prod(shape) for shape in outside) == block.cache_elements(1, 31)
    appended = {o.name for o in network.operators if o.kind is OperatorKind.APPEND}
    stored = [layer.K * layer.H * layer.W for layer in graph.layers if layer.name in appended]
    assert stored == [block.cache_elements(1, 1) // 2] * 2  # the new keys and values, nothing of the old


def test_a_cache_grows_also_by_an_input(tmp_path: Path) -> None:
    """Attention cut out of a model: 2 key heads of 8 elements, 31 tokens in the cache, the new one an input as well."""
    g = GraphMaker()
    grown = g.node("Concat", g.input("past", 1, 2, 31, 8), g.input("new", 1, 2, 1, 8), axis=2)
    turned = g.node("Transpose", grown, perm=[0, 1, 3, 2])
    scores = g.node("MatMul", g.input("q", 1, 2, 1, 8), turned)
    g.save(tmp_path / "net.onnx", scores, grown)
    network = load_network(tmp_path / "net.onnx")
    (append,) = (o for o in network.operators if o.kind is OperatorKind.APPEND)
    moved = next(t for t in operator_traffic(network) if t.operator == append.name)
    assert moved.input_bytes == moved.output_bytes == 2 * 8  # the new token, nothing of the old ones
    stored = [layer.K * layer.H * layer.W for layer in graph_from_network(network).layers if layer.name == append.name]
    assert stored == [2 * 8]
