"""Bayesian optimisation with bounds: what is known is not modelled, what is dominated is not proposed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import codesign.optim
from codesign.bounds import DesignBounds
from experiments.exhaustive import cases
from experiments.outer_loop import curve
from experiments.synthetic_box import boxes
from experiments.table_box import TableBox

BOX = boxes()["small"]
METRICS = ("latency", "energy", "area")


class Bounds:
    """Half to all of the truth, smoothly; area is exact."""

    exact_metrics = frozenset({"area"})

    def lower_bounds(self, indices: np.ndarray, metrics: Sequence[str]) -> np.ndarray:
        values, _ = BOX.metrics(indices)
        share = 0.6 + 0.4 * BOX.space.features(indices)[:, 1]
        return np.stack([values[m] * (1.0 if m == "area" else share) for m in metrics], axis=1)


def drive(name: str, trials: int, bounds: Any = None, **kwargs: Any) -> Any:
    optimizer = codesign.optim.create(name, BOX.space, METRICS, bounds=bounds, **kwargs)
    while trials > 0:
        for point in optimizer.ask(min(2, trials)):
            values, _ = BOX.evaluate(point)
            works = point["cols"] != 8
            optimizer.tell(point, values if works else None, feasible=works)
            trials -= 1
    return optimizer


def test_the_same_history_gives_the_same_proposals() -> None:
    first, second = (drive("mobo", 10, Bounds()) for _ in range(2))
    assert np.array_equal(first.history().indices, second.history().indices)
    assert first.ask(2) == second.ask(2)


def test_designs_whose_bound_is_dominated_are_not_proposed() -> None:
    optimizer = drive("mobo", 24, Bounds())
    history = optimizer.history()
    bounds = Bounds().lower_bounds(history.indices, METRICS)
    for k in range(2, 24):
        seen = history.objectives[: k - 1][history.valid[: k - 1]]
        assert not (seen <= bounds[k]).all(axis=1).any()


def test_without_bounds_or_by_name_it_is_the_black_box() -> None:
    plain, black = drive("mobo", 8), drive("mobo:black", 8, Bounds())
    assert np.array_equal(plain.history().indices, black.history().indices)
    grey = drive("mobo", 8, Bounds())
    assert not np.array_equal(grey.history().indices, black.history().indices)


def test_a_limit_is_kept_in_mind() -> None:
    limit = float(np.median(BOX.metrics(BOX.space.enumerate())[0]["power"]))
    optimizer = drive("mobo", 20, Bounds(), constraints=[f"power<={limit}"])
    assert optimizer.feasible().sum() >= 8


@pytest.mark.parametrize(("name", "after_8", "after_20"), [("gemmcore", 0.97, 0.99), ("convcore", 0.95, 0.98)])
def test_share_of_the_hypervolume_on_real_tables(name: str, after_8: float, after_20: float) -> None:
    case, box = cases()[name], TableBox(name)
    bounds = DesignBounds(case.space, case.network)
    optimizer = codesign.optim.create("mobo", box.space, box.objectives, bounds=bounds)
    for _ in range(20):
        (point,) = optimizer.ask()
        optimizer.tell(point, box.evaluate(point)[0])
    share = curve(optimizer.history().objectives, box.exact_front(), log=True)
    assert share[7] >= after_8 and share[19] >= after_20
