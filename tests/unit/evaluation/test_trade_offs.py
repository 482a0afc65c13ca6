"""Trade-offs of a workload: every combination of the layers' mappings, and nothing else."""

from itertools import product

import numpy as np
import pytest

from codesign.core.goals import Objective
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.evaluation.trade_offs import TradeOffs, merged, quickest_first, repeated, trade_offs
from codesign.mappers.exact import ExactMapper
from codesign.workloads.builder import NetworkBuilder
from spaces.scratchpad import SCRATCHPAD


@pytest.mark.parametrize("seed", range(4))
def test_merging_equals_every_combination(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = [quickest_first(rng.integers(1, 12, (4, 2)).astype(float)) for _ in range(3)]
    counts = [1, 3, 2]
    leakage = 0.3
    total = np.zeros((1, 2))
    for points, count in zip(sets, counts, strict=True):
        total = merged(total, repeated(points, count), leakage)
    each = [points for points, count in zip(sets, counts, strict=True) for _ in range(count)]
    every = np.array([np.sum(choice, axis=0) for choice in product(*each)])
    assert total == pytest.approx(quickest_first(every, leakage))


def test_a_weight_that_is_no_whole_number_scales() -> None:
    points = np.array([[1.0, 4.0], [2.0, 1.0]])
    assert repeated(points, 0.5) == pytest.approx(points / 2)
    assert repeated(points, 2) == pytest.approx(np.array([[2.0, 8.0], [3.0, 5.0], [4.0, 2.0]]))


def test_the_ends_are_the_least_latency_and_the_least_energy() -> None:
    net = NetworkBuilder("two", bits=8, partial_bits=24)
    x = net.input("x", (1, 8, 8, 8))
    y = net.conv(x, 16, 3, padding=1, name="window")
    network = net.build(net.conv(y, 16, 1, name="pointwise"))
    point = dict(SCRATCHPAD.space.presets[0], pe_rows=8, pe_cols=8, scratchpad_kib=32, banks=1)
    architecture = SCRATCHPAD.build(point)
    found = trade_offs(network, architecture)
    assert isinstance(found, TradeOffs) and found.proven
    for objective, metric in ((Objective.LATENCY, "latency_s"), (Objective.EDP, "edp_js")):
        alone = evaluate_workload(network, architecture, ExactMapper(), EvaluationOptions(objective=objective))
        assert not isinstance(alone, Infeasible)
        least = min(m.to_dict()[metric] for m in found.points)
        assert least <= alone.metrics.to_dict()[metric] * (1 + 1e-12)
    latencies = [m.latency_s for m in found.points]
    energies = [m.energy_j for m in found.points]
    assert latencies == sorted(latencies) and energies == sorted(energies, reverse=True)
