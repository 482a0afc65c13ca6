"""What searches of layers show of other machines: mixtures of prices, and products of sums."""

import numpy as np
import pytest

from codesign.bounds import DesignBounds
from codesign.bounds.dram import least_objective
from codesign.bounds.machine_searches import Beside, product_of_sums
from codesign.bounds.searches import between
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Infeasible, evaluate
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact import ExactMapper
from codesign.mappers.exact.latency_energy_front import pareto
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.builder import NetworkBuilder
from experiments.attacks.hardware_spaces import random_network, random_space
from spaces.dosa import SUM_BITS
from tests.examples import ALL, DOSA
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(20))
def test_no_choice_in_the_layers_regions_has_a_smaller_product_of_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layers = int(rng.integers(1, 6))
    energy, cycles = rng.uniform(1, 10, (2, layers))
    product = energy * cycles * rng.uniform(1, 1.3, layers)
    counts, (spent, more, leakage) = rng.integers(1, 4, layers).astype(float), rng.uniform(0, 5, 3)
    bound, _ = product_of_sums(np.stack([energy, cycles, product], axis=1), counts, Beside(spent, more, leakage))
    slopes = np.geomspace(1e-3, 1e3, 2001)[:, None]
    slow = np.clip(np.sqrt(product / slopes), cycles, product / energy)
    total = slow @ counts + more
    best = float((((product / slow) @ counts + spent + leakage * total) * total).min())
    assert best * (1.0 - 1e-3) <= bound <= best * (1.0 + 1e-12)
    drawn = rng.uniform(cycles, product / energy, (500, layers))  # and of slopes that differ from layer to layer
    total = drawn @ counts + more
    assert bound <= float((((product / drawn) @ counts + spent + leakage * total) * total).min())


