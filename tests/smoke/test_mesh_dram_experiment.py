import json
from pathlib import Path

import pytest

from experiments.mesh_dram import main


@pytest.mark.slow("oracle")
def test_bounds_and_layouts_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--smoke", "--network", "alexnet", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["layers"] == 2 and len(found["bounds"]) == 6
    for row in found["bounds"]:
        least, mean = row["bound_over_simulation_least"], row["bound_over_simulation_mean"]
        assert 0 < least <= mean <= row["bound_over_simulation_most"] <= 1
    rows = json.loads((tmp_path / "mesh_dram.json").read_text())["layouts"]
    assert {row["layout"] for row in rows} == {"tiled", "row-major"}
    for row in rows:
        assert row["complete"] and row["event_cycles"] >= row["analytic_cycles"] and 0 < row["bursts_asked_for"] <= 1


def test_an_unknown_network_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--smoke", "--network", "resnet51"]) == 2
    assert "resnet51" in capsys.readouterr().err
