"""GPT-2 as the SoMa paper schedules it: one transformer block, prefill or decode with a KV cache.

The model repeats the block 12 (small) or 48 (XL) times; embedding and language-model head are not part of it.
"""

from codesign.core.errors import UserError
from codesign.scheduling.soma.model.decoder_block import decoder_block
from codesign.scheduling.soma.model.layer_graph import LayerGraph
from codesign.workloads.zoo.transformers import GPT2

MODELS = {f"gpt2-{size}": model for size, model in GPT2.items()}
DEFAULT_SEQ = {"gpt2-small": 512, "gpt2-xl": 1024}
PHASES = ("prefill", "decode")


def gpt2_block(model: str, phase: str = "prefill", seq: int | None = None) -> LayerGraph:
    """One block of GPT-2.

    Args:
        model: `gpt2-small` or `gpt2-xl`.
        phase: `prefill` (all tokens) or `decode` (one new token, the others cached).
        seq: Tokens of the prompt; in decode the cached tokens.

    Raises:
        UserError: An unknown phase or a length below 1.
    """
    seq = DEFAULT_SEQ[model] if seq is None else seq
    if phase not in PHASES:
        raise UserError(f"`phase` must be prefill or decode, got {phase!r}")
    if isinstance(seq, bool) or not isinstance(seq, int) or seq < 1:
        raise UserError(f"`seq` must be an integer >= 1, got {seq!r}")
    tokens, past = (1, seq) if phase == "decode" else (seq, 0)
    return decoder_block(f"{model} {phase} {seq}", MODELS[model], tokens, past)
