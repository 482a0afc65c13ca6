"""A block of a decoder as a layer graph in the published form of GPT-2: tensors are axes apart, so that tiles move by axes.

Keys are computed head by head, transposed and concatenated, so that the product Q K^T is a grouped convolution with weights made on
chip. Query heads that share a key head are a product each, on the same keys. Rotations are not counted.
"""

from dataclasses import dataclass

from codesign.core.errors import UserError
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
from codesign.workloads.zoo.language_models import LanguageModel

READS_STATES = ("norm1", "res1", "final_norm")
"""Layers that read the states which the block before makes."""

MOST_PARTS = 32
"""Layers that one product is cut into at most."""


@dataclass
class _Builder:
    layers: list[Layer]
    most_weights: int | None = None

    def add(
        self, name: str, kind: LayerType, k: int, h: int, prevs: tuple[int, ...], *, c: int | None = None, groups: int = 1,
        operands: int = 1, weights: tuple[int, ...] = (), external: tuple[int, ...] = (), order: tuple[int, int, int] = (0, 1, 2),
    ) -> int:  # fmt: skip
        """Append a layer with output ``k x h x 1``; returns its id."""
        in_h = k if order == (1, 0, 2) else h
        self.layers.append(
            Layer(
                name, kind, k, h, 1, k if c is None else c, groups=groups, operands=operands, in_h=in_h, in_w=1, order=order,
                ifm_prevs=prevs, wgt_prevs=weights, ext_prevs=external,
            )
        )  # fmt: skip
        return len(self.layers) - 1

    def turn(self, name: str, k: int, h: int, prevs: tuple[int, ...]) -> int:
        """A transposition of channels and rows, to ``k x h``."""
        return self.add(name, LayerType.TRANSPOSE, k, h, prevs, order=(1, 0, 2))

    def product(self, name: str, k: int, h: int, prevs: tuple[int, ...], c: int) -> tuple[int, ...]:
        """A product with stored weights, in as many parts of its channels as keep each below the most weights."""
        parts = 1 if self.most_weights is None else min(k, MOST_PARTS, -(-c * k // self.most_weights))
        ends = [k * i // parts for i in range(parts + 1)]
        names = [name] if parts == 1 else [f"{name}_part{i}" for i in range(parts)]
        return tuple(
            self.add(part, LayerType.CONV, past - first, h, prevs, c=c)
            for part, first, past in zip(names, ends[:-1], ends[1:], strict=True)
        )


def decoder_block(
    name: str, model: LanguageModel, tokens: int, past: int, *, stored: bool = False, most_weights: int | None = None
) -> LayerGraph:
    """One block of one sample: the states of some tokens after others in a cache.

    Args:
        name: Of the graph.
        model: Dimensions.
        tokens: Read at once.
        past: In the cache before them.
        stored: Whether new keys and values are written to the cache in DRAM; the published graphs leave that out.
        most_weights: Of one layer; products of more are cut along their output channels.

    Raises:
        UserError: Experts or latent attention, whose blocks have other layers.
    """
    if model.experts is not None or model.latent is not None:
        what = "experts" if model.experts is not None else "latent attention"
        raise UserError(f"blocks with {what} are not scheduled in trees of segments", where=f"model {name!r}")
    kept = past if model.window is None else min(past, max(model.window - tokens, 0))
    b = _Builder([], most_weights)
    norm = b.add("norm1", LayerType.POINTWISE, model.width, tokens, (), external=(0,))
    mixed = _attention(b, model, tokens, kept, norm, stored)
    inner = model.heads * model.head_width
    out = b.product("attention_FC", model.width, tokens, mixed, inner)
    first = b.add("res1", LayerType.ELTWISE, model.width, tokens, out, operands=2, external=(0,))
    _feed_forward(b, model, tokens, first)
    inputs = [(model.width, tokens, 1)]
    if kept:
        inputs += [(model.key_heads * kept, model.head_width, 1), (kept, model.key_heads * model.head_width, 1)]
    return LayerGraph(name, tuple(b.layers), tuple(inputs))


def decoder_head(name: str, model: LanguageModel, most_weights: int | None = None) -> LayerGraph:
    """The output layer for the last token of a sample, with the norm before it."""
    b = _Builder([], most_weights)
    norm = b.add("final_norm", LayerType.POINTWISE, model.width, 1, (), external=(0,))
    b.product("head", model.vocabulary, 1, (norm,), model.width)
    return LayerGraph(name, tuple(b.layers), ((model.width, 1, 1),))


def _attention(b: _Builder, model: LanguageModel, tokens: int, kept: int, norm: int, stored: bool) -> tuple[int, ...]:
    """Attention over the cache and the new tokens; what each head of a group of queries mixed."""
    heads, head, total = model.key_heads, model.head_width, kept + tokens
    width, group = heads * head, model.heads // heads
    asked = [_projected(b, model, f"Q{i}" if group > 1 else "Q", width, tokens, norm) for i in range(group)]
    made: list[tuple[int, ...]] = []
    turned = []
    for i in range(heads):
        made.append(_projected(b, model, f"K{i}", head, tokens, norm))
        turned.append(b.turn(f"attention_Kt{i}", tokens, head, made[i]))
    keys = b.add("attention_newK" if kept else "attention_K", LayerType.POINTWISE, heads * tokens, head, tuple(turned))
    values = b.product("attention_newV" if kept else "attention_V", width, tokens, (norm,), model.width)
    if stored:
        b.add("attention_stored_K", LayerType.POINTWISE, width, tokens, sum(made, ()))
        b.add("attention_stored_V", LayerType.POINTWISE, width, tokens, values)
    if kept:
        keys = b.add("attention_K", LayerType.POINTWISE, heads * total, head, (keys,), external=(1,))
        flat = b.turn("attention_newVt", tokens, width, values)
        joined = b.add("attention_Vt_concat", LayerType.POINTWISE, total, width, (flat,), external=(2,))
        values = (b.turn("attention_V", width, total, (joined,)),)
    mixed = []
    for i, query in enumerate(asked):
        one = str(i) if group > 1 else ""
        scores = b.add(
            f"attention_QK{one}", LayerType.GROUP_CONV, heads * total, tokens, query, c=width, groups=heads, weights=(keys,)
        )  # fmt: skip
        soft = b.add(f"attention_QK{one}_elt", LayerType.POINTWISE, heads * total, tokens, (scores,))
        mixed.append(
            b.add(f"attention_QKV{one}", LayerType.GROUP_CONV, width, tokens, (soft,), c=heads * total, groups=heads, weights=values)
        )  # fmt: skip
    return tuple(mixed)


def _projected(b: _Builder, model: LanguageModel, name: str, width: int, tokens: int, norm: int) -> tuple[int, ...]:
    """Queries or keys, with a norm of their own where the model has one."""
    made = b.product(f"attention_{name}", width, tokens, (norm,), model.width)
    if not model.query_norm:
        return made
    return (b.add(f"attention_{name}_norm", LayerType.POINTWISE, width, tokens, made),)


def _feed_forward(b: _Builder, model: LanguageModel, tokens: int, first: int) -> None:
    """The second half of a block: norm, two or three products, residual."""
    norm = b.add("norm2", LayerType.POINTWISE, model.width, tokens, (first,))
    up = b.product("ffn1", model.hidden, tokens, (norm,), model.width)
    if model.gated:
        gate = b.product("ffn_gate", model.hidden, tokens, (norm,), model.width)
        opened = b.add("SiLU", LayerType.POINTWISE, model.hidden, tokens, gate)
        inner = b.add("ffn_mul", LayerType.ELTWISE, model.hidden, tokens, (*up, opened), operands=2)
    else:
        inner = b.add("GeLU", LayerType.POINTWISE, model.hidden, tokens, up)
    down = b.product("ffn2", model.width, tokens, (inner,), model.hidden)
    b.add("res2", LayerType.ELTWISE, model.width, tokens, (first, *down), operands=2)
