"""Decoder-only language models of today: grouped queries, gated feed-forward layers, experts, latent attention.

Dimensions are those the authors publish with their weights; the number of parameters of each model is checked against the published
one. Closed formulas:

Width w, heads h of width d, key heads g, feed-forward width f, vocabulary v, layers l, tokens read n, attended to t:

* W16: Parameters of a block: w d (2h + 2g) + 3 w f + 2 w, and biases or norms. Of the model: l blocks, the table v
  w, the output layer v w unless shared, and w. DeepSeek-V3 without the offsets that balance experts.
* W17: MACs of a dense decoder: n l (w d (2h + 2g) + 3 w f) + 2 n t l h d + v w. The output layer runs for the last
  token alone; masked products count.
* W18, Caches: 2 g d elements of every token in every layer, read once a step; a step appends its tokens. A window
  bounds them. Latent attention keeps one vector and one key part for all heads; queries and outputs absorb the
  expansions. A scan keeps a state of one size.
* W19, Experts: Of E experts each token takes k. A batch of n tokens reaches E (1 - (1 - k/E)^n) in the mean, rounded,
  at least k; in the worst case min(E, k n). The k n choices are shared evenly. The network holds for its batch only.
"""

from dataclasses import dataclass

from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.zoo.parts import attend, feed_forward, last_logits, token_states
from codesign.workloads.zoo.routing import Routing, expert_load


@dataclass(frozen=True)
class Experts:
    """The routed feed-forward layers of a model.

    Args:
        count: Experts of a layer.
        chosen: Experts that a token is sent to.
        hidden: Width of one.
        shared: Experts that every token passes besides.
        dense_layers: Layers at the start that have one plain feed-forward layer instead.
    """

    count: int
    chosen: int
    hidden: int
    shared: int = 0
    dense_layers: int = 0


@dataclass(frozen=True)
class Latent:
    """Latent attention (DeepSeek-AI, 2024): keys and values of all heads come from one cached vector a token.

    Args:
        cached: Width of that vector.
        rotary: Width of the key part with positions, shared by all heads and cached too.
        content: Width of a head's query and key part without positions.
        value: Width of a head's values.
        query: Width that queries are compressed to; 0: they are not.
    """

    cached: int
    rotary: int
    content: int
    value: int
    query: int = 0


@dataclass(frozen=True)
class LanguageModel:
    """Dimensions of a decoder.

    Args:
        layers: Blocks.
        width: Of the model.
        heads: Of queries.
        key_heads: Of keys and values.
        head_width: Of one head.
        hidden: Of the feed-forward layer.
        vocabulary: Rows of the embedding table.
        context: Tokens attended to at most.
        tied: Whether the output layer shares the embedding table.
        query_bias: Whether queries, keys and values have a bias.
        query_norm: Whether queries and keys are normalised head by head.
        window: Tokens that sliding-window attention looks back, the new one included; None: all.
        experts: Of a mixture; None for a dense model.
        latent: Of latent attention; None for keys and values by head.
        gated: Whether the feed-forward layer multiplies by a gate; else it is two products with GELU between.
    """

    layers: int
    width: int
    heads: int
    key_heads: int
    head_width: int
    hidden: int
    vocabulary: int
    context: int
    tied: bool = False
    query_bias: bool = False
    query_norm: bool = False
    window: int | None = None
    experts: Experts | None = None
    latent: Latent | None = None
    gated: bool = True

    @property
    def feed_forward_products(self) -> int:
        """Products of a dense feed-forward layer, each of the width times the hidden width."""
        return 3 if self.gated else 2

    def cache_elements(self, tokens: int) -> int:
        """Elements that one sequence of so many tokens keeps in all layers."""
        if self.latent is not None:
            return self.layers * tokens * (self.latent.cached + self.latent.rotary)
        kept = tokens if self.window is None else min(tokens, self.window)
        return self.layers * kept * 2 * self.key_heads * self.head_width


