"""Every recorded loop order of the ZigZag data set: allocation, word accesses, energy and latency (rules Z2-Z16)."""

from pathlib import Path
from typing import Any

import pytest

from codesign.cost.zigzag.cost import AllocatedOrder, ZigzagCost
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mappers.loop_order.factors import count_orders, merge_loops, prime_loops
from tests.reference_data import needs_data
from tests.zigzag_reference import DIRECTIONS, evaluate_order, label, layer_files, loops_of, read_layer

LAYERS = layer_files()


@pytest.mark.parametrize("path", LAYERS, ids=label)
def test_random_orders_cost_what_was_recorded(path: Path) -> None:
    check_orders(path, every=4)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("path", LAYERS, ids=label)
def test_every_random_order_costs_what_was_recorded(path: Path) -> None:
    check_orders(path, every=1)


def check_orders(path: Path, every: int) -> None:
    reference = read_layer(path)
    assert reference.recorded["random_orders"]
    for record in reference.recorded["random_orders"][::every]:
        loops = loops_of(record["order_inner_to_outer"])
        for kind in ("uneven", "even"):
            check(reference.layer, record[kind], evaluate_order(reference.layer, loops, even=kind == "even"))


@pytest.mark.parametrize("path", LAYERS, ids=label)
def test_every_best_order_costs_what_was_recorded(path: Path) -> None:
    reference = read_layer(path)
    bests = [r for key, r in reference.recorded.items() if key == "best" or key.endswith("_best")]
    assert bests
    for record in bests:
        loops = loops_of(record["loop_order_inner_to_outer"])
        check(reference.layer, record, evaluate_order(reference.layer, loops))


@pytest.mark.parametrize("path", LAYERS, ids=label)
def test_loop_prime_factors_are_those_recorded(path: Path) -> None:
    reference = read_layer(path)
    assert sorted(prime_loops(reference.layer)) == sorted(loops_of(reference.recorded["lpfs"]))


def check(layer: UnrolledLayer, record: dict[str, Any], found: Any) -> None:
    mapping, cost = found
    assert isinstance(mapping, AllocatedOrder) and isinstance(cost, ZigzagCost)
    for t, tensor in enumerate(layer.computation.tensors):
        kept = [[list(loop) for loop in level] for level in mapping.kept(t)]
        assert kept == record["allocation"][tensor.name]
        if "word_accesses" in record:
            words = [tuple(level[d] for d in DIRECTIONS) for level in record["word_accesses"][tensor.name]]
            assert [level.words for level in cost.levels[tensor.name]] == words
    assert cost.energy_pj == pytest.approx(record["energy_total"], rel=1e-12)
    latency = record["latency"]
    assert cost.compute_cycles == latency["ideal_temporal_cycle"]
    assert cost.stall_cycles == pytest.approx(latency["stall_slack_comb"], rel=1e-9)
    assert cost.loading_cycles == pytest.approx(latency["data_onloading_cycle"], rel=1e-9)
    assert cost.unloading_cycles == pytest.approx(latency["data_offloading_cycle"], rel=1e-9)
    assert cost.latency_cycles == pytest.approx(latency["latency_total2"], rel=1e-9)


def test_there_is_something_to_compare_with() -> None:
    needs_data("zigzag/layers", LAYERS)


@pytest.mark.parametrize("path", LAYERS, ids=label)
def test_merged_loops_are_those_of_every_recorded_limit(path: Path) -> None:
    reference = read_layer(path)
    primes = prime_loops(reference.layer)
    assert count_orders(primes) == reference.recorded["exhaustive_permutations"]
    for record in (r for key, r in reference.recorded.items() if key.startswith("loma") and key.endswith("_best")):
        merged = merge_loops(primes, record["lpf_limit"])
        assert sorted(merged) == sorted(loops_of(record["lpfs"]))
        assert count_orders(merged) == record["permutations"]
