"""Queues of instructions by hand: waits, limits, cycles of waits (rules Q1-Q3)."""

import pytest

from codesign.core.errors import UserError
from codesign.timing.instructions import Instruction, run_instructions

QUEUES = ("array", "DRAM channel")


def test_queues_wait_for_each_other() -> None:
    """Loads end at 4 and 8, with a latency of 1; the tiles run 5 to 15 and 15 to 18; the store from 18 to 20."""
    run = run_instructions(
        [
            Instruction("load", 1, 4, latency_cycles=1),
            Instruction("tile", 0, 10, (0,)),
            Instruction("load", 1, 4, latency_cycles=1),
            Instruction("tile", 0, 3, (2,)),
            Instruction("store", 1, 2, (3,)),
        ],
        QUEUES,
        run_cycles=7,
        events=10,
    )
    assert run.latency_cycles == 20 + 7
    assert run.complete
    array, channel = run.resources
    assert (array.busy_cycles, array.stalled, array.idle_cycles) == (13, (("load", 5.0),), 9)
    assert (channel.busy_cycles, channel.stalled, channel.idle_cycles) == (10, (("tile", 10.0),), 7)
    assert (run.bound_by, run.waits_for) == ("array", "start and end of the run")
    assert [(e.start_cycle, e.end_cycle) for e in run.events if e.name == "tile"] == [(5, 15), (15, 18)]


def test_a_limit_gives_a_partial_run() -> None:
    run = run_instructions([Instruction("tile", 0, 5)] * 10, QUEUES, operation_limit=4)
    assert (run.complete, run.simulated, run.operations, run.latency_cycles) == (False, 4, 10, 20)


def test_a_cycle_of_waits_is_named() -> None:
    looped = [Instruction("tile", 0, 5, (1,)), Instruction("load", 1, 5, (0,))]
    with pytest.raises(
        UserError, match=r"instructions wait for each other: tile \(0\) waits for load \(1\) waits for tile"
    ):
        run_instructions(looped, QUEUES)


def test_a_limit_must_be_positive() -> None:
    with pytest.raises(UserError, match="`operation_limit` must be >= 1, got 0"):
        run_instructions([], QUEUES, operation_limit=0)
