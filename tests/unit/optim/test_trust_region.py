"""Late proposals: around designs of the front, a function of the history alone, and as good as one model of all designs."""

from typing import Any

import numpy as np
import pytest

import codesign.optim
from codesign.optim import trust_region
from codesign.optim.pareto import nondominated
from experiments.synthetic_box import boxes

BOX = boxes()["small"]
METRICS = ("latency", "energy", "area")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_region, "MODELLED", 14)
    monkeypatch.setattr(trust_region, "LOCAL", 12)


def searched(trials: int) -> Any:
    optimizer = codesign.optim.create("mobo:black", BOX.space, METRICS, seed=4)
    for _ in range(trials):
        (point,) = optimizer.ask(1)
        values, works = BOX.evaluate(point)
        optimizer.tell(point, values, feasible=works)
    return optimizer


def test_a_region_lies_around_a_design_of_the_front_and_models_few_designs() -> None:
    optimizer = searched(18)
    history = optimizer.history()
    region = trust_region.region_of(optimizer.problem, history)
    best = history.indices[nondominated(history.objectives)]
    assert (best == region.centre).all(axis=1).any()
    assert len(region.history.indices) == 12 and trust_region._NARROWEST <= region.radius <= trust_region._WIDEST
    rows = region.candidates(optimizer.problem, np.random.default_rng(0))
    reach = np.maximum(1, np.round(region.radius * (np.array(BOX.space.cardinalities) - 1)))
    near = (np.abs(rows[: trust_region.CANDIDATES] - region.centre) <= reach)[:, list(BOX.space.ordered)]
    assert near.all()


def test_no_design_comes_twice_and_a_resumed_search_goes_on_alike() -> None:
    first = searched(24)
    rows = first.history().indices
    assert len(np.unique(rows, axis=0)) == 24
    again = codesign.optim.create("mobo:black", BOX.space, METRICS, seed=4)
    for row, values in zip(rows[:20], first.history().objectives[:20], strict=True):
        again.tell(BOX.space.to_points(row[None])[0], dict(zip(METRICS, values.tolist(), strict=True)))
    assert again.ask(1) == BOX.space.to_points(rows[20:21])


def test_centres_move_along_the_front() -> None:
    optimizer = searched(15)
    centres = set()
    for _ in range(6):
        region = trust_region.region_of(optimizer.problem, optimizer.history())
        centres.add(region.centre.tobytes())
        (point,) = optimizer.ask(1)
        optimizer.tell(point, BOX.evaluate(point)[0])
    assert len(centres) > 2
