"""Fits of areas: exact data come back, what cannot be told apart is refused."""

import numpy as np
import pytest

from codesign.core.errors import UserError
from experiments.models.area_fit import fit_areas


def test_exact_areas_give_their_constants_back() -> None:
    sizes = np.array([[16.0, 1.0], [64.0, 3.0], [256.0, 9.0]])
    fit = fit_areas(("element", "bank"), sizes, sizes @ np.array([30.0, 500.0]))
    assert fit.um2 == pytest.approx((30.0, 500.0))
    assert fit.predict_um2(np.array([[1024.0, 2.0]])) == pytest.approx([31720.0])


def test_a_part_never_has_negative_area() -> None:
    sizes = np.array([[1.0, 1.0], [2.0, 4.0], [3.0, 9.0]])
    fit = fit_areas(("linear", "square"), sizes, np.array([1.0, 1.9, 2.7]))
    assert min(fit.um2) >= 0.0


def test_parts_that_grow_together_are_refused() -> None:
    sizes = np.array([[1.0, 2.0], [2.0, 4.0], [4.0, 8.0]])
    with pytest.raises(UserError, match="cannot tell the 2 parts row, column apart"):
        fit_areas(("row", "column"), sizes, np.array([3.0, 6.0, 12.0]))


def test_areas_must_be_positive() -> None:
    with pytest.raises(UserError, match="must be positive"):
        fit_areas(("row",), np.array([[1.0]]), np.array([0.0]))
