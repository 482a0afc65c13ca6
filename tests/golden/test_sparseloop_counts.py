"""Recorded runs of Sparseloop: every count and the cycles under its own rules (docs/reference/sparsity.md)."""

import pytest

from codesign.cost.sparse.expectation import Reading, expect
from experiments.sparseloop import Config, compare, layers, run
from experiments.sparseloop_cases import Case, read_cases
from tests.reference_data import REFERENCE, needs_data

FOLDER = REFERENCE / "sparseloop"
CASES = read_cases(FOLDER) if FOLDER.is_dir() else []


def test_there_are_cases() -> None:
    needs_data("sparseloop", CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_counts_and_cycles(case: Case) -> None:
    expected = expect(case.computation, case.architecture, case.mapping, reading=Reading.SPARSELOOP)
    compared = compare(case, expected)
    off = [f"{x.what}: {x.ours:.1f}, recorded {x.recorded:.0f}" for x in compared if not x.agrees]
    assert not off
    assert len(compared) > 4


def test_true_cycles() -> None:
    known = layers(FOLDER)
    needs_data("sparseloop", known)
    for layer in known:
        assert abs(layer.error(layer.by_densities)) <= 0.0651
        assert layer.by_masks in (None, layer.true_cycles)


def test_the_judged_line() -> None:
    needs_data("sparseloop", CASES)
    result = run(Config(FOLDER))
    assert result["cases"] == len(CASES) == result["counts_within_1_percent"]
    assert result["cycles_worst_error"] == 0.0
