"""The SRAM curves against the CACTI sweep they were fitted to, and the errors that docs/reference/technology.md links to."""

import csv
from pathlib import Path

import numpy as np
import pytest

from codesign.arch.sram import FittedSram
from codesign.arch.technology_files import load_technology
from experiments.fit_technology import FloatArray, Sweep, bank_errors, errors, read_sweep
from tests.reference_data import KEPT_HERE, REFERENCE, needs_data

SWEEP = KEPT_HERE / "technology" / "sram_cacti7.csv"  # the curves were fitted to this one
OTHERS = sorted((REFERENCE / "technology").glob("sram_cacti*.csv"))
STATED_ERRORS = Path(__file__).parents[2] / "docs" / "reference" / "data" / "sram-errors.csv"
COLUMNS = {"area": "area_mm2", "read energy": "read_pj", "write energy": "write_pj", "leakage": "leakage_mw"}


def stated_errors() -> dict[tuple[int, str], list[float]]:
    """Median, 95th percentile, largest; median and 95th percentile of the ratio banked to unbanked."""
    with STATED_ERRORS.open(newline="") as stream:
        _, *rows = csv.reader(stream)
    return {(int(n.removesuffix(" nm")), COLUMNS[q]): [float(x) for x in figures] for n, q, *figures in rows}


STATED = stated_errors()


def test_the_document_states_every_error() -> None:
    assert set(STATED) == {(node, quantity) for node in (45, 22) for quantity in COLUMNS.values()}


def predict(sweep: Sweep, node: int, quantity: str) -> FloatArray:
    sram = load_technology(f"cmos-{node}nm").sram
    assert isinstance(sram, FittedSram)
    return np.array([getattr(sram, quantity)(c, int(w), int(b)) for c, w, b in zip(*sweep.size, strict=True)])


@pytest.mark.parametrize(("node", "quantity"), STATED, ids=lambda v: str(v))
def test_the_curves_have_the_stated_errors(node: int, quantity: str) -> None:
    sweep = read_sweep(SWEEP)[node]
    predicted, measured = predict(sweep, node, quantity), getattr(sweep, quantity)
    error, banks = errors(predicted, measured), bank_errors(predicted, measured, sweep)
    found = [error["median"], error["p95"], error["max"], banks["median"], banks["p95"]]
    assert found == pytest.approx(STATED[node, quantity], abs=0.0006)


SWEPT = [(path, node, quantity) for path in OTHERS for node, quantity in STATED if node in read_sweep(path)]
"""Sweeps with the nodes they have; `test_there_are_sweeps` fails where there are none."""


@pytest.mark.parametrize(("path", "node", "quantity"), SWEPT, ids=lambda v: v.stem if isinstance(v, Path) else str(v))
def test_other_memories_of_the_same_kind_are_met_as_well_as_stated(path: Path, node: int, quantity: str) -> None:
    # three-fold cross-validation: median at most 0.08, 95th percentile at most 0.37
    sweep = read_sweep(path)[node]
    error = errors(predict(sweep, node, quantity), getattr(sweep, quantity))
    assert error["median"] < 0.12
    assert error["p95"] < 0.45


def test_there_are_sweeps() -> None:
    needs_data("technology", SWEPT)


def test_an_independent_source_agrees() -> None:
    # Horowitz, ISSCC 2014, 45 nm: a 64-bit access to a cache of 8 KiB, 32 KiB, 1 MiB takes 10, 20, 100 pJ
    sram = load_technology("cmos-45nm").sram
    for capacity_bytes, published_pj in ((8192, 10), (32768, 20), (1 << 20, 100)):
        # his caches also check tags, the curves are of plain RAM
        assert 0.6 * published_pj < sram.read_pj(capacity_bytes, 64, 1) < published_pj
