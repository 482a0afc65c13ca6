"""Tiles priced by this project's mappers: the computation, the price, the search with it, its faults."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.mappers.protocol import MapResult
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.scheduling.soma.evaluator import Invalid, Problem, Schedule, evaluate
from codesign.scheduling.soma.instructions import make_instructions
from codesign.scheduling.soma.model.decoder_block import decoder_block
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
from codesign.scheduling.soma.model.mapped_tiles import MappedPlatform, tile_computation
from codesign.scheduling.soma.model.rules import DEFAULT
from codesign.scheduling.soma.search.baselines import coarse_start
from codesign.scheduling.soma.search.fusion_search import FusionChain
from codesign.scheduling.soma.search.two_stages import Found, SearchOptions, search
from codesign.workloads.operators import conv2d
from codesign.workloads.zoo.transformers import GPT2
from tests.soma_buffer_run import simulate_program


@dataclass(frozen=True)
class Counting:
    """The annealing mapper, with a list of what it was asked."""

    asked: list[MappingProblem] = field(default_factory=list)
    name: str = "counting"

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        self.asked.append(problem)
        return create("anneal").map(problem, objective, budget=budget, seed=seed, reuse=reuse)


def _graph() -> LayerGraph:
    conv = Layer("a", LayerType.CONV, 32, 16, 16, 8, R=3, S=3, pad_h=1, pad_w=1, in_h=16, in_w=16, ext_prevs=(0,))
    second = replace(conv, name="b", C=32, ext_prevs=(), ifm_prevs=(0,))
    pool = Layer("p", LayerType.POOL, 32, 8, 8, 32, R=2, S=2, stride_h=2, stride_w=2, in_h=16, in_w=16, ifm_prevs=(1,))
    return LayerGraph("three", (conv, second, pool), ((8, 16, 16),))


def _platform(name: str = "simba", mapper: Any = None) -> MappedPlatform:
    return MappedPlatform(load_preset(name), mapper or create("anneal"), Budget(evaluations=300))


def test_the_tile_of_a_layer_has_the_layers_work() -> None:
    for batch in (1, 3):
        for graph in (_graph(), decoder_block("gpt2", GPT2["small"], 16, 0)):
            for layer, row in zip(graph.layers, graph.table, strict=True):
                if layer.is_matrix:
                    assert tile_computation(row, batch, layer.K, layer.H, layer.W).macs == batch * layer.ops


def test_a_price_is_the_mappers_cost_without_dram_and_is_asked_for_once() -> None:
    mapper = Counting()
    platform = _platform(mapper=mapper)
    graph = _graph()
    cycles, energy, *parts = platform.tile_price(graph.table[1], (1, 32, 8, 16))
    assert platform.tile_price(graph.table[1], (1, 32, 8, 16))[:2] == (cycles, energy)
    assert len(mapper.asked) == 1
    assert [level.name for level in mapper.asked[0].architecture.levels] == [
        level.name for level in load_preset("simba").levels[1:]
    ]
    tile = conv2d(K=32, C=32, P=8, Q=16, R=3, S=3, bits=8, partial_bits=24)
    direct = create("anneal").map(
        MappingProblem(tile, platform.core), Objective.EDP, budget=platform.budget, seed=platform.seed
    )
    assert direct.cost is not None
    assert (cycles, energy) == (direct.cost.latency_cycles, direct.cost.energy_pj)
    assert sum(parts) == pytest.approx(energy)


@pytest.mark.parametrize("arch", ["simba", "soma-edge"])
def test_search_evaluator_and_simulator_agree_on_mapped_tiles(arch: str) -> None:
    mapper = Counting()
    problem = Problem(_graph(), 2, _platform(arch, mapper), DEFAULT)
    found = search(problem, Objective(), SearchOptions(Budget(evaluations=600), seed=1))
    assert isinstance(found, Found)
    again = evaluate(problem, found.schedule.encoding())
    assert isinstance(again, Schedule)
    assert (again.latency_cycles, again.energy_pj) == (found.schedule.latency_cycles, found.schedule.energy_pj)
    assert simulate_program(make_instructions(found.schedule)).latency_cycles == again.latency_cycles
    assert len(mapper.asked) == len({p.computation for p in mapper.asked}) > 1
    fresh = search(
        replace(problem, hardware=_platform(arch)), Objective(), SearchOptions(Budget(evaluations=600), seed=1)
    )
    assert isinstance(fresh, Found) and fresh.schedule.encoding() == found.schedule.encoding()


def test_no_tile_is_priced_after_the_deadline() -> None:
    mapper = Counting()
    problem = Problem(_graph(), 4, _platform(mapper=mapper), DEFAULT)
    start = coarse_start(problem)
    assert not isinstance(start, Invalid)
    for deadline, more in ((0.0, False), (None, True)):
        chain = FusionChain(problem, start, Objective(), seed=1, deadline=deadline)
        before = len(mapper.asked)
        chain.advance(0.0, 0.5, 300)
        assert (len(mapper.asked) > before) is more


def test_vector_work_and_traffic_follow_the_architecture() -> None:
    architecture = load_preset("simba")
    platform = _platform()
    assert platform.vector_unit_lanes == max(architecture.mesh)
    assert platform.dram_bytes_per_cycle == 10  # 1.25 words of 64 bits
    dram = architecture.levels[0].energy
    assert dram is not None and platform.dram_pj_per_byte == (dram.read_pj + dram.update_pj) / 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: replace(a, levels=a.levels[1:]), "expected a DRAM level, a global buffer and levels below it"),
        (lambda a: a.with_level("GlobalBuffer", capacity_bytes=None), "'GlobalBuffer' needs a capacity"),
        (lambda a: a.with_level("DRAM", read_bandwidth_words_per_cycle=None), "'DRAM' needs a read bandwidth"),
        (lambda a: a.with_level("InputBuffer", energy=None), "has no energy"),
    ],
)
def test_architectures_that_cannot_be_scheduled_on_are_refused(change: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        MappedPlatform(change(load_preset("simba")), create("anneal"))
