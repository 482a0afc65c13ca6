"""Scratchpad size as a hardware parameter, judged by the traffic of the best schedule."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.evaluation.traffic import TrafficEvaluator
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.load import load_graph
from codesign.scheduling.cosma.objective import Quantity
from codesign.scheduling.cosma.solve import schedule_cosma
from codesign.scheduling.protocol import buffer_bytes
from spaces.scratchpad import SCRATCHPAD

GRAPHS = Path(__file__).parents[2] / "data" / "cosma" / "graphs"
BASE = SCRATCHPAD.space.presets[0]


def graph_of(name: str) -> OperatorGraph:
    return load_graph(GRAPHS / f"{name}.json").without_parameters()


def test_a_larger_scratchpad_moves_less_and_takes_more_area() -> None:
    graph = graph_of("transformer")
    evaluate = TrafficEvaluator(SCRATCHPAD, ((graph, 1.0),))
    small, large = (evaluate({**BASE, "scratchpad_kib": kib}) for kib in (2048, 4096))
    expected = schedule_cosma(graph, 2048 << 10)
    assert small.detail.dram_bytes == small.detail.schedules[0]["dram_bytes"] == getattr(expected, "dram_bytes")  # noqa: B009
    assert large.detail.dram_bytes == graph.compulsory_bytes < small.detail.dram_bytes
    assert small.metrics is not None and large.metrics is not None
    assert large.metrics.latency_s < small.metrics.latency_s
    assert large.metrics.area_mm2 > small.metrics.area_mm2
    assert small.detail.schedules[0]["proof"] == "optimal"


def test_time_and_energy_are_those_of_the_bytes() -> None:
    graph = graph_of("vit_b_16")
    evaluate = TrafficEvaluator(SCRATCHPAD, ((graph, 3.0),))
    point = {**BASE, "scratchpad_kib": 1024}
    found = evaluate(point)
    architecture = SCRATCHPAD.build(point)
    dram, scratchpad = architecture.levels[:2]
    assert found.metrics is not None and dram.energy is not None and scratchpad.energy is not None
    read, written = graph.loaded_bytes, graph.stored_bytes
    assert found.detail.dram_bytes == 3 * (read + written)
    picojoules = read * (dram.energy.read_pj + scratchpad.energy.fill_pj / 8)
    picojoules += written * (dram.energy.update_pj + scratchpad.energy.read_pj / 8)
    bandwidth = dram.read_bandwidth_words_per_cycle
    assert bandwidth is not None and bandwidth == dram.write_bandwidth_words_per_cycle
    assert found.metrics.latency_s == pytest.approx(3 * (read + written) / bandwidth / architecture.clock_hz)
    leakage = found.metrics.leakage_w * found.metrics.latency_s
    assert found.metrics.energy_j == pytest.approx(3 * picojoules * 1e-12 + leakage)
    off_chip = 3 * (read * dram.energy.read_pj + written * dram.energy.update_pj)
    spent = {"DRAM": off_chip, "Scratchpad": 3 * picojoules - off_chip}
    assert found.detail.energy_by_level_pj == pytest.approx(spent)


def test_a_scratchpad_below_the_largest_operator_is_an_infeasible_design() -> None:
    graph = graph_of("transformer")
    found = TrafficEvaluator(SCRATCHPAD, ((graph, 1.0),))({**BASE, "scratchpad_kib": 1024})
    assert found.metrics is None and found.infeasible is not None
    assert (found.infeasible.resource, found.infeasible.demand) == ("Scratchpad", graph.minimum_bytes)
    assert found.infeasible.limit == 1 << 20
    assert graph.largest_operator.name in str(found.infeasible)


def test_designs_of_one_size_share_a_schedule_and_the_evaluator_travels() -> None:
    evaluate = TrafficEvaluator(SCRATCHPAD, ((graph_of("resnet50"), 1.0), (graph_of("vit_b_16"), 2.0)))
    assert evaluate({**BASE, "scratchpad_kib": 4096, "bus_bits": 64}).metrics is not None
    assert len(evaluate.solved) == 2
    wide = evaluate({**BASE, "scratchpad_kib": 4096, "bus_bits": 512})
    assert len(evaluate.solved) == 2
    again = pickle.loads(pickle.dumps(evaluate))({**BASE, "scratchpad_kib": 4096, "bus_bits": 512})
    assert again.metrics == wide.metrics


def test_energy_as_the_objective_weighs_both_directions() -> None:
    graph = graph_of("transformer")
    found = TrafficEvaluator(SCRATCHPAD, ((graph, 1.0),), Quantity.ENERGY)({**BASE, "scratchpad_kib": 2048})
    network = found.detail.schedules[0]
    assert (network["unit"], network["proof"]) == ("fJ", "optimal")
    assert network["value"] == network["bound"] > 0


class Fixed:
    """A space of one design."""

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture

    def build(self, point: Any) -> Architecture:
        return self._architecture


def test_architectures_that_cannot_be_judged() -> None:
    architecture = SCRATCHPAD.build(BASE)
    dram, scratchpad, local = architecture.levels
    assert buffer_bytes(architecture) == 256 << 10
    cases = {
        "needs a level inside DRAM": (dram,),
        "has no capacity": (dram, replace(scratchpad, capacity_bytes=None), local),
        "one scratchpad is scheduled, got 2": (replace(dram, fanout=replace(dram.fanout, x=2)), scratchpad, local),
        "energy per access": (dram, replace(scratchpad, capacity_bytes=1 << 23, energy=None), local),
        "bandwidth of the DRAM": (
            replace(dram, read_bandwidth_words_per_cycle=None),
            replace(scratchpad, capacity_bytes=1 << 23),
            local,
        ),
    }
    for message, levels in cases.items():
        evaluate = TrafficEvaluator(Fixed(replace(architecture, levels=levels)), ((graph_of("resnet50"), 1.0),))
        with pytest.raises(UserError, match=message):
            evaluate({})
