"""The exact loop order and cuts under the zigzag semantics beside every order with every choice of cuts (rules Z21-Z24)."""

import itertools
import math
import random
from dataclasses import replace

import pytest

from codesign.core.goals import Budget, Objective, Proof
from codesign.mappers.loop_order.exact_orders import ExactOrders
from codesign.mappers.loop_order.factors import prime_loops
from codesign.mappers.loop_order.salsa import SalsaMapper
from experiments.attacks.zigzag_orders import fits, layer, least
from tests.examples import ALL


def compare(seed: int, most: int) -> bool:
    """Compare one drawn case; false where it has too many mappings to enumerate."""
    draw = random.Random(seed)
    case = layer(draw)
    loops = prime_loops(case)
    n = len(loops)
    levels = [len(case.accelerator.chain(t.role)) for t in case.computation.tensors]
    orders = len(set(itertools.permutations(loops))) if n < 7 else most
    if orders * math.prod(math.comb(n + v - 1, v - 1) for v in levels) > most:
        return False
    found = ExactOrders().map_orders(case, Objective.ENERGY, budget=Budget(), seed=0)
    expected = least(case)
    if found.mapping is None or found.cost is None:
        assert expected == math.inf, f"seed {seed}: nothing found, {expected} exists"
        return True
    assert fits(case, found.mapping), f"seed {seed}: {found.mapping} does not fit"
    assert found.proof is Proof.OPTIMAL and found.gap == 0.0
    assert found.cost.energy_pj == pytest.approx(expected, rel=1e-9), f"seed {seed}"
    salsa = SalsaMapper().map_orders(case, Objective.ENERGY, budget=Budget(), seed=0)
    assert salsa.cost is None or salsa.cost.energy_pj >= found.cost.energy_pj * (1 - 1e-9)
    return True


def test_the_sweep_finds_the_least_energy_of_all_orders_and_cuts() -> None:
    assert sum(compare(seed, most=2_000) for seed in (range(30) if ALL else range(12))) >= (8 if ALL else 5)


def test_where_nothing_costs_energy_any_order_is_proven() -> None:
    case = layer(random.Random(3))
    free = [replace(m, read_energy=0.0, write_energy=0.0) for m in case.accelerator.memories]
    machine = replace(case.accelerator, memories=tuple(free), mac_energy=0.0)
    found = ExactOrders().map_orders(replace(case, accelerator=machine), Objective.ENERGY, budget=Budget(), seed=0)
    assert found.cost is not None and found.cost.energy_pj == 0.0
    assert found.proof is Proof.OPTIMAL and found.gap == 0.0


@pytest.mark.slow("oracle")
def test_the_sweep_finds_the_least_energy_of_all_orders_and_cuts_of_many_layers() -> None:
    assert sum(compare(seed, most=6_000) for seed in range(1_000, 1_200)) >= 80
