"""The fused search beside blind enumeration of all pairs of nests of two chained operators (F1-F5)."""

import random

import pytest

from codesign.mapping.looptree import Goal, Operator
from codesign.scheduling.fused.loop_tree import Fusion
from codesign.scheduling.fused.schedule import Schedule
from experiments.attacks.fused_pairs import blind, pair


def check_tree(found: Schedule, operators: tuple[Operator, Operator], capacity: float, goal: Goal, leak: float) -> None:
    """The tree has all operators in order, the cost of the schedule, and fits."""
    assert [name for part in found.parts for name in part.operators] == [o.name for o in operators]
    cost = found.cost()  # nest by nest, without the search
    assert goal.of(cost.energy, cost.seconds, leak) == pytest.approx(found.value, rel=1e-9)
    assert cost.peak_bits <= capacity
    energy = sum(part.energy for part in found.parts)
    seconds = sum(part.seconds for part in found.parts)
    assert goal.of(energy, seconds, leak) == pytest.approx(found.value, rel=1e-12)
    for part in found.parts:
        assert part.bits <= capacity
        if part.parts:
            assert all("T" in leaf.on_chip for leaf in part.parts)
            shared = {dim: tile for dim, _, tile in part.loops}
            tile = {**operators[0].bounds, **shared}
            assert part.bits >= tile["m"] * tile["j"]
            assert sum(leaf.energy for leaf in part.parts) == pytest.approx(part.energy)
    text = found.tree(nests=True)
    assert text and all(any(o.name in line for line in text) for o in operators)


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(i, marks=pytest.mark.slow("oracle")) for i in range(4, 24))]
)
def test_fused_optimum_is_that_of_all_pairs_of_nests(seed: int) -> None:
    operators, machines, goal = pair(random.Random(seed))
    found = Fusion(operators, machines, frozenset({"T"}), goal).solve()
    assert found.value == pytest.approx(blind(operators, machines[0][0], goal), rel=1e-9)
    assert found.proven
    if found.parts:
        check_tree(found, operators, machines[0][0].memories[1].capacity, goal, machines[0][0].leak_w)
