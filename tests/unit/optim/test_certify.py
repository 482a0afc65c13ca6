"""The certified gap of a front: held against enumeration, remembered, honest where bounds are missing or wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import codesign.optim
from codesign.optim.certify import CertifiedFront, above, certify, too_slow
from codesign.optim.exact import FrontProof
from codesign.optim.narrowing import NarrowedProof
from codesign.optim.pareto import front
from tests.unit.optim.test_boxed_front import SPACE as BOXED_SPACE
from tests.unit.optim.test_boxed_front import Bounds as BoxedBounds
from tests.unit.optim.test_boxed_front import Boxes, values_of
from tests.unit.optim.test_exact_front import BOX, METRICS, Bounds


def told(count: int, seed: int, bounds: Any = None, constraints: tuple[str, ...] = ()) -> Any:
    """An exact optimiser that was told some random designs."""
    optimizer = codesign.optim.create(
        "exact", BOX.space, METRICS, bounds=Bounds() if bounds is None else bounds, constraints=constraints
    )
    for point in codesign.optim.create("random", BOX.space, METRICS, seed=seed).ask(count):
        values, works = BOX.evaluate(point)
        optimizer.tell(point, values, feasible=works)
    return optimizer


def true_factor(known: np.ndarray, every: np.ndarray) -> float:
    """By how much some design of `every` beats all of `known`, in the objective where it does so least."""
    return max(1.0, max(float((known / row).max(axis=1).min()) for row in every))


def every_design() -> np.ndarray:
    rows = BOX.space.enumerate(10**6)
    values, works = BOX.metrics(rows)
    return np.stack([values[m] for m in METRICS], axis=1)[works]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [3, 30])
def test_the_factor_holds_and_is_as_tight_as_the_bounds(seed: int, count: int) -> None:
    optimizer = told(count, seed)
    found, _ = certify(optimizer.problem, optimizer.history(), 5.0)
    known = np.array([[e.values[m] for m in METRICS] for e in optimizer.front()])
    truth = true_factor(known, every_design())
    assert found.factor is not None and truth <= found.factor <= truth / 0.97 * (1 + 1e-6)
    assert found.finished and not found.why_not and found.steps[-1][1] == found.factor
    assert all((found.outer <= row * (1 + 1e-9)).all(axis=1).any() for row in every_design())
    assert found.hypervolume_outer is not None and found.hypervolume_inner <= found.hypervolume_outer
    assert f"by more than a factor of {above(found.factor)}, proven in" in found.sentence()


class Sharpened:
    """Bounds at half the truth, area excepted, that a search raises to the truth."""

    exact_metrics = frozenset({"area"})

    def __init__(self, indices: np.ndarray) -> None:
        self.truth, self.loose = BOX.metrics(indices)[0], np.ones(len(indices), dtype=np.bool_)

    def values(self, metrics: Sequence[str], at: np.ndarray | None = None) -> np.ndarray:
        shares = [np.where(self.loose & (m != "area"), 0.5, 1.0) for m in metrics]
        every = np.stack([self.truth[m] * share for m, share in zip(metrics, shares, strict=True)], axis=1)
        return every if at is None else every[at]

    def reaches(
        self, at: np.ndarray, corners: np.ndarray, metrics: Sequence[str], limits: Mapping[str, float]
    ) -> np.ndarray:
        within = np.all([self.values([m], at)[:, 0] <= limit for m, limit in limits.items()], axis=0)
        return (self.values(metrics, at)[:, None] < corners[None]).all(axis=2) & within[:, None]

    def alike(self) -> np.ndarray:
        return np.arange(len(self.loose))

    def sharpen(
        self, at: int, peers: np.ndarray, within: float = 0.0, enough: Callable[[], bool] = lambda: False
    ) -> bool:
        raised, self.loose[at] = bool(self.loose[at]), False
        return raised


class SharpBounds(Bounds):
    """Bounds whose table may be sharpened."""

    def table(self, indices: np.ndarray) -> Sharpened:
        return Sharpened(indices)


def test_designs_that_a_sharper_bound_puts_beyond_a_limit_do_not_hold_the_factor_up() -> None:
    rows = BOX.space.enumerate(10**6)[::23]
    values, works = BOX.metrics(rows)
    limit = float(np.quantile(values["latency"][works], 0.3))
    optimizer = told(40, 1, SharpBounds(), (f"latency<={limit}",))
    history = optimizer.history()
    proof = FrontProof(optimizer.problem, 0.0, True, np.unique(np.concatenate([rows, history.indices]), axis=0))
    proof.learn(history)
    while proof.tighten(lambda: False):
        pass
    every = np.stack([values[m] for m in METRICS], axis=1)[works & (values["latency"] <= limit)]
    known = np.array([[e.values[m] for m in METRICS] for e in optimizer.front()])
    assert proof.furthest == pytest.approx(true_factor(known, every), rel=1e-6)


def test_all_designs_tried_is_an_exact_front() -> None:
    optimizer = told(1, 0)
    rows = BOX.space.enumerate(10**6)
    metrics, works = BOX.metrics(rows)
    for k, point in enumerate(BOX.space.to_points(rows)):
        optimizer.tell(point, {m: float(v[k]) for m, v in metrics.items()} if works[k] else {}, feasible=bool(works[k]))
    found, _ = certify(optimizer.problem, optimizer.history(), 5.0)
    assert found.factor == 1.0 and "the front is exact, proven in" in found.sentence()


def test_what_was_shown_is_remembered_and_holds_for_more_evaluations() -> None:
    few, more = told(5, 1), told(12, 1)
    first, kept = certify(few.problem, few.history(), 5.0)
    again, _ = certify(few.problem, few.history(), 0.0, kept, first.cpu_seconds)
    later, _ = certify(more.problem, more.history(), 0.0, kept, first.cpu_seconds)
    assert first.factor == again.factor and first.factor is not None and later.factor is not None
    assert later.factor <= first.factor and again.cpu_seconds > first.cpu_seconds


def test_a_limit_leaves_out_what_breaks_it() -> None:
    optimizer = told(30, 2, constraints=("area<=30",))
    found, _ = certify(optimizer.problem, optimizer.history(), 5.0)
    known = np.array([[e.values[m] for m in METRICS] for e in optimizer.front()])
    inside = every_design()[every_design()[:, 2] <= 30]
    assert found.factor is not None and true_factor(known, inside) <= found.factor


def test_a_bound_that_is_wrong_proves_nothing() -> None:
    optimizer = told(60, 0, bounds=Bounds(wrong=True))
    found, _kept = certify(optimizer.problem, optimizer.history(), 5.0)
    assert found.factor is None and "the bound of" in found.sentence() and "is wrong" in found.why_not


def test_without_bounds_or_designs_nothing_is_proven() -> None:
    optimizer = told(5, 0)
    bare = replace(optimizer.problem, bounds=None)
    assert certify(bare, optimizer.history(), 1.0)[0].why_not == "the space gives no bounds"
    none = told(1, 0)
    history = replace(none.history(), valid=np.zeros(1, dtype=np.bool_))
    found, _ = certify(none.problem, history, 1.0)
    assert found.factor is None and "no design tried can be built" in found.sentence()


def test_bounds_that_would_take_too_long_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codesign.optim.certify.FEW", 10)
    monkeypatch.setattr("codesign.optim.certify.PATIENCE", 0.0)
    optimizer = told(5, 0)
    assert "CPU s, each built by itself" in too_slow(optimizer.problem, 1.0)
    assert certify(optimizer.problem, optimizer.history(), 1.0)[0].factor is None


class Boxed(Bounds):
    """Bounds of boxes alone."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes

    def lower_bounds(self, indices: np.ndarray, metrics: Any) -> np.ndarray:
        return self.boxes.lower_bounds(indices, indices, metrics)