@pytest.mark.parametrize("seed", seeds(20))
def test_searched_weights_bound_the_product_of_sums_closely(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    layers = int(rng.integers(1, 5))
    points = rng.uniform(1, 10, (layers, 6, 2))  # energy and cycles of every mapping there is
    counts = rng.integers(1, 4, layers).astype(float)
    beside = Beside(*rng.uniform(0, 5, 3))
    sums = np.array([[beside.energy_pj, beside.cycles]])
    for count, choices in zip(counts, points, strict=True):
        sums = (sums[:, None] + count * choices[None]).reshape(-1, 2)
    truth = ((sums[:, 0] + beside.leakage_pj_per_cycle * sums[:, 1]) * sums[:, 1]).min()
    best = sums[((sums[:, 0] + beside.leakage_pj_per_cycle * sums[:, 1]) * sums[:, 1]).argmin()]
    each = np.stack([points[..., 0].min(axis=1), points[..., 1].min(axis=1), points.prod(axis=2).min(axis=1)], axis=1)
    weights = np.sort(best[0] / best[1] * rng.uniform(0.5, 2, 3) + 2 * beside.leakage_pj_per_cycle)
    lines = [np.array([(w, (p[:, 0] + w * p[:, 1]).min()) for w in weights]) for p in points]
    plain, _ = product_of_sums(each, counts, beside)
    bound, _ = product_of_sums(each, counts, beside, lines)
    assert plain * (1.0 - 1e-12) <= bound <= truth * (1.0 + 1e-12)
    fine = best[0] / best[1] + 2 * beside.leakage_pj_per_cycle
    weights = fine * np.geomspace(0.01, 100, 2001)
    lines = [np.stack([weights, (p[:, :1] + weights * p[:, 1:]).min(axis=0)], axis=1) for p in points]
    assert product_of_sums(each, counts, beside, lines)[0] >= truth * (1.0 - 1e-3)


@pytest.mark.parametrize(("seed", "tolerance"), [(0, 0.0), (1, 0.02), (3, 0.0)])
def test_the_least_weighted_sum_is_a_corner_of_the_pareto_set(seed: int, tolerance: float) -> None:
    space = random_space(seed)
    machine = space.build(space.space.to_points(space.space.enumerate()[[7]])[0])
    for facts in DesignBounds(space, random_network(seed)).layers:
        problem = MappingProblem(facts.computation, machine)
        costs = [p.cost for p in pareto(problem, budget=Budget(time_limit_s=20.0))]
        points = np.array([(c.energy_pj, c.latency_cycles) for c in costs if c is not None])
        for weight in points[0, 0] / points[0, 1] * np.array([0.1, 1.0, 10.0]):
            truth = (points[:, 0] + weight * points[:, 1]).min()
            bound, mapping = least_objective(
                facts.computation, machine, Objective.ENERGY, None, tolerance, float(weight)
            )
            assert truth * (1.0 - tolerance - 1e-9) <= bound <= truth * (1.0 + 1e-9)
            cost = evaluate(facts.computation, machine, mapping)
            assert not isinstance(cost, Infeasible)
            assert cost.energy_pj + weight * cost.latency_cycles <= truth * (1.0 + tolerance) * (1.0 + 1e-9)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_mixture_of_searches_is_below_the_least_energy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mappings = rng.uniform(1, 50, (30, 6))  # accesses of every mapping there is
    searched = rng.uniform(0.5, 4, (int(rng.integers(1, 16)), 6))
    found = (mappings @ searched.T).min(axis=0)
    for prices in (rng.uniform(0.5, 5, 6), searched[0], searched.mean(axis=0)):
        shown = between(searched, found, prices, mappings.min(axis=0))
        assert shown <= float((mappings @ prices).min()) * (1.0 + 1e-9)
    assert between(searched, found, searched[0], mappings.min(axis=0)) == pytest.approx(found[0])


def test_what_fits_no_larger_machine_fits_no_smaller_one() -> None:
    assert between(np.ones((2, 3)), np.array([5.0, np.inf]), np.ones(3), np.ones(3)) == np.inf


def test_products_are_bounded_below_evaluations_and_closely() -> None:
    network = random_network(4)
    boxes = DesignBounds(DOSA, network).boxes
    low = DOSA.space.to_indices([{"pe": 3, "scratchpad_kib": 1, "accumulator_kib": 1}])[0]
    wide = boxes.sharpened(low, low + 5, ["edp_js"])[0]
    for row in (low, low + np.array([2, 0, 3]), *([low + 5] if ALL else [])):
        found = evaluate_workload(
            network, DOSA.build(DOSA.space.to_points(row[None])[0]), ExactMapper(), EvaluationOptions(budget=Budget(time_limit_s=20.0))
        )  # fmt: skip
        assert not isinstance(found, Infeasible)
        truth = found.metrics.to_dict()["edp_js"]
        bound = boxes.sharpened(row, row, ["edp_js"])[0]
        assert wide <= bound * (1.0 + 1e-9)
        assert 0.99 * truth <= bound <= truth


@pytest.mark.slow("oracle")
def test_a_box_is_cut_where_mappings_cease_to_fit_and_searched_no_longer_than_needed() -> None:
    net, metrics = NetworkBuilder("two", bits=8, partial_bits=SUM_BITS), ["edp_js"]
    network = net.build(net.linear(net.linear(net.input("x", (24, 64)), 36), 96))
    low = DOSA.space.to_indices([{"pe": 3, "scratchpad_kib": 1, "accumulator_kib": 1}])[0]
    boxes = DesignBounds(DOSA, network).boxes
    assert boxes.cut(low, low + 5, metrics, 1.0) is None  # no mapping is known yet
    wide = boxes.sharpened(low, low + 5, metrics)
    found = boxes.cut(low, low + 5, metrics, 1.0)
    assert found is not None
    column, first = found
    assert low[column] < first <= low[column] + 5
    under, over = low + 5, low.copy()
    under[column], over[column] = first - 1, first
    halves = [boxes.sharpened(a, b, metrics)[0] for a, b in ((low, under), (over, low + 5))]
    assert min(halves) >= wide[0] * (1.0 - 1e-9) and max(halves) > wide[0]
    early = DesignBounds(DOSA, network).boxes.sharpened(low, low + 5, metrics, goal=wide * 0.5)
    assert wide[0] * 0.5 <= early[0] <= wide[0] * (1.0 + 1e-9)


def test_a_start_of_its_own_changes_no_optimum() -> None:
    space = random_space(3)
    small, large = (space.build(space.space.to_points(row[None])[0]) for row in space.space.enumerate()[[0, -1]])
    for facts in DesignBounds(space, random_network(3)).layers:
        problem = MappingProblem(facts.computation, large)
        plain = ExactMapper().map(problem, Objective.ENERGY, budget=Budget(), seed=0)
        elsewhere = ExactMapper().map(
            MappingProblem(facts.computation, small), Objective.ENERGY, budget=Budget(), seed=0
        )
        assert plain.cost is not None
        for start in (None, plain.mapping, elsewhere.mapping):
            mapper = ExactMapper(start=start, annealed=False)
            found = mapper.map(problem, Objective.ENERGY, budget=Budget(), seed=0)
            assert found.cost is not None and found.proof is plain.proof
            assert found.cost.energy_pj == pytest.approx(plain.cost.energy_pj, rel=1e-9)
