"""`map --network` and `evaluate --network`: own ONNX file, own architecture, table, JSON, files."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from codesign.evaluation.metrics import format_si
from tests.command_line import run
from tests.unit.cli.test_evaluate_map_convert import ARCH

QUICK = ("--mapper", "anneal", "--evaluations", 60)


@pytest.fixture
def own(tmp_path: Path) -> tuple[Path, Path]:
    """An ONNX file (convolution, ReLU, flatten, matrix product) and an architecture."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], name="stem"),
        helper.make_node("Relu", ["y"], ["z"]),
        helper.make_node("Flatten", ["z"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["out"], name="head"),
    ]
    weights = [
        numpy_helper.from_array(np.zeros(shape, np.float32), name)
        for name, shape in (("w", (8, 4, 3, 3)), ("v", (288, 10)))
    ]
    x, out = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 4, 8, 8)), ("out", (1, 10)))
    )
    model = helper.make_model(
        helper.make_graph(nodes, "own", [x], [out], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    onnx.save(model, tmp_path / "own.onnx")
    (tmp_path / "arch.yaml").write_text(ARCH)
    return tmp_path / "own.onnx", tmp_path / "arch.yaml"


def test_map_writes_what_evaluate_reads(own: tuple[Path, Path], tmp_path: Path) -> None:
    network, arch = own
    out = tmp_path / "out"
    mapped = run("map", "--network", network, "--arch", arch, *QUICK, "--format", "json", "--out", out)
    assert mapped.code == 0, mapped.err
    assert [v["name"] for v in mapped.json["layers"]] == ["stem", "head"]
    assert mapped.json["macs"] == 8 * 4 * 9 * 36 + 288 * 10 and mapped.json["metrics"]["area_mm2"] is None
    assert {p.name for p in out.iterdir()} == {"arch.yaml", "mappings", "report.html", "result.json"}
    assert json.loads((out / "result.json").read_text()) == mapped.result
    given = run("evaluate", "--network", network, "--arch", arch, "--mappings", out / "mappings", "--format", "json")
    assert given.code == 0, given.err
    assert given.json["metrics"] == mapped.json["metrics"] and given.json["mapper"] == "given"
    alone = run("evaluate", out / "arch.yaml", out / "mappings" / "01-stem.yaml", "--format", "json")
    assert alone.json["latency_cycles"] == mapped.json["layers"][0]["latency_cycles"]


def test_the_table_names_layers_what_binds_them_and_what_the_numbers_are_of(own: tuple[Path, Path]) -> None:
    shown = run("map", "--network", own[0], "--arch", own[1], *QUICK)
    assert shown.code == 0, shown.err
    for words in ("operands of 8 bits", "stem", "head", "bound by", "area         not given", "13,248 MACs"):
        assert words in shown.out, words


def test_leakage_beside_energy_is_an_energy(own: tuple[Path, Path]) -> None:
    """Its power, here 10 mW, times the latency."""
    network, arch = own
    arch.write_text(ARCH.replace("levels:", "extra_leakage_mw: 10\n  levels:", 1))
    asked = ("map", "--network", network, "--arch", arch, *QUICK)
    document, shown = run(*asked, "--format", "json").json, run(*asked)
    metrics = document["metrics"]
    assert metrics["leakage_w"] >= 0.01
    leaked = format_si(metrics["leakage_w"] * metrics["latency_s"], "J")
    assert f"{format_si(metrics['energy_j'], 'J')}, {leaked} of it leakage" in shown.out
    assert metrics["leakage_w"] * metrics["latency_s"] < metrics["energy_j"]


def test_evaluate_without_mappings_maps(own: tuple[Path, Path]) -> None:
    shown = run("evaluate", "--network", own[0], "--arch", own[1])
    assert shown.code == 0 and "2 of 2 layers proven optimal for edp" in shown.out


def test_evaluate_and_convert_take_arch_and_layer(own: tuple[Path, Path], tmp_path: Path) -> None:
    layer = "gemm M=4 N=4 K=4"
    mapping = tmp_path / "mapping.yaml"
    assert run("map", "--arch", own[1], "--layer", layer, *QUICK, "--out", mapping).code == 0
    by_name = run("evaluate", "--arch", own[1], "--layer", layer, mapping, "--format", "json")
    by_place = run("evaluate", own[1], layer, mapping, "--format", "json")
    assert by_name.code == 0 and by_name.out == by_place.out
    done = run("convert", "--arch", own[1], "--layer", layer, mapping, "--to", "timeloop", "--out", tmp_path / "tl")
    assert done.code == 0 and (tmp_path / "tl" / "mapping.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--layer", "gemm M=4 N=4 K=4"), "--layer plays no part with --network"),
        (("--imperfect", "--timing", "event"), "--timing event plays no part with --imperfect"),
        (("--semantics", "zigzag"), "--semantics zigzag plays no part with --network"),
        (("--mapper", "exakt"), "did you mean 'exact'"),
        (("gemm M=4 N=4 K=4",), "--network and the layer"),
        (("--batch", "0"), "--batch"),
    ],
)
def test_options_that_play_no_part_are_refused(
    own: tuple[Path, Path], arguments: tuple[str, ...], message: str
) -> None:
    outcome = run("map", "--network", own[0], "--arch", own[1], *arguments)
    assert outcome.code == 2 and message in outcome.err


