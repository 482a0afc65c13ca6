"""Bounds of windows of a fused graph beside the least that their operators take in any tree of the whole graph (F7)."""

import math
from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.presets import load_preset
from codesign.core.labels.sweep import Array
from codesign.mapping.looptree import Goal
from codesign.scheduling.fused.alike import Patterns
from codesign.scheduling.fused.blocks import Floors, Windows, block_floors
from codesign.scheduling.fused.loop_tree import Fusion
from codesign.scheduling.fused.network_operators import FusedGraph, graph_of
from codesign.scheduling.fused.operator_front import Limits
from codesign.scheduling.fused.sharing import SharedLoop
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from tests.oracle.test_fused_networks_counted import network_of


class NoneAlike(Patterns):
    """Every run has rows of its own."""

    def key(self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> object:
        return first, last, chip, context


class OnlySome(Fusion):
    """All trees, where operators outside a window cost nothing."""

    paid: range

    def leaf(self, operator: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> Array:
        rows = super().leaf(operator, chip, context).copy()
        if operator not in self.paid:
            rows[:, -2:] = 0.0
        return rows

    def least_of(self, paid: range) -> float:
        """The least that the paid operators take."""
        self.paid, self.limit = paid, math.inf
        self._patterns = NoneAlike(self.operators, self.shapes, self.sharing.spans, None, self.single)
        self._prepare([Limits(self.goal, 0.0, 0.0, math.inf, self.leak)] * len(self.operators))
        rows = self._of_fronts()
        return min((self.goal.of(float(e), float(s), self.leak) for e, s in rows[:, -2:]), default=math.inf)


def attention() -> Network:
    """A residual block whose tokens, scores and residual are larger than the buffer."""
    builder = NetworkBuilder("attention")
    x, wide, back = (builder.input(n, s) for n, s in (("x", (1, 8, 4)), ("wide", (1, 4, 8)), ("back", (1, 8, 4))))
    scores = builder.softmax(builder.matmul(builder.activation(x, "relu", name="first"), wide))
    return builder.build(builder.residual(builder.matmul(scores, back), "first"))


def check(graph: FusedGraph, goal: Goal, leak: float) -> tuple[int, int]:
    """Every window: how many there are, and how many have more than the sum of single operators."""
    machines = [[replace(m, leak_w=leak) for m in ms] for ms in graph.machines]
    fusion = OnlySome(graph.operators, machines, graph.between, goal)
    windows = Windows(fusion, (), goal, leak)
    n, better = len(graph.operators), 0
    if math.isinf(sum(fusion.total)):  # some operator fits nowhere
        return 0, 0
    for first in range(n):
        for last in range(first + 1, n):
            window = fusion.window(first, last, goal, leak, windows.known)
            low = window.floors.least(goal, leak)
            bound = window.bound(window.floors, math.inf, math.inf)
            better += bound > low * (1 + 1e-9)
            assert bound <= fusion.least_of(range(first, last + 1)) * (1 + 1e-12), (first, last)
    return n * (n - 1) // 2, better


@pytest.mark.parametrize(("goal", "leak"), [(Goal.ENERGY, 0.0), (Goal.ENERGY, 30.0), (Goal.LATENCY, 0.0)])
def test_windows_of_a_residual_block_are_below_every_tree(goal: Goal, leak: float) -> None:
    graph = graph_of(attention(), load_preset("soma-edge"), 128)
    number, better = check(graph, goal, leak)
    assert number == 10 and (better or goal is Goal.LATENCY)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(160))
def test_windows_of_random_networks_are_below_every_tree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = graph_of(network_of(rng), load_preset("soma-edge"), int(rng.choice([200, 300, 500, 1000])))
    check(graph, (Goal.ENERGY, Goal.LATENCY)[int(rng.integers(4)) // 3], float(rng.choice([0.0, 30.0])))


def check_product(graph: FusedGraph) -> tuple[float, float, float]:
    """Windows bound the product, and the search within their limits finds the same: bounds of operators and of windows, optimum."""
    fusion = Fusion(graph.operators, graph.machines, graph.between, Goal.EDP)
    found = fusion.solve()
    if math.isinf(found.value):  # some operator fits nowhere
        return math.inf, math.inf, math.inf
    low = fusion.floors.least(Goal.EDP, 0.0)
    if not found.parts:
        return low, low, found.value
    floors = block_floors(fusion, found.parts, math.inf)
    bound = floors.least(Goal.EDP, 0.0)
    assert low <= bound * (1 + 1e-12) and bound <= found.value * (1 + 1e-12)
    fusion.floors = floors
    again = fusion.solve()
    assert again.proven and again.value == pytest.approx(found.value, rel=1e-12)
    return low, bound, found.value


def test_operators_alike_may_spend_what_each_of_them_may() -> None:
    builder = NetworkBuilder("chain")
    x = builder.input("x", (1, 8, 4))
    for i in range(4):
        x = builder.softmax(x, name=f"s{i}")
    graph = graph_of(builder.build(x), load_preset("soma-edge"), 128)
    fusion, none = Fusion(graph.operators, graph.machines, graph.between, Goal.ENERGY), frozenset[str]()
    assert fusion.shapes[1] == fusion.shapes[2]
    spare = fusion.fronts[1].least_on(math.inf)[none][0] - fusion.fronts[1].least()[0]
    before = fusion.floors.before.copy()
    before[2, 0] += spare  # as a window of the first two does
    fusion.limit = fusion.goal.of(*fusion.total, fusion.leak) + spare * (1 + 1e-9)
    fusion.floors = Floors(before, fusion.floors.behind)
    fusion._prepare(fusion._own_limits())
    fusion._of_fronts()
    assert spare > 0 and len(fusion.part(1, 1, none, ())) and not len(fusion.part(2, 2, none, ()))


def test_windows_raise_the_bound_of_a_product_and_keep_its_optimum() -> None:
    low, bound, value = check_product(graph_of(attention(), load_preset("soma-edge"), 128))
    assert low < 0.9 * value and bound > low + 0.5 * (value - low)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(60))
def test_windows_keep_the_optimum_of_random_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    check_product(graph_of(network_of(rng), load_preset("soma-edge"), int(rng.choice([200, 300, 500, 1000]))))
