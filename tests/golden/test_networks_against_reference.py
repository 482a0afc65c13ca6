"""Zoo networks against the networks of the SoMa reference data: the same layers, MACs and weights."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from codesign.workloads.network import Network, OperatorKind
from codesign.workloads.zoo import build_model, is_zoo_name
from tests.attention_products import has_activation_weights
from tests.reference_data import REFERENCE, needs_data

FILES = sorted((REFERENCE / "soma" / "networks").glob("*.json"))


def convolutional(stem: str) -> str | None:
    """The zoo's name of a convolutional network of the reference; its ResNets stride in the first 1x1."""
    for name in (f"{stem}_v1", stem):
        if is_zoo_name(name):
            return name
    return None


def matrix_layers(network: Network) -> Counter[tuple[int, ...]]:
    """(K, C, P, Q, R, S) of every convolution and fully connected layer."""
    found: Counter[tuple[int, ...]] = Counter()
    for operator in network.operators:
        if operator.computation is not None:
            s = operator.computation.sizes
            is_conv = operator.kind is OperatorKind.CONV
            found[tuple(s[d] for d in "KCPQRS") if is_conv else (s["N"], s["K"], 1, 1, 1, 1)] += 1
    return found


def reference_layers(layers: list[dict[str, Any]]) -> Counter[tuple[int, ...]]:
    """The same of a reference network; its `Dropout` layers are dense layers by mistake and are left out."""
    kept = [v for v in layers if v["type"] in ("Conv", "FC") and v["name"] != "Dropout"]
    return Counter(tuple(v[d] for d in ("K", "C", "H", "W", "R", "S")) for v in kept)


CONVOLUTIONAL = [f for f in FILES if convolutional(f.stem)]
TRANSFORMERS = [f for f in FILES if re.fullmatch(r"gpt2_(small|xl)_(prefill|decode)_\d+", f.stem)]


@pytest.mark.parametrize("file", CONVOLUTIONAL, ids=lambda f: f.stem)
def test_convolutional_networks_have_the_same_layers(file: Path) -> None:
    reference = json.loads(file.read_text())["network"]
    net = build_model(convolutional(file.stem) or "")
    assert matrix_layers(net) == reference_layers(reference["layers"])
    by_mistake = sum(v["ops_per_sample"] for v in reference["layers"] if v["name"] == "Dropout")
    assert net.macs == reference["totals_per_sample"]["matrix_macs"] - by_mistake


@pytest.mark.parametrize("file", TRANSFORMERS, ids=lambda f: f.stem)
def test_one_block_of_gpt2_has_the_same_macs_and_weights(file: Path) -> None:
    _, size, phase, length = file.stem.split("_")
    totals = json.loads(file.read_text())["network"]["totals_per_sample"]
    net = build_model(f"gpt2_{size}", seq=int(length), phase=phase)
    block = [o for o in net.operators if o.name.startswith("layer1.")]
    assert sum(o.macs for o in block) == totals["matrix_macs"]
    weights = {o.operands[1] for o in block if o.computation is not None and not has_activation_weights(net, o)}
    assert sum(net.tensor_by_name[n].size_bytes for n in weights) == totals["weight_bytes"]


def test_the_data_is_there() -> None:
    needs_data("soma/networks", CONVOLUTIONAL or TRANSFORMERS)
