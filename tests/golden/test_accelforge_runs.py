"""Recorded runs of AccelForge: the same energy and latency for the recorded mapping, and what the exact mapper makes of the problem.

Conventions: AccelForge refills a buffer at every iteration of every loop outside it, charges a read for every output word that leaves
one, and most of its memories read and write through one port; `experiments.accelforge_rules` makes its counts from the cost model's. Its
figures are single precision.
"""

import os
from pathlib import Path

import pytest

from codesign.core.goals import Objective
from experiments.accelforge import dynamic_energy_j, mapped, scored
from experiments.accelforge_cases import Case, elsewhere, read_cases, read_fixed, recorded_mapping
from experiments.accelforge_rules import (
    accesses,
    energy_j,
    entering,
    latency_s,
    level_energies_pj,
    refilled,
    refilled_where_held,
)

DATA = Path(os.environ.get("CODESIGN_REFERENCE", "tests/data"))
HERE = Path("tests/data")
CASES = read_cases(DATA if (DATA / "accelforge" / "head").is_dir() else HERE)
FIXED = sorted(((DATA if (DATA / "accelforge" / "model").is_dir() else HERE) / "accelforge" / "model").glob("*.json"))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_recorded_mapping_costs_what_was_recorded(case: Case) -> None:
    cost = scored(case, recorded_mapping(case))
    counted = accesses(case, cost, refilled(case))
    assert energy_j(case, cost, counted) == pytest.approx(dynamic_energy_j(case), rel=1e-6)
    assert latency_s(case, cost, counted) == pytest.approx(case.best["latency_s"], rel=1e-6)
    unit_j = 1.0 if case.architecture.clock_hz == 1 else 1e-12
    parts = case.best["energy_per_component_J"]
    for (level, kind), energy_pj in level_energies_pj(case, counted).items():
        assert energy_pj * unit_j == pytest.approx(parts.get(f"{level}/{kind}", 0.0), rel=1e-6)


@pytest.mark.parametrize("path", FIXED, ids=lambda p: p.stem)
def test_given_mappings_make_the_recorded_accesses(path: Path) -> None:
    case = read_fixed(path)
    cost = scored(case, recorded_mapping(case))
    counted = accesses(case, cost, refilled(case))
    recorded = case.recorded["actions_bits_or_computes"]
    bits = 8
    assert counted
    for found in counted:
        assert found.reads * bits == recorded[f"{found.level}/{found.tensor}/read"]
        assert found.writes * bits == recorded[f"{found.level}/{found.tensor}/write"]
    parts = case.recorded["energy_per_component_tensor_J"]
    dynamic_j = sum(energy for name, energy in parts.items() if not name.endswith("/leak"))
    assert energy_j(case, cost, counted) == pytest.approx(dynamic_j, rel=1e-6)
    assert latency_s(case, cost, counted) == pytest.approx(case.recorded["latency_s"], rel=1e-6)


@pytest.mark.parametrize("case", [*CASES, *(read_fixed(p) for p in FIXED)], ids=lambda c: c.name)
def test_reuse_between_tiles_never_adds_words(case: Case) -> None:
    here = entering(case, scored(case, recorded_mapping(case)))
    in_full = refilled_where_held(case)
    assert here.keys() == in_full.keys()
    assert all(here[key] <= in_full[key] and refilled(case)[key] <= in_full[key] for key in here)


def test_halo_is_counted_where_the_fetch_is_planned() -> None:
    """56 x 56 outputs, 3 x 3, 64 channels, two halves of 28 columns, rows in seven tiles of 8: one fetch covers all rows of a half."""
    case = next(c for c in read_cases(HERE) if c.name == "nvdla@conv3x3@edp")
    key = ("GlobalBuffer", "I")
    assert entering(case, scored(case, recorded_mapping(case)))[key] == 2 * 58 * 30 * 64
    assert refilled(case)[key] == 2 * 58 * 30 * 64
    assert refilled_where_held(case)[key] == 2 * 7 * 10 * 30 * 64


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.recorded["arch"] in ("simple", "tpu_v4i") and c.recorded["workload"].startswith("gemm")],
    ids=lambda c: c.name,
)
def test_exact_mapper_finds_the_recorded_optimum(case: Case) -> None:
    found = mapped(case, Objective.EDP, 60.0)
    assert found["proven"]
    counted = accesses(case, found["cost"])
    assert energy_j(case, found["cost"], counted) == pytest.approx(dynamic_energy_j(case), rel=1e-6)
    assert latency_s(case, found["cost"], counted) == pytest.approx(case.best["latency_s"], rel=1e-6)


@pytest.mark.parametrize(("name", "most"), [("nvdla@conv3x3@edp", 1.013), ("eyeriss@gemm1024@edp", 0.88)])
def test_exact_mapper_beside_the_recorded_optimum(name: str, most: float) -> None:
    case = next(c for c in read_cases(HERE) if c.name == name)
    found = mapped(case, Objective.EDP, 120.0)  # seconds, on a machine at rest
    assert found["proven"]
    counted = accesses(case, found["cost"])
    ours = energy_j(case, found["cost"], counted) * latency_s(case, found["cost"], counted)
    assert ours <= most * dynamic_energy_j(case) * case.best["latency_s"]


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("case", elsewhere(read_cases(HERE)), ids=lambda c: c.name)
def test_convolution_is_proven_on_the_other_machines(case: Case) -> None:
    assert mapped(case, Objective.EDP, 120.0)["proven"]  # seconds, where the search has to be compiled first too
