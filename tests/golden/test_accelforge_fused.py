"""Recorded optima of AccelForge's mapper over several operators, under its own rules (F1-F6)."""

import pytest

from experiments.accelforge_runs import Config, Run, compare, read_runs
from tests.reference_data import REFERENCE

FOLDERS = {
    "fused": REFERENCE / "accelforge" / "fused",
    "regression": REFERENCE / "measured" / "accelforge_regression",
}


def runs(kind: str) -> list[Run]:
    """Recorded runs of one folder."""
    if not FOLDERS[kind].is_dir():
        return []
    found = [run for _, run in read_runs(Config(kind, FOLDERS[kind]))]
    assert all(isinstance(r, Run) for r in found), found
    return [r for r in found if isinstance(r, Run)]


@pytest.mark.parametrize("run", runs("fused"), ids=lambda r: r.name)
@pytest.mark.thinned(3)
def test_recorded_fused_optimum_is_reached_and_proven(run: Run) -> None:
    row = compare(run, 60.0)
    assert row["equal_or_better"], row
    assert row["proven"]


@pytest.mark.parametrize(
    "run", [r for r in runs("regression") if "matmuls" in r.name or "matvecs" in r.name], ids=lambda r: r.name
)
def test_regression_optimum_of_small_workloads(run: Run) -> None:
    row = compare(run, 60.0)
    assert row["equal_or_better"], row
    assert row["ratio"] > 1 - 1e-6  # the same rules, the same optimum
    assert row["proven"]


@pytest.mark.slow("oracle")
@pytest.mark.parametrize(
    "run", [r for r in runs("regression") if "matmuls" not in r.name and "matvecs" not in r.name], ids=lambda r: r.name
)
def test_regression_optimum_of_transformers(run: Run) -> None:
    row = compare(run, 600.0)
    assert row["equal_or_better"], row
    assert row["proven"]
