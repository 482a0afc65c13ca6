"""A transformer layer of GPT's kind, shared by equal systems of cores, part by part."""

from dataclasses import dataclass
from typing import final

from codesign.core.errors import UserError
from codesign.timing.cores.collectives import all_reduce_s
from codesign.timing.cores.matmul import Product
from codesign.timing.cores.streams import Stream, StreamKind
from codesign.timing.cores.system import CoreSystem
from experiments.models.launches import Launch, product_s, stream_s

ELEMENT_BYTES = 2


@final
@dataclass(frozen=True)
class GptLayer:
    """One layer with heads and feed-forward width divided among chips (tensor parallel).

    Args:
        width: Of the model; the feed-forward layer has four times of it.
        heads: Of attention.
        batch: Sequences.
        tokens: Of each, read at once.
        context: Tokens attended to.
        chips: That share the layer.
    """

    width: int
    heads: int
    batch: int
    tokens: int
    context: int
    chips: int = 1

    def __post_init__(self) -> None:
        if self.heads % self.chips or self.width % self.heads:
            raise UserError(
                f"{self.chips} chips must divide {self.heads} heads, and these the width {self.width}", where="layer"
            )

    @property
    def rows(self) -> int:
        """Tokens of all sequences."""
        return self.batch * self.tokens


def layer_parts_s(system: CoreSystem, layer: GptLayer, launch: Launch = Launch.EAGER) -> dict[str, float]:
    """Seconds of each part on one chip; queries, keys and values are three products, sums over chips their all-reduce."""
    width, share, rows = layer.width, layer.width // layer.chips, layer.rows
    heads, head = layer.batch * layer.heads // layer.chips, layer.width // layer.heads

    def product(m: int, n: int, k: int, batch: int = 1) -> float:
        return product_s(system, Product(m, n, k, batch), launch)

    def stream(kind: StreamKind, count: int, length: int) -> float:
        return stream_s(system, Stream(kind, count, length), launch)

    norm = stream(StreamKind.LAYERNORM, rows, width)
    summed = all_reduce_s(system, rows * width * ELEMENT_BYTES, layer.chips)
    return {
        "Q_K_V": 3 * product(rows, share, width),
        "Q_mul_K": product(layer.tokens, layer.context, head, heads),
        "A_mul_V": product(layer.tokens, head, layer.context, heads),
        "Wo_proj": product(rows, width, share),
        "W1_proj": product(rows, 4 * share, width),
        "W2_proj": product(rows, width, 4 * share),
        "Softmax": stream(StreamKind.SOFTMAX, heads * layer.tokens, layer.context),
        "LayerNorm_MHA": norm,
        "LayerNorm_FFN": norm,
        "GeLU": stream(StreamKind.GELU, rows * 4 * share, 1),
        "AllReduce_MHA": summed,
        "AllReduce_FFN": summed,
    }
