"""GPT-2 as the SoMa paper schedules it: one transformer block, prefill or decode with a KV cache.

The model repeats the block 12 (small) or 48 (XL) times; embedding and language-model head are not part of it. Keys are
computed head by head, transposed and concatenated, so that the product Q K^T is a grouped convolution with weights made on chip.
"""

from dataclasses import dataclass

from codesign.core.errors import UserError
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType

SIZES = {"gpt2-small": (12, 768), "gpt2-xl": (25, 1600)}
BLOCKS = {"gpt2-small": 12, "gpt2-xl": 48}
DEFAULT_SEQ = {"gpt2-small": 512, "gpt2-xl": 1024}
PHASES = ("prefill", "decode")


@dataclass
class _Builder:
    layers: list[Layer]

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

    def turn(self, name: str, k: int, h: int, prev: int) -> int:
        """A transposition of channels and rows, to ``k x h``."""
        return self.add(name, LayerType.TRANSPOSE, k, h, (prev,), order=(1, 0, 2))


def gpt2_block(model: str, phase: str = "prefill", seq: int | None = None) -> LayerGraph:
    """One block of GPT-2.

    Args:
        model: `gpt2-small` or `gpt2-xl`.
        phase: `prefill` (all tokens) or `decode` (one new token, the others cached).
        seq: Tokens of the prompt; in decode the cached tokens.

    Raises:
        UserError: An unknown phase or a length below 1.
    """
    heads, width = SIZES[model]
    seq = DEFAULT_SEQ[model] if seq is None else seq
    if phase not in PHASES:
        raise UserError(f"`phase` must be prefill or decode, got {phase!r}")
    if isinstance(seq, bool) or not isinstance(seq, int) or seq < 1:
        raise UserError(f"`seq` must be an integer >= 1, got {seq!r}")
    decode = phase == "decode"
    tokens = 1 if decode else seq
    total = seq + 1 if decode else seq
    head = width // heads
    b = _Builder([])
    b.add("norm1", LayerType.POINTWISE, width, tokens, (), external=(0,))
    q = b.add("attention_Q", LayerType.CONV, width, tokens, (0,), c=width)
    turned = []
    for i in range(heads):
        key = b.add(f"attention_K{i}", LayerType.CONV, head, tokens, (0,), c=width)
        turned.append(b.turn(f"attention_Kt{i}", tokens, head, key))
    keys = b.add(
        "attention_newK" if decode else "attention_K", LayerType.POINTWISE, heads * tokens, head, tuple(turned)
    )
    values = b.add("attention_newV" if decode else "attention_V", LayerType.CONV, width, tokens, (0,), c=width)
    if decode:
        keys = b.add("attention_K", LayerType.POINTWISE, heads * total, head, (keys,), external=(1,))
        flat = b.turn("attention_newVt", 1, width, values)
        joined = b.add("attention_Vt_concat", LayerType.POINTWISE, total, width, (flat,), external=(2,))
        values = b.turn("attention_V", width, total, joined)
    scores = b.add(
        "attention_QK", LayerType.GROUP_CONV, heads * total, tokens, (q,), c=width, groups=heads, weights=(keys,)
    )
    soft = b.add("attention_QK_elt", LayerType.POINTWISE, heads * total, tokens, (scores,))
    mixed = b.add(
        "attention_QKV", LayerType.GROUP_CONV, width, tokens, (soft,), c=heads * total, groups=heads, weights=(values,)
    )
    out = b.add("attention_FC", LayerType.CONV, width, tokens, (mixed,), c=width)
    first = b.add("res1", LayerType.ELTWISE, width, tokens, (out,), operands=2, external=(0,))
    norm = b.add("norm2", LayerType.POINTWISE, width, tokens, (first,))
    up = b.add("ffn1", LayerType.CONV, 4 * width, tokens, (norm,), c=width)
    act = b.add("GeLU", LayerType.POINTWISE, 4 * width, tokens, (up,))
    down = b.add("ffn2", LayerType.CONV, width, tokens, (act,), c=4 * width)
    b.add("res2", LayerType.ELTWISE, width, tokens, (first, down), operands=2)
    inputs = [(width, tokens, 1)]
    if decode:
        inputs += [(heads * seq, head, 1), (seq, width, 1)]
    return LayerGraph(f"{model} {phase} {seq}", tuple(b.layers), tuple(inputs))
