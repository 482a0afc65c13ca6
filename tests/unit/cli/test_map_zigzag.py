"""`codesign map --semantics zigzag`: the proven order, its printed form, and what plays no part."""

import json
from pathlib import Path

import pytest

from codesign.formats.documents import dump_yaml
from experiments.zigzag_optimum import KEPT, workload
from tests.command_line import run


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """An accelerator and a small pointwise layer."""
    recorded = json.loads((KEPT / "layers" / "eyeriss_v1" / "greedy_resnet_fc_K14_C12.json").read_text())
    problem = tmp_path / "layer.yaml"
    problem.write_text(dump_yaml(workload(recorded), comment="a layer"))
    return str(KEPT / "inputs" / "eyeriss_v1.yaml"), str(problem)


def test_the_exact_mapper_proves_an_energy_that_no_order_of_loma_is_below(
    files: tuple[str, str], tmp_path: Path
) -> None:
    common = ("map", *files, "--semantics", "zigzag", "--objective", "energy", "--format", "json")
    exact = run(*common, "--mapper", "exact", "--out", tmp_path / "best.json").json
    assert (exact["proof"], exact["gap"], exact["engine"], exact["mapper"]) == ("optimal", 0.0, "sweep", "exact")
    all_orders = run(*common, "--mapper", "loma", "--option", "lpf_limit=0").json
    assert (all_orders["proof"], all_orders["complete"]) == ("none", True)
    assert exact["energy_pj"] <= all_orders["energy_pj"] * (1 + 1e-9)
    assert json.loads((tmp_path / "best.json").read_text())["mapping"] == exact["mapping"]


def test_other_objectives_have_a_certified_gap(files: tuple[str, str]) -> None:
    text = run("map", *files, "--semantics", "zigzag", "--mapper", "exact").out
    assert "proof: gap, gap " in text


def test_what_the_sweep_does_not_read_is_refused(files: tuple[str, str]) -> None:
    common = ("map", *files, "--semantics", "zigzag")
    assert "--option" in run(*common, "--mapper", "exact", "--option", "even=true").err
    assert "no --time-limit" in run(*common, "--mapper", "exact", "--time-limit", "3").err
    assert "salsa, loma or exact" in run(*common, "--mapper", "genetic").err
