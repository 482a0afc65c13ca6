"""`python -m experiments.cosa_noc --smoke`: two layers, every method, the bound of the mesh below its simulation."""

from pathlib import Path

import pytest

from experiments import cosa_noc


@pytest.mark.slow("oracle")
def test_smoke_run(tmp_path: Path) -> None:
    config = cosa_noc.parse_args(["--smoke", "--out", str(tmp_path)])
    found = cosa_noc.main(config)["networks"]["deepbench"]
    assert len(found) == 2
    for row in found:
        for method in cosa_noc.METHODS:
            judged = row["methods"][method]
            assert judged["mesh_bound"] <= judged["mesh_busy"] <= judged["cycles"]
            assert judged["analytical"] <= judged["analytical_with_mesh"]
    assert (tmp_path / "figure.svg").exists()
    assert "speed-up over hybrid" in (tmp_path / "table.md").read_text()
    again = cosa_noc.parse_args(["--smoke", "--resume", "--out", str(tmp_path)])
    assert cosa_noc.main(again)["networks"]["deepbench"] == found
