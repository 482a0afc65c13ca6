"""Proofs by boxes against enumeration: the front found, the honest gap, constraints, and bounds that are wrong."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import codesign.optim
from codesign.optim import boxed, exact
from codesign.optim.boxed import BoxedBounds, boxes_for
from codesign.optim.pareto import front
from spaces.constraints import Constraint
from spaces.parameters import Categorical, Condition, Integer, Ordinal
from spaces.space import Space
from tests.examples import ALL

METRICS = ("latency", "energy", "area")

SPACE = Space(
    [
        Integer("rows", 1, 8 if ALL else 6),
        Ordinal("kib", [1, 4, 8, 16, 64]),
        Categorical("links", ["none", "bus", "chain"]),
        Integer("depth", 1, 4, when=Condition("links", ("chain",))),
        Integer("bus", 1, 6),
    ],
    [Constraint("fits", f"rows * kib <= {300 if ALL else 200}")],
)


def closed_form(p: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """Latency, energy, area and power of a point; knows conditional parameters and is not monotone in all of them."""
    width = p["rows"] * (1.5 if p["links"] == "bus" else 1.0)
    miss = 40.0 / np.sqrt(p["kib"])
    latency = max(1000.0 / width, miss * 30 / p["bus"]) * (1.0 + 0.1 * (p.get("depth", 0) % 3))
    energy = miss * 6 + 0.4 * p["kib"] ** 0.7 + (2.0 / p["depth"] if "depth" in p else 4.0) + 0.3 * p["bus"]
    area = p["rows"] * 2.0 + p["kib"] * 0.5 + p["bus"] + p.get("depth", 0)
    return latency, energy, area, energy / latency


@cache
def grid() -> dict[str, np.ndarray]:
    """Every metric of every combination of indices, one axis for each parameter."""
    shape = tuple(p.cardinality for p in SPACE.parameters)
    rows = np.indices(shape).reshape(len(shape), -1).T
    table = np.array([closed_form(p) for p in SPACE.to_points(SPACE.canonical(rows))])
    return {name: table[:, k].reshape(shape) for k, name in enumerate((*METRICS, "power"))}


def values_of(rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[tuple(rows.T)] for name, values in grid().items()}


class Boxes:
    """Bounds of boxes: a share of the least value inside, found by looking at every combination."""

    why_not = ""

    def __init__(self, share: float = 0.98, slow: bool = False, wrong: bool = False, cuts: bool = False) -> None:
        self.share, self.slow, self.wrong, self.cuts = share, slow, wrong, cuts
        self.asked = 0

    def roots(self, low: np.ndarray, high: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        found = []
        for k in range(3):
            lower, upper = low.copy(), high.copy()
            lower[2] = upper[2] = k
            found.append((lower, upper))
        return found

    def lower_bounds(self, low: np.ndarray, high: np.ndarray, metrics: Sequence[str]) -> np.ndarray:
        self.asked += len(low)
        return np.array([self._one(a, b, metrics) for a, b in zip(low, high, strict=True)]).reshape(-1, len(metrics))

    def _one(self, low: np.ndarray, high: np.ndarray, metrics: Sequence[str]) -> list[float]:
        inside = tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))
        factor = 1.3 if self.wrong else self.share
        return [float(grid()[m][inside].min()) * (1.0 if m in ("area", "power") else factor) for m in metrics]

    def sharpened(
        self,
        low: np.ndarray,
        high: np.ndarray,
        metrics: Sequence[str],
        tolerance: float = 0.0,
        enough: Callable[[], bool] | None = None,
        goal: np.ndarray | None = None,
    ) -> np.ndarray:
        return self.lower_bounds(low[None], high[None], metrics)[0]

    def cut(self, low: np.ndarray, high: np.ndarray, metrics: Sequence[str], most: float) -> tuple[int, int] | None:
        longest = int(np.argmax(high - low))
        return (longest, int(low[longest]) + 1) if self.cuts else None

    def suggested(self, low: np.ndarray, high: np.ndarray, metrics: Sequence[str]) -> np.ndarray | None:
        return None


class Bounds:
    exact_metrics = frozenset({"area"})

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes

    def lower_bounds(self, indices: np.ndarray, metrics: Sequence[str]) -> np.ndarray:
        return self.boxes.lower_bounds(indices, indices, metrics)


@pytest.fixture(autouse=True)
def too_large_to_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "LISTED", 100)


def run(optimizer: Any, most: int = 10_000) -> None:
    for _ in range(most):
        points = optimizer.ask(1)
        if not points:
            return
        row = SPACE.to_indices(points)
        optimizer.tell(points[0], {k: float(v[0]) for k, v in values_of(row).items()})


def truth(objectives: Sequence[str], limit: float = np.inf) -> np.ndarray:
    values = values_of(SPACE.enumerate())
    good = values["power"] <= limit
    return front(np.stack([values[m][good] for m in objectives], axis=1))


@pytest.mark.parametrize("objectives", [METRICS, ("latency", "energy"), (*METRICS, "power"), ("energy",)])
@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.thinned(3)
def test_the_front_is_that_of_enumeration(objectives: tuple[str, ...], slow: bool) -> None:
    model = Bounds(Boxes(slow=slow, cuts=slow))
    assert isinstance(boxes_for(model), BoxedBounds)
    optimizer = codesign.optim.create("exact", SPACE, objectives, bounds=model)
    run(optimizer)
    state = optimizer.certificate()
    found = front(np.array([[v[m] for m in objectives] for _, v in optimizer.front()]))
    assert state.proven and state.epsilon_proven == 0.0 and state.open == 0
    assert np.allclose(found, truth(objectives))
    assert state.evaluated < 0.6 * len(SPACE.enumerate())


@pytest.mark.parametrize("slow", [False, True])
def test_halves_in_which_a_parameter_does_not_exist_are_dropped(slow: bool) -> None:
    class Whole(Boxes):
        """One box at first, cut along the conditional parameter before the one that it depends on."""

        def roots(self, low: np.ndarray, high: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
            return [(low, high)]

        def cut(self, low: np.ndarray, high: np.ndarray, metrics: Sequence[str], most: float) -> tuple[int, int] | None:
            column = next(c for c in (3, 2, 0, 1, 4) if high[c] > low[c])
            return column, int(high[column])

    optimizer = codesign.optim.create("exact", SPACE, ("latency", "energy"), bounds=Bounds(Whole(slow=slow)))
    run(optimizer)
    state = optimizer.certificate()
    assert state.proven and state.open == 0
    found = front(np.array([[v["latency"], v["energy"]] for _, v in optimizer.front()]))
    assert np.allclose(found, truth(("latency", "energy")))


def test_the_gap_is_honest_at_every_moment_and_constraints_hold() -> None:
    limit = float(np.median(values_of(SPACE.enumerate())["power"]))
    optimizer = codesign.optim.create("exact", SPACE, METRICS, bounds=Bounds(Boxes()), constraints=[f"power<={limit}"])
    real = truth(METRICS, limit)
    gaps = []
    for _ in range(40):
        run(optimizer, 1)
        state = optimizer.certificate()
        good = np.array([[v[m] for m in METRICS] for _, v in optimizer.front()]).reshape(-1, 3)
        if len(good):
            worst = max((good / row).max(axis=1).min() for row in real)
            assert worst <= (1.0 + state.epsilon_proven) * (1 + 1e-9)
            assert state.hypervolume_inner <= state.hypervolume_outer
            outer = optimizer.outer_front()
            assert all((outer <= row * (1 + 1e-9)).all(axis=1).any() for row in real)
        gaps.append(np.inf if state.epsilon_proven is None else state.epsilon_proven)
    assert gaps == sorted(gaps, reverse=True)


def test_designs_come_before_all_boxes_are_bounded_and_nothing_is_proven_till_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(boxed, "ROOTS", 1)
    monkeypatch.setattr(boxed, "ROUNDS", 1)
    model = Boxes()
    optimizer = codesign.optim.create("exact", SPACE, METRICS, bounds=Bounds(model))
    first = optimizer.certificate()
    assert first.epsilon_proven == np.inf and first.open == SPACE.cardinality_bound and not len(optimizer.outer_front())
    run(optimizer, 1)
    state = optimizer.certificate()
    assert state.epsilon_proven == np.inf and state.hypervolume_outer is None and not state.proven
    run(optimizer)
    found = front(np.array([[v[m] for m in METRICS] for _, v in optimizer.front()]))
    assert optimizer.certificate().proven and np.allclose(found, truth(METRICS))


def test_within_epsilon_every_design_is_covered_and_a_resumed_proof_needs_no_more() -> None:
    optimizer = codesign.optim.create("exact", SPACE, METRICS, bounds=Bounds(Boxes()), options={"epsilon": 0.1})
    run(optimizer)
    values = optimizer.history().objectives
    assert max((values / row).max(axis=1).min() for row in truth(METRICS)) <= 1.1
    again = codesign.optim.create("exact", SPACE, METRICS, bounds=Bounds(Boxes()), options={"epsilon": 0.1})
    for row, line in zip(optimizer.history().indices, values, strict=True):
        again.tell(SPACE.to_points(row[None])[0], dict(zip(METRICS, line.tolist(), strict=True)))
    assert again.ask() == [] and again.certificate().proven


@pytest.mark.parametrize("slow", [False, True])
def test_no_design_is_proposed_once_time_is_up(slow: bool) -> None:
    optimizer = codesign.optim.create(
        "exact", SPACE, METRICS, bounds=Bounds(Boxes(slow=slow)), options={"cpu_limit_s": 1e-6}
    )
    assert optimizer.ask() == []
    assert not optimizer.certificate().proven and optimizer.certificate().epsilon_proven == np.inf


@pytest.mark.parametrize("slow", [False, True])
def test_bounds_alone_tighten_what_is_proven(slow: bool) -> None:
    optimizer = codesign.optim.create("exact", SPACE, METRICS, bounds=Bounds(Boxes(slow=slow)))
    run(optimizer, 5)
    before = optimizer.certificate()
    assert not optimizer.tighten(lambda: True) or before.proven
    while optimizer.tighten(lambda: False):
        pass
    after = optimizer.certificate()
    assert after.evaluated == before.evaluated and after.epsilon_proven <= before.epsilon_proven
    good = np.array([[v[m] for m in METRICS] for _, v in optimizer.front()])
    assert max((good / row).max(axis=1).min() for row in truth(METRICS)) <= 1.0 + after.epsilon_proven + 1e-9


def test_a_wrong_bound_of_a_box_withdraws_the_proof() -> None:
    optimizer = codesign.optim.create("exact", SPACE, METRICS, bounds=Bounds(Boxes(wrong=True)))
    run(optimizer, 5)
    state = optimizer.certificate()
    assert not state.proven and state.epsilon_proven is None and "is wrong" in state.withdrawn
    assert len(optimizer.history().indices) == 5


def test_parameters_that_exist_nowhere_in_a_box_are_seen() -> None:
    low = np.array([[0, 0, 0, 0, 0], [0, 0, 1, 0, 0]])
    high = np.array([[11, 6, 1, 3, 5], [11, 6, 2, 3, 5]])
    assert SPACE.exists_in(low, high).tolist() == [[True, True, True, False, True], [True] * 5]
