"""What a program of intrinsic calls costs, in readable form.

Searches use the compiled form in `codesign.tensorization.scoring`; tests hold the two equal.

Rules C, R, T, L are those of docs/reference/cost-model.md, D2 of docs/reference/technology.md, H6 of
docs/reference/hardware-space.md.

* Q1, Padded work: Calls = product over dimensions of ceil(bound / extent in a call); executed multiply-accumulates =
  calls x those of the intrinsic. Iterations wholly beyond a bound make no call.
* Q2, Calls: `calls x (iterations that follow each other in a call + call overhead) + sub-workloads x latency of the
  array`. The overhead is 2 cycles. The latency is rows + columns - 2 where PEs hand data on, log2(PEs) under a bus.
* Q3, On-chip memories: The cost model scores the padded nest under `resident`; cycles that scratchpad and local
  bandwidth need bound the array's time, scaled by the share of calls made. The stationary operand is kept under as
  few inner loops as fit. Where two loops slide along one of its axes, the nest counts overlaps that a call's blocks
  have not.
* Q4, Words moved: Those of the padded nest, scaled on every axis by true over padded extent.
* Q5, Short bursts: A run of b contiguous bytes takes `ceil(b / bus) + ceil(b / burst) x 14` cycles (H6). Its energy
  per bit is D2 at min(b, burst) bytes.
* Q6, Capacity: The parts of all tensors fit the scratchpad: once, or twice when host loops exist.
* Q7, Host: One cycle a call, 8 a DMA descriptor, 2 an iteration of a host loop and 4 more for every further loop fused
  into it.
* Q8, Latency: With totals A, D, H of array, DMA and host and n iterations of the pipelined loop: `max + (A + D + H -
  max) / n`.
* Q9, Energy: Executed multiply-accumulates, on-chip accesses of the calls made, DRAM and DMA by Q5. No leakage.
"""

import math
from dataclasses import dataclass
from functools import cached_property

from codesign.arch.dram import dram_energy_pj_per_bit
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, Infeasible, evaluate
from codesign.mapping.mapping import Mapping
from codesign.tensorization.choice import contiguous_run
from codesign.tensorization.intrinsic_core import LOCAL, SCRATCHPAD, Core
from codesign.tensorization.schedule import Schedule


@dataclass(frozen=True)
class CallProgram:
    """Host loops around sub-workloads on the scratchpad, each a nest of intrinsic calls.

    Args:
        core: The accelerator.
        schedule: Loops and choice. Loops of one iteration do not exist in a program: leave them out.
        fused: How many of the schedule's host loops each host loop of the program consists of, outermost first. The
            innermost one is pipelined: it loads the data of its next iteration while it computes.
    """

    core: Core
    schedule: Schedule
    fused: tuple[int, ...]

    def __post_init__(self) -> None:
        if sum(self.fused) != len(self.schedule.host) or any(n < 1 for n in self.fused):
            raise UserError(f"fused groups {self.fused} do not make up {len(self.schedule.host)} host loops")
        if any(n == 1 for _, n in (*self.schedule.host, *self.schedule.inner)):
            raise UserError("a program has no loops of one iteration", hint="leave them out of the schedule")

    @cached_property
    def mapping(self) -> Mapping:
        """What the cost model scores, on `schedule.padded` and `core.scored`."""
        return self.core.mapping(self.schedule)

    @cached_property
    def trips(self) -> tuple[int, ...]:
        """Iterations of each of the program's host loops, outermost first."""
        counts, at = [], 0
        for parts in self.fused:
            counts.append(math.prod(n for _, n in self.schedule.host[at : at + parts]))
            at += parts
        return tuple(counts)


