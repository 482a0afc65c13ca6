"""Every order, every set of evictions, every address: what COSMA's routes must find on small graphs."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codesign.core.goals import Proof
from codesign.scheduling.cosma.graph import GraphTensor, Operator, OperatorGraph, unread_tensors
from codesign.scheduling.cosma.integer_program import Solver, solve_program
from codesign.scheduling.cosma.objective import TrafficWeights
from codesign.scheduling.cosma.peak import lowest_peak_order
from codesign.scheduling.cosma.replacement import best_replacement
from codesign.scheduling.cosma.result import Schedule, Unplaced
from codesign.scheduling.cosma.solve import Route, schedule_cosma
from tests.cosma_executor import execute

SETTINGS = settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def graphs(draw: st.DrawFn, most: int = 6) -> OperatorGraph:
    """A random graph of few operators with small tensors, some with two outputs, some with parameters."""
    count = draw(st.integers(3, most))
    operators: list[Operator] = []
    tensors: list[GraphTensor] = []
    for i in range(count):
        known = [t.name for t in tensors]
        reads = (
            draw(st.lists(st.sampled_from(known), min_size=0 if i < 2 else 1, max_size=3, unique=True)) if known else []
        )
        makes = [f"t{i}"] + ([f"u{i}"] if draw(st.integers(0, 5)) == 0 else [])
        tensors += [GraphTensor(name, draw(st.integers(1, 4))) for name in makes]
        operators.append(Operator(f"o{i}", "any", tuple(reads), tuple(makes), draw(st.sampled_from([0, 0, 1, 2]))))
    return OperatorGraph("random", tuple(operators), tuple(tensors), unread_tensors(operators))


def orders(graph: OperatorGraph) -> list[tuple[int, ...]]:
    ancestors = graph.index.ancestors
    return [
        p
        for p in itertools.permutations(range(len(ancestors)))
        if all(not ancestors[o] >> later & 1 for i, o in enumerate(p) for later in p[i + 1 :])
    ]


def placeable(stays: list[tuple[int, int, int]], capacity: int) -> bool:
    """Whether intervals (first, last, size) have integer addresses; tries every one."""

    def extend(placed: list[tuple[int, int, int, int]]) -> bool:
        if len(placed) == len(stays):
            return True
        first, last, size = stays[len(placed)]
        for address in range(capacity - size + 1):
            clash = any(
                first <= other_last and other_first <= last and address < other + other_size and other < address + size
                for other_first, other_last, other_size, other in placed
            )
            if not clash and extend([*placed, (first, last, size, address)]):
                return True
        return False

    return extend([])


def brute_force(
    graph: OperatorGraph, capacity: int, weights: TrafficWeights, addresses: bool, only: tuple[int, ...] | None = None
) -> int | None:
    index = graph.index
    best: int | None = None
    for order in [only] if only is not None else orders(graph):
        at = {operator: step for step, operator in enumerate(order)}
        uses = [
            sorted({at[p], *(at[c] for c in readers)})
            for p, readers in zip(index.producer, index.consumers, strict=True)
        ]
        gaps = [(t, k) for t, steps in enumerate(uses) for k in range(1, len(steps)) if steps[k] > steps[k - 1] + 1]
        for chosen in itertools.product((False, True), repeat=len(gaps)):
            evicted = {gap for gap, out in zip(gaps, chosen, strict=True) if out}
            cost = sum(weights.read * index.size_bytes[t] for t, _ in evicted)
            cost += sum(weights.write * index.size_bytes[t] for t in {t for t, _ in evicted})
            if best is not None and cost >= best:
                continue
            stays = [(s, s, index.parameter_bytes[o]) for s, o in enumerate(order) if index.parameter_bytes[o]]
            for t, steps in enumerate(uses):
                starts = [k for k in range(len(steps)) if k == 0 or (t, k) in evicted]
                for k, end in zip(starts, [*starts[1:], len(steps)], strict=True):
                    stays.append((steps[k], steps[end - 1], index.size_bytes[t]))
            loads = [sum(z for a, b, z in stays if a <= s <= b) for s in range(len(order))]
            if max(loads) <= capacity and (not addresses or placeable(sorted(stays, key=lambda x: -x[2]), capacity)):
                best = cost
    return best


def check_run(schedule: Schedule) -> None:
    done = execute(schedule.graph, schedule.plan, schedule.stays, schedule.offsets, schedule.capacity_bytes)
    assert (done.written_bytes, done.read_bytes) == (schedule.written_bytes, schedule.read_bytes)
    assert done.compulsory_bytes == schedule.graph.compulsory_bytes


@pytest.mark.parametrize("route", list(Route))
def test_every_route_finds_the_optimum(route: Route) -> None:
    @SETTINGS
    @given(
        graphs(),
        st.integers(0, 3),
        st.sampled_from([TrafficWeights(), TrafficWeights(3, 1), TrafficWeights(0, 1), TrafficWeights(1, 0)]),
    )
    def check(graph: OperatorGraph, extra: int, weights: TrafficWeights) -> None:
        capacity = graph.minimum_bytes + extra
        expected = brute_force(graph, capacity, weights, addresses=True)
        found = schedule_cosma(graph, capacity, weights=weights, route=route)
        if expected is None:
            assert found == Unplaced(capacity, proven=True)
            return
        assert isinstance(found, Schedule)
        assert (found.value, found.bound, found.proof) == (expected, expected, Proof.OPTIMAL)
        check_run(found)

    check()


@SETTINGS
@given(graphs(), st.integers(0, 2))
def test_a_fixed_order_is_served_at_least_traffic(graph: OperatorGraph, extra: int) -> None:
    weights = TrafficWeights()
    order = orders(graph)[-1]
    capacity = graph.minimum_bytes + extra
    expected = brute_force(graph, capacity, weights, addresses=False, only=order)
    found = best_replacement(graph.index, order, capacity, weights=weights)
    assert found is not None
    assert (found.value, found.bound) == (expected, expected)
    program = solve_program(graph.index, capacity, order=order, addresses=False, solver=Solver.SCIP)
    assert program.value == expected
    with_addresses = solve_program(graph.index, capacity, order=order)
    assert with_addresses.value == brute_force(graph, capacity, weights, addresses=True, only=order)


@SETTINGS
@given(graphs())
def test_the_lowest_peak_is_that_of_the_best_order(graph: OperatorGraph) -> None:
    expected = min(c for c in range(1, 60) if brute_force(graph, c, TrafficWeights(), addresses=False) == 0)
    found = lowest_peak_order(graph.index)
    assert (found.peak_bytes, found.bound_bytes) == (expected, expected)
    assert brute_force(graph, expected, TrafficWeights(), addresses=False, only=found.order) == 0
