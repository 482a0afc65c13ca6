"""Other tools' files under their rules, from Python as from the command line."""

import json
from pathlib import Path

import pytest

import codesign
from codesign.formats.documents import dump_yaml
from experiments.zigzag_optimum import KEPT, workload
from tests.command_line import run
from tests.reference_data import KEPT_HERE


def test_accelforge_is_mapped_certified_and_checked(tmp_path: Path) -> None:
    recorded = json.loads((KEPT_HERE / "accelforge" / "uneven" / "H2_800B__gemm_m96_n64_k160__energy.json").read_text())
    files = [tmp_path / "arch.yaml", tmp_path / "workload.yaml"]
    files[0].write_text(recorded["arch_yaml"])
    files[1].write_text(recorded["workload_yaml"])
    found = codesign.map_files(files, "accelforge", codesign.MapOptions(objective="energy"), certify=True)
    said = run("map", *files, "--semantics", "accelforge", "--objective", "energy", "--format", "json").result
    assert {k: v for k, v in found.to_json().items() if k != "cpu_seconds"} == {k: v for k, v in said.items() if k != "cpu_seconds"}  # fmt: skip
    assert found.certificate is not None and codesign.check_certificate(found.certificate).accepted
    assert found.headline()["proof"] == "optimal" and found.rows() and found.plot().data
    with pytest.raises(codesign.UserError, match="`uneven` plays no part with `semantics` accelforge"):
        codesign.map_files(files, "accelforge", codesign.MapOptions(uneven=True))
    with pytest.raises(codesign.UserError, match="need the mapper 'exact', got 'anneal'"):
        codesign.map_files(files, "accelforge", codesign.MapOptions("anneal"))


def test_zigzag_is_ordered(tmp_path: Path) -> None:
    recorded = json.loads((KEPT / "layers" / "eyeriss_v1" / "greedy_resnet_fc_K14_C12.json").read_text())
    problem = tmp_path / "layer.yaml"
    problem.write_text(dump_yaml(workload(recorded), comment="a layer"))
    files = [KEPT / "inputs" / "eyeriss_v1.yaml", problem]
    found = codesign.map_files(files, "zigzag", codesign.MapOptions(objective="energy"))
    said = run(
        "map", *files, "--semantics", "zigzag", "--objective", "energy", "--mapper", "exact", "--format", "json"
    ).json
    assert (found.to_json()["energy_pj"], found.to_json()["mapping"]) == (said["energy_pj"], said["mapping"])
    assert found.rows() and found.plot().data
    with pytest.raises(codesign.UserError, match="certificates do not cover the rules of zigzag"):
        codesign.map_files(files, "zigzag", certify=True)
    with pytest.raises(codesign.UserError, match="salsa, loma or exact, got 'random'"):
        codesign.map_files(files, "zigzag", codesign.MapOptions("random"))
