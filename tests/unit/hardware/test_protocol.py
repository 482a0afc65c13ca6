"""Rules of the memory port: each is caught when it is broken, in Python's bench and in that of Verilator."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.hardware.execute import Job, execute, random_values
from codesign.hardware.memory_timing import MemoryTiming, Trouble
from codesign.hardware.protocol import HardwareError, Protocol
from codesign.hardware.rtl.machine import register_map
from codesign.hardware.simulate import simulate_in_python
from codesign.hardware.verilator import VerilatedMachine, find_verilator
from codesign.hardware.verilog import generate
from codesign.workloads.computation import Computation
from tests.unit.hardware.test_machines import CONV, GEMM, nest_case

QUIET = {
    "ar_valid": 0, "ar_addr": 0, "ar_beats": 0, "ar_tag": 0, "aw_valid": 0, "aw_addr": 0, "aw_beats": 0, "w_valid": 0, "w_data": 0, "w_strb": 0,
    "w_last": 0, "r_ready": 0, "read_fault": 0,
}  # fmt: skip
NOTHING = {"ar_ready": 1, "aw_ready": 1, "w_ready": 1, "r_valid": 0, "r_tag": 0, "r_error": 0, "r_resp": 0}
READ = {"ar_valid": 1, "ar_addr": 0x1F00, "ar_beats": 4, "ar_tag": 1}
BEAT = {"w_valid": 1, "w_data": 7, "w_strb": 255}


def protocol(axi: bool = False) -> Protocol:
    return Protocol(replace(nest_case(GEMM, 3).image.parameters, axi=axi, outstanding=2))


@pytest.mark.parametrize(
    ("rule", "cycles", "reads", "writes"),
    [
        ("P1", [({**READ}, {"ar_ready": 0}), ({**READ, "ar_addr": 8}, {})], [], []),
        ("P1", [({**READ}, {"ar_ready": 0}), ({}, {})], [], []),
        ("P1", [({**BEAT}, {"w_ready": 0}), ({**BEAT, "w_data": 8}, {})], [], [(0, 2, 0)]),
        ("P2", [({**READ, "ar_beats": 5}, {})], [], []),
        ("P2", [({"aw_valid": 1}, {})], [], []),
        ("P4", [({**READ}, {})], [(0, 1, 0), (8, 1, 2)], []),
        ("P4", [({**READ}, {})], [(0, 1, 1)], []),
        ("P5", [({**BEAT, "w_last": 1}, {})], [], []),
        ("P5", [({**BEAT, "w_last": 1}, {})], [], [(0, 2, 0)]),
        ("P5", [({**BEAT}, {})], [], [(0, 1, 0)]),
        ("P6", [({"r_ready": 1}, {"r_valid": 1, "r_tag": 0})], [(0, 2, 1)], []),
        ("P6", [({"r_ready": 1}, {"r_valid": 1, "r_tag": 1, "r_error": 1})], [(0, 2, 1)], []),
    ],
)
def test_a_broken_rule_is_named(rule: str, cycles: list, reads: list, writes: list) -> None:  # type: ignore[type-arg]
    checked = protocol()
    for seen, given in cycles[:-1]:
        checked.check({**QUIET, **seen}, {**NOTHING, **given}, reads, writes)
    with pytest.raises(HardwareError, match=f"rule {rule} in cycle {len(cycles) - 1}"):
        checked.check({**QUIET, **cycles[-1][0]}, {**NOTHING, **cycles[-1][1]}, reads, writes)


def test_a_burst_of_an_axi4_port_stays_within_4_kb() -> None:
    across = {**QUIET, **READ, "ar_addr": 0x1FE8}
    protocol().check(across, NOTHING, [], [])
    with pytest.raises(HardwareError, match="rule P3 in cycle 0: a burst of channel read at 0x1fe8 crosses 4 KB"):
        protocol(axi=True).check(across, NOTHING, [], [])


def test_a_machine_that_ends_with_a_request_under_way_is_caught() -> None:
    with pytest.raises(HardwareError, match="rule P6: the machine ended while requests were under way"):
        protocol().end([], [(0, 1, 0)])
    with pytest.raises(HardwareError, match="rule P6"):
        protocol(axi=True).end([], [], unanswered=1)


def test_writes_of_an_axi4_port_are_under_way_until_their_response() -> None:
    asks = {**QUIET, "aw_valid": 1, "aw_beats": 1}
    protocol(axi=True).check(asks, NOTHING, [], [(0, 1, 0)])
    with pytest.raises(HardwareError, match="rule P4 in cycle 0: channel write has more than 2 requests under way"):
        protocol(axi=True).check(asks, NOTHING, [], [(0, 1, 0)], unanswered=[0])


@pytest.mark.parametrize(("rule", "given"), [("P4", {}), ("P6", {"r_valid": 1, "r_resp": 2})])
def test_identifiers_and_failed_beats_of_an_axi4_port(rule: str, given: dict[str, int]) -> None:
    seen = {**QUIET, "r_ready": 1} if given else {**QUIET, **READ}
    with pytest.raises(HardwareError, match=f"rule {rule} in cycle 0"):
        protocol(axi=True).check(seen, {**NOTHING, **given}, [(0, 2, 0)] if given else [], [])


@cache
def impatient(axi: bool = False) -> Job:
    """A small product on a machine that waits 100 cycles."""
    job = nest_case(GEMM, 3)
    if axi:  # registers are those of the same machine without
        job = replace(job, image=replace(job.image, parameters=replace(job.image.parameters, axi=True, outstanding=3)))
    registers = register_map(job.image.parameters)
    waits = {registers[f"{engine}_patience"][0] for engine in ("read", "write")}
    pairs = tuple((a, 100 if a in waits else d) for a, d in job.image.registers)
    return replace(job, image=replace(job.image, registers=pairs))


WRITE_TROUBLES = [
    (Trouble.ERROR, r"write request 0 \(DRAM address 0x[0-9a-f]+\) was answered with an error"),
    (Trouble.SILENCE, r"write request 0 \(DRAM address 0x[0-9a-f]+\) was not answered in time"),
]


@pytest.mark.parametrize(("trouble", "message"), WRITE_TROUBLES)
def test_a_memory_that_fails_to_write_stops_the_machine(trouble: Trouble, message: str) -> None:
    job = impatient()
    memory = job.image.memory(random_values(GEMM, np.random.default_rng(0)))
    timing = MemoryTiming(trouble=trouble, at_request=0, of_writes=True)
    with pytest.raises(HardwareError, match=message):
        simulate_in_python(job.image, memory, timing=timing, limit=5000)


@pytest.mark.parametrize(
    ("direction", "trouble", "message"),
    [("read", Trouble.NOWHERE, "request 0 .* nothing lies"), *(("write", *x) for x in WRITE_TROUBLES)],
)
def test_a_failed_answer_of_an_axi4_memory_stops_the_machine(direction: str, trouble: Trouble, message: str) -> None:
    job = impatient(axi=True)
    memory = job.image.memory(random_values(GEMM, np.random.default_rng(0)))
    timing = MemoryTiming(trouble=trouble, of_writes=direction == "write", response_cycles=5, stall_percent=30)
    with pytest.raises(HardwareError, match=f"stopped: {direction}.*{message.removeprefix('write')}"):
        simulate_in_python(job.image, memory, timing=timing, limit=2000)


def test_writes_have_no_order_to_break() -> None:
    with pytest.raises(UserError, match="writes carry no tags"):
        MemoryTiming(trouble=Trouble.ORDER, of_writes=True)


@pytest.mark.slow("oracle")
@pytest.mark.skipif(find_verilator() is None, reason="no Verilator or no C++ compiler")
def test_verilator_s_bench_catches_failed_writes_and_planted_faults() -> None:
    job = impatient()
    netlist = generate(job.image.parameters)
    memory = job.image.memory(random_values(GEMM, np.random.default_rng(0)))
    machine = VerilatedMachine(job.image.parameters, netlist, quick=True)
    assert machine.run(job.image, memory).cycles == job.predicted_cycles
    for trouble, message in WRITE_TROUBLES:
        with pytest.raises(HardwareError, match=message):
            machine.run(job.image, memory, timing=MemoryTiming(trouble=trouble, at_request=0, of_writes=True))
    for port, planted, rule in (
        ("w_last", "1'h0", "P5"),
        ("ar_beats", "q_ar_ready ? 16'd1 : 16'd2", "P1"),
    ):
        wrong = re.sub(rf"\.{port}\({port}\)", "", netlist.bench).replace(", )", ")").replace(", ,", ",")
        wrong = wrong.replace("endmodule", f"  assign {port} = {planted};\nendmodule")
        faulty = VerilatedMachine(job.image.parameters, replace(netlist, bench=wrong), quick=True)
        with pytest.raises(HardwareError, match=f"rule {rule}"):
            faulty.run(job.image, memory, timing=MemoryTiming(requests=2))


@pytest.mark.parametrize(
    ("computation", "changes"), [(CONV, {}), (GEMM, {"links": "multicast", "dataflow": "output-stationary"})]
)
@pytest.mark.thinned(2)
def test_a_machine_with_an_axi4_port_gives_the_same_integers(computation: Computation, changes: dict[str, str]) -> None:
    job = nest_case(computation, 5, **changes)
    p = replace(job.image.parameters, axi=True)
    moved = {port: replace(x, base=x.base + 4000 + 12 * i) for i, (port, x) in enumerate(job.image.layouts.items())}
    registers = register_map(p)
    bases = {registers[f"load_base_{port}"][0]: x.base for port, x in moved.items()}
    pairs = tuple((a, bases.get(a, d)) for a, d in job.image.registers)
    image = replace(job.image, parameters=p, registers=pairs, layouts=moved, dram_bytes=job.image.dram_bytes + 4096)
    values = random_values(computation, np.random.default_rng(0))
    stalls = MemoryTiming(3, beat_cycles=2, requests=2, response_cycles=9, stall_percent=40, stall_seed=7)
    for timing in (MemoryTiming(), stalls):
        verdict = execute(
            replace(job, image=image), values, lambda image, given, t=timing: simulate_in_python(image, given, timing=t)
        )
        assert verdict.wrong is None
        assert verdict.dram_differences == ()


@pytest.mark.slow("oracle")
@pytest.mark.skipif(find_verilator() is None, reason="no Verilator or no C++ compiler")
def test_verilator_s_bench_answers_an_axi4_port_in_the_same_way() -> None:
    job = impatient(axi=True)
    values = random_values(GEMM, np.random.default_rng(0))
    netlist, memory = generate(job.image.parameters), job.image.memory(values)
    machine = VerilatedMachine(job.image.parameters, netlist, quick=True)
    for seed, percent, cycles in ((0, 0, 1), (1, 50, 20), (2, 70, 3), (3, 90, 60)):
        timing = MemoryTiming(9, requests=seed, response_cycles=cycles, stall_percent=percent, stall_seed=seed)
        verdict = execute(job, values, lambda image, given, t=timing: machine.run(image, given, timing=t))
        assert verdict.wrong is None
        assert verdict.run.cycles == simulate_in_python(job.image, memory, timing=timing).cycles
    for of_writes in (False, True):
        for trouble, message in (*WRITE_TROUBLES, (Trouble.NOWHERE, "request 0 .* nothing lies")):
            timing = MemoryTiming(trouble=trouble, of_writes=of_writes, response_cycles=5, stall_percent=30)
            with pytest.raises(HardwareError, match=message if of_writes else message.replace("write", "read")):
                machine.run(job.image, memory, timing=timing)
    wrong = re.sub(r"\.ar_tag\(ar_tag\)", "", netlist.bench).replace(", )", ")").replace(", ,", ",")
    wrong = wrong.replace("endmodule", "  assign ar_tag = 2'd1;\nendmodule")
    with pytest.raises(HardwareError, match="rule P4"):
        VerilatedMachine(job.image.parameters, replace(netlist, bench=wrong), quick=True).run(job.image, memory)


def test_an_axi4_port_wants_powers_of_two() -> None:
    with pytest.raises(UserError, match="an AXI4 port needs banks and bytes of a burst that are powers of two"):
        replace(nest_case(GEMM, 3).image.parameters, axi=True, banks=3)
