"""AIrchitect v2's recorded labels: every cycle count, and no design of the 768 that is better."""

import csv
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from experiments.airchitect_rules import ELEMENTS, TILES, Convolution, Label, read_label

DATA = Path(__file__).parents[1] / "data" / "airchitect"
CONVOLUTION = {"K": "4", "C": "6", "X": "8", "Y": "8", "R": "3", "S": "3", "df": "eye", "ConfigID": "0", "rewards": "1"}


def rows(name: str) -> list[tuple[dict[str, str], Label]]:
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [(row, read_label(row)) for row in csv.DictReader(file)]


def test_every_label_of_a_convolution_has_its_cycles_and_is_optimal() -> None:
    found = rows("conv")
    assert len(found) == 540
    for row, label in found:
        assert label.reproduced, row
        assert label.ratio_of(label.convolutions[0]) == 1.0, row


def test_labels_of_products_are_those_of_convolutions() -> None:
    runs = {(label.convolutions[0], row["ConfigID"], label.cycles) for row, label in rows("conv")}
    found = rows("gemm")
    assert len(found) == 397
    for row, label in found[:198]:  # rows of both tables that belong together
        assert any((v, row["ConfigID"], label.cycles) in runs for v in label.convolutions), row
    assert all(label.reproduced for _, label in found)
    every = [[label.ratio_of(v) for v in label.convolutions] for _, label in found]
    assert all(max(ratios) == 1.0 for ratios in every)
    assert sum(min(ratios) == 1.0 for ratios in every) == 389
    alone = [label.ratio_of(label.product) for _, label in found if label.product is not None]
    assert sum(v == 1.0 for v in alone) == 201 and min(alone) == pytest.approx(0.125, abs=1e-4)


@pytest.mark.parametrize("dataflow", ["dla", "eye", "shi"])
def test_the_least_cycles_are_those_of_all_designs(dataflow: str) -> None:
    for run in (Convolution(10, 6, 30, 14, 3, dataflow), Convolution(2, 70, 1, 40, 1, dataflow)):
        every = [run.cycles(e, t) for e in range(1, ELEMENTS + 1) for t in range(1, TILES + 1)]
        assert run.least == min(every) < max(every)


def test_cycles_of_one_element_by_hand() -> None:
    # 2 x 2 outputs, 3 x 3 kernels, 6 channels, 4 output channels in one tile: 36 products a step
    assert Convolution(4, 6, 2, 2, 3, "dla").cycles(1, 4) == 1 + 6 * 4 * 37
    assert Convolution(4, 6, 2, 2, 3, "eye").cycles(1, 4) == 1 + 6 * 2 * 37
    assert Convolution(4, 6, 2, 2, 3, "shi").cycles(1, 4) == 1 + 6 * 2 * (2 * 36 + 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"df": "rs"}, "`df` must be one of dla, eye, shi, got 'rs'"),
        ({"ConfigID": "768"}, "`ConfigID` must be in 0..767, got 768"),
        ({"S": "1"}, "R = S"),
        ({"X": "2"}, "X and Y at least R"),
        ({"GEMM_K": "9", "M": "0", "N": "4"}, "sizes must be positive"),
    ],
)
def test_rows_of_another_form_are_refused(change: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_label(CONVOLUTION | change)
