"""All cuts searched together beside each cut searched alone, mirror images and all (H6)."""

import math
import random
from dataclasses import replace

import pytest

from codesign.arch.presets import load_preset
from codesign.mapping.looptree import Goal, Machine
from codesign.scheduling.fused.cut_search import CutSearch
from codesign.scheduling.fused.halos import distinct_tilings, single_steps, tiled, tilings
from codesign.scheduling.fused.loop_tree import Fusion
from codesign.scheduling.fused.network_operators import FusedGraph, graph_of
from codesign.scheduling.fused.scheduler import best_with_halos
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network

NOTHING_FITS = {7, 8, 11, 17, 31, 34, 44, 45}
"""Seeds of chains of which no mapping fits."""


def network(rng: random.Random) -> Network:
    """Two to four operators: convolutions, depthwise ones, a pooling, an addition."""
    builder = NetworkBuilder("chain")
    channels, rows = rng.choice([4, 8]), rng.choice([8, 12])
    x = builder.conv(builder.input("x", (1, channels, rows, rng.choice([rows, rows, 6]))), channels, rng.choice([1, 3]))
    for _ in range(rng.choice([1, 1, 2])):
        kind = rng.choice(["conv", "strided", "depthwise", "residual"])
        if kind == "residual":
            x = builder.residual(builder.conv(x, channels, 3), x)
        else:
            stride, groups = 2 if kind == "strided" else 1, channels if kind == "depthwise" else 1
            x = builder.conv(x, channels, 3, stride=stride, groups=groups)
    return builder.build(builder.conv(x, channels, 1) if rng.random() < 0.3 else x)


def with_room(machine: Machine, aside_bits: float) -> Machine:
    """Less room in the shared level."""
    first, shared, *others = machine.memories
    return replace(machine, memories=(first, replace(shared, capacity=shared.capacity - aside_bits), *others))


def one_by_one(graph: FusedGraph, goal: Goal, limit: float) -> float:
    """The best of all cuts up to a limit, each searched with fronts of its own in the room that it leaves."""
    best = math.inf
    for tiling in [None, *tilings(graph)]:
        cut = graph if tiling is None else tiled(graph, tiling)
        if cut is None:
            continue
        machines = [[with_room(m, graph.capacity_bits - cut.capacity_bits) for m in each] for each in cut.machines]
        single = frozenset[str]() if tiling is None else single_steps(tiling)
        search = Fusion(cut.operators, machines, cut.between, goal, single=single)
        search.limit = limit
        if math.isfinite(sum(search.total)) and (found := search._within_limit()) is not None:
            best = min(best, found.value)
    return best


@pytest.mark.parametrize(
    "seed",
    [5, 6, 55, 59, *(pytest.param(i, marks=pytest.mark.slow("oracle")) for i in range(60) if i not in NOTHING_FITS)],
)
def test_all_cuts_together_are_as_good_as_each_alone(seed: int) -> None:
    rng = random.Random(seed)
    made, capacity, goal = network(rng), rng.choice([1000, 1400, 2000]), rng.choice([*Goal, Goal.EDP])
    graph = graph_of(made, load_preset("soma-edge"), capacity)
    found = best_with_halos(graph, goal)
    assert found.schedule.proven
    assert found.schedule.value == pytest.approx(one_by_one(graph, goal, 1.02 * found.schedule.value), rel=1e-9)


def test_a_cut_along_the_other_axis_of_a_square_is_left_out() -> None:
    builder = NetworkBuilder("chain")
    square = builder.build(builder.conv(builder.conv(builder.input("x", (1, 4, 8, 8)), 4, 3), 4, 3))
    graph = graph_of(square, load_preset("soma-edge"))
    every, distinct = list(tilings(graph)), list(distinct_tilings(graph))
    assert len(every) == 2 * len(distinct) and {t.run.last_dim for t in distinct} == {"P"}
    builder = NetworkBuilder("chain")
    oblong = builder.build(builder.conv(builder.conv(builder.input("x", (1, 4, 8, 16)), 4, 3), 4, 3))
    graph = graph_of(oblong, load_preset("soma-edge"))
    assert list(tilings(graph)) == list(distinct_tilings(graph))


def test_cuts_begin_with_what_is_known_without_them() -> None:
    seed = next(n for n in range(100) if n not in NOTHING_FITS)
    graph = graph_of(network(random.Random(seed)), load_preset("soma-edge"), 4096)
    plain = Fusion(graph.operators, graph.machines, graph.between, Goal.EDP).solve()
    search = CutSearch(graph, Goal.EDP, 1, math.inf, plain)
    search.pose(math.inf)
    assert plain.proven and search.value <= plain.value
    assert search.result().schedule.parts and search.cuts[0].bound >= plain.value * (1 - 1e-9)