@dataclass(frozen=True)
class Transfers:
    """One tensor's way between DRAM and scratchpad.

    Args:
        tensor: Its name.
        words: Elements moved.
        moved_bytes: Bytes moved.
        run_words: Elements that lie next to each other in DRAM.
        parts: Sub-tensors moved, one descriptor each.
        cycles: Of the DMA engine.
        energy_pj: Of the DRAM.
    """

    tensor: str
    words: float
    moved_bytes: float
    run_words: int
    parts: float
    cycles: float
    energy_pj: float


@dataclass(frozen=True)
class ProgramCost:
    """Latency and energy of a program.

    Args:
        latency_cycles: Of the whole (Q8).
        energy_pj: Dynamic (Q9).
        array_cycles: Calls, their overhead, and what the on-chip memories' bandwidth adds (Q2, Q3).
        dram_cycles: Of the DMA engine (Q5).
        host_cycles: Of the host (Q7).
        calls: Intrinsic calls; iterations wholly beyond a bound make none.
        sub_workloads: Times the scratchpad is filled.
        executed_macs: Multiply-accumulates performed, wasted ones included (Q1).
        useful_macs: Those the computation asks for.
        scratchpad_bytes: Demand on the scratchpad (Q6).
        transfers: One entry a tensor.
        on_chip: What the cost model says of the padded loop nest.
    """

    latency_cycles: float
    energy_pj: float
    array_cycles: float
    dram_cycles: float
    host_cycles: float
    calls: int
    sub_workloads: int
    executed_macs: int
    useful_macs: int
    scratchpad_bytes: float
    transfers: tuple[Transfers, ...]
    on_chip: Cost

    @property
    def padding_waste(self) -> float:
        """Share of the executed multiply-accumulates that do no useful work."""
        return 1.0 - self.useful_macs / self.executed_macs

    @property
    def dram_bytes(self) -> float:
        """Bytes between DRAM and scratchpad."""
        return sum(t.moved_bytes for t in self.transfers)

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold."""
        figures = "latency_cycles energy_pj array_cycles dram_cycles host_cycles calls sub_workloads padding_waste dram_bytes scratchpad_bytes"
        parts = ("words", "run_words", "parts", "cycles")
        return {
            "status": "ok",
            **{name: getattr(self, name) for name in figures.split()},
            "transfers": {t.tensor: {name: getattr(t, name) for name in parts} for t in self.transfers},
        }


def program_cost(program: CallProgram) -> ProgramCost | Infeasible:
    """The cost of a program, or what does not fit."""
    core, schedule = program.core, program.schedule
    over = _over_capacity(program)
    if over is not None:
        return over
    nest = evaluate(schedule.padded, core.scored, program.mapping, reuse=Reuse.RESIDENT)
    if isinstance(nest, Infeasible):
        return nest
    sub_workloads = math.prod(program.trips)
    calls = schedule.choice.calls
    made = calls / (sub_workloads * math.prod(n for _, n in schedule.inner))
    transfers = _transfers(program, nest)
    # Q2, Q3
    computing = calls * (core.call_cycles + core.overheads.call) + sub_workloads * core.overheads.array
    array = max(computing, *(made * nest.levels[v].cycles for v in (SCRATCHPAD, LOCAL)))
    dram = sum(t.cycles for t in transfers)
    host = _host_cycles(program, calls, sum(t.parts for t in transfers))
    executed = calls * core.intrinsic.computation.macs
    mac_pj = executed * nest.mac_energy_pj / nest.macs
    on_chip_pj = made * (nest.energy_pj - nest.mac_energy_pj - nest.levels[0].energy_pj)
    return ProgramCost(
        latency_cycles=pipeline_cycles(program.trips, array, dram, host),
        energy_pj=mac_pj + on_chip_pj + sum(t.energy_pj for t in transfers),
        array_cycles=float(array),
        dram_cycles=dram,
        host_cycles=host,
        calls=calls,
        sub_workloads=sub_workloads,
        executed_macs=executed,
        useful_macs=schedule.choice.computation.macs,
        scratchpad_bytes=scratchpad_bits(program) / 8,
        transfers=transfers,
        on_chip=nest,
    )


def pipeline_cycles(trips: tuple[int, ...], array: float, dram: float, host: float) -> float:
    """Q8: the innermost host loop overlaps its iterations, the loops outside start it anew.

    A uniform pipeline of n iterations over stages of a, d and h cycles takes ``n * max + (a + d + h - max)``; entered e
    times with n iterations each, the totals being A = e n a and so on, ``max(A, D, H) + (A + D + H - max) / n``.
    """
    slowest = max(array, dram, host)
    overlapped = trips[-1] if trips else 1
    return slowest + (array + dram + host - slowest) / overlapped


def scratchpad_bits(program: CallProgram) -> int:
    """Q6: every part once, or twice when the next iteration's data arrive meanwhile."""
    schedule = program.schedule
    level = program.core.architecture.levels[SCRATCHPAD]
    bits = 0
    for tensor in schedule.choice.computation.tensors:
        sizes = {d: schedule.tile_from(d, len(schedule.host)) for d in schedule.choice.computation.dims}
        bits += math.prod(tensor.shape(sizes)) * level.element_bits(tensor.partial_bits)
    return bits * (2 if program.trips else 1)


