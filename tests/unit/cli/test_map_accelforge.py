"""`codesign map --semantics accelforge` and `codesign verify`."""

import json
from pathlib import Path

import pytest

from tests.command_line import run
from tests.reference_data import KEPT_HERE


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Architecture and workload of a recorded run."""
    recorded = json.loads((KEPT_HERE / "accelforge" / "uneven" / "H2_800B__gemm_m96_n64_k160__energy.json").read_text())
    arch, workload = tmp_path / "arch.yaml", tmp_path / "workload.yaml"
    arch.write_text(recorded["arch_yaml"])
    workload.write_text(recorded["workload_yaml"])
    return arch, workload


def test_maps_certifies_and_verifies(files: tuple[Path, Path], tmp_path: Path) -> None:
    proof = tmp_path / "proof.json"
    arguments = ("--semantics", "accelforge", "--objective", "energy", "--format", "json", "--certificate", proof)
    mapped = run("map", *files, *arguments)
    assert mapped.code == 0, mapped.err
    assert mapped.json["value"] == pytest.approx(2.2085632e-5, rel=1e-9)
    assert mapped.json["proof"] == "optimal"
    accepted = run("verify", proof)
    assert accepted.code == 0, accepted.out
    assert "accepted: 1 claims hold" in accepted.out
    document = json.loads(proof.read_text())
    document["value"] *= 0.99
    proof.write_text(json.dumps(document))
    refused = run("verify", proof)
    assert refused.code == 1
    assert "the nest has the value" in refused.out


def test_several_operators_are_fused(tmp_path: Path) -> None:
    recorded = json.loads(
        (KEPT_HERE / "accelforge" / "fused" / "tpu4x8x8_6KiB_512B__chain2_M64_KN64__energy.json").read_text()
    )
    arch, workload = tmp_path / "arch.yaml", tmp_path / "workload.yaml"
    arch.write_text(recorded["arch_yaml"])
    text = recorded["workload_yaml"]
    for name, number in recorded["jinja_parse_data"].items():
        text = f"{{% set {name} = {number} %}}\n" + text
    workload.write_text(text)
    mapped = run("map", arch, workload, "--semantics", "accelforge", "--objective", "energy", "--format", "json")
    assert mapped.code == 0, mapped.err
    assert mapped.json["value"] == pytest.approx(recorded["results"][0]["energy_J_from_actions"], rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("size: 800*8", "size: 4"), "no mapping fits: every level must hold one element"),
        (("tensors: {keep: All}", "tensors: {keep: Al}"), "unknown name 'Al' in an expression"),
        (("name: GLB", "name: GLB\n    wings: 2"), "'wings' is not supported (arch, node 'GLB')"),
    ],
)
def test_bad_input_names_what_is_wrong(files: tuple[Path, Path], change: tuple[str, str], message: str) -> None:
    arch, workload = files
    arch.write_text(arch.read_text().replace(*change))
    mapped = run("map", arch, workload, "--semantics", "accelforge", "--objective", "energy")
    assert mapped.code == 2
    assert message in mapped.err


def test_options_that_play_no_part_are_refused(files: tuple[Path, Path]) -> None:
    mapped = run("map", *files, "--semantics", "accelforge", "--free-bypass")
    assert mapped.code == 2
    assert "--free-bypass plays no part with --semantics accelforge" in mapped.err
    assert run("map", *files, "--certificate", "x.json").code == 2


def test_missing_files_are_named(files: tuple[Path, Path], tmp_path: Path) -> None:
    arch, _ = files
    assert "no file has the key 'workload'" in run("map", arch, "--semantics", "accelforge").err
    assert "does not exist" in run("verify", tmp_path / "none.json").err
