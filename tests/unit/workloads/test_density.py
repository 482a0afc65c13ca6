"""Density models: chances, distributions, refusals (laws D1-D6)."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.core.errors import UserError
from codesign.workloads.density import DENSE, Actual, Banded, Density, Proportional, Sliced, Structured, Uniform

WHOLE = (4, 12)
MODELS: list[Density] = [
    DENSE,
    Uniform(0.3),
    Uniform(1.0),
    Proportional(0.25),
    Structured(2, 4),
    Structured(1, 3, axis=1),
    Banded(2),
    Sliced(0, (12, 0, 3, 7), 12),
    Actual(np.arange(48).reshape(WHOLE) % 5 == 0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("tile", [(1, 1), (1, 4), (2, 3), (4, 6), (4, 12)])
def test_models_agree_with_themselves(model: Density, tile: tuple[int, int]) -> None:
    """The distribution sums to 1, its mean is the density, its chance of none is the chance of an empty tile (D1-D6)."""
    model.check(WHOLE)
    held = model.occupancy(tile, WHOLE)
    assert held.probability.sum() == pytest.approx(1.0)
    assert held.expected(held.nonzeros) == pytest.approx(model.fraction(WHOLE) * math.prod(tile))
    assert held.probability[held.nonzeros == 0].sum() == pytest.approx(model.empty(tile, WHOLE), abs=1e-12)
    assert held.over(math.prod(tile)) == 0.0


def test_uniform_by_counting() -> None:
    """Every placement of 3 non-zeros in 7 elements, a tile of 3 (D1)."""
    placements = list(itertools.combinations(range(7), 3))
    empty = sum(not set(p) & {0, 1, 2} for p in placements) / len(placements)
    assert Uniform(3 / 7).empty((3,), (7,)) == pytest.approx(empty)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 6))
def test_structured_by_counting(n: int, m: int, width: int) -> None:
    """Every pattern of one block, a tile of `width` elements that starts with it (D3)."""
    if n > m or width > m:
        return
    patterns = list(itertools.combinations(range(m), n))
    empty = sum(min(p) >= width for p in patterns) / len(patterns)
    assert Structured(n, m).empty((width,), (2 * m,)) == pytest.approx(empty)


def test_banded_by_counting() -> None:
    mask = np.abs(np.subtract.outer(np.arange(8), np.arange(8))) <= 1
    for tile in ((1, 1), (2, 2), (4, 2), (8, 1)):
        assert Banded(1).empty(tile, (8, 8)) == pytest.approx(Actual(mask).empty(tile, (8, 8)))
    assert Banded(1).along(1, (8, 8)) == pytest.approx(mask.mean(axis=0))
    assert Banded(1).along(0, (8, 8)) == pytest.approx(mask.mean(axis=1))


@pytest.mark.parametrize("value", [-0.1, 1.1, "many", True, float("nan")])
def test_no_density(value: object) -> None:
    with pytest.raises(UserError, match="density must be a number from 0 to 1"):
        Uniform(value)  # type: ignore[arg-type]


def test_blocks_that_do_not_divide() -> None:
    with pytest.raises(UserError, match="2:4: blocks of 4 do not divide axis -1 of 10"):
        Structured(2, 4).check((3, 10))


def test_other_refusals() -> None:
    with pytest.raises(UserError, match="0 < n <= m, got 5:4"):
        Structured(5, 4)
    with pytest.raises(UserError, match="needs two axes"):
        Banded(1).check((5,))
    with pytest.raises(UserError, match=r"has shape \(2, 2\)"):
        Actual(np.ones((2, 2), bool)).check((2, 3))
    with pytest.raises(UserError, match="cannot hold 9 non-zeros"):
        Sliced(0, (9,), 8)
    with pytest.raises(UserError, match="do not make a tensor"):
        Sliced(0, (3, 4), 8).check((3, 8))