LANGUAGE_MODELS = {
    # Brown et al., 2020; its biases and learned positions, 0.02 % of the parameters, are left out
    "gpt3_175b": LanguageModel(96, 12288, 96, 96, 128, 49152, 50257, 2048, tied=True, gated=False),
    # Touvron et al., 2023 (Llama 2); Grattafiori et al., 2024 (Llama 3)
    "llama2_7b": LanguageModel(32, 4096, 32, 32, 128, 11008, 32000, 4096),
    "llama2_13b": LanguageModel(40, 5120, 40, 40, 128, 13824, 32000, 4096),
    "llama2_70b": LanguageModel(80, 8192, 64, 8, 128, 28672, 32000, 4096),
    "llama3_8b": LanguageModel(32, 4096, 32, 8, 128, 14336, 128256, 8192),
    "llama3_70b": LanguageModel(80, 8192, 64, 8, 128, 28672, 128256, 8192),
    # Jiang et al., 2023: a window of 4096 tokens
    "mistral_7b": LanguageModel(32, 4096, 32, 8, 128, 14336, 32000, 32768, window=4096),
    # Qwen team, 2024 and 2025
    "qwen2_5_0_5b": LanguageModel(24, 896, 14, 2, 64, 4864, 151936, 32768, tied=True, query_bias=True),
    "qwen2_5_7b": LanguageModel(28, 3584, 28, 4, 128, 18944, 152064, 131072, query_bias=True),
    "qwen3_0_6b": LanguageModel(28, 1024, 16, 8, 128, 3072, 151936, 40960, tied=True, query_norm=True),
    "qwen3_8b": LanguageModel(36, 4096, 32, 8, 128, 12288, 151936, 40960, query_norm=True),
    # Jiang et al., 2024
    "mixtral_8x7b": LanguageModel(32, 4096, 32, 8, 128, 14336, 32000, 32768, experts=Experts(8, 2, 14336)),
    # DeepSeek-AI, 2024 (V2-Lite, V3)
    "deepseek_v2_lite": LanguageModel(
        27, 2048, 16, 16, 192, 10944, 102400, 163840,
        experts=Experts(64, 6, 1408, shared=2, dense_layers=1), latent=Latent(512, 64, 128, 128),
    ),
    "deepseek_v3": LanguageModel(
        61, 7168, 128, 128, 192, 18432, 129280, 163840,
        experts=Experts(256, 8, 2048, shared=1, dense_layers=3), latent=Latent(512, 64, 128, 128, query=1536),
    ),
}  # fmt: skip
"""Model by name."""


@dataclass(frozen=True)
class Span:
    """Consecutive layers of a model, of those numbered from 1.

    Args:
        first: The first layer; the embedding goes with layer 1.
        last: The last.
        head: Whether the output layer is part.
    """

    first: int
    last: int
    head: bool

    @property
    def layers(self) -> int:
        """How many."""
        return self.last - self.first + 1


def language_model(
    net: NetworkBuilder,
    model: LanguageModel,
    tokens: int,
    past: int,
    routing: Routing = Routing.EXPECTED,
    span: Span | None = None,
) -> tuple[str, ...]:
    """The whole model, or a span: the logits of the last token (without head the states), then the caches of every layer.

    Args:
        net: Where to build.
        model: Dimensions.
        tokens: Tokens read at once, of every sequence.
        past: Tokens in the cache before them.
        routing: Which experts a batch reaches.
        span: Layers that are built; None for all.
    """
    span = span or Span(1, model.layers, True)
    if span.first == 1:
        x = token_states(net, tokens, model.vocabulary, model.width)
    else:
        x = net.input("states", (net.batch, tokens, model.width))
    kept: list[str] = []
    for layer in range(span.first, span.last + 1):
        x, grown = _block(net, model, x, layer, past, routing)
        kept.extend(grown)
    if not span.head:
        return (x, *kept)
    table = "word_embedding.table" if model.tied and span.first == 1 else None
    return (last_logits(net, x, model.vocabulary, net.rms_norm, table), *kept)


