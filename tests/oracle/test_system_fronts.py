"""Fronts of systems of many cores: `exact` against enumeration, bounds below every evaluation (rules M81 to M85)."""

import numpy as np
import pytest

from codesign.arch.core_kinds import kind_counts
from codesign.arch.many_core import mesh_order
from codesign.bounds.many_cores import SystemBounds
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.evaluation.many_cores import COST_USD, SegmentsEvaluator
from codesign.optim import create
from codesign.optim.pareto import front
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.scheduler import settings_for
from spaces.many_cores import SystemSpace, system_space_from_json

METRICS = ("latency_s", "energy_j", COST_USD)


def tiny_space() -> SystemSpace:
    """Twelve systems of four small cores."""
    found = system_space_from_json(
        {
            "name": "tiny",
            "system": "gemini-72t",
            "parameters": {"dies": [1, 2], "buffer_kib": [128, 512, 2048], "link_words": [8, 64]},
            "set": {
                "width": 2,
                "height": 2,
                "dies.x": "dies",
                "core.big.bytes": "buffer_kib * 1024",
                "links.words_per_cycle": "link_words",
                "memories.controllers": 2,
            },
        },
        "test",
        None,
    )
    assert isinstance(found, SystemSpace)
    return found


def three_layers() -> SegmentNetwork:
    """A chain of three convolutions."""

    def layer(name: str, inputs: tuple[int, ...]) -> SegmentLayer:
        outside = 0 if inputs else 32
        return SegmentLayer(
            name, LayerKind.CONV, 32, 32, 3, 3, 14, 14, pad_h=1, pad_w=1, in_h=14, in_w=14, weight_words=9216,
            external_c=outside, inputs=inputs,
        )  # fmt: skip

    return SegmentNetwork("three", (layer("a", ()), layer("b", (0,)), layer("c", (1,))))


@pytest.fixture(scope="module")
def judged() -> tuple[SegmentsEvaluator, np.ndarray, np.ndarray]:
    """The evaluator, all designs and their metrics."""
    space = tiny_space()
    settings = settings_for(Objective.EDP, Budget(evaluations=60), 0)
    evaluator = SegmentsEvaluator(space, ((three_layers(), 2.0),), 4, settings)
    rows = space.space.enumerate(100)
    found = []
    for point in space.space.to_points(rows):
        metrics = evaluator(point).metrics
        assert metrics is not None
        found.append([metrics.to_dict()[m] for m in METRICS])
    return evaluator, rows, np.array(found)


def test_no_design_is_below_its_bound(judged: tuple[SegmentsEvaluator, np.ndarray, np.ndarray]) -> None:
    """Energy and latency of every tree that is found; cost and area are exact."""
    evaluator, rows, values = judged
    bounds = SystemBounds(evaluator).lower_bounds(rows, METRICS)
    assert (bounds <= values).all()
    np.testing.assert_allclose(bounds[:, 2], values[:, 2], rtol=1e-9)


def test_exact_finds_the_enumerated_front(judged: tuple[SegmentsEvaluator, np.ndarray, np.ndarray]) -> None:
    """The optimiser ends by itself, with the front of all designs."""
    evaluator, rows, values = judged
    space = tiny_space().space
    optimizer = create("exact", space, METRICS, seed=0, bounds=SystemBounds(evaluator))
    told = []
    while asked := optimizer.ask(1):
        (row,) = space.to_indices(asked)
        at = int(np.flatnonzero((rows == row).all(axis=1))[0])
        optimizer.tell(asked[0], dict(zip(METRICS, map(float, values[at]), strict=True)))
        told.append(values[at])
    certificate = optimizer.certificate()
    assert certificate is not None and certificate.proven
    mine, all_of_them = front(np.array(told)), front(values)
    np.testing.assert_allclose(np.unique(mine, axis=0), np.unique(all_of_them, axis=0), rtol=1e-7)


def test_the_factor_of_schedules_is_the_one_of_its_definition(
    judged: tuple[SegmentsEvaluator, np.ndarray, np.ndarray],
) -> None:
    """Over all designs the greatest, over the front the least, over objectives the greatest ratio of value to bound."""
    evaluator, rows, values = judged
    model = SystemBounds(evaluator)
    points, bounds = front(values), model.lower_bounds(rows, METRICS)
    expected = max(min(max(p / b) for p in points) for b in bounds)
    assert model.factor(points, METRICS) == pytest.approx(max(1.0, expected))
    assert model.factor(points, METRICS, [(COST_USD, 0.0)]) == 1.0


def test_nothing_is_said_of_an_objective_without_a_bound(
    judged: tuple[SegmentsEvaluator, np.ndarray, np.ndarray],
) -> None:
    evaluator, _, values = judged
    bounds = SystemBounds(evaluator)
    known = bounds.factor(front(values), METRICS)
    assert known is not None and known >= 1.0
    assert bounds.factor(front(values), ("latency_s", "power_w", COST_USD)) is None


def test_a_space_sets_how_many_cores_are_of_a_kind() -> None:
    """The last cores of the mesh are of the kind; with none of them the system has equal cores (rule M111)."""
    value = {
        "name": "mix",
        "system": "tpu-duo",
        "parameters": {"arrays": [0, 1, 3], "mesh_x": [2, 4]},
        "set": {"width": "mesh_x", "kinds.channels.cores": "arrays", "memories.controllers": 2},
    }
    space = system_space_from_json(value, "test", None)
    plain = space.system({"arrays": 0, "mesh_x": 2})
    assert plain.kinds == () and plain.places == ()
    mixed = space.system({"arrays": 3, "mesh_x": 4})
    assert kind_counts(mixed) == (5, 3)
    assert mixed.core_places[5:] == mesh_order(4, 2, mixed.stride)[5:]
    with pytest.raises(UserError, match="9 cores of further kinds do not fit a mesh of 4 x 2"):
        system_space_from_json({**value, "parameters": {"arrays": [1, 9], "mesh_x": [2, 4]}}, "test", None)
