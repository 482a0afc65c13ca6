"""The table of whole networks fused, one row."""

import csv
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from experiments import fused_networks


def test_a_row_takes_the_place_of_that_of_the_same_name(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    name = "GPT-2 small, decode after 512, `soma-edge`"
    with table.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([fused_networks.HEAD, ["other", *"123456"], [name, *"123456"]])
    (row,) = fused_networks.main(fused_networks.parse_args(["--smoke", "--table", str(table), "--out", str(tmp_path)]))
    assert row["gap"] == 0.0 and 0.9 < row["ratio"] <= 1.0
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    assert [r[0] for r in rows[1:]] == ["other", name] and rows[1][1:] == list("123456")
    assert tuple(rows[2]) == fused_networks.line(row) and rows[2][5] == "optimal"


def test_a_name_of_no_row_and_a_table_of_other_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no row's name contains 'none'"):
        fused_networks.main(fused_networks.parse_args(["--only", "none", "--out", str(tmp_path)]))
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(UserError, match="the table has columns"):
        fused_networks.main(
            fused_networks.parse_args(["--smoke", "--table", str(tmp_path / "t.csv"), "--out", str(tmp_path)])
        )
