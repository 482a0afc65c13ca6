"""One layer of `experiments.threads`, small."""

from pathlib import Path

import pytest

from experiments import threads


@pytest.mark.slow("speed")
def test_one_layer_is_measured(tmp_path: Path) -> None:
    (row,) = threads.main(["--smoke", "--study", "reference", "--out", str(tmp_path)])
    assert row.cpu_s > 0.0 and row.cpu_s_threads > 0.0 and 0.0 < row.serial < 1.0
    assert row.speed > 0.0 and row.cores > 0.0
    assert (tmp_path / "table.md").read_text().startswith("machine,layer,objective,cpu s")
