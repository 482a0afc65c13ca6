"""Transformers: BERT, ViT and GPT-2, the latter as prefill or as one step of decoding with a key-value cache.

Attention: queries, keys and values are three products; the heads are views of their results (a product reads rows of
one head with a stride); the scale 1/sqrt(d) belongs to the query weights, the causal mask to the softmax.
"""

import math
from dataclasses import dataclass

from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.zoo.language_models import LanguageModel
from codesign.workloads.zoo.parts import attention, cache_inputs, feed_forward, last_logits, token_states


@dataclass(frozen=True)
class _Shape:
    """Layers, heads, width of the model and of the feed-forward layer."""

    layers: int
    heads: int
    width: int
    hidden: int


_BERT_BASE = _Shape(12, 12, 768, 3072)
_VIT = {"b": _BERT_BASE, "l": _Shape(24, 16, 1024, 4096)}
GPT2 = {
    "small": LanguageModel(12, 768, 12, 12, 64, 3072, 50257, 1024, tied=True, gated=False),
    "xl": LanguageModel(48, 1600, 25, 25, 64, 6400, 50257, 1024, tied=True, gated=False),
}


def _block(
    net: NetworkBuilder,
    x: str,
    heads: int,
    hidden: int,
    function: str,
    name: str,
    caches: tuple[str, str] | None = None,
) -> tuple[str, tuple[str, str]]:
    """A block with a normalisation before each part: the next states, and keys and values of all tokens."""
    normed = net.layer_norm(x, name=f"{name}.norm1")
    attended, grown = attention(net, normed, normed, heads, f"{name}.attention", caches=caches)
    x = net.residual(x, attended, name=f"{name}.add1")
    fed = feed_forward(net, net.layer_norm(x, name=f"{name}.norm2"), hidden, function, f"{name}.ffn")
    return net.residual(x, fed, name=f"{name}.add2"), grown


def bert_base(net: NetworkBuilder, seq: int) -> str:
    """BERT-base encoder with pooler (Devlin et al., NAACL 2019): 12 layers, normalisation after each part."""
    shape = _BERT_BASE
    tokens = net.input("tokens", (net.batch, seq))
    segments = net.input("segments", (net.batch, seq))
    x = net.elementwise(
        "add",
        net.embedding(tokens, 30522, shape.width, name="word_embedding"),
        net.embedding(segments, 2, shape.width, name="segment_embedding"),
        net.parameter("position_embedding", (seq, shape.width)),
        name="embedding_sum",
    )
    x = net.layer_norm(x, name="embedding_norm")
    for layer in range(1, shape.layers + 1):
        attended, _ = attention(net, x, x, shape.heads, f"layer{layer}.attention")
        x = net.layer_norm(net.residual(x, attended, name=f"layer{layer}.add1"), name=f"layer{layer}.norm1")
        fed = feed_forward(net, x, shape.hidden, "gelu", f"layer{layer}.ffn")
        x = net.layer_norm(net.residual(x, fed, name=f"layer{layer}.add2"), name=f"layer{layer}.norm2")
    first = net.take(x, (net.batch, shape.width), name="first_token")
    return net.activation(net.linear(first, shape.width, name="pooler"), "tanh")


def vit(net: NetworkBuilder, size: str) -> str:
    """ViT with patches of 16 x 16 at 224 x 224 (Dosovitskiy et al., ICLR 2021): 196 patches and a class token.

    Args:
        net: Where to build.
        size: ``b`` (12 layers of width 768) or ``l`` (24 of 1024).
    """
    shape = _VIT[size]
    image = net.input("image", (net.batch, 3, 224, 224))
    patches = net.conv(image, shape.width, 16, stride=16, padding="valid", bias=True, name="patches")
    count = math.prod(net.shape(patches)[2:])
    flat = net.reshape(patches, (net.batch, shape.width, count))
    x = net.transpose(flat, (0, 2, 1), name="patches_to_tokens")
    token = net.parameter("class_token", (1, shape.width))
    x = net.vector_concat(x, token, (net.batch, count + 1, shape.width), name="prepend_class")
    x = net.elementwise("add", x, net.parameter("position_embedding", (count + 1, shape.width)), name="add_positions")
    for layer in range(1, shape.layers + 1):
        x, _ = _block(net, x, shape.heads, shape.hidden, "gelu", f"layer{layer}")
    x = net.layer_norm(x, name="final_norm")
    return net.linear(net.take(x, (net.batch, shape.width), name="class_token_out"), 1000, name="head")


def gpt2(net: NetworkBuilder, size: str, tokens: int, past: int) -> tuple[str, ...]:
    """GPT-2 (Radford et al., 2019): normalisation before each part, one shared table for embedding and output.

    Args:
        net: Where to build.
        size: ``small`` (12 layers of width 768) or ``xl`` (48 of 1600).
        tokens: Tokens read at once.
        past: Tokens in the cache before them.

    Returns:
        The logits of the last token, then the key-value caches of every layer.
    """
    shape = GPT2[size]
    x = token_states(net, tokens, shape.vocabulary, shape.width)
    x = net.elementwise("add", x, net.parameter("position_embedding", (tokens, shape.width)), name="add_positions")
    kept: list[str] = []
    for layer in range(1, shape.layers + 1):
        x, grown = _gpt2_block(net, x, shape, f"layer{layer}", past)
        kept.extend(grown)
    return (last_logits(net, x, shape.vocabulary, net.layer_norm), *kept)


def gpt2_block(net: NetworkBuilder, size: str, tokens: int, past: int) -> tuple[str, ...]:
    """One block of GPT-2, from the states of its tokens to their next states.

    Args:
        net: Where to build.
        size: ``small`` or ``xl``.
        tokens: Tokens read at once.
        past: Tokens in the cache before them.

    Returns:
        The states, then the keys and values.
    """
    shape = GPT2[size]
    x, grown = _gpt2_block(net, net.input("states", (net.batch, tokens, shape.width)), shape, "layer1", past)
    return (x, *grown)


def _gpt2_block(net: NetworkBuilder, x: str, shape: LanguageModel, name: str, past: int) -> tuple[str, tuple[str, ...]]:
    """A block on the states `x`; returns the next states and the keys and values of all tokens."""
    caches = cache_inputs(net, x, shape.heads, past, name)
    x, grown = _block(net, x, shape.heads, shape.hidden, "gelu_tanh", name, caches)
    return x, grown if past else (f"{name}.attention.k", f"{name}.attention.v")