def language_model_block(
    net: NetworkBuilder, model: LanguageModel, tokens: int, past: int, routing: Routing = Routing.EXPECTED
) -> tuple[str, ...]:
    """One block, the last kind the model has (with experts where it has some): the next states, then the caches."""
    x, grown = _block(net, model, net.input("states", (net.batch, tokens, model.width)), model.layers, past, routing)
    return (x, *grown)


def _block(
    net: NetworkBuilder, model: LanguageModel, x: str, layer: int, past: int, routing: Routing
) -> tuple[str, tuple[str, ...]]:
    name = f"layer{layer}"
    normed = net.rms_norm(x, name=f"{name}.norm1")
    attend = _attention if model.latent is None else _latent_attention
    attended, grown = attend(net, model, normed, f"{name}.attention", past)
    x = net.residual(x, attended, name=f"{name}.add1")
    normed = net.rms_norm(x, name=f"{name}.norm2")
    if model.experts is None or layer <= model.experts.dense_layers:
        ffn = f"{name}.ffn"
        fed = (
            gated_feed_forward(net, normed, model.hidden, ffn)
            if model.gated
            else feed_forward(net, normed, model.hidden, "gelu", ffn, bias=False)
        )
    else:
        fed = _mixture(net, model.experts, normed, f"{name}.experts", routing)
    return net.residual(x, fed, name=f"{name}.add2"), grown


def gated_feed_forward(net: NetworkBuilder, x: str, hidden: int, name: str) -> str:
    """down(silu(gate(x)) * up(x)), without biases (Shazeer, 2020)."""
    gate = net.activation(net.linear(x, hidden, bias=False, name=f"{name}.gate"), "swish", name=f"{name}.silu")
    up = net.linear(x, hidden, bias=False, name=f"{name}.up")
    product = net.elementwise("mul", gate, up, name=f"{name}.mul")
    return net.linear(product, net.shape(x)[-1], bias=False, name=f"{name}.down")


def _attention(net: NetworkBuilder, model: LanguageModel, x: str, name: str, past: int) -> tuple[str, tuple[str, ...]]:
    """Attention with grouped queries: the query heads of a group read one key head and one value head."""
    batch, tokens, _ = net.shape(x)
    d, group = model.head_width, model.heads // model.key_heads
    bias = model.query_bias
    queries = net.linear(x, model.heads * d, bias=bias, name=f"{name}.q")
    keys = net.linear(x, model.key_heads * d, bias=bias, name=f"{name}.k")
    values = net.linear(x, model.key_heads * d, bias=bias, name=f"{name}.v")
    queries = net.reshape(queries, (batch, model.heads, tokens, d), name="split_heads")
    keys = net.reshape(keys, (batch, model.key_heads, tokens, d), name="split_heads")
    if model.query_norm:
        queries, keys = net.rms_norm(queries, name=f"{name}.q_norm"), net.rms_norm(keys, name=f"{name}.k_norm")
    queries = net.activation(queries, "rotary", name=f"{name}.q_rotary")
    keys = net.activation(keys, "rotary", name=f"{name}.k_rotary")
    values = net.reshape(values, (batch, model.key_heads, tokens, d), name="split_heads")
    kept = past if model.window is None else min(past, max(model.window - tokens, 0))
    grown: tuple[str, ...] = (keys, values)
    if kept:
        shape = (batch, model.key_heads, kept, d)
        keys = net.append(net.input(f"{name}.key_cache", shape), keys, axis=2, name=f"{name}.keys")
        values = net.append(net.input(f"{name}.value_cache", shape), values, axis=2, name=f"{name}.values")
        grown = (keys, values)
    attended = net.shape(keys)[2]
    grouped = net.reshape(queries, (batch, model.key_heads, group * tokens, d), name="group_heads")
    turned = net.reshape(keys, (batch, model.key_heads, d, attended), name="turn_keys")
    context = attend(net, grouped, turned, values, name)
    merged = net.reshape(context, (batch, tokens, model.heads * d), name="merge_heads")
    return net.linear(merged, model.width, bias=False, name=f"{name}.out"), grown


