"""Flows that share resources (rules F1 to F4): by hand, and as laws of max-min fairness."""

import numpy as np
import pytest

from experiments.models.flows import ACTIVE, Flows, fair_rates, run_flows

Flow = tuple[tuple[int, ...], float]
"""Resources and bytes."""


def flows(
    processors: list[list[Flow]],
    capacity: list[float],
    *,
    limit: float = 1e9,
    latency: float = 0.0,
    gap: float = 0.0,
    fences: tuple[int, ...] = (),
) -> Flows:
    flat = [flow for one in processors for flow in one]
    n = len(flat)
    first = np.cumsum([0, *(len(one) for one in processors)]).astype(np.int64)
    starts = np.cumsum([0, *(len(resources) for resources, _ in flat)]).astype(np.int64)
    resource = np.array([r for resources, _ in flat for r in resources], np.int64)
    size, fence = np.array([size for _, size in flat]), np.zeros(n, np.int64)
    fence[list(fences)] = 1
    same = (np.full(n, limit), np.full(n, latency), np.zeros(n), np.full(n, gap))
    return Flows(first, starts, resource, size, *same, fence, np.array(capacity))


def test_two_flows_share_a_link_and_one_goes_on_alone() -> None:
    found = run_flows(flows([[((0,), 100.0)], [((0,), 300.0)]], [10.0]))
    assert found.arrived.tolist() == pytest.approx([20.0, 40.0])


def test_a_flow_takes_what_another_cannot_use() -> None:
    # flow 1 passes the narrow resource 1, so that flow 0 has the rest of resource 0
    found = run_flows(flows([[((0,), 80.0)], [((0, 1), 20.0)]], [10.0, 2.0]))
    assert found.arrived.tolist() == pytest.approx([10.0, 10.0])


def test_gaps_latencies_limits_and_fences() -> None:
    one: list[Flow] = [((0,), 50.0)] * 3
    apart = run_flows(flows([one], [100.0], limit=5.0, latency=7.0, gap=30.0))
    assert apart.issued.tolist() == [0.0, 30.0, 60.0]
    assert apart.arrived.tolist() == pytest.approx([17.0, 47.0, 77.0])
    fenced = run_flows(flows([one], [100.0], limit=5.0, latency=7.0, gap=2.0, fences=(2,)))
    assert fenced.issued.tolist() == pytest.approx([0.0, 2.0, 21.0])
    assert fenced.arrived.tolist() == pytest.approx([17.0, 19.0, 38.0])


def test_every_flow_has_a_bottleneck_where_no_other_is_faster() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        made = flows(
            [[(tuple(random.choice(6, 3, replace=False).tolist()), 1.0)] for _ in range(9)],
            random.uniform(1, 9, 6).tolist(),
            limit=4.0,
        )
        rate = np.zeros(9)
        fair_rates(made, np.full(9, ACTIVE), rate)
        through = made.resource.reshape(9, 3)
        load = np.array([rate[(through == r).any(axis=1)].sum() for r in range(6)])
        assert (load <= made.capacity * (1 + 1e-6)).all() and (rate <= 4.0 + 1e-9).all()
        for f in range(9):
            full = [r for r in through[f] if load[r] >= made.capacity[r] * (1 - 1e-6)]
            fastest = [rate[(through == r).any(axis=1)].max() for r in full]
            assert rate[f] >= 4.0 - 1e-6 or any(rate[f] >= other - 1e-6 for other in fastest)
