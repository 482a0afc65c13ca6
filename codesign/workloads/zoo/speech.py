"""Whisper (Radford et al., 2022): an encoder over 30 s of sound and a decoder that attends to it and to its own tokens."""

from dataclasses import dataclass

from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.zoo.parts import attention, cache_inputs, feed_forward, last_logits, token_states

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
    def heads(self) -> int:
        """Of every attention."""
        return self.width // 64

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
    sound, heads = None if past else _encoder(net, model), model.heads
    x = token_states(net, tokens, model.vocabulary, model.width)
    x = net.elementwise("add", x, net.parameter("positions", (tokens, model.width)), name="add_positions")
    kept: list[str] = []
    for layer in range(1, model.layers + 1):
        name = f"decoder{layer}"
        normed = net.layer_norm(x, name=f"{name}.norm1")
        caches = cache_inputs(net, x, heads, past, f"{name}.self")
        attended, grown = attention(net, normed, normed, heads, f"{name}.self", caches=caches, biased="qv")
        kept.extend(grown)
        x = net.residual(x, attended, name=f"{name}.add1")
        normed = net.layer_norm(x, name=f"{name}.norm2")
        read = FRAMES // 2 if sound is None else sound
        attended, crossed = attention(net, normed, read, heads, f"{name}.cross", biased="qv")
        kept.extend(() if sound is None else crossed)
        x = net.residual(x, attended, name=f"{name}.add2")
        x = _feed_forward(net, x, name, 3)
    return (last_logits(net, x, model.vocabulary, net.layer_norm), *kept)


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
        attended, _ = attention(net, normed, normed, model.heads, f"{name}.self", biased="qv")
        x = _feed_forward(net, net.residual(x, attended, name=f"{name}.add1"), name, 2)
    return net.layer_norm(x, name="encoder_norm")


def _feed_forward(net: NetworkBuilder, x: str, name: str, index: int) -> str:
    fed = feed_forward(net, net.layer_norm(x, name=f"{name}.norm{index}"), 4 * net.shape(x)[-1], "gelu", name)
    return net.residual(x, fed, name=f"{name}.add{index}")
