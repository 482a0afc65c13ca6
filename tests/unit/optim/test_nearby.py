"""While failures are frequent, candidates stay near designs that work."""

import numpy as np
import pytest

import codesign.optim
from codesign.optim.nearby import LAST, Nearby, nearby_of
from codesign.optim.optimizer import Optimizer
from spaces import Categorical, PowerOfTwo, Space

SPACE = Space([*(PowerOfTwo(name, 1, 64) for name in "abcdef"), Categorical("flow", ["x", "y"])])
METRICS = ("time", "cost")


def told(works: list[bool], seed: int = 0) -> Optimizer:
    optimizer = codesign.optim.create("mobo:black", SPACE, METRICS, seed=seed)
    rows = SPACE.sample(len(works), np.random.default_rng(seed))
    for point, good in zip(SPACE.to_points(rows), works, strict=True):
        size = float(sum(np.log2(float(point[name])) for name in "abcdef"))
        optimizer.tell(point, {"time": 40.0 - size, "cost": 1.0 + size} if good else {}, feasible=good)
    return optimizer


def test_moves_add_up_and_a_label_counts_for_a_quarter() -> None:
    near = Nearby(SPACE, np.zeros((1, 7), dtype=np.int64))
    rows = np.array([[6, 0, 0, 0, 0, 0, 0], [3, 3, 0, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0, 1], [4, 0, 0, 0, 0, 0, 1]])
    assert near.contains(rows).tolist() == [True, True, False, True]
    drawn = near.candidates(np.random.default_rng(0))
    assert SPACE.is_valid(drawn).all() and (drawn != 0).sum(axis=1).max() <= 4
    assert near.contains(drawn).mean() > 0.5


def test_it_is_for_frequent_failures_alone() -> None:
    assert nearby_of(told([True] * 6).problem, told([True] * 6).history()) is None
    assert nearby_of(told([False] * 3).problem, told([False] * 3).history()) is None
    mixed = told([True, True, False, False])
    near = nearby_of(mixed.problem, mixed.history())
    assert near is not None and (near.centres == mixed.history().indices[:2]).all()
    later = told([True, True, False, False, *([True] * LAST)])
    assert nearby_of(later.problem, later.history()) is None


@pytest.mark.parametrize("seed", range(3))
def test_proposals_stay_near_until_all_near_designs_are_known(seed: int) -> None:
    optimizer = told([True, False, True, False, False], seed)
    near = nearby_of(optimizer.problem, optimizer.history())
    assert near is not None
    rows = SPACE.to_indices(optimizer.ask(2))
    assert near.contains(rows).all()
    known = {row.tobytes() for row in rows}
    assert (near.among(rows, known) == rows).all()
