"""Rules of the memory port: each is caught when it is broken, in Python's bench and in that of Verilator."""

import re
from dataclasses import replace

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
    "w_last": 0, "r_ready": 0,
}  # fmt: skip
NOTHING = {"ar_ready": 1, "aw_ready": 1, "w_ready": 1, "r_valid": 0, "r_tag": 0, "r_error": 0}
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


def impatient(seed: int = 3) -> Job:
    """A small product on a machine that waits 100 cycles."""
    job = nest_case(GEMM, seed)
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
def test_a_machine_with_an_axi4_port_gives_the_same_integers(computation: Computation, changes: dict[str, str]) -> None:
    job = nest_case(computation, 5, **changes)
    p = replace(job.image.parameters, axi=True)
    moved = {port: replace(x, base=x.base + 4000 + 12 * i) for i, (port, x) in enumerate(job.image.layouts.items())}
    registers = register_map(p)
    bases = {registers[f"load_base_{port}"][0]: x.base for port, x in moved.items()}
    pairs = tuple((a, bases.get(a, d)) for a, d in job.image.registers)
    image = replace(job.image, parameters=p, registers=pairs, layouts=moved, dram_bytes=job.image.dram_bytes + 4096)
    values = random_values(computation, np.random.default_rng(0))
    for timing in (MemoryTiming(), MemoryTiming(3, beat_cycles=2, requests=1)):
        verdict = execute(
            replace(job, image=image), values, lambda image, given, t=timing: simulate_in_python(image, given, timing=t)
        )
        assert verdict.wrong is None
        assert verdict.dram_differences == ()


def test_an_axi4_port_wants_powers_of_two() -> None:
    with pytest.raises(UserError, match="an AXI4 port needs banks and bytes of a burst that are powers of two"):
        replace(nest_case(GEMM, 3).image.parameters, axi=True, banks=3)
