"""Exact search: the front of a space with bounds, its certificate, and what happens where a bound is wrong."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import codesign.optim
from codesign.core.errors import UserError
from codesign.optim.corners import corners
from codesign.optim.pareto import front
from experiments.synthetic_box import boxes

BOX = boxes()["small"]
METRICS = ("latency", "energy", "area")


class Bounds:
    """Bounds of the closed form: a share of the truth that differs from design to design; area is exact."""

    exact_metrics = frozenset({"area"})

    def __init__(self, share: float = 0.97, wrong: bool = False) -> None:
        self.share, self.wrong = share, wrong

    def lower_bounds(self, indices: np.ndarray, metrics: Sequence[str]) -> np.ndarray:
        values, _ = BOX.metrics(indices)
        dents = 1.0 - (1.0 - self.share) * np.random.default_rng(0).random(10_007)[indices.sum(axis=1) * 37 % 10_007]
        if self.wrong:
            dents = dents + 0.05 * (indices.sum(axis=1) % 2)
        columns = [values[m] * (1.0 if m == "area" else dents) for m in metrics if m in values]
        return (
            np.stack(columns, axis=1) if len(columns) == len(metrics) else np.full((len(indices), len(metrics)), np.nan)
        )


def run(optimizer: Any, box: Any = BOX, batch: int = 1) -> int:
    done = 0
    while points := optimizer.ask(batch):
        for point in points:
            values, works = box.evaluate(point)
            optimizer.tell(point, values, feasible=works)
            done += 1
    return done


def make(**options: Any) -> Any:
    bounds = options.pop("bounds", Bounds())
    constraints = options.pop("constraints", ())
    objectives = options.pop("objectives", METRICS)
    return codesign.optim.create(
        "exact", BOX.space, objectives, bounds=bounds, constraints=constraints, options=options
    )


@pytest.mark.parametrize("batch", [1, 4])
def test_the_front_is_exact_and_few_designs_are_evaluated(batch: int) -> None:
    optimizer = make()
    count = run(optimizer, batch=batch)
    values = np.array([[v[m] for m in METRICS] for _, v in optimizer.front()])
    assert np.allclose(front(values), BOX.exact_front(), rtol=1e-6)
    state = optimizer.certificate()
    assert state.proven and state.evaluated == count and state.epsilon_proven == 0.0
    assert state.hypervolume_outer == pytest.approx(state.hypervolume_inner)
    assert count < 0.2 * state.designs


@pytest.mark.parametrize("epsilon", [0.02, 0.2])
def test_within_epsilon_every_design_is_covered(epsilon: float) -> None:
    optimizer = make(epsilon=epsilon)
    count = run(optimizer)
    values = np.array([[v[m] for m in METRICS] for _, v in optimizer.front()])
    worst = max((values / row).max(axis=1).min() for row in BOX.exact_front())
    state = optimizer.certificate()
    assert worst - 1 <= state.epsilon_proven <= epsilon and state.proven
    assert state.hypervolume_inner <= state.hypervolume_outer
    assert count < len(BOX.exact_front())


def test_the_gap_falls_and_is_honest_at_every_moment() -> None:
    optimizer = make()
    truth = BOX.exact_front()
    gaps = []
    for _ in range(12):
        (point,) = optimizer.ask()
        optimizer.tell(point, BOX.evaluate(point)[0])
        state = optimizer.certificate()
        values = optimizer.history().objectives
        assert max((values / row).max(axis=1).min() for row in truth) <= 1 + state.epsilon_proven + 1e-9
        assert not state.proven and state.hypervolume_inner <= state.hypervolume_outer
        outer = optimizer.outer_front()
        assert all((outer <= row * (1 + 1e-9)).all(axis=1).any() for row in truth)
        gaps.append(state.epsilon_proven)
    assert gaps == sorted(gaps, reverse=True)


def test_a_bound_on_power_excludes_designs_and_the_rest_is_proven() -> None:
    limit = float(np.median(BOX.metrics(BOX.space.enumerate())[0]["power"]))
    optimizer = make(constraints=[f"power<={limit}"])
    run(optimizer)
    values, _ = BOX.metrics(BOX.space.enumerate())
    good = values["power"] <= limit
    truth = front(np.stack([values[m][good] for m in METRICS], axis=1))
    found = front(np.array([[v[m] for m in METRICS] for _, v in optimizer.front()]))
    assert np.allclose(found, truth, rtol=1e-6)
    assert optimizer.certificate().excluded > 0


def test_a_wrong_bound_is_named_the_proof_withdrawn_and_the_search_goes_on() -> None:
    optimizer = make(bounds=Bounds(wrong=True))
    trials = more = 0
    while more < 5:
        (point,) = optimizer.ask()
        optimizer.tell(point, BOX.evaluate(point)[0])
        trials += 1
        more += bool(optimizer.certificate().withdrawn)
    state = optimizer.certificate()
    assert not state.proven and state.epsilon_proven is None and state.hypervolume_outer is None
    assert "is wrong" in state.withdrawn and "below its bound" in state.withdrawn
    assert len(optimizer.history().indices) == trials


def test_without_bounds_it_searches_like_a_black_box_and_says_so() -> None:
    plain = codesign.optim.create("exact", BOX.space, METRICS)
    assert "gives no bounds" in plain.certificate().withdrawn
    assert len(plain.ask(3)) == 3
    power = make(objectives=("latency", "unknown"))
    assert "'latency' has no positive bound" in power.certificate().withdrawn


def test_a_space_may_give_bounds_by_one_method() -> None:
    class Known:
        lower_bounds = Bounds().lower_bounds

        def __init__(self) -> None:
            self.share, self.wrong = 0.97, False

        def __getattr__(self, name: str) -> Any:
            return getattr(BOX.space, name)

    optimizer = codesign.optim.create("exact", Known(), METRICS, options={"epsilon": 0.1})
    run(optimizer)
    assert optimizer.certificate().proven


@pytest.mark.parametrize("epsilon", [-0.01, 1.5, float("nan")])
def test_an_epsilon_outside_its_range_is_refused(epsilon: float) -> None:
    with pytest.raises(UserError, match="`epsilon` must be between 0 and 1"):
        make(epsilon=epsilon)


def test_corners_are_where_something_better_may_still_be() -> None:
    rng = np.random.default_rng(2)
    points = rng.random((12, 3))
    found = corners(points)
    for p in rng.random((400, 3)):
        covered = bool((points <= p).all(axis=1).any())
        assert covered != bool((p < found).all(axis=1).any())


def test_a_resumed_proof_needs_no_more_designs() -> None:
    whole = make(epsilon=0.05)
    count = run(whole)
    again = make(epsilon=0.05)
    for row, values in zip(whole.history().indices, whole.history().objectives, strict=True):
        point = BOX.space.to_points(row[None])[0]
        again.tell(point, dict(zip(METRICS, values.tolist(), strict=True)))
    assert again.ask() == [] and again.certificate().proven and count == again.certificate().evaluated
