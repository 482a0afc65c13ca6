import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Proof
from codesign.scheduling.allocation.buffers import AllocationStatus
from codesign.scheduling.cosma.address_page import memory_map_html
from codesign.scheduling.cosma.addresses import place
from codesign.scheduling.cosma.baselines import Replacement, baseline_orders, baseline_traffic, schedule_baseline
from codesign.scheduling.cosma.divide import conquer
from codesign.scheduling.cosma.graph import GraphTensor, Operator, OperatorGraph, unread_tensors
from codesign.scheduling.cosma.integer_program import Solver, solve_program
from codesign.scheduling.cosma.load import load_graph
from codesign.scheduling.cosma.objective import BYTES, Quantity, TrafficWeights, weights_on
from codesign.scheduling.cosma.ordering import order_exactly, order_in_windows
from codesign.scheduling.cosma.plan import (
    footprint_bytes,
    noncompulsory_bytes,
    residencies,
    resident_plan,
    spilled_tensors,
)
from codesign.scheduling.cosma.result import Schedule, TooSmall, schedule_to_dict
from codesign.scheduling.cosma.segments import narrow_segments
from codesign.scheduling.cosma.solve import DEFAULT_EFFORT, Effort, Task, _repair, schedule_cosma
from tests.cosma_executor import execute

GRAPHS = Path(__file__).parents[3] / "data" / "cosma" / "graphs"


def graph_of(name: str, parameters: bool = False) -> OperatorGraph:
    graph = load_graph(GRAPHS / f"{name}.json")
    return graph if parameters else graph.without_parameters()


@pytest.mark.parametrize("policy", list(Replacement))
@pytest.mark.parametrize("order", ["default", "minimum-peak"])
@pytest.mark.parametrize("name", ["resnet50", "densenet121", "transformer", "amoebanet_d_18_256"])
@pytest.mark.thinned(5)
def test_baselines_run_and_never_beat_cosma(name: str, order: str, policy: Replacement) -> None:
    graph = graph_of(name)
    capacity = graph.minimum_bytes
    found = schedule_baseline(graph, capacity, baseline_orders(graph)[order], policy)
    assert isinstance(found, Schedule)
    done = execute(graph, found.plan, found.stays, found.offsets, capacity)
    assert done.written_bytes + done.read_bytes == found.noncompulsory_bytes
    assert found.noncompulsory_bytes >= order_exactly(graph.index, capacity, BYTES, 3000).bound


def test_too_small_a_scratchpad_names_the_operator() -> None:
    graph = graph_of("resnet50")
    expected = TooSmall(graph.largest_operator.name, 2408448, 2408447)
    assert schedule_cosma(graph, 2408447) == expected
    assert schedule_baseline(graph, 2408447, range(73), Replacement.LRU) == expected
    assert baseline_traffic(graph, 2408447) == {}


def test_divide_and_conquer_is_close_and_windows_closer() -> None:
    graph = graph_of("amoebanet_d_18_256")
    index = graph.index
    capacity = 2408448
    optimum = order_exactly(index, capacity, BYTES, 100_000)
    assert optimum.value == optimum.bound == 3311616
    parts = conquer(index, narrow_segments(index, range(len(index.inputs)), 2), capacity, BYTES, state_limit=20_000)
    assert parts is not None
    windows = order_in_windows(index, capacity, BYTES, 0, 2_000, 0.0)
    assert windows.plan is not None and windows.value is not None
    for plan, value in ((parts.plan, parts.value), (windows.plan, windows.value)):
        assert noncompulsory_bytes(index, plan) == value
        assert max(footprint_bytes(plan, residencies(index, plan))) <= capacity
    assert optimum.value <= windows.value <= parts.value <= 7325696


def test_a_search_that_is_cut_short_says_so() -> None:
    graph = graph_of("amoebanet_d_18_256")
    found = schedule_cosma(graph, 2408448, effort=Effort(states=50, window_states=3000, time_limit_s=0.5))
    assert isinstance(found, Schedule)
    assert found.bound is not None and found.bound < found.value
    assert found.proof is Proof.GAP


def test_other_orders_of_equal_cost_are_found() -> None:
    index = graph_of("resnet50", parameters=True).index
    plans = {order_exactly(index, 2486784, BYTES, 10_000, shuffle_seed=seed).plan for seed in range(4)}
    assert len(plans) > 1
    assert {noncompulsory_bytes(index, p) for p in plans if p is not None} == {602112}


def test_same_seed_same_schedule() -> None:
    graph = graph_of("densenet121")
    first, second = (schedule_cosma(graph, 1605632) for _ in range(2))
    assert first == second


def chain_of(sizes: dict[str, int], reads: dict[str, tuple[str, ...]]) -> OperatorGraph:
    operators = tuple(Operator(n, "any", reads[n], (n,)) for n in sizes)
    return OperatorGraph("test", operators, tuple(GraphTensor(n, s) for n, s in sizes.items()), (list(sizes)[-1],))


def tight() -> OperatorGraph:
    sizes = {"t0": 1, "t1": 1, "t2": 2, "t3": 3, "t4": 1, "t5": 2}
    return chain_of(
        sizes, {"t0": (), "t1": ("t0",), "t2": ("t1", "t0"), "t3": ("t2",), "t4": ("t3", "t0"), "t5": ("t4", "t1")}
    )


