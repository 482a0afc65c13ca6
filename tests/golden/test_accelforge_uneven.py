"""Recorded optima of AccelForge's mapper, uneven and with imperfect loops, under its own rules (U1-U14)."""

import pytest

from experiments.accelforge_runs import Config, Run, compare, read_runs
from tests.reference_data import REFERENCE

DATA = REFERENCE / "accelforge"


def runs(kind: str) -> list[Run]:
    """All recorded runs of one folder."""
    if not (DATA / kind).is_dir():
        return []
    found = [run for _, run in read_runs(Config(kind, DATA / kind))]
    assert all(isinstance(r, Run) for r in found), found
    return [r for r in found if isinstance(r, Run)]


@pytest.mark.parametrize("run", runs("uneven"), ids=lambda r: r.name)
def test_recorded_uneven_optimum_is_reached_and_proven(run: Run) -> None:
    row = compare(run, 30.0)
    assert row["equal_or_better"], row
    assert row["proven"]


@pytest.mark.parametrize("run", runs("imperfect"), ids=lambda r: r.name)
@pytest.mark.thinned(2)
def test_recorded_imperfect_optimum_is_reached_and_proven(run: Run) -> None:
    row = compare(run, 30.0)
    assert row["equal_or_better"], row
    assert row["proven"]
