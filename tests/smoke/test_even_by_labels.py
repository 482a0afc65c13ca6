"""`experiments.even_by_labels` runs, small: two programs find the same optimum of even mappings."""

import json
import math
from pathlib import Path

from experiments import even_by_labels


def test_labels_find_the_optimum_of_the_tables(tmp_path: Path) -> None:
    arguments = ["--smoke", "--presets", "gemmini", "eyeriss", "--free-bypass", "--out", str(tmp_path)]
    rows = even_by_labels.main(even_by_labels.parse_args(arguments))
    assert json.loads((tmp_path / "results.json").read_text())["rows"] == json.loads(json.dumps(rows))
    assert len(rows) == 4
    for row in rows:
        assert row["ended"] and math.isclose(row["labels"], row["tables"], rel_tol=1e-12)
    assert "labels / tables" in (tmp_path / "table.md").read_text()
