"""The executor must notice every way in which a schedule can be wrong."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.scheduling.cosma.graph import GraphTensor, Operator, OperatorGraph
from codesign.scheduling.cosma.plan import Plan, Residency
from codesign.scheduling.cosma.result import Schedule
from codesign.scheduling.cosma.solve import schedule_cosma
from tests.cosma_executor import Execution, ExecutionFaultError, execute, mixing_kernel


def spilling() -> Schedule:
    """A long-lived `x` must leave while `b` (the widest operator) runs."""
    names = {"x": 2, "a": 3, "b": 4, "c": 3, "d": 2}
    reads = {"x": (), "a": ("x",), "b": ("a",), "c": ("b",), "d": ("c", "x")}
    graph = OperatorGraph(
        "spill",
        tuple(Operator(n, "any", reads[n], (n,), 1 if n == "c" else 0) for n in names),
        tuple(GraphTensor(n, s) for n, s in names.items()),
        ("d",),
    )
    found = schedule_cosma(graph, 8)
    assert isinstance(found, Schedule)
    assert found.noncompulsory_bytes == 4
    return found


def run(schedule: Schedule, **changes: object) -> Execution:
    parts = {"plan": schedule.plan, "stays": schedule.stays, "offsets": schedule.offsets} | changes
    return execute(schedule.graph, capacity_bytes=schedule.capacity_bytes, **parts)  # type: ignore[arg-type]


def test_a_right_schedule_runs_and_its_traffic_is_the_objective() -> None:
    schedule = spilling()
    done = run(schedule)
    assert (done.written_bytes, done.read_bytes) == (2, 2)
    assert done.compulsory_bytes == schedule.graph.compulsory_bytes == 2 + 1 + 2


def test_overlap_is_caught() -> None:
    schedule = spilling()
    for position in range(1, len(schedule.stays)):
        offsets = list(schedule.offsets)
        stay = schedule.stays[position]
        other = next(
            i for i, s in enumerate(schedule.stays) if i != position and s.first_step <= stay.first_step <= s.last_step
        )
        offsets[position] = offsets[other]
        with pytest.raises(ExecutionFaultError, match=r"overlaps|outside"):
            run(schedule, offsets=tuple(offsets))


def test_an_address_outside_is_caught() -> None:
    schedule = spilling()
    with pytest.raises(ExecutionFaultError, match="lies outside the scratchpad"):
        run(schedule, offsets=(schedule.capacity_bytes, *schedule.offsets[1:]))


def test_use_after_eviction_is_caught() -> None:
    schedule = spilling()
    back = next(i for i, s in enumerate(schedule.stays) if s.retrieved)
    stays = tuple(s for i, s in enumerate(schedule.stays) if i != back)
    offsets = tuple(o for i, o in enumerate(schedule.offsets) if i != back)
    plan = replace(schedule.plan, retrieved=((),) * len(schedule.plan.order))
    with pytest.raises(ExecutionFaultError, match="reads 'x', not in the scratchpad"):
        run(schedule, plan=plan, stays=stays, offsets=offsets)


def test_missing_retrieval_is_caught() -> None:
    """A stay that begins where nothing was fetched holds rubbish, and the output shows it."""
    schedule = spilling()
    plan = replace(schedule.plan, retrieved=((),) * len(schedule.plan.order))
    with pytest.raises(ExecutionFaultError, match="output 'd' differs from an ordinary run"):
        run(schedule, plan=plan)


def test_retrieval_without_spill_is_caught() -> None:
    schedule = spilling()
    x = next(i for i, t in enumerate(schedule.graph.tensors) if t.name == "x")
    stays = (Residency(x, 0, 0, 4, 2), *(s for s in schedule.stays if s.tensor != x))
    offsets = (0, *(o for o, s in zip(schedule.offsets, schedule.stays, strict=True) if s.tensor != x))
    with pytest.raises(ExecutionFaultError):
        run(schedule, stays=stays, offsets=offsets)


def test_an_order_that_breaks_a_dependence_is_caught() -> None:
    schedule = spilling()
    order = list(schedule.plan.order)
    order[1], order[2] = order[2], order[1]
    with pytest.raises(ExecutionFaultError):
        run(schedule, plan=Plan(tuple(order), schedule.plan.retrieved))


def test_every_operand_byte_reaches_the_output() -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 256, n, dtype=np.uint8) for n in (5, 9)]
    parameters = rng.integers(0, 256, 3, dtype=np.uint8)
    before = mixing_kernel(1, inputs, parameters, [4, 6])
    for operand in (*inputs, parameters):
        for position in range(operand.size):
            operand[position] ^= 1
            after = mixing_kernel(1, inputs, parameters, [4, 6])
            assert all((a != b).any() for a, b in zip(before, after, strict=True))
            operand[position] ^= 1
