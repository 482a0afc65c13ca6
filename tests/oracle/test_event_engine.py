"""Skipping repeated states changes nothing, and the engine equals a walk that writes every operation down."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.timing.engine import CUT_SHORT, run
from experiments.models.plan import Kind, Process, make_plan
from tests.examples import examples
from tests.oracle.event_walk import walk_plan

NO_EVENTS = np.zeros((0, 4))


@st.composite
def plans(draw: st.DrawFn):
    """Nests of up to four loops and two phases; two loads, perhaps one behind the other, an array, one or two stores."""
    n_loops = draw(st.integers(1, 3))
    n_phases = draw(st.sampled_from([1, 1, 2]))
    outer = draw(st.sampled_from([1, 1, 3, 6]))
    factors = [
        [outer, n_phases, *(draw(st.sampled_from([1, 2, 3, 5, 9])) for _ in range(n_loops))] for _ in range(n_phases)
    ]
    ways = n_loops + 3
    cycles = st.integers(1, 9)

    def table(name: str, always: bool, shallow: int) -> dict[tuple[int, int], float]:
        return {
            (p, w): draw(cycles)
            for p in range(n_phases)
            for w in range(ways)
            if always or w <= shallow or (w in (1, 2))
        }

    depth_a, depth_b = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    shared = draw(st.booleans())
    chained = draw(st.booleans())
    shallow = draw(st.integers(2, ways - 1))
    commanded = draw(st.booleans()) and not chained
    processes = []
    if commanded:
        processes.append(
            Process("issue", Kind.LOAD, ("host",), table("issue", True, ways), depth=draw(st.integers(1, 4)))
        )
    if chained:
        processes.append(
            Process("far", Kind.LOAD, ("bus",), table("far", False, min(shallow, 3)), depth=draw(st.integers(1, 3)))
        )
    processes += [
        Process(
            "a", Kind.LOAD, ("port" if chained else "bus", "bus") if draw(st.booleans()) and chained else ("port",),
            table("a", True, ways), depth=depth_a, source="far" if chained else None,
            latency_cycles=draw(st.integers(0, 3)), early_cycles=draw(st.integers(0, 2)), stream=draw(st.booleans()),
        ),
        Process(
            "b", Kind.LOAD, ("port" if shared else "other",), table("b", False, shallow), depth=depth_b,
            source="issue" if commanded else None,
        ),
        Process(
            "partial", Kind.LOAD, ("port" if shared else "other",), table("partial", False, shallow), depth=2, revisit=(2,)
        ),
        Process(
            "x", Kind.COMPUTE, ("array",), table("x", True, ways),
            needs=("a", "b", "partial", "out", *(("issue",) if commanded else ())),
        ),
        Process(
            "out", Kind.STORE, (draw(st.sampled_from(["out port", "port", "bus"])),), table("out", False, shallow),
            depth=draw(st.integers(1, 3)), by_step=draw(st.booleans()), ahead={0: draw(st.integers(0, 3))},
        ),
    ]  # fmt: skip
    if draw(st.booleans()):
        processes.append(
            Process("far out", Kind.STORE, ("bus",), table("far out", False, min(shallow, 3)), source="out", depth=2)
        )
    return make_plan(factors, 1, processes, in_flight=draw(st.sampled_from([0, 0, 2, 3])))


@examples(150)
@given(plans())
def test_engine_equals_the_walk_and_skipping_is_exact(named) -> None:
    events = np.zeros((80_000, 4))  # the largest nest has 8,748 steps of at most eight operations
    status, cycles, busy, stalled, counts, work = run(named.plan, False, 10**9, events)
    total, times = walk_plan(named.plan)
    assert status == 0
    assert cycles == total
    assert [tuple(e[1:3]) for e in events[: work[2]]] == times
    skipped = run(named.plan, True, 10**9, NO_EVENTS)
    assert skipped[1] == cycles
    np.testing.assert_array_equal(skipped[2], busy)
    np.testing.assert_array_equal(skipped[3], stalled)
    np.testing.assert_array_equal(skipped[4], counts)


def test_a_load_waits_for_the_command_of_its_own_step() -> None:
    """Commands come every step, the load every second: it may not start on the command of an earlier step.

    Commands end at 4, 8, 12, 16. The second tile belongs to step 2: it loads from 12 to 17, then the array works twice.
    """
    every = (0, 2, 3)
    processes = [
        Process("issue", Kind.LOAD, ("host",), {(0, w): 4 for w in every}, depth=4),
        Process("a", Kind.LOAD, ("port",), {(0, 0): 5, (0, 2): 5}, source="issue"),
        Process("x", Kind.COMPUTE, ("array",), {(0, w): 1 for w in every}, needs=("issue", "a")),
    ]
    named = make_plan([[1, 2, 2]], 0, processes)
    assert run(named.plan, True, 10**9, NO_EVENTS)[1] == walk_plan(named.plan)[0] == 12 + 5 + 1 + 1


def test_long_loops_are_skipped() -> None:
    way = {(0, w): 3 for w in (0, 2, 3)}
    processes = [
        Process("a", Kind.LOAD, ("port",), way),
        Process("x", Kind.COMPUTE, ("array",), dict.fromkeys(way, 5), needs=("a", "out")),
        Process("out", Kind.STORE, ("out",), {(0, 0): 7, (0, 2): 7}),
    ]
    named = make_plan([[1, 100_000, 1_000]], 0, processes)
    status, cycles, _, _, counts, work = run(named.plan, True, 10**9, NO_EVENTS)
    assert (status, cycles) == (0, 3 + 5 * 100_000_000 + 7)
    assert counts[1] == 100_000_000
    assert work[0] < 2_000


def test_a_run_without_end_is_cut_short() -> None:
    processes = [Process("x", Kind.COMPUTE, ("array",), {(0, w): 1 for w in (0, 2)})]
    named = make_plan([[1, 10_000]], 0, processes)
    status, cycles, *_ = run(named.plan, False, 500, NO_EVENTS)
    assert status == CUT_SHORT
    assert 500 <= cycles < 600


def test_every_load_of_a_step_finds_its_buffer() -> None:
    """No legal depth deadlocks: the walk and the engine issue every operation for all small depths."""
    for depths in itertools.product((1, 2, 3), repeat=3):
        processes = [
            Process("far", Kind.LOAD, ("bus",), {(0, 0): 2, (0, 2): 2}, depth=depths[0]),
            Process("a", Kind.LOAD, ("bus",), {(0, w): 1 for w in (0, 2, 3)}, depth=depths[1], source="far"),
            Process("x", Kind.COMPUTE, ("array",), {(0, w): 1 for w in (0, 2, 3)}, needs=("a", "out")),
            Process("out", Kind.STORE, ("bus",), {(0, 0): 3, (0, 2): 3}, depth=depths[2]),
        ]
        named = make_plan([[1, 4, 5]], 0, processes)
        *_, counts, _ = run(named.plan, True, 10**9, NO_EVENTS)
        assert counts.tolist() == [4, 20, 20, 4]


def test_a_plan_that_waits_for_nothing_known_is_refused() -> None:
    process = Process("x", Kind.COMPUTE, ("array",), {(0, 0): 1}, needs=("weights",))
    with pytest.raises(ValueError, match="process 'x' waits for 'weights', which is not in the plan"):
        make_plan([[1]], 0, [process])
    assert replace(process, needs=()).needs == ()
