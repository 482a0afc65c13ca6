"""Whisper (Radford et al., 2022): an encoder over 30 s of sound and a decoder that attends to it and to its own tokens."""

import math
from dataclasses import dataclass

from codesign.workloads.builder import NetworkBuilder

FRAMES, MELS = 3000, 80
"""Of the spectrogram of 30 s."""


@dataclass(frozen=True)
class SpeechModel:
    """Dimensions.

    Args:
        layers: Of the encoder, and of the decoder.
        width: Of the model; heads are 64 wide, the feed-forward layer four times as wide.
        vocabulary: Rows of the table, which the output layer shares.
        positions: Tokens of the decoder at most.
    """

    layers: int
    width: int
    vocabulary: int = 51865
    positions: int = 448

    @property
    def parameters(self) -> int:
        """Of the whole model (rule W16): keys have no bias; the positions of the encoder are a stored table."""
        w, sounds = self.width, FRAMES // 2
        attention = 4 * w * w + 3 * w
        feed = 8 * w * w + 5 * w
        encoder = 3 * MELS * w + w + 3 * w * w + w + sounds * w + self.layers * (attention + feed + 4 * w) + 2 * w
        decoder = (self.vocabulary + self.positions) * w + self.layers * (2 * attention + feed + 6 * w) + 2 * w
        return encoder + decoder


SPEECH_MODELS = {
    "whisper_tiny": SpeechModel(4, 384),
    "whisper_base": SpeechModel(6, 512),
    "whisper_small": SpeechModel(12, 768),
    "whisper_large": SpeechModel(32, 1280),
}


def whisper(net: NetworkBuilder, model: SpeechModel, tokens: int, past: int) -> tuple[str, ...]:
    """Prefill: the encoder and the first tokens. With a cache: further tokens alone.

    Args:
        net: Where to build.
        model: Dimensions.
        tokens: Tokens read at once.
        past: Tokens in the cache; above 0, keys and values of the sound are cached, too.

    Returns:
        The logits of the last token, then the caches of every layer.
    """
    sound = None if past else _encoder(net, model)
    ids = net.input("tokens", (net.batch, tokens))
    x = net.embedding(ids, model.vocabulary, model.width, name="word_embedding")
    x = net.elementwise("add", x, net.parameter("positions", (tokens, model.width)), name="add_positions")
    kept: list[str] = []
    for layer in range(1, model.layers + 1):
        name = f"decoder{layer}"
        normed = net.layer_norm(x, name=f"{name}.norm1")
        attended, grown = _attention(net, normed, normed, f"{name}.self", past)
        kept.extend(grown)
        x = net.residual(x, attended, name=f"{name}.add1")
        normed = net.layer_norm(x, name=f"{name}.norm2")
        attended, crossed = _attention(net, normed, sound, f"{name}.cross", 0)
        kept.extend(crossed)
        x = net.residual(x, attended, name=f"{name}.add2")
        x = _feed_forward(net, x, name, 3)
    last = x if tokens == 1 else net.take(x, (net.batch, 1, model.width), name="last_token")
    normed = net.layer_norm(last, name="final_norm")
    return (net.linear(normed, model.vocabulary, bias=False, weight="word_embedding.table", name="head"), *kept)


def _encoder(net: NetworkBuilder, model: SpeechModel) -> str:
    sound = net.input("spectrogram", (net.batch, MELS, FRAMES, 1))
    x = net.conv(sound, model.width, (3, 1), padding=((1, 1), (0, 0)), bias=True, name="conv1")
    x = net.conv(
        net.activation(x, "gelu", name="gelu1"),
        model.width,
        (3, 1),
        stride=(2, 1),
        padding=((1, 1), (0, 0)),
        bias=True,
        name="conv2",
    )
    x = net.activation(x, "gelu", name="gelu2")
    flat = net.reshape(x, (net.batch, model.width, FRAMES // 2), name="drop_axis")
    x = net.transpose(flat, (0, 2, 1), name="time_first")
    x = net.elementwise(
        "add", x, net.parameter("sound_positions", (FRAMES // 2, model.width)), name="add_sound_positions"
    )
    for layer in range(1, model.layers + 1):
        name = f"encoder{layer}"
        normed = net.layer_norm(x, name=f"{name}.norm1")
        attended, _ = _attention(net, normed, normed, f"{name}.self", 0)
        x = _feed_forward(net, net.residual(x, attended, name=f"{name}.add1"), name, 2)
    return net.layer_norm(x, name="encoder_norm")


def _feed_forward(net: NetworkBuilder, x: str, name: str, index: int) -> str:
    normed = net.layer_norm(x, name=f"{name}.norm{index}")
    wide = net.activation(net.linear(normed, 4 * net.shape(x)[-1], name=f"{name}.up"), "gelu", name=f"{name}.gelu")
    return net.residual(x, net.linear(wide, net.shape(x)[-1], name=f"{name}.down"), name=f"{name}.add{index}")


def _attention(net: NetworkBuilder, x: str, source: str | None, name: str, past: int) -> tuple[str, tuple[str, ...]]:
    """Attention of `x` to `source`, to a cache before it, or (None) to cached keys and values of the sound."""
    batch, tokens, width = net.shape(x)
    heads, d = width // 64, 64
    queries = net.reshape(net.linear(x, width, name=f"{name}.q"), (batch, heads, tokens, d), name="split_heads")
    grown: tuple[str, ...] = ()
    if source is None:
        keys = net.input(f"{name}.keys", (batch, heads, d, FRAMES // 2))
        values = net.input(f"{name}.values", (batch, heads, FRAMES // 2, d))
    else:
        count = net.shape(source)[1]
        keys = net.linear(source, width, bias=False, name=f"{name}.k")
        keys = net.reshape(keys, (batch, heads, d, count), name="split_heads")
        values = net.reshape(net.linear(source, width, name=f"{name}.v"), (batch, heads, count, d), name="split_heads")
        if past:
            keys = net.append(
                net.input(f"{name}.key_cache", (batch, heads, d, past)), keys, axis=3, name=f"{name}.keys"
            )
            values = net.append(
                net.input(f"{name}.value_cache", (batch, heads, past, d)), values, axis=2, name=f"{name}.values"
            )
        grown = (keys, values)
    scores = net.softmax(net.matmul(queries, keys, name=f"{name}.qk"), name=f"{name}.softmax")
    context = net.matmul(scores, values, name=f"{name}.pv")
    merged = net.reshape(context, (batch, tokens, math.prod((heads, d))), name="merge_heads")
    return net.linear(merged, width, name=f"{name}.out"), grown
