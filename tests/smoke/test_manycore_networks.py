"""`python -m experiments.manycore_networks --smoke`: every topology and routing has a row, the last line is JSON."""

import json

import pytest

from codesign.arch.core_network import ROUTINGS
from experiments import manycore_networks


@pytest.mark.slow("oracle")
def test_topologies_are_compared_with_the_mesh(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["manycore_networks", "--smoke"])
    manycore_networks.main()
    *lines, last = capsys.readouterr().out.splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines[1:]]
    assert [(row[1], row[2]) for row in rows] == [(name, way) for name, ways in ROUTINGS.items() for way in ways]
    assert all(float(row[6]) >= 0 and float(row[7]) > 0.9 for row in rows)
    found = json.loads(last)
    assert found["edp_of_the_mesh"]["mesh"] == pytest.approx(1.0, abs=0.1) and found["gap_worst"] >= 0
