"""The proven front of random small spaces over random hierarchies is that of enumeration, with random objectives and constraints."""

import numpy as np
import pytest

import codesign.optim
from codesign.bounds import DesignBounds
from codesign.core.goals import Budget
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact import ExactMapper
from codesign.optim.pareto import front
from experiments.attacks.hardware_spaces import random_network, random_space

CHOICES = (
    ("latency_s", "energy_j", "area_mm2"),
    ("latency_s", "energy_j"),
    ("edp_js", "area_mm2"),
    ("latency_s", "power_w", "area_mm2"),
    ("latency_s", "energy_j", "area_mm2", "edp_js"),
)


def check(seed: int) -> tuple[int, int]:
    """Designs and how many were evaluated; asserts that the front is that of enumeration."""
    rng = np.random.default_rng([seed, 2])
    space, network = random_space(seed), random_network(seed)
    objectives = CHOICES[int(rng.integers(len(CHOICES)))]
    rows = space.space.enumerate()
    values = []
    for point in space.space.to_points(rows):
        options = EvaluationOptions(budget=Budget(time_limit_s=2.0))
        found = evaluate_workload(network, space.build(point), ExactMapper(), options)
        values.append(None if isinstance(found, Infeasible) else found.metrics.to_dict())
    good = [v for v in values if v is not None]
    constraints: list[str] = []
    if good and rng.random() < 0.5:
        limit = float(np.median([v["power_w"] for v in good]))
        constraints.append(f"power_w<={limit!r}")
        good = [v for v in good if v["power_w"] <= limit]
    optimizer = codesign.optim.create(
        "exact", space.space, objectives, bounds=DesignBounds(space, network), constraints=constraints
    )
    by_row = {row.tobytes(): v for row, v in zip(rows, values, strict=True)}
    while points := optimizer.ask(1):
        metrics = by_row[space.space.to_indices(points)[0].tobytes()]
        optimizer.tell(points[0], metrics, feasible=metrics is not None)
    state = optimizer.certificate()
    assert state is not None and not state.withdrawn, (seed, state)
    assert state.open == 0
    if good:
        truth = front(np.array([[v[o] for o in objectives] for v in good]))
        found = front(np.array([[v[o] for o in objectives] for _, v in optimizer.front()]))
        for row in truth:
            assert (np.abs(found / row - 1.0) < 1e-6).all(axis=1).any(), (seed, objectives, constraints)
        assert state.proven
    return state.designs, state.evaluated


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.thinned(2)
def test_the_proven_front_is_that_of_enumeration(seed: int) -> None:
    check(seed)


@pytest.mark.slow("speed")
@pytest.mark.parametrize("seed", range(3, 60))
def test_the_proven_front_of_more_spaces(seed: int) -> None:
    check(seed)
