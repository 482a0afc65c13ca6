"""Bounds of boxes: never above those of a design inside, equal to them for boxes of one design, never above an evaluation."""

from functools import cache

import numpy as np
import pytest

from codesign.bounds import DesignBounds
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact import ExactMapper
from spaces.cores import CONV_CORE
from spaces.design import DesignSpace
from spaces.eyeriss import EYERISS
from spaces.scratchpad import SCRATCHPAD
from spaces.wide import WIDE
from tests.examples import DOSA
from tests.unit.bounds.test_design_bounds import small_network

FIELDS = ("latency_s", "energy_j", "area_mm2", "edp_js", "power_w")


@cache
def model_of(name: str) -> DesignBounds:
    space = {s.name: s for s in (SCRATCHPAD, DOSA, WIDE)}[name]
    return DesignBounds(space, small_network(space.bits, space.partial_bits))


def random_box(
    space: DesignSpace, root: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    low, high = root
    ends = np.sort(rng.integers(low, high + 1, (2, len(low))), axis=0)
    lives = space.space.exists_in(ends[:1], ends[1:])[0]
    return np.where(lives, ends[0], 0), np.where(lives, ends[1], 0)


@pytest.mark.parametrize("count", [1, pytest.param(4, marks=pytest.mark.slow("oracle"))])
@pytest.mark.parametrize("space", [SCRATCHPAD, DOSA, WIDE], ids=lambda s: s.name)
def test_no_design_lies_below_the_bound_of_its_box(space: DesignSpace, count: int) -> None:
    rng = np.random.default_rng(3)
    boxes = model_of(space.name).boxes
    assert boxes.why_not == ""
    sizes = np.array(space.space.cardinalities)
    roots = boxes.roots(np.zeros(len(sizes), dtype=np.int64), sizes - 1)
    for k in rng.choice(len(roots), min(count, len(roots)), replace=False):
        low, high = random_box(space, roots[k], rng)
        rows = space.space.canonical(rng.integers(low, high + 1, (20, len(low))))
        rows = rows[((low <= rows) & (rows <= high)).all(axis=1)]
        bound = boxes.lower_bounds(low[None], high[None], FIELDS)[0]
        each = boxes.lower_bounds(rows, rows, FIELDS)
        assert (bound <= each * (1 + 1e-9)).all()


def test_a_box_of_one_design_is_bounded_as_the_design() -> None:
    model = DesignBounds(SCRATCHPAD, small_network(8, 24))
    rows = SCRATCHPAD.space.sample(30, np.random.default_rng(5))
    assert model.boxes.lower_bounds(rows, rows, FIELDS) == pytest.approx(model.lower_bounds(rows, FIELDS), rel=1e-6)


def test_parameters_that_do_not_exist_change_no_part_of_a_box() -> None:
    model = model_of("wide")
    rows = WIDE.space.sample(6, np.random.default_rng(9))
    found = model.boxes.lower_bounds(rows, rows, FIELDS)
    areas = [WIDE.build(point).area_mm2 for point in WIDE.space.to_points(rows)]
    assert found[:, 2] == pytest.approx(areas, rel=1e-9)
    assert found == pytest.approx(model.lower_bounds(rows, FIELDS), rel=1e-6)
    other = np.where(
        WIDE.space.active(rows), rows, np.array(WIDE.space.cardinalities) - 1
    )  # of parameters that a design lacks
    assert model.boxes.lower_bounds(other, other, FIELDS) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("space", [SCRATCHPAD, DOSA], ids=lambda s: s.name)
def test_evaluations_lie_above_sharpened_bounds_of_boxes(space: DesignSpace) -> None:
    rng = np.random.default_rng(7)
    network, boxes = small_network(space.bits, space.partial_bits), model_of(space.name).boxes
    sizes = np.array(space.space.cardinalities)
    roots = boxes.roots(np.zeros(len(sizes), dtype=np.int64), sizes - 1)
    low, high = random_box(space, roots[int(rng.integers(len(roots)))], rng)
    wide = boxes.sharpened(low, high, FIELDS)
    assert (wide >= boxes.lower_bounds(low[None], high[None], FIELDS)[0] * (1 - 1e-12)).all()
    for row in rng.integers(low, high + 1, (3, len(low))):
        sharp = boxes.sharpened(row, row, FIELDS)
        assert (wide <= sharp * (1 + 1e-9)).all()
        built = space.build(space.space.to_points(row[None])[0])
        options = EvaluationOptions(objective=Objective.ENERGY, budget=Budget(time_limit_s=20.0))
        found = evaluate_workload(network, built, ExactMapper(), options)
        assert not isinstance(found, Infeasible)
        metrics = found.metrics.to_dict()
        values = np.array([metrics[f] for f in FIELDS])
        assert (values >= sharp * (1 - 1e-9)).all()
        assert (
            values[1] <= 1.005 * sharp[1]
        )  # of use: the least energy there is, but for leakage over the least latency


@pytest.mark.parametrize("space", [EYERISS, CONV_CORE], ids=lambda s: s.name)
def test_a_space_whose_builder_names_no_parts_has_no_boxes(space: DesignSpace) -> None:
    boxes = DesignBounds(space, small_network(space.bits, space.partial_bits)).boxes
    assert (getattr(space, "parts", None) is None) == bool(boxes.why_not)