def _latent_attention(
    net: NetworkBuilder, model: LanguageModel, x: str, name: str, past: int
) -> tuple[str, tuple[str, ...]]:
    """Latent attention: of the tokens read alone with keys and values expanded, of cached tokens within the latent space.

    With a cache the expansion of the keys is absorbed by the queries and that of the values by the output, so that the cached vectors
    themselves are attended to (DeepSeek-V2, section 2.1.2).
    """
    latent = model.latent
    assert latent is not None
    batch, tokens, _ = net.shape(x)
    heads = model.heads
    asked = x
    if latent.query:
        asked = net.rms_norm(net.linear(x, latent.query, bias=False, name=f"{name}.q_down"), name=f"{name}.q_norm")
    queries = net.linear(asked, heads * (latent.content + latent.rotary), bias=False, name=f"{name}.q")
    content = net.take(queries, (batch, heads, tokens, latent.content), name=f"{name}.q_content")
    turned = net.take(queries, (batch, heads, tokens, latent.rotary), name=f"{name}.q_turned")
    turned = net.activation(turned, "rotary", name=f"{name}.q_rotary")
    pressed = net.linear(x, latent.cached + latent.rotary, bias=False, name=f"{name}.kv_down")
    vector = net.rms_norm(
        net.take(pressed, (batch, tokens, latent.cached), name=f"{name}.kv_part"), name=f"{name}.kv_norm"
    )
    position = net.take(pressed, (batch, tokens, latent.rotary), name=f"{name}.k_part")
    position = net.activation(position, "rotary", name=f"{name}.k_rotary")
    up_keys = net.parameter(f"{name}.k_up.weight", (heads, latent.content, latent.cached))
    up_values = net.parameter(f"{name}.v_up.weight", (heads, latent.cached, latent.value))
    new = net.concat(vector, position, axis=2, name=f"{name}.latent")
    if past:
        cache = net.input(f"{name}.latent_cache", (batch, past, latent.cached + latent.rotary))
        grown = net.append(cache, new, axis=1, name=f"{name}.latents")
        context = _absorbed(net, latent, name, (content, turned, grown, up_keys, up_values))
    else:
        grown = new
        context = _expanded(net, latent, name, (content, turned, vector, position, up_keys, up_values))
    merged = net.reshape(context, (batch, tokens, heads * latent.value), name="merge_heads")
    return net.linear(merged, model.width, bias=False, name=f"{name}.out"), (grown,)


def _expanded(net: NetworkBuilder, latent: Latent, name: str, parts: tuple[str, str, str, str, str, str]) -> str:
    """Keys and values of every head from the latent vectors of the tokens read."""
    content, turned, vector, position, up_keys, up_values = parts
    batch, heads, tokens, _ = net.shape(content)
    keys = net.linear(vector, heads * latent.content, bias=False, weight=up_keys, name=f"{name}.k_up")
    values = net.linear(vector, heads * latent.value, bias=False, weight=up_values, name=f"{name}.v_up")
    values = net.reshape(values, (batch, heads, tokens, latent.value), name="split_heads")
    joined = net.concat(content, turned, axis=3, name=f"{name}.queries")
    wide = net.concat(
        net.reshape(keys, (batch, heads, latent.content, tokens), name="turn_keys"),
        net.repeat(position, (batch, heads, latent.rotary, tokens), name=f"{name}.k_repeat"),
        axis=2,
        name=f"{name}.keys",
    )
    return attend(net, joined, wide, values, name)