@pytest.mark.parametrize("slow", [False, True])
def test_boxes_are_tightened_and_remembered(slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codesign.optim.exact.LISTED", 10)
    monkeypatch.setattr("codesign.optim.boxed._FEW", 4)
    bounds, objectives = Boxed(Boxes(slow=slow)), ("latency", "energy", "area")
    optimizer = codesign.optim.create("exact", BOXED_SPACE, objectives, bounds=bounds)
    rows = BOXED_SPACE.sample(12, np.random.default_rng(0))
    for row, point in zip(rows, BOXED_SPACE.to_points(rows), strict=True):
        optimizer.tell(point, {m: float(v[0]) for m, v in values_of(row[None]).items()})
    table = values_of(BOXED_SPACE.enumerate(10**5))
    every = np.stack([table[m] for m in objectives], axis=1)
    known = front(np.array([[e.values[m] for m in objectives] for e in optimizer.front()]))
    found, kept = certify(optimizer.problem, optimizer.history(), 10.0)
    truth = true_factor(known, every)
    assert found.factor is not None and truth <= found.factor <= truth / 0.98 * (1 + 1e-6)
    again, _ = certify(optimizer.problem, optimizer.history(), 0.0, kept)
    assert again.factor == found.factor


@pytest.mark.parametrize("limits", [(), ("power<=0.5",)])
@pytest.mark.parametrize("count", [3, 25])
def test_boxes_and_then_few_designs_show_what_a_list_of_all_does(
    count: int, limits: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codesign.optim.boxed._FEW", 4)
    objectives = ("latency", "energy", "area")
    optimizer = codesign.optim.create("exact", BOXED_SPACE, objectives, bounds=BoxedBounds(Boxes()), constraints=limits)
    rows = BOXED_SPACE.sample(count, np.random.default_rng(count))
    for row, point in zip(rows, BOXED_SPACE.to_points(rows), strict=True):
        optimizer.tell(point, {m: float(v[0]) for m, v in values_of(row[None]).items()})
    listed, _ = certify(optimizer.problem, optimizer.history(), 10.0)
    monkeypatch.setattr("codesign.optim.certify.STEPPED", 10)
    found, kept = certify(optimizer.problem, optimizer.history(), 10.0)
    again, _ = certify(optimizer.problem, optimizer.history(), 0.0, kept)
    assert found.finished and listed.factor is not None and found.factor is not None
    assert found.factor == pytest.approx(listed.factor, rel=1e-9) and again.factor == found.factor
    assert "low" in kept and all((found.outer <= row * (1 + 1e-9)).all(axis=1).any() for row in listed.outer)


@pytest.mark.parametrize(("limit", "positions"), [("area<=100", [2]), ("latency<=100", [])])
def test_exact_metrics_end_a_search_only_where_no_sharper_bound_excludes_a_design(
    limit: str, positions: list[int]
) -> None:
    bounds = BoxedBounds(Boxes())
    optimizer = codesign.optim.create("exact", BOXED_SPACE, METRICS, bounds=bounds, constraints=(limit,))
    assert NarrowedProof(optimizer.problem, Boxes(), optimizer.history())._exact == positions


def test_words() -> None:
    assert above(1.0001) == "1.001" and above(12.341) == "12.35" and above(123.41) == "123.5"
    nothing = CertifiedFront(None, 1.0, True, "no bounds", np.zeros((0, 2)), 0.0, None)
    assert nothing.sentence() == "nothing is proven of the designs that were not tried: no bounds (1.0 CPU s)"
    assert nothing.to_json()["certified_factor"] is None
