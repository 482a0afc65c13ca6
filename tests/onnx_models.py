"""ONNX graphs as exporters write them, built by hand so that every number has a closed formula."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dim = int | str


@dataclass
class GraphMaker:
    """Collects nodes; every method returns the name of its result."""

    stored: bool = True
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, Sequence[Dim]] = field(default_factory=dict)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    count: int = 0

    def input(self, name: str, *shape: Dim) -> str:
        """An input of the graph."""
        self.inputs[name] = shape
        return name

    def weight(self, *shape: int, name: str = "") -> str:
        """A parameter: an initialiser without its elements, or (not `stored`) a plain input."""
        name = name or self.fresh("w")
        if not self.stored:
            return self.input(name, *shape)
        tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="none.bin")
        self.initializers.append(tensor)
        return name

    def constant(self, values: Any, kind: type = np.int64) -> str:
        """A constant with its elements."""
        name = self.fresh("c")
        self.initializers.append(numpy_helper.from_array(np.array(values, kind), name))
        return name

    def fresh(self, stem: str) -> str:
        """A name of its own."""
        self.count += 1
        return f"{stem}{self.count}"

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node with one result."""
        output = self.fresh(op.lower())
        self.nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def linear(self, x: str, inner: int, outer: int, bias: bool = False) -> str:
        """A product with a parameter."""
        y = self.node("MatMul", x, self.weight(inner, outer))
        return self.node("Add", y, self.weight(outer)) if bias else y

    def save(self, path: Path, *outputs: str, opset: int = 21) -> Path:
        """Write the file."""
        values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in self.inputs.items()]
        graph = helper.make_graph(
            self.nodes, "graph", values, [onnx.ValueInfoProto(name=n) for n in outputs], self.initializers
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), path)
        return path


REPEATS = ("expand", "tile", "concat", "gather", "shared")
"""Ways to write keys and values that several heads share; `shared` leaves the broadcast to the product."""


@dataclass(frozen=True)
class LlamaBlock:
    """A decoder block with grouped queries, rotary positions and a cache.

    Args:
        width: Of the model.
        heads: Of queries.
        key_heads: Of keys and values.
        hidden: Width of the feed-forward layer.
    """

    width: int
    heads: int
    key_heads: int
    hidden: int

    @property
    def weights(self) -> int:
        """Elements of the matrices."""
        d = self.width // self.heads
        return self.width * (2 * self.width + 2 * self.key_heads * d) + 3 * self.width * self.hidden

    def macs(self, batch: int, seq: int, past: int) -> int:
        """Every weight meets every token once; every query head meets every key and every value attended to."""
        return batch * seq * (self.weights + 2 * self.width * (seq + past))

    def cache_elements(self, batch: int, tokens: int) -> int:
        """Keys and values of so many tokens."""
        return 2 * batch * self.key_heads * (self.width // self.heads) * tokens

    def save(
        self,
        path: Path,
        *,
        batch: Dim = "batch",
        seq: Dim = "seq",
        past: Dim | None = "past",
        repeat: str = "expand",
        stored: bool = True,
        scaled: bool = False,
    ) -> Path:
        """Write the block as exporters do; free axes by name.

        Args:
            path: The file.
            batch: Length or name.
            seq: Length or name.
            past: Length or name; None: no cache.
            repeat: One of `REPEATS`.
            stored: Whether the weights are initialisers (else plain inputs).
            scaled: Whether the repeated keys are scaled before the product, as PyTorch does.
        """
        g = GraphMaker(stored)
        x = g.input("x", batch, seq, self.width)
        d, group = self.width // self.heads, self.heads // self.key_heads
        normed = g.node("RMSNormalization", x, g.weight(self.width), axis=-1) if stored else x
        q, k, v = (
            g.node(
                "Transpose",
                g.node("Reshape", g.linear(normed, self.width, n * d), g.constant([0, 0, n, d])),
                perm=[0, 2, 1, 3],
            )
            for n in (self.heads, self.key_heads, self.key_heads)
        )
        q, k = self._rotate(g, q, d), self._rotate(g, k, d)
        results = []
        if past is not None:
            k = g.node("Concat", g.input("past_k", batch, self.key_heads, past, d), k, axis=2)
            v = g.node("Concat", g.input("past_v", batch, self.key_heads, past, d), v, axis=2)
            results = [k, v]
        k, v = self._repeat(g, k, d, group, repeat), self._repeat(g, v, d, group, repeat)
        if repeat == "shared":
            q = g.node("Reshape", q, g.constant([0, self.key_heads, group, -1, d]))
            turned = g.node("Transpose", k, perm=[0, 1, 2, 4, 3])
        else:
            turned = g.node("Transpose", k, perm=[0, 1, 3, 2])
        if scaled:
            turned = g.node("Mul", turned, g.constant(0.5, np.float32))
        scores = g.node("Div", g.node("MatMul", q, turned), g.constant(d**0.5, np.float32))
        context = g.node("MatMul", g.node("Softmax", scores, axis=-1), v)
        if repeat == "shared":
            context = g.node("Reshape", context, g.constant([0, self.heads, -1, d]))
        merged = g.node("Reshape", g.node("Transpose", context, perm=[0, 2, 1, 3]), g.constant([0, 0, self.width]))
        x = g.node("Add", x, g.linear(merged, self.width, self.width))
        gate, up = (g.linear(x, self.width, self.hidden) for _ in range(2))
        fed = g.node("Mul", g.node("Mul", gate, g.node("Sigmoid", gate)), up)
        return g.save(path, g.node("Add", x, g.linear(fed, self.hidden, self.width)), *results, opset=23)

    def _rotate(self, g: GraphMaker, x: str, d: int) -> str:
        half = d // 2
        first = g.node("Slice", x, g.constant([0]), g.constant([half]), g.constant([3]))
        second = g.node("Slice", x, g.constant([half]), g.constant([d]), g.constant([3]))
        turned = g.node("Concat", g.node("Neg", second), first, axis=3)
        cosine, sine = (g.constant(np.ones((1, 1, 1, d)), np.float32) for _ in range(2))
        return g.node("Add", g.node("Mul", x, cosine), g.node("Mul", turned, sine))

    def _repeat(self, g: GraphMaker, x: str, d: int, group: int, repeat: str) -> str:
        if repeat == "gather":
            return g.node("Gather", x, g.constant(np.repeat(np.arange(self.key_heads), group)), axis=1)
        wide = g.node("Unsqueeze", x, g.constant([2]))
        if repeat == "shared":
            return wide
        if repeat == "expand":
            wide = g.node("Expand", wide, g.constant([1, 1, group, 1, 1]))
        elif repeat == "tile":
            wide = g.node("Tile", wide, g.constant([1, 1, group, 1, 1]))
        else:
            wide = g.node("Concat", *[wide] * group, axis=2)
        return g.node("Reshape", wide, g.constant([0, self.heads, -1, d]))
