"""What the transformers of the zoo are made of: attention with its caches, feed-forward layers, the way in and the way out."""

from collections.abc import Callable

from codesign.workloads.builder import NetworkBuilder


def token_states(net: NetworkBuilder, tokens: int, vocabulary: int, width: int) -> str:
    """So many tokens of every sequence, looked up in the table of words."""
    return net.embedding(net.input("tokens", (net.batch, tokens)), vocabulary, width, name="word_embedding")


def last_logits(
    net: NetworkBuilder, x: str, vocabulary: int, norm: Callable[..., str], table: str | None = "word_embedding.table"
) -> str:
    """The output layer for the last token, after a normalisation; `table` is what it shares, None where it has weights of its own."""
    batch, tokens, width = net.shape(x)
    last = x if tokens == 1 else net.take(x, (batch, 1, width), name="last_token")
    return net.linear(norm(last, name="final_norm"), vocabulary, bias=False, weight=table, name="head")


def attend(net: NetworkBuilder, queries: str, keys: str, values: str, name: str) -> str:
    """softmax(Q K) V; scale and mask belong to the query weights and the softmax."""
    scores = net.softmax(net.matmul(queries, keys, name=f"{name}.qk"), name=f"{name}.softmax")
    return net.matmul(scores, values, name=f"{name}.pv")


def cache_inputs(net: NetworkBuilder, x: str, heads: int, past: int, name: str) -> tuple[str, str] | None:
    """Keys and values of tokens before those of `x`; None where there are none."""
    if not past:
        return None
    batch, _, width = net.shape(x)
    d = width // heads
    keys = net.input(f"{name}.key_cache", (batch, heads, d, past))
    return keys, net.input(f"{name}.value_cache", (batch, heads, past, d))


def attention(
    net: NetworkBuilder,
    x: str,
    source: str | int,
    heads: int,
    name: str,
    *,
    caches: tuple[str, str] | None = None,
    biased: str = "qkv",
    views: tuple[str, str] = ("split_heads", "merge_heads"),
) -> tuple[str, tuple[str, str]]:
    """Attention of all heads: the projected result, and keys ``batch x heads x d x tokens`` and values ``batch x heads x tokens x d``.

    Args:
        net: Where to build.
        x: Tokens that ask, ``batch x tokens x width``.
        source: Tokens that are attended to; a number: so many, whose keys and values are inputs.
        heads: Attention heads.
        name: Of the layer.
        caches: Keys and values of earlier tokens; None without.
        biased: Which of the products ``q``, ``k`` and ``v`` have a bias.
        views: Names of the reshapes to heads and back.
    """
    batch, tokens, width = net.shape(x)
    d = width // heads

    def split(letter: str, of: str) -> str:
        made, rows = net.linear(of, width, bias=letter in biased, name=f"{name}.{letter}"), net.shape(of)[1]
        return net.reshape(made, (batch, heads, *((d, rows) if letter == "k" else (rows, d))), name=views[0])

    queries = split("q", x)
    if isinstance(source, int):
        keys = net.input(f"{name}.keys", (batch, heads, d, source))
        values = net.input(f"{name}.values", (batch, heads, source, d))
    else:
        keys, values = split("k", source), split("v", source)
    if caches is not None:
        keys = net.append(caches[0], keys, axis=3, name=f"{name}.keys")
        values = net.append(caches[1], values, axis=2, name=f"{name}.values")
    merged = net.reshape(attend(net, queries, keys, values, name), (batch, tokens, width), name=views[1])
    return net.linear(merged, width, name=f"{name}.out"), (keys, values)


def feed_forward(net: NetworkBuilder, x: str, hidden: int, function: str, name: str, *, bias: bool = True) -> str:
    """down(function(up(x)))."""
    up = net.activation(net.linear(x, hidden, bias=bias, name=f"{name}.up"), function, name=f"{name}.{function}")
    return net.linear(up, net.shape(x)[-1], bias=bias, name=f"{name}.down")
