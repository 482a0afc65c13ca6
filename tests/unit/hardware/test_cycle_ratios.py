"""Ratios to the cost model's cycles, predicted."""

from experiments.cycle_ratios import Ratio, csv_text, ratios, table
from experiments.hardware_agreement import Config


def test_the_sample_is_predicted_on_both_machines() -> None:
    found = ratios(Config(4, 3, "gemmcore", "none", 2, 60_000, None))
    assert len(found) == 4
    assert all(r.cycles < r.alone_cycles for r in found)


def test_the_table_has_a_line_a_family_and_one_for_all() -> None:
    rows = [Ratio("scratchpad", "exact", 100.0, 50.0, 400, 200), Ratio("dotcore", "random program", 10.0, 10.0, 80, 40)]
    lines = table(rows)
    assert [line[0] for line in lines] == ["scratchpad", "dotcore", "all"]
    assert lines[0] == ["scratchpad", "1", "4.00", "4.00", "2.00", "2.00", "4.00", "4.00"]
    assert csv_text(rows).splitlines()[1] == "scratchpad,exact,100,50,400,200"
