"""Chips that compute in memory beside their measurements, and beside another model's predictions of the same rows."""

from experiments.validation.in_memory import compare_imc
from tests.reference_data import REFERENCE, needs_data


def test_areas_and_cycles_are_no_worse_than_the_published_model_on_the_median() -> None:
    folder = REFERENCE / "measured" / "imc"
    needs_data("measured/imc", list(folder.glob("zigzag_imc_chips.json")))
    found = compare_imc(folder, smoke=False)
    for quantity in ("area", "clock", "all"):
        beside = found.more["beside"][quantity]
        assert beside["median_error"] <= beside["zigzag_imc_median_error"], quantity
    left_out = found.more["left_out"]
    assert left_out["median_error_here"] <= left_out["median_error_zigzag_imc"]
    assert left_out["median_error_zigzag_imc"] > found.more["beside"]["all"]["zigzag_imc_median_error"]
    assert all(point.error > -0.6 and point.error < 0.6 for point in found.points)