def _over_capacity(program: CallProgram) -> Infeasible | None:
    level = program.core.architecture.levels[SCRATCHPAD]
    demand = scratchpad_bits(program)
    if level.capacity_bits is None or demand <= level.capacity_bits:
        return None
    detail = "twice what one sub-workload needs" if program.trips else ""
    return Infeasible(f"capacity of level {level.name!r}", demand / 8, level.capacity_bits / 8, "bytes", detail)


def _transfers(program: CallProgram, nest: Cost) -> tuple[Transfers, ...]:
    """Q4, Q5: elements moved, in runs of what is contiguous in DRAM."""
    schedule, dma = program.schedule, program.core.dma
    computation, padded = schedule.choice.computation, schedule.padded
    depth = len(schedule.host)
    sizes = {d: min(n, schedule.tile_from(d, depth)) for d, n in computation.sizes.items()}
    extra_pj_per_bit = dma_pj_per_bit(program.core)
    found = []
    for tensor, traffic, on_chip in zip(
        computation.tensors, nest.levels[0].tensors, nest.levels[SCRATCHPAD].tensors, strict=True
    ):
        words = float(traffic.reads + traffic.updates)
        parts = words / on_chip.tile_words
        for axis in tensor.axes:
            words *= axis.extent(computation.sizes) / axis.extent(padded.sizes)
        run = contiguous_run(computation, tensor, sizes)
        run_bytes = math.ceil(run * tensor.bits / 8)
        bursts = math.ceil(run_bytes / dma.burst_bytes)
        cycles = words / run * (math.ceil(run_bytes / dma.bus_bytes) + bursts * dma.overhead_cycles)
        pj_per_bit = dram_energy_pj_per_bit(dma.dram, min(run_bytes, dma.burst_bytes)) + extra_pj_per_bit
        bits = words * tensor.bits
        found.append(Transfers(tensor.name, words, bits / 8, run, parts, cycles, bits * pj_per_bit))
    return tuple(found)


def dma_pj_per_bit(core: Core) -> float:
    """What the architecture charges for a bit beyond the DRAM itself: the DMA engine."""
    level = core.architecture.levels[0]
    assert level.energy is not None
    return level.energy.read_pj / level.word_bits - dram_energy_pj_per_bit(core.dma.dram, core.dma.burst_bytes)


def _host_cycles(program: CallProgram, calls: int, parts: float) -> float:
    """Q7: loop control, indices of fused loops, descriptors, calls."""
    overheads = program.core.overheads
    cycles = calls * overheads.host_call + parts * overheads.host_transfer
    iterations = 1
    for count, fused in zip(program.trips, program.fused, strict=True):
        iterations *= count
        cycles += iterations * (overheads.host_loop + (fused - 1) * overheads.host_index)
    return cycles
