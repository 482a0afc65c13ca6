"""Recorded optima of AccelForge: the same energy and latency for the recorded mapping, and what the exact mapper makes of the problem.

Conventions: AccelForge charges a read for every output word that leaves a buffer, and most of its memories read and write
through one port; `experiments.accelforge` adds both. Its figures are single precision.
"""

import os
from pathlib import Path

import pytest

from codesign.mappers.base import Objective
from experiments.accelforge import (
    Case,
    dynamic_energy_j,
    energy_j,
    latency_s,
    mapped,
    read_cases,
    recorded_mapping,
    scored,
)

DATA = Path(os.environ.get("CODESIGN_REFERENCE", "tests/data"))
CASES = read_cases(DATA if (DATA / "accelforge").is_dir() else Path("tests/data"))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_recorded_mapping_costs_what_was_recorded(case: Case) -> None:
    cost = scored(case, recorded_mapping(case))
    assert energy_j(case, cost) == pytest.approx(dynamic_energy_j(case), rel=1e-6)
    assert latency_s(case, cost) == pytest.approx(case.best["latency_s"], rel=1e-6)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.recorded["arch"] in ("simple", "tpu_v4i")], ids=lambda c: c.name
)
def test_exact_mapper_finds_the_recorded_optimum(case: Case) -> None:
    found = mapped(case, Objective.EDP, 10.0)
    assert found["proven"]
    assert energy_j(case, found["cost"]) == pytest.approx(dynamic_energy_j(case), rel=1e-6)
    assert latency_s(case, found["cost"]) == pytest.approx(case.best["latency_s"], rel=1e-6)
