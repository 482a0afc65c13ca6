"""Bayesian optimisation with bounds: what is known is not modelled, what is dominated is not proposed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import codesign.optim
from codesign.bounds import DesignBounds
from codesign.optim import gp
from codesign.optim.grey import RATIO_PRIOR, BoundScale
from codesign.optim.surrogate import geometry_of
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


class Known(Bounds):
    """The truth."""

    def lower_bounds(self, indices: np.ndarray, metrics: Sequence[str]) -> np.ndarray:
        values, _ = BOX.metrics(indices)
        return np.stack([values[m] for m in metrics], axis=1)


class Expecting(Bounds):
    """Who also expects the truth."""

    def expected(self, indices: np.ndarray, metrics: Sequence[str]) -> np.ndarray:
        values, _ = BOX.metrics(indices)
        return np.stack([values[m] for m in metrics], axis=1)


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


def test_in_a_listed_space_nothing_depends_on_the_seed() -> None:
    first, second = (drive("mobo", 8, Bounds(), seed=seed) for seed in (0, 1))
    assert np.array_equal(first.history().indices, second.history().indices)


def test_the_ratio_is_learned_from_where_the_bounds_lie() -> None:
    space = BOX.space
    rows = np.unique(space.sample(40, np.random.default_rng(3)), axis=0)
    bounds = np.log(Bounds().lower_bounds(rows, METRICS))
    scale = BoundScale(bounds.min(axis=0), np.ptp(bounds, axis=0))
    features = scale.features(space, rows, bounds)
    assert features.shape[1] == space.features(rows).shape[1] + 3
    assert np.allclose(features[:, -3:].min(axis=0), 0.0) and np.allclose(features[:, -3:].max(axis=0), 1.0)
    ratio = 0.05 * features[:, -3] ** 2  # a function of the latency bound alone
    told, left = slice(0, 24), slice(24, None)
    plain = geometry_of(space)
    errors = {}
    for name, geometry, columns in (
        ("parameters", plain, features[:, :-3]),
        ("bounds too", scale.geometry(plain), features),
    ):
        model = gp.fit(geometry, columns[told], ratio[told], RATIO_PRIOR)
        errors[name] = float(np.abs(model.predict(columns[left])[0] - ratio[left]).mean())
    assert errors["bounds too"] < 0.5 * errors["parameters"]


def test_what_is_expected_chooses_the_first_designs() -> None:
    exact = drive("mobo", 4, Known()).history().indices
    assert np.array_equal(drive("mobo", 4, Expecting()).history().indices, exact)
    assert not np.array_equal(drive("mobo", 4, Bounds()).history().indices, exact)


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


@pytest.mark.parametrize(
    ("name", "after_8", "after_20"),
    [
        ("gemmcore", 0.97, 0.99),
        pytest.param("convcore", 0.95, 0.98, marks=pytest.mark.slow("speed")),
        pytest.param("eyeriss", 0.94, 0.99, marks=pytest.mark.slow("speed")),
    ],
)
def test_share_of_the_hypervolume_on_real_tables(name: str, after_8: float, after_20: float) -> None:
    case, box = cases()[name], TableBox(name)
    bounds = DesignBounds(case.space, case.network)
    optimizer = codesign.optim.create("mobo", box.space, box.objectives, bounds=bounds)
    for _ in range(20):
        (point,) = optimizer.ask()
        optimizer.tell(point, box.evaluate(point)[0])
    share = curve(optimizer.history().objectives, box.exact_front(), log=True)
    assert share[7] >= after_8 and share[19] >= after_20
