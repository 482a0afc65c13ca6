"""`schedule` beside itself: SoMa and COSMA on one architecture, and what the counts of a line are of."""

from pathlib import Path

import pytest

from tests.command_line import Outcome, run
from tests.onnx_models import GraphMaker

FOUR_LEVELS = """
architecture:
  name: four-levels
  clock_hz: 800MHz
  levels:
  - {name: DRAM, kind: dram, word_bits: 64, bandwidth_bytes_per_cycle: 8, ports: shared, energy: {read_pj: 512, fill_pj: 512}}
  - {name: L2, capacity_bytes: 256KiB, word_bits: 128, bandwidth_words_per_cycle: 2, energy: {read_pj: 30, fill_pj: 32}, fanout: {x: 2, y: 2}}
  - {name: L1, capacity_bytes: 16KiB, word_bits: 32, energy: {read_pj: 4, fill_pj: 4}, fanout: {x: 8, y: 8}}
  - {name: RF, kind: registers, capacity_words: 16, word_bits: 8, keep: [weight, output], energy: {read_pj: 0.1, fill_pj: 0.1}}
  mac: {bits: 8, energy_pj: 0.2}
"""


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """One convolution, 16 to 16 channels, 3 x 3, 16 x 16."""
    g = GraphMaker(stored=True)
    g.save(
        tmp_path / "layer.onnx", g.node("Conv", g.input("x", 1, 16, 16, 16), g.weight(16, 16, 3, 3), pads=[1, 1, 1, 1])
    )
    return tmp_path / "layer.onnx"


@pytest.fixture
def arch(tmp_path: Path) -> Path:
    (tmp_path / "arch.yaml").write_text(FOUR_LEVELS)
    return tmp_path / "arch.yaml"


def compared(network: Path, arch: object, *more: object) -> Outcome:
    return run(
        "schedule", "--network", network, "--scheduler", "soma", "cosma", "--arch", arch, "--time-limit", 1, *more
    )


def test_one_layer_moves_the_same_bytes_under_both(layer: Path, arch: Path) -> None:
    """Input, weights and output once each where all fit, and the channel is busy for exactly them, on an architecture without areas."""
    done = compared(layer, arch, "--format", "json")
    assert done.code == 0, done.err
    soma, cosma = done.json["schedules"]
    image, weights = 16 * 16 * 16, 16 * 16 * 9
    for row in (soma, cosma):
        assert row["status"] == "feasible" and row["macs"] == image * 16 * 9 and row["weight_bytes"] == weights
    assert cosma["dram_bytes"] == 2 * image + weights
    halo = soma["dram_bytes"] - cosma["dram_bytes"]  # pixels of 16 channels that tiles share are read for each
    assert 0 <= halo < image and halo % 16 == 0
    for row in (soma, cosma):
        assert row["traffic_cycles"] == row["dram_bytes"] / 8
    assert soma["latency_cycles"] >= max(soma["traffic_cycles"], image * 16 * 9 / 256)
    assert cosma["latency_cycles"] is None and cosma["energy_pj"] is None  # not modelled, not zero


def test_the_table_says_what_is_not_modelled(layer: Path, arch: Path) -> None:
    shown = compared(layer, arch)
    assert shown.code == 0, shown.err
    for words in ("soma", "cosma", "latency, cycles", "-: not modelled", "Weights cross once in all of them"):
        assert words in shown.out, words


def test_what_does_not_fit_stands_beside_what_does(tmp_path: Path, arch: Path) -> None:
    """COSMA holds whole tensors; SoMa cuts them."""
    g = GraphMaker(stored=True)
    g.save(
        tmp_path / "wide.onnx", g.node("Conv", g.input("x", 1, 8, 160, 160), g.weight(8, 8, 3, 3), pads=[1, 1, 1, 1])
    )
    done = compared(tmp_path / "wide.onnx", arch, "--format", "json")
    soma, cosma = done.json["schedules"]
    assert soma["status"] == "feasible" and soma["peak_buffer_bytes"] <= 256 * 1024
    assert cosma["status"] == "infeasible" and f"{2 * 8 * 160 * 160:,} of {256 * 1024:,} bytes" in cosma["reason"]


def test_operators_are_those_of_the_file_also_where_they_are_cut(tmp_path: Path) -> None:
    """Two products of 4096 x 4096 (16 MiB of weights each) on a buffer of 8 MiB."""
    g = GraphMaker(stored=False)
    x = g.node("MatMul", g.node("MatMul", g.input("x", 8, 4096), g.weight(4096, 4096)), g.weight(4096, 4096))
    g.save(tmp_path / "two.onnx", x)
    asked = ("schedule", "--network", tmp_path / "two.onnx", "--arch", "soma-edge", "--evaluations", 200)
    shown = run(*asked)
    assert "two, batch 8: 2 operators (scheduled as 16 layers" in shown.out, shown.out + shown.err
    assert "268,435,456 MACs, 33,554,432 bytes of weights" in shown.out
    document = run(*asked, "--format", "json").json
    assert (document["operators"], document["scheduled_layers"]) == (2, 16)
    assert 0 <= document["dram_bytes"] - 2 * 4096 * 4096 < 0.02 * 2 * 4096 * 4096  # weights once


def test_a_block_is_not_called_by_its_models_name() -> None:
    asked = ("schedule", "--arch", "soma-edge", "--evaluations", 50, "--network")
    block, model = (run(*asked, name).out.splitlines()[0] for name in ("gpt2-small-block", "gpt2-small"))
    assert block.startswith("gpt2-small-block prefill 512, batch 1: 38 operators, 4,026,531,840 MACs")
    assert model.startswith("gpt2_small, batch 1: ") and "48,356,979,456 MACs" in model


def test_widths_are_those_of_the_architecture_or_refused() -> None:
    """MACs of 16 bits: COSMA's bytes are those of `map --network`; SoMa counts one byte an element and says so."""
    asked = ("schedule", "--network", "squeezenet", "--arch", "eyeriss", "--capacity", "4MiB")
    cosma = run(*asked, "--scheduler", "greedy")
    assert "2,463,104 bytes of weights" in cosma.out and "elements of 16 bits" in cosma.out, cosma.out + cosma.err
    soma = run(*asked, "--scheduler", "soma", "--evaluations", 10)
    assert soma.code == 2
    assert "counts elements of 8 bits, the MACs take 16 (architecture 'eyeriss')" in soma.err
    assert "--scheduler cosma" in soma.err


@pytest.mark.parametrize("scheduler", ["soma", "fused"])
def test_a_capacity_of_nothing_is_refused_by_its_option(scheduler: str) -> None:
    refused = run("schedule", "--network", "squeezenet", "--scheduler", scheduler, "--capacity", 0)
    assert refused.code == 2 and "`capacity` must be >= 1, got 0" in refused.err
