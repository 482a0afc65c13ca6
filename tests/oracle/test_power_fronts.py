"""Power as an objective: its bounds against enumeration on random small spaces, and the front that they prove (rule LB18)."""

import numpy as np
import pytest

import codesign.optim
from codesign.bounds import DesignBounds
from codesign.bounds.chosen import COVERED, LayerKnown, chosen_by, range_of
from codesign.bounds.design import BoundTable
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact import ExactMapper
from codesign.optim.pareto import front
from experiments.attacks.hardware_spaces import RandomBuilder, random_network
from spaces.design import DesignSpace
from spaces.parameters import Categorical, Ordinal
from spaces.space import Space

CHOICES = (
    ("latency_s", "power_w", "area_mm2"),
    ("energy_j", "power_w"),
    ("latency_s", "power_w"),
    ("edp_js", "power_w"),
)


def space_of(seed: int, columns: int) -> DesignSpace:
    """A random hierarchy, twelve designs for each number of columns."""
    rng = np.random.default_rng([seed, 77])
    drawn = sorted(int(v) for v in rng.choice([1, 2, 3, 4, 5, 6, 8], columns, replace=False))
    parameters = [
        Ordinal("columns", drawn),
        Categorical("links", ["none", "systolic", "multicast"]),
        Ordinal("times", [1, 3]),
        Ordinal("ports", [1, 2]),
    ]
    return DesignSpace(f"power-{seed}", Space(parameters), RandomBuilder(seed), bits=8, partial_bits=24)


def hold_bounds(table: BoundTable, at: int, value: dict[str, float], designs: int) -> None:
    """No bound is above the evaluation, with searches made until power is nearly met."""

    def nearly() -> bool:
        return bool(table.values(["power_w"], np.array([at]))[0, 0] > value["power_w"] * (1.0 - 1e-6))

    table.sharpen(at, np.arange(designs), 0.0, nearly)
    for metric in ("latency_s", "energy_j", "power_w"):
        assert value[metric] >= table.values([metric], np.array([at]))[0, 0], (at, metric)


def check(seed: int, columns: int, objective: Objective) -> tuple[int, int]:
    """Designs and how many were evaluated; asserts bounds and fronts against the evaluation of every design."""
    space, network = space_of(seed, columns), random_network(seed)
    rows, options = space.space.enumerate(), EvaluationOptions(objective=objective)
    values = []
    for point in space.space.to_points(rows):
        found = evaluate_workload(network, space.build(point), ExactMapper(), options)
        values.append(None if isinstance(found, Infeasible) else found.metrics.to_dict())
    by_row = {row.tobytes(): v for row, v in zip(rows, values, strict=True)}
    objectives = CHOICES[seed % len(CHOICES)]
    optimizer = codesign.optim.create(
        "exact",
        space.space,
        objectives,
        bounds=DesignBounds(space, network, options, None, chosen_by(options, "exact")),
    )
    while points := optimizer.ask(1):
        metrics = by_row[space.space.to_indices(points)[0].tobytes()]
        optimizer.tell(points[0], metrics, feasible=metrics is not None)
    state = optimizer.certificate()
    assert state is not None and not state.withdrawn and state.open == 0, (seed, state)
    table = DesignBounds(space, network, options, None, objective).table(rows)
    for k, value in enumerate(values):
        if value is not None:
            hold_bounds(table, k, value, len(rows))
    good = [v for v in values if v is not None]
    if good:
        found_front = front(np.array([[v[o] for o in objectives] for _, v in optimizer.front()]))
        for row in front(np.array([[v[o] for o in objectives] for v in good])):
            assert (np.abs(found_front / row - 1.0) < 1e-6).all(axis=1).any(), (seed, objectives)
    return state.designs, state.evaluated


@pytest.mark.parametrize(("seed", "objective"), [(3, Objective.EDP), (1, Objective.LATENCY)])
def test_the_front_is_that_of_enumeration_with_few_evaluations(seed: int, objective: Objective) -> None:
    designs, evaluated = check(seed, 3, objective)
    assert evaluated < designs / 2


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(10, 40))
def test_more_spaces(seed: int) -> None:
    check(seed, 4, COVERED[seed % 2])


@pytest.mark.parametrize("objective", COVERED)
@pytest.mark.parametrize("seed", range(40))
def test_the_chosen_mapping_lies_in_its_range(seed: int, objective: Objective) -> None:
    """Any set of mappings, any of them known, bounds at or below the truth: the best one is in the range."""
    rng = np.random.default_rng(seed)
    energy, cycles = rng.uniform(1.0, 3.0, 12), rng.integers(5, 30, 12).astype(np.float64)
    weights = np.sort(rng.uniform(0.0, 0.6, 4))
    lines = np.array([(s, (energy + s * cycles).min() * rng.choice([1.0, 0.98])) for s in weights])
    scores = [(float(energy[k]), float(cycles[k])) for k in rng.choice(12, 5, replace=False)]
    least_pj, least = float(energy.min()) * float(rng.choice([1.0, 0.8])), float(cycles.min() - rng.integers(0, 3))
    known = LayerKnown(least_pj, least, float((energy * cycles).min()) * 0.99, lines, tuple(scores))
    found = range_of(known, objective)
    value = np.array([objective.score(e, c) for e, c in zip(energy, cycles, strict=True)])
    chosen = int(np.argmin(value))
    assert found.least_pj <= energy[chosen] and found.least <= cycles[chosen] <= found.most


def test_a_mapping_best_for_a_weighted_sum_too_is_the_only_one_left() -> None:
    """Point 4 of the rule: energy 2 and cycles 10, the line of a slope below their ratio."""
    known = LayerKnown(1.5, 8.0, 0.0, np.array([[0.14, 2.0 + 1.4]]), ((2.0, 10.0),))
    found = range_of(known, Objective.EDP)
    assert found.least_pj == pytest.approx(2.0, rel=1e-9) and found.most == 10.0


def test_only_judges_whose_mapping_is_known_to_be_optimal_bound_power() -> None:
    """Of least energy any mapping may be chosen; a budget may end before the optimum."""
    assert chosen_by(EvaluationOptions(), "exact") == Objective.EDP
    assert chosen_by(EvaluationOptions(), "anneal") is None
    assert chosen_by(EvaluationOptions(objective=Objective.ENERGY), "exact") is None
    assert chosen_by(EvaluationOptions(budget=Budget(time_limit_s=1.0)), "exact") is None
