"""The whole-network scheduler as the inside of a hardware search."""

import numpy as np
import pytest

from codesign.core.goals import Budget, Objective
from codesign.evaluation.scheduled import ScheduledEvaluator
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
from codesign.scheduling.soma.search.two_stages import SearchOptions
from spaces.soma_template import SOMA_EDGE


def _graph() -> LayerGraph:
    layers = tuple(
        Layer(
            f"l{i}", LayerType.CONV, 256, 28, 28, 256, R=3, S=3, pad_h=1, pad_w=1, in_h=28, in_w=28, ifm_prevs=(i - 1,) if i else (),
            ext_prevs=() if i else (0,),
        )
        for i in range(4)
    )  # fmt: skip
    return LayerGraph("four", layers, ((256, 28, 28),))


def test_more_bandwidth_and_a_larger_array_are_faster_and_a_small_buffer_is_infeasible() -> None:
    evaluate = ScheduledEvaluator(
        SOMA_EDGE, ((_graph(), 2.0),), 1, Objective(), SearchOptions(Budget(evaluations=400), seed=1)
    )
    base = {"gbuf_mib": 8, "dram_bytes_per_cycle": 16, "pe_dim": 4}
    middle = evaluate(base).metrics
    fast = evaluate(base | {"dram_bytes_per_cycle": 64}).metrics
    wide = evaluate(base | {"dram_bytes_per_cycle": 64, "pe_dim": 8}).metrics
    assert middle is not None and fast is not None and wide is not None
    assert wide.latency_s < fast.latency_s < middle.latency_s
    assert wide.area_mm2 > fast.area_mm2
    assert evaluate(base).metrics == middle
    spent = evaluate(base).detail.energy_by_level_pj
    assert set(spent) == {"DRAM", "GBUF", "PE", "network", "MAC"}
    assert min(spent["DRAM"], spent["GBUF"], spent["PE"], spent["MAC"]) > 0
    leakage = middle.leakage_w * middle.latency_s
    assert sum(spent.values()) * 1e-12 + leakage == pytest.approx(middle.energy_j, rel=1e-12)
    small = evaluate(base | {"gbuf_mib": 1})
    assert small.metrics is None or small.metrics.latency_s >= middle.latency_s


def test_a_network_that_does_not_fit_is_an_infeasible_design() -> None:
    # one output of 4 MiB of weights cannot be cut along its channels
    heavy = LayerGraph("heavy", (Layer("fc", LayerType.FC, 1, 1, 1, 4 << 20, ext_prevs=(0,)),), ((4 << 20, 1, 1),))
    evaluate = ScheduledEvaluator(SOMA_EDGE, ((heavy, 1.0),), 1, Objective(), SearchOptions(Budget(evaluations=100)))
    found = evaluate({"gbuf_mib": 1, "dram_bytes_per_cycle": 16, "pe_dim": 4})
    assert found.metrics is None and found.infeasible is not None
    assert found.infeasible.demand > found.infeasible.limit == 1 << 20


def test_every_point_of_the_space_builds() -> None:
    space = SOMA_EDGE.space
    for point in space.to_points(space.sample(10, np.random.default_rng(0))):
        hardware = SOMA_EDGE.hardware(point)
        assert hardware.gbuf.capacity_bytes == int(point["gbuf_mib"]) << 20
        assert SOMA_EDGE.build(point).area_mm2
    assert SOMA_EDGE.hardware(space.presets[0]) == SOMA_EDGE.base