def test_imperfect_factors_of_a_network_are_found_written_and_evaluated(own: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "mapped"
    plain = run("map", "--network", own[0], "--arch", own[1], "--format", "json")
    done = run("map", "--network", own[0], "--arch", own[1], "--imperfect", "--out", folder, "--format", "json")
    assert plain.code == done.code == 0, done.err
    found, perfect = json.loads(done.out), json.loads(plain.out)
    assert found["metrics"]["edp_js"] <= perfect["metrics"]["edp_js"] * (1 + 1e-9)
    again = run(
        "evaluate", "--network", own[0], "--arch", own[1], "--mappings", folder, "--imperfect", "--format", "json"
    )
    assert again.code == 0, again.err
    assert json.loads(again.out)["metrics"] == found["metrics"]


def test_network_options_without_a_network_are_refused(own: tuple[Path, Path]) -> None:
    for option in (("--batch", 2), ("--bits", 16), ("--phase", "decode")):
        outcome = run("map", "--arch", own[1], "--layer", "gemm M=4 N=4 K=4", *option)
        assert outcome.code == 2 and f"{option[0]} is an option of --network" in outcome.err
    outcome = run("evaluate", "--arch", own[1], "--mappings", "x")
    assert outcome.code == 2 and "--mappings is an option of --network" in outcome.err


def test_files_of_one_layer_are_refused_with_a_network(own: tuple[Path, Path], tmp_path: Path) -> None:
    problem = tmp_path / "problem.yaml"
    problem.write_text('problem: {notation: "O[m] += I[k] * W[k,m]", bounds: {m: 4, k: 4}}')
    outcome = run("map", "--network", own[0], "--arch", own[1], problem)
    assert outcome.code == 2 and "a problem is of one layer" in outcome.err and "problem.yaml" in outcome.err
    outcome = run("map", "--network", own[0])
    assert outcome.code == 2 and "no file describes an architecture" in outcome.err


def test_constraints_hold_for_every_layer_and_name_the_one_they_do_not_fit(
    own: tuple[Path, Path], tmp_path: Path
) -> None:
    rules = tmp_path / "constraints.yaml"
    rules.write_text("constraints: [{level: Regs, bypass: [Weights]}]")
    outcome = run("map", "--network", own[0], "--arch", own[1], rules, *QUICK, "--format", "json")
    assert outcome.code == 0, outcome.err
    assert all("Regs" not in layer["loopnest"] for layer in outcome.json["layers"])
    rules.write_text("constraints: [{level: Buffer, temporal: {R: 3}}]")
    outcome = run("map", "--network", own[0], "--arch", own[1], rules, *QUICK)
    assert outcome.code == 2 and "layer 'head'" in outcome.err and "unknown dimension 'R'" in outcome.err


def test_activations_and_weights_that_stay_on_chip_cost_no_transfers(own: tuple[Path, Path], tmp_path: Path) -> None:
    command = ("map", "--network", own[0], "--arch", own[1], *QUICK, "--format", "json")
    loaded = run(*command).json
    resident = run(*command, "--resident-weights", "--out", tmp_path / "out").json
    weights = 8 * 4 * 9 + 288 * 10
    assert loaded["dram_bytes"] - resident["dram_bytes"] >= weights and loaded["weight_bytes"] == weights
    assert resident["between_layers"] == {"activations": "dram", "activation_bytes": 0, "resident_weights": True}
    both = ("--activations", "kept", "--activation-buffer", "1KiB")
    kept = run(*command, *both).json
    assert kept["dram_bytes"] < loaded["dram_bytes"]
    given = run(
        *("evaluate", "--network", own[0], "--arch", own[1], "--mappings", tmp_path / "out" / "mappings"),
        *("--resident-weights", "--format", "json"),
    )
    assert given.json["metrics"] == resident["metrics"]


def test_what_happens_between_layers_is_refused_where_it_cannot_be(own: tuple[Path, Path]) -> None:
    for options, message in (
        (("--activations", "kept"), "--activations kept needs --activation-buffer"),
        (("--activations", "held"), "--activations must be dram or kept, got 'held'"),
        (("--activation-buffer", "1KiB"), "--activation-buffer is used with --activations kept only"),
        (("--activation-buffer", "lots"), "--activation-buffer"),
    ):
        outcome = run("map", "--network", own[0], "--arch", own[1], *options)
        assert outcome.code == 2 and message in outcome.err
    alone = run("map", "--arch", own[1], "--layer", "gemm M=4 N=4 K=4", "--resident-weights")
    assert alone.code == 2 and "--resident-weights is an option of --network" in alone.err
