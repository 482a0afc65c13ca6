"""Blocks exported by PyTorch's exporters have the counts of closed formulas, however they write grouped queries."""

import math
from pathlib import Path
from typing import Any

import pytest

from codesign.scheduling.cosma.load import load_graph
from codesign.scheduling.soma.model.from_network import graph_from_network
from codesign.workloads.load import load_network
from tests.attention_products import has_activation_weights

WIDTH, HEADS, KEY_HEADS, HIDDEN, D = 64, 4, 2, 96, 16
WEIGHTS = 2 * WIDTH * WIDTH + 2 * WIDTH * KEY_HEADS * D + 3 * WIDTH * HIDDEN


def block(mode: str) -> Any:
    """A decoder block of torch with a cache."""
    torch = pytest.importorskip("torch")
    nn, functional = torch.nn, torch.nn.functional

    def repeated(x: Any) -> Any:
        if mode == "interleave":
            return x.repeat_interleave(HEADS // KEY_HEADS, 1)
        b, k, s, d = x.shape
        return x[:, :, None].expand(b, k, HEADS // KEY_HEADS, s, d).reshape(b, HEADS, s, d)

    class Block(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            shapes = {
                "q": (WIDTH, WIDTH),
                "k": (WIDTH, KEY_HEADS * D),
                "v": (WIDTH, KEY_HEADS * D),
                "o": (WIDTH, WIDTH),
            }
            shapes |= {"gate": (WIDTH, HIDDEN), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
            for name, (inner, outer) in shapes.items():
                setattr(self, name, nn.Linear(inner, outer, bias=False))

        def forward(self, x: Any, past_k: Any, past_v: Any) -> Any:
            b, t, _ = x.shape
            q = self.q(x).view(b, t, HEADS, D).transpose(1, 2)
            k = torch.cat([past_k, self.k(x).view(b, t, KEY_HEADS, D).transpose(1, 2)], 2)
            v = torch.cat([past_v, self.v(x).view(b, t, KEY_HEADS, D).transpose(1, 2)], 2)
            if mode == "eager":
                scores = torch.softmax(q @ repeated(k).transpose(2, 3) / math.sqrt(D), -1)
                y = scores @ repeated(v)
            else:
                y = functional.scaled_dot_product_attention(q, repeated(k), repeated(v))
            x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
            return x + self.down(functional.silu(self.gate(x)) * self.up(x)), k, v

    return Block().eval()


@pytest.mark.slow("oracle")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["eager", "sdpa", "interleave"])
@pytest.mark.parametrize("dynamo", [False, True])
def test_exports_of_a_decoder_block(tmp_path: Path, mode: str, dynamo: bool) -> None:
    torch = pytest.importorskip("torch")
    if dynamo:
        pytest.importorskip("onnxscript")
    path = str(tmp_path / "block.onnx")
    cache = torch.randn(2, KEY_HEADS, 8, D)
    arguments = (torch.randn(2, 1, WIDTH), cache, cache)
    names = ["x", "past_k", "past_v"]
    if dynamo:
        shapes = {"x": {0: "batch"}, "past_k": {0: "batch", 2: "past"}, "past_v": {0: "batch", 2: "past"}}
        torch.onnx.export(
            block(mode), arguments, path, dynamo=True, input_names=names, dynamic_shapes=shapes, verbose=False
        )
    else:
        axes = {"x": {0: "batch"}, "past_k": {0: "batch", 2: "past"}, "past_v": {0: "batch", 2: "past"}}
        torch.onnx.export(
            block(mode), arguments, path, dynamo=False, opset_version=17, input_names=names, dynamic_axes=axes
        )
    dims = {"batch": 3, "past": 100}
    network = load_network(path, dims=dims)
    macs = 3 * (WEIGHTS + 2 * WIDTH * 101)
    assert network.macs == load_graph(path, dims=dims).macs == macs
    assert network.weight_bytes == WEIGHTS and network.warnings == ()
    graph = graph_from_network(network)
    assert (3 * graph.macs, graph.weight_bytes) == (macs, WEIGHTS)
    products = [o for o in network.operators if has_activation_weights(network, o)]
    assert [network.tensor_by_name[o.operands[1]].elements for o in products] == [3 * KEY_HEADS * D * 101] * 2
