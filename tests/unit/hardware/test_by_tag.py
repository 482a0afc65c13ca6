"""Machines that take answers in any order: the same integers, the predicted cycles, and faults that name the request."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.hardware.bench import Channel
from codesign.hardware.device_memory import DeviceMemory
from codesign.hardware.execute import Job, execute, nest_job, random_values
from codesign.hardware.layout import Box
from codesign.hardware.memory_timing import MemoryTiming, Trouble
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.parameters import Answers, Parameters
from codesign.hardware.protocol import HardwareError, Protocol
from codesign.hardware.rtl.machine import register_map
from codesign.hardware.simulate import simulate_in_python
from codesign.hardware.verilator import VerilatedMachine, find_verilator
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.timing.dram.device import load_device
from spaces.scratchpad import SCRATCHPAD
from tests.transfer_cycles import transfer_cycles
from tests.unit.hardware.test_machines import DESIGN, GEMM
from tests.unit.hardware.test_protocol import NOTHING, QUIET, READ


def machine(**changes: int | bool) -> Parameters:
    found = parameters_of(SCRATCHPAD.build(DESIGN), GEMM, 8, 16, "machine")
    return replace(found, answers=Answers.BY_TAG, **changes)  # type: ignore[arg-type]


@cache
def case(p: Parameters, memory: MemoryTiming) -> Job:
    """A small product, on engines that wait 150 cycles."""
    architecture = SCRATCHPAD.build(DESIGN)
    budget = Budget(evaluations=20)
    found = create("random").map(MappingProblem(GEMM, architecture), Objective.EDP, budget=budget, seed=3)
    assert found.mapping is not None
    registers = register_map(p)
    job = nest_job(GEMM, architecture, found.mapping, p, registers, memory=memory)
    waits = {registers[f"{engine}_patience"][0] for engine in ("read", "write")}
    pairs = tuple((a, 150 if a in waits else d) for a, d in job.image.registers)
    return replace(job, image=replace(job.image, registers=pairs))


VALUES = random_values(GEMM, np.random.default_rng(0))


def test_bursts_are_over_in_their_order_one_a_cycle() -> None:
    """Worked by hand: four bursts of two beats, asked for in cycles 1 to 4 and ready in 14, 9, 11 and 8.

    They move in cycles 8-9 (the fourth), 10-11 (the second), 12-13 (the third), 14-15 (the first), and are over in 15 to 18. In order all wait
    for the first: 14 to 21.
    """
    memory = MemoryTiming(4, spread_cycles=10, spread_seed=11608)
    assert [1 + k + 4 + memory.longer(0, k) for k in range(4)] == [14, 9, 11, 8]
    box = Box(64, ())
    assert transfer_cycles(machine(), box, 0, 1, wide=False, store=False, memory=memory) == 18
    in_order = replace(machine(), answers=Answers.IN_ORDER)
    assert transfer_cycles(in_order, box, 0, 1, wide=False, store=False, memory=memory) == 21


SLOW = MemoryTiming(30, requests=3, spread_cycles=60, spread_seed=3)


def agrees(p: Parameters, memory: MemoryTiming) -> None:
    job = case(p, memory)
    verdict = execute(job, VALUES, lambda image, given: simulate_in_python(image, given, timing=memory))
    assert verdict.wrong is None
    assert verdict.differences == ()
    assert verdict.run.cycles == job.predicted_cycles


def test_cycles_are_predicted_where_answers_overtake_each_other() -> None:
    agrees(machine(outstanding=5), SLOW)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("outstanding", [16, 3, 1])
@pytest.mark.parametrize("answers", Answers)
def test_on_other_machines_too(outstanding: int, answers: Answers) -> None:
    for memory in (
        SLOW,
        MemoryTiming(spread_cycles=40, spread_seed=1),
        MemoryTiming(1, 2, spread_cycles=20, spread_seed=2),
    ):
        agrees(replace(machine(outstanding=outstanding), answers=answers), memory)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(2))
def test_beats_of_several_requests_may_alternate_and_responses_overtake_each_other(seed: int) -> None:
    for axi in (False, True):
        memory = MemoryTiming(5, beat_cycles=1 + seed, response_cycles=9, stall_percent=40, stall_seed=seed, spread_cycles=50, spread_seed=seed, interleaves=True)  # fmt: skip
        job = case(machine(axi=axi, outstanding=4 + 3 * seed), MemoryTiming())
        verdict = execute(job, VALUES, lambda image, given, t=memory: simulate_in_python(image, given, timing=t))
        assert verdict.wrong is None
        assert verdict.dram_differences == ()


DDR4 = load_device("ddr4_2400_x16")
NEXT_ROW = DDR4.burst_bytes * DDR4.bursts_per_row * DDR4.banks_per_group * DDR4.bank_groups * DDR4.ranks
"""Bytes from a row to the next one of its bank."""


def test_a_device_answers_row_hits_first() -> None:
    row, hit = DDR4.burst_bytes * DDR4.bursts_per_row, DDR4.burst_bytes
    asked = [
        (0, 0),
        (300, row),
        (600, NEXT_ROW),
        (601, row + hit),
    ]  # two banks' rows are opened; another row of the first bank, a hit in the second
    for by_tag, order in ((False, [0, 1, 2, 3]), (True, [0, 1, 3, 2])):
        device, channel, served = DeviceMemory(DDR4), Channel(MemoryTiming(), 0, by_tag=by_tag), []
        for cycle in range(1000):
            for when, at in asked:
                if cycle == when:
                    channel.ask(cycle, at, 1, len(channel.asked), device.ask(cycle, at, 1, 8, write=False))
            if channel.serves(cycle):
                assert channel.hand is not None
                served.append(channel.hand.number)
                channel.beat(cycle, 8)
        assert served == order


AGAIN = "was answered again, or before its data"
TROUBLES = [
    (Trouble.ERROR, r"request 2 \(DRAM address 0x[0-9a-f]+\) was answered with an error"),
    (Trouble.SILENCE, r"request 2 \(DRAM address 0x[0-9a-f]+\) was not answered in time"),
    (
        Trouble.STRANGE,
        rf"request \d+ \(DRAM address 0x[0-9a-f]+\) {AGAIN}|a read answer has a tag that no request has had",
    ),
    (Trouble.AGAIN, rf"request 2 \(DRAM address 0x[0-9a-f]+\) {AGAIN}"),
]


@pytest.mark.parametrize(("trouble", "message"), TROUBLES)
@pytest.mark.parametrize("axi", [False, pytest.param(True, marks=pytest.mark.slow("oracle"))])
def test_a_failed_answer_stops_the_machine_with_its_request(trouble: Trouble, message: str, axi: bool) -> None:
    job = case(machine(axi=axi, outstanding=5), MemoryTiming())
    memory = job.image.memory(VALUES)
    timing = MemoryTiming(trouble=trouble, at_request=2, spread_cycles=40, spread_seed=1, interleaves=axi)
    with pytest.raises(HardwareError, match=message):
        simulate_in_python(job.image, memory, timing=timing, limit=5000)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize(
    ("trouble", "message"), [(Trouble.ERROR, "request 0 .* with an error"), (Trouble.SILENCE, "request 0 .* in time"), (Trouble.AGAIN, f"request 0 .* {AGAIN}")]
)  # fmt: skip
def test_a_failed_response_stops_the_machine_with_its_request(trouble: Trouble, message: str) -> None:
    job = case(machine(axi=True, outstanding=5), MemoryTiming())
    timing = MemoryTiming(trouble=trouble, of_writes=True, spread_cycles=40, spread_seed=1)
    with pytest.raises(HardwareError, match=f"write {message}"):
        simulate_in_python(job.image, job.image.memory(VALUES), timing=timing, limit=5000)


def test_tags_of_requests_under_way_differ() -> None:
    checked = Protocol(machine(axi=True, outstanding=4))
    checked.check({**QUIET, **READ, "ar_beats": 1}, NOTHING, [(0, 1, 0)], [])
    with pytest.raises(HardwareError, match="rule P4 in cycle 1: the tag 1 is under way twice"):
        checked.check({**QUIET, **READ, "ar_beats": 1}, NOTHING, [(0, 1, 1)], [])
    writes = {**QUIET, "aw_valid": 1, "aw_beats": 1, "aw_tag": 3}
    with pytest.raises(HardwareError, match="rule P4 in cycle 1: the tag 3 is under way twice"):
        checked.check(writes, NOTHING, [], [], [3])
    with pytest.raises(HardwareError, match="rule P6"):
        checked.check({**QUIET, "r_ready": 1}, {**NOTHING, "r_valid": 1, "r_tag": 2}, [(0, 1, 0), (0, 1, 1)], [])


def test_draws_are_counted_from_zero_on() -> None:
    with pytest.raises(UserError, match="`spread_cycles` must be >= 0, got -1"):
        MemoryTiming(spread_cycles=-1)


@pytest.mark.slow("oracle")
@pytest.mark.skipif(find_verilator() is None, reason="no Verilator or no C++ compiler")
@pytest.mark.parametrize("axi", [False, True])
def test_verilator_s_bench_answers_in_the_same_order(axi: bool) -> None:
    job = case(machine(axi=axi, outstanding=5), MemoryTiming())
    built, given = VerilatedMachine(job.image.parameters, quick=True), job.image.memory(VALUES)
    for seed in range(6):
        timing = MemoryTiming(9, 1 + seed % 2, seed % 4, response_cycles=1 + 5 * seed, stall_percent=20 * (seed % 3), stall_seed=seed, spread_cycles=50, spread_seed=seed, interleaves=seed > 2)  # fmt: skip
        verdict = execute(job, VALUES, lambda image, memory, t=timing: built.run(image, memory, timing=t))
        assert verdict.wrong is None
        assert verdict.run.cycles == simulate_in_python(job.image, given, timing=timing).cycles
    for of_writes in (False, True) if axi else (False,):
        for trouble in (*(t for t, _ in TROUBLES), Trouble.NOWHERE):
            timing = MemoryTiming(
                trouble=trouble, at_request=0 if of_writes else 1, of_writes=of_writes, spread_cycles=40, spread_seed=1
            )
            texts = []
            for run in (built.run, simulate_in_python):
                with pytest.raises(HardwareError) as caught:
                    run(job.image, given, timing=timing, limit=5000)
                texts.append(str(caught.value))
            assert texts[0] == texts[1]
