"""Parameters and MACs of language and speech models by closed formula, with which their networks are compared (rules W16, W17)."""

from codesign.workloads.zoo.language_models import LanguageModel, decode_macs
from codesign.workloads.zoo.speech import FRAMES, MELS, SpeechModel

SOUNDS = FRAMES // 2
"""Tokens of the encoder."""


def published_parameters(model: LanguageModel) -> int:
    """Parameters of a model by closed formula, with which its network is compared (rule W16)."""
    w, h = model.width, model.heads
    if model.latent is None:
        d = model.head_width
        attention = w * d * (2 * h + 2 * model.key_heads)
        attention += d * (h + 2 * model.key_heads) if model.query_bias else 0
        attention += 2 * d if model.query_norm else 0
    else:
        latent = model.latent
        asked = h * (latent.content + latent.rotary)
        attention = latent.query * (w + asked + 1) if latent.query else w * asked
        attention += w * (latent.cached + latent.rotary) + latent.cached
        attention += latent.cached * h * (latent.content + latent.value) + h * latent.value * w
    dense = model.feed_forward_products * w * model.hidden
    tables = model.vocabulary * w * (1 if model.tied else 2) + w
    if model.experts is None:
        return model.layers * (attention + 2 * w + dense) + tables
    e = model.experts
    mixture = 3 * w * e.hidden * (e.count + e.shared) + w * e.count
    layers = e.dense_layers * dense + (model.layers - e.dense_layers) * mixture
    return model.layers * (attention + 2 * w) + layers + tables


def prefill_macs(model: LanguageModel, tokens: int) -> int:
    """MACs of a prompt of so many tokens, the output layer for the last one alone, by closed formula (rule W17)."""
    latent, head = model.latent, model.vocabulary * model.width
    width = 2 * model.head_width if latent is None else latent.content + latent.rotary + latent.value
    among = tokens * (tokens - 1) * model.layers * model.heads * width  # of tokens with those before them
    return tokens * (decode_macs(model, 0) - head) + head + among


def encoder_macs(model: SpeechModel) -> int:
    """MACs of the encoder (rule W17)."""
    w = model.width
    block = 12 * w * w * SOUNDS + 2 * SOUNDS * SOUNDS * w
    return FRAMES * 3 * MELS * w + SOUNDS * 3 * w * w + model.layers * block


def decoder_macs(model: SpeechModel, tokens: int, past: int) -> int:
    """MACs of so many tokens after `past`, keys and values of the sound not among them, the output for the last one."""
    w = model.width
    block = tokens * (14 * w * w + 2 * w * (tokens + past) + 2 * w * SOUNDS)
    return model.layers * block + model.vocabulary * w


def cross_macs(model: SpeechModel) -> int:
    """MACs of the keys and values of the sound in all layers of the decoder."""
    return model.layers * 2 * model.width * model.width * SOUNDS