def _absorbed(net: NetworkBuilder, latent: Latent, name: str, parts: tuple[str, str, str, str, str]) -> str:
    """Attention within the latent space: all heads read the cached vectors."""
    content, turned, cached, up_keys, up_values = parts
    batch, heads, tokens, _ = net.shape(content)
    attended = net.shape(cached)[1]
    absorbed = net.head_product(content, up_keys, name=f"{name}.q_absorb")
    asked = net.concat(absorbed, turned, axis=3, name=f"{name}.queries")
    width = latent.cached + latent.rotary
    asked = net.reshape(asked, (batch, heads * tokens, width), name="rows_of_heads")
    turned_cache = net.reshape(cached, (batch, width, attended), name="turn_latents")
    scores = net.softmax(net.matmul(asked, turned_cache, name=f"{name}.qk"), name=f"{name}.softmax")
    kept = net.take(cached, (batch, attended, latent.cached), name=f"{name}.latent_values")
    context = net.matmul(scores, kept, name=f"{name}.pv")
    context = net.reshape(context, (batch, heads, tokens, latent.cached), name="split_heads")
    return net.head_product(context, up_values, name=f"{name}.v_absorb")


def _mixture(net: NetworkBuilder, experts: Experts, x: str, name: str, routing: Routing) -> str:
    """Routed experts: every token passes those it is sent to, and the shared ones."""
    batch, tokens, width = net.shape(x)
    rows = batch * tokens
    router = net.linear(x, experts.count, bias=False, name=f"{name}.router")
    weights = net.softmax(router, name=f"{name}.choice")
    load = expert_load(experts.count, experts.chosen, rows, routing)
    parts = []
    for index, (count, each) in enumerate(load.groups):
        sent = net.route(x, weights, (count, each, width), name=f"{name}.sent{index}")
        gate = net.activation(
            net.expert_product(sent, experts.hidden, name=f"{name}.gate{index}"), "swish", name=f"{name}.silu{index}"
        )
        up = net.expert_product(sent, experts.hidden, name=f"{name}.up{index}")
        product = net.elementwise("mul", gate, up, name=f"{name}.mul{index}")
        parts.append(net.expert_product(product, width, name=f"{name}.down{index}"))
    unread = experts.count - sum(count for count, _ in load.groups)
    if unread:
        net.parameter(f"{name}.unread", (unread, 3, width, experts.hidden))
    mixed = net.combine(parts, weights, (batch, tokens, width), rows * experts.chosen, name=f"{name}.mix")
    if experts.shared:
        always = gated_feed_forward(net, x, experts.shared * experts.hidden, f"{name}.shared")
        mixed = net.residual(mixed, always, name=f"{name}.add")
    return mixed


def decode_macs(model: LanguageModel, past: int) -> int:
    """MACs of one new token after `past` cached ones, by closed formula (rule W17)."""
    w, h, t = model.width, model.heads, past + 1
    if model.latent is None:
        d = model.head_width
        t = t if model.window is None else min(t, model.window)
        attention = w * d * (2 * h + 2 * model.key_heads) + 2 * h * d * t
    else:
        latent = model.latent
        asked = h * (latent.content + latent.rotary)
        attention = latent.query * (w + asked) if latent.query else w * asked
        attention += w * (latent.cached + latent.rotary) + h * latent.value * w
        attention += h * latent.cached * (latent.content + latent.value)
        attention += (
            h * t * (2 * latent.cached + latent.rotary)
            if past
            else h * t * (latent.content + latent.rotary + latent.value)
        )
    head = model.vocabulary * w
    if model.experts is None:
        return model.layers * (attention + model.feed_forward_products * w * model.hidden) + head
    e = model.experts
    mixture = 3 * w * e.hidden * (e.chosen + e.shared) + w * e.count
    layers = e.dense_layers * 3 * w * model.hidden + (model.layers - e.dense_layers) * mixture
    return model.layers * attention + layers + head