def unplaceable() -> OperatorGraph:
    """In the listed order its tensors need 12 bytes at once at most, and yet have no addresses in 12 bytes."""
    sizes = [4, 4, 2, 1, 4, 3, 2, 1, 2, 2, 3, 1]
    reads = [(), (0,), (1,), (2,), (1,), (4,), (4, 3, 5), (4, 3, 2), (4,), (7,), (8, 9, 2), (5,)]
    operators = tuple(Operator(f"o{i}", "any", tuple(f"t{r}" for r in rs), (f"t{i}",)) for i, rs in enumerate(reads))
    tensors = tuple(GraphTensor(f"t{i}", s) for i, s in enumerate(sizes))
    return OperatorGraph("unplaceable", operators, tensors, unread_tensors(operators))


def test_a_plan_without_addresses_is_repaired_at_least_cost() -> None:
    graph = unplaceable()
    plan = resident_plan(range(12))
    placement = place(graph.index, plan, 12, time_limit_s=5.0, seed=0)
    assert placement.allocation.status is AllocationStatus.INFEASIBLE
    repaired = _repair(Task(graph, 12), placement)
    assert repaired is not None and repaired.offsets is not None
    execute(graph, repaired.plan, repaired.stays, repaired.offsets, 12)
    assert repaired.plan.order == plan.order
    assert noncompulsory_bytes(graph.index, repaired.plan) == 2
    assert solve_program(graph.index, 12, order=range(12)).value == 2
    better = schedule_cosma(graph, 12)
    assert isinstance(better, Schedule)
    assert (better.value, better.proof) == (0, Proof.OPTIMAL)


def test_prices_decide_what_is_spilled() -> None:
    graph = tight()
    for write, read in itertools.product((0, 1, 5), (1, 3)):
        found = schedule_cosma(graph, graph.minimum_bytes, weights=TrafficWeights(write, read, "x"))
        whole = solve_program(
            graph.index, graph.minimum_bytes, weights=TrafficWeights(write, read, "x"), solver=Solver.SCIP
        )
        assert isinstance(found, Schedule)
        assert found.value == whole.value == write * found.written_bytes + read * found.read_bytes
        assert found.unit == "x"


def test_weights_of_an_architecture() -> None:
    architecture = load_preset("soma-edge")
    energy = weights_on(architecture, Quantity.ENERGY)
    dram, scratchpad = architecture.levels[:2]
    assert dram.energy is not None and scratchpad.energy is not None
    expected = 8000 * (dram.energy.read_pj / dram.word_bits + scratchpad.energy.fill_pj / scratchpad.word_bits)
    assert energy.read == round(expected)
    assert weights_on(architecture, Quantity.BYTES) is BYTES
    assert weights_on(architecture, Quantity.LATENCY).unit == "nanocycles"
    unlimited = replace(
        architecture, levels=(replace(dram, read_bandwidth_words_per_cycle=None), *architecture.levels[1:])
    )
    with pytest.raises(UserError, match="bandwidth of the DRAM must be known"):
        weights_on(unlimited, Quantity.LATENCY)
    unpriced = replace(architecture, levels=(replace(dram, energy=None), *architecture.levels[1:]))
    with pytest.raises(UserError, match="energy per access of the DRAM"):
        weights_on(unpriced, Quantity.ENERGY)
    with pytest.raises(UserError, match="needs a level inside DRAM"):
        weights_on(replace(architecture, levels=architecture.levels[:1]), Quantity.ENERGY)


@pytest.mark.parametrize(("write", "read"), [(-1, 1), (0, 0), (1.5, 1)])
def test_bad_weights_are_refused(write: float, read: float) -> None:
    with pytest.raises(UserError, match="weight"):
        TrafficWeights(write, read)  # type: ignore[arg-type]


def test_effort_must_be_positive() -> None:
    with pytest.raises(UserError, match="`states` must be > 0, got 0"):
        replace(DEFAULT_EFFORT, states=0)


def test_the_memory_map_carries_everything_and_loads_nothing() -> None:
    graph = graph_of("transformer")
    graph = replace(graph, name="</script><b>")
    found = schedule_cosma(graph, graph.minimum_bytes)
    assert isinstance(found, Schedule)
    page = memory_map_html(found)
    assert page.count("</script>") == 1
    assert not re.search(r"(src|href)=|@import|fetch\(|http(?!://www.w3.org/2000/svg)", page)
    assert page.count('"first_step"') == len(found.stays)
    assert page.count('"written_after_step"') == len(spilled_tensors(found.plan)) > 0
    assert "/*DATA*/" not in page and "<!--TITLE-->" not in page


def test_the_document_of_a_schedule_adds_up() -> None:
    graph = graph_of("transformer")
    found = schedule_cosma(graph, graph.minimum_bytes)
    assert isinstance(found, Schedule)
    document = schedule_to_dict(found, 1.0)
    spilled = sum(s["size_bytes"] for s in document["spills"])
    retrieved = sum(s["size_bytes"] * len(s["retrieved_for_steps"]) for s in document["spills"])
    assert spilled + retrieved == document["noncompulsory_bytes"] == 4915200
    assert document["dram_bytes"] - document["noncompulsory_bytes"] == graph.compulsory_bytes
    assert sorted(document["order"]) == sorted(o.name for o in graph.operators)
    assert all(a["offset"] + a["size_bytes"] <= document["capacity_bytes"] for a in document["addresses"])
