"""The last line of the agreement experiment."""

from experiments.hardware_agreement import Row, summary


def row(cycles: int, predicted: int, analytic: float) -> Row:
    return Row("scratchpad", {}, "L", "exact", True, True, True, cycles, predicted, analytic, ())


def test_the_line_counts_equal_cycles_and_gives_the_ratio_to_the_cost_model() -> None:
    found = summary([row(100, 100, 100.0), row(300, 300, 100.0), row(500, 400, 100.0)], 8, 1.0)
    assert (found["cycles_equal"], found["outstanding"], found["triples"]) == (2, 8, 3)
    assert found["analytic_ratio_median"] == 3.0
    assert 4.5 < found["analytic_ratio_p95"] <= 5.0
    assert abs(found["cycles_worst_error"] - 0.2) < 1e-9


def test_no_rows_are_no_error() -> None:
    assert summary([], 16, 0.0)["analytic_ratio_median"] == 0.0
