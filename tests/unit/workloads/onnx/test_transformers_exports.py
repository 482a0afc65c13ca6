"""Models of the `transformers` package, exported by PyTorch, have the MACs and weights of the zoo's closed formulas; where it is installed.

The package is no dependency of ours: without it this file holds no tests. Checked with version 4.57.
"""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from codesign.workloads.load import load_network
from codesign.workloads.zoo.language_models import LanguageModel
from tests.zoo_closed_forms import prefill_macs

TOKENS = 8
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 64,
}
MODEL = LanguageModel(2, 64, 4, 2, 16, 96, 128, 64)


def exported(kind: str, path: Path) -> Path:
    """A small model of a kind, reading a prompt without a cache, the last token's logits alone."""
    import torch
    import transformers  # type: ignore[import-not-found, unused-ignore]

    own = {"head_dim": 16} if kind == "Qwen3" else {}
    config = getattr(transformers, f"{kind}Config")(**SIZES, **own)
    config._attn_implementation = "eager"

    class Last(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()

        def forward(self, ids: Any) -> Any:
            return self.model(ids, use_cache=False, logits_to_keep=1).logits

    ids = torch.ones(1, TOKENS, dtype=torch.long)
    torch.onnx.export(Last(), (ids,), str(path), dynamo=True, input_names=["ids"], verbose=False)
    return path


if importlib.util.find_spec("transformers") is not None:

    @pytest.mark.slow("oracle")
    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3", "Mistral"])
    def test_exports_have_the_counts_of_the_formulas(tmp_path: Path, kind: str) -> None:
        network = load_network(str(exported(kind, tmp_path / "model.onnx")))
        assert network.macs == prefill_macs(MODEL, TOKENS)
        layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96
        assert network.weight_bytes == 2 * layer + 128 * 64
        assert network.warnings == ()
