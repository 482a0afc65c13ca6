import pytest

from codesign.core.errors import UserError
from codesign.workloads.workload import Workload
from codesign.workloads.zoo import build_model


def test_weighted_sum_of_networks() -> None:
    small, large = build_model("resnet18"), build_model("resnet34")
    workload = Workload.of([small, large], [2, 1])
    assert workload.macs == 2 * small.macs + large.macs
    assert workload.name == "2*resnet18+resnet34"
    groups = workload.distinct_layers()
    assert len(groups) == len({small.distinct_layers()[i].computation for i in range(12)}) == 12  # all shared
    assert sum(g.count for g in groups) == 2 * 21 + 37
    assert sum(g.count * g.computation.macs for g in groups) == workload.macs
    assert "resnet34/fc" in {n for g in groups for n in g.operators}


def test_one_network_counts_once() -> None:
    assert Workload.of([build_model("resnet18")]).weights == (1.0,)


def test_bad_workloads() -> None:
    net = build_model("resnet18")
    with pytest.raises(UserError, match="needs at least one network, got none"):
        Workload.of([])
    with pytest.raises(UserError, match="expected 1 weights, one for each network, got 2"):
        Workload.of([net], [1, 2])
    for weight in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="the weight of network 'resnet18' must be a number > 0"):
            Workload.of([net], [weight])
