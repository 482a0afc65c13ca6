"""Machines beside memories of other speeds, and beside memories that fail."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.hardware.bench import HardwareError
from codesign.hardware.cycles import best_timed_plan, nest_times
from codesign.hardware.execute import Job, execute, nest_job, random_values
from codesign.hardware.layout import Box
from codesign.hardware.memory_timing import PLAIN_MEMORY, MemoryTiming, Trouble
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.nest_plan import NestPlan
from codesign.hardware.parameters import Parameters
from codesign.hardware.rtl.machine import register_map
from codesign.hardware.simulate import simulate_in_python
from codesign.hardware.verilator import VerilatedMachine, find_verilator
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from spaces.scratchpad import SCRATCHPAD
from tests.examples import ALL
from tests.transfer_cycles import transfer_cycles
from tests.unit.hardware.test_machines import DESIGN, GEMM


def case(outstanding: int, memory: MemoryTiming = PLAIN_MEMORY) -> tuple[NestPlan, Job]:
    """A small product on a machine with so many bursts under way."""
    architecture = SCRATCHPAD.build(DESIGN)
    found = create("random").map(
        MappingProblem(GEMM, architecture), Objective.EDP, budget=Budget(evaluations=20), seed=3
    )
    assert found.mapping is not None
    p = replace(parameters_of(architecture, GEMM, 8, 32, "machine"), outstanding=outstanding)
    plan = best_timed_plan(GEMM, architecture, found.mapping, p, memory=memory)[0]
    return plan, nest_job(GEMM, architecture, found.mapping, p, register_map(p), memory=memory)


@pytest.mark.parametrize(
    ("outstanding", "memory"),
    [
        (1, MemoryTiming()),
        (1, MemoryTiming(latency_cycles=3, beat_cycles=2)),
        (3, MemoryTiming(latency_cycles=40)),
        (16, MemoryTiming(latency_cycles=25, beat_cycles=3)),
        (16, MemoryTiming(latency_cycles=25, requests=2)),
        (5 if ALL else 3, MemoryTiming(latency_cycles=1)),
    ],
)
@pytest.mark.thinned(2)
def test_cycles_are_predicted_beside_any_memory(outstanding: int, memory: MemoryTiming) -> None:
    plan, job = case(outstanding, memory)
    values = random_values(GEMM, np.random.default_rng(0))
    verdict = execute(job, values, lambda image, bytes_: simulate_in_python(image, bytes_, timing=memory))
    assert verdict.wrong is None
    assert verdict.differences == ()
    assert verdict.run.cycles == nest_times(plan, memory=memory).cycles


def _parameters(outstanding: int) -> Parameters:
    return replace(parameters_of(SCRATCHPAD.build(DESIGN), GEMM, 8, 32, "machine"), outstanding=outstanding)


def test_with_one_burst_under_way_every_burst_waits_for_the_latency() -> None:
    box = Box(32, ((10, 64, 32),))
    found = transfer_cycles(_parameters(1), box, 0, 1, wide=False, store=False, memory=MemoryTiming(14))
    assert found == 10 * (14 + 4)


def test_with_enough_bursts_under_way_the_latency_is_paid_once() -> None:
    box = Box(32, ((10, 64, 32),))
    found = transfer_cycles(_parameters(16), box, 0, 1, wide=False, store=False, memory=MemoryTiming(14))
    assert found == 14 + 10 * 4


TROUBLES = [
    (Trouble.ERROR, r"read request 2 \(DRAM address 0x[0-9a-f]+\) was answered with an error"),
    (Trouble.ORDER, r"read request 2 \(DRAM address 0x[0-9a-f]+\) was answered out of turn"),
    (Trouble.SILENCE, r"read request 2 \(DRAM address 0x[0-9a-f]+\) was not answered in time"),
]


def _impatient(job: Job) -> Job:
    """The same with a machine that waits 100 cycles."""
    address = register_map(job.image.parameters)["read_patience"][0]
    pairs = tuple((a, 100 if a == address else d) for a, d in job.image.registers)
    return replace(job, image=replace(job.image, registers=pairs))


@pytest.mark.parametrize(("trouble", "message"), TROUBLES)
def test_a_memory_that_fails_stops_the_machine_with_the_request(trouble: Trouble, message: str) -> None:
    job = _impatient(case(16)[1])
    memory = job.image.memory(random_values(GEMM, np.random.default_rng(0)))
    with pytest.raises(HardwareError, match=message):
        simulate_in_python(job.image, memory, timing=MemoryTiming(trouble=trouble, at_request=2), limit=5000)


def test_a_machine_kept_from_an_earlier_run_starts_anew() -> None:
    _, job = case(16)
    memory = job.image.memory(random_values(GEMM, np.random.default_rng(0)))
    runs = [simulate_in_python(job.image, memory)]
    with pytest.raises(HardwareError, match="answered with an error"):
        simulate_in_python(job.image, memory, timing=MemoryTiming(trouble=Trouble.ERROR, at_request=2))
    runs.append(simulate_in_python(job.image, memory))
    assert runs[0].cycles == runs[1].cycles == job.predicted_cycles
    assert (runs[0].memory, runs[0].counts) == (runs[1].memory, runs[1].counts)


@pytest.mark.slow("oracle")
@pytest.mark.skipif(find_verilator() is None, reason="no Verilator or no C++ compiler")
def test_verilator_s_memory_is_the_same() -> None:
    plan, job = case(4)
    job = _impatient(job)
    machine = VerilatedMachine(job.image.parameters, quick=True)
    memory = job.image.memory(random_values(GEMM, np.random.default_rng(0)))
    for timing in (MemoryTiming(30), MemoryTiming(9, beat_cycles=2, requests=3)):
        assert machine.run(job.image, memory, timing=timing).cycles == nest_times(plan, memory=timing).cycles
    for trouble, message in TROUBLES:
        with pytest.raises(HardwareError, match=message):
            machine.run(job.image, memory, timing=MemoryTiming(trouble=trouble, at_request=2))


def test_a_memory_must_answer_some_time() -> None:
    with pytest.raises(UserError, match=r"`latency_cycles` must be >= 1, got 0"):
        MemoryTiming(latency_cycles=0)
