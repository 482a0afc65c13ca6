"""Systems of cores beside measured latencies of A100 and MI210: whatever rows the reference folder holds."""

from functools import cache
from typing import Any

from experiments.validation.common import Comparison
from experiments.validation.llmcompass import compare_llmcompass
from tests.reference_data import KEPT_HERE, REFERENCE, needs_data

FOLDER = REFERENCE / "measured" / "llmcompass"


@cache
def found() -> Comparison:
    needs_data("measured/llmcompass", list(FOLDER.glob("*.csv")))
    return compare_llmcompass(FOLDER, smoke=False)


def operators() -> dict[str, dict[str, Any]]:
    return {name: v for name, v in found().summary()["by_operator"].items() if "," not in name and v["rows"]}


def test_products_are_within_seven_percent() -> None:
    for name, errors in operators().items():
        if name.startswith("matmul"):
            assert errors["mean_error"] <= 0.07, (name, errors)


def test_streams_are_within_ten_percent() -> None:
    for name, errors in operators().items():
        if name.split()[0] in ("softmax", "layernorm", "gelu"):
            assert errors["mean_error"] <= 0.10, (name, errors)


def test_layers_are_within_four_percent() -> None:
    layers = found().summary()["layers"]
    if layers:
        assert layers["mean_error"] <= 0.04


def test_every_operator_is_nearer_than_the_recorded_roofline_and_simulation() -> None:
    for name, errors in operators().items():
        for kind in ("llmcompass_roofline", "llmcompass_sim"):
            if kind in errors:
                assert errors[kind]["ours_on_these"] < errors[kind]["mean_error"], (name, kind, errors)


def test_rows_that_a_constant_was_fitted_on_are_not_judged() -> None:
    summary = found().summary()
    assert summary["judged"]["rows"] + summary["fitted_rows"] == summary["rows"]
    assert summary["fitted_rows"] > 0


def test_products_of_machines_that_nothing_was_fitted_on() -> None:
    hopper = compare_llmcompass(KEPT_HERE / "measured" / "hopper", smoke=False).summary()
    assert hopper["fitted_rows"] == 0
    for device, mean in (("H100", 0.07), ("H200", 0.09)):
        assert hopper["by_operator"][f"matmul {device}"]["mean_error"] <= mean
