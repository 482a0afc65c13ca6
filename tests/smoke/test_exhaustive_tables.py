from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from experiments.exhaustive import TABLES, evaluate_design, main, read_table
from experiments.table_box import TableBox, table_boxes

KEPT = sorted(path.stem for path in TABLES.glob("*.csv"))


@pytest.mark.parametrize("name", KEPT)
def test_tables_are_complete_and_proven(name: str) -> None:
    table = read_table(TABLES / f"{name}.csv")
    assert sorted(table) == list(range(len(table_boxes()[name].space.enumerate())))
    assert len(table) >= 1500
    assert all(row.worst_gap == 0.0 for row in table.values())


@pytest.mark.parametrize("design", [5, 1201])
def test_designs_evaluated_again_give_what_the_table_says(design: int) -> None:
    stored = read_table(TABLES / "convcore.csv")[design]
    found = evaluate_design("convcore", design, 60.0)
    assert found.latency_s == pytest.approx(stored.latency_s, rel=1e-8)
    assert found.energy_j == pytest.approx(stored.energy_j, rel=1e-8)
    assert found.area_mm2 == pytest.approx(stored.area_mm2, rel=1e-8)


def test_the_front_of_a_table_is_not_dominated_by_any_design() -> None:
    box = TableBox("convcore")
    front = box.exact_front()
    for point in box.space.to_points(box.space.enumerate()[::97]):
        values, works = box.evaluate(point)
        assert works
        mine = np.array([values[name] for name in box.objectives])
        assert ((front <= mine).all(axis=1)).any()


def test_an_incomplete_table_says_how_to_complete_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--smoke", "--workers", "1", "--out", str(tmp_path)])
    assert "2 designs, 2 with every layer proven optimal" in capsys.readouterr().out
    with pytest.raises(UserError, match="2 of 1536 designs"):
        TableBox("convcore", folder=tmp_path).exact_front()
