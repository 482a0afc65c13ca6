"""`experiments.exact_ablation` runs, small: what a specialisation is left out of finds the same optimum."""

import csv
import math
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from experiments import exact_ablation


def test_without_specialisations_the_optimum_is_the_same(tmp_path: Path) -> None:
    left_out = ["mirrored profiles (D10)", "dimensions that are one (D0)"]
    rows = exact_ablation.main(
        exact_ablation.parse_args(["--smoke", "--suites", "free", "--only", *left_out, "--out", str(tmp_path)])
    )
    assert len(rows) == 3
    for row in rows:
        assert list(row["without"]) == left_out and row["all"]["proven"]
        assert all(math.isclose(run["value"], row["all"]["value"], rel_tol=1e-12) for run in row["without"].values())
    with (tmp_path / "table.csv").open() as stream:
        head, *lines = csv.reader(stream)
    assert tuple(head) == exact_ablation.HEAD and [line[0] for line in lines] == [f"{name}, free" for name in left_out]


def test_specialisations_name_lines_that_are_there() -> None:
    for item in exact_ablation.SPECIALISATIONS:
        assert item.lines > 0 or not item.where


def test_a_misspelt_specialisation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="mirrored profiles"):
        exact_ablation.main(exact_ablation.parse_args(["--only", "mirrored profile", "--out", str(tmp_path)]))
