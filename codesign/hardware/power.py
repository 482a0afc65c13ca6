"""Power of a whole machine from the switching of its mapped netlist in a simulated run.

Every module is mapped to cells (`synthesis`), a run is simulated by Verilator, and what registers and ports held in stretches of it is replayed on the modules' gates
(`activity`). A short run is replayed whole. Of a long one stretches are drawn, one in each of so many equal parts of the run; their scatter gives the interval of
the mean. Memories are counted by access and priced by the SRAM model, the clock's tree by a rule.
"""

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from codesign.arch.provenance import Provenance
from codesign.arch.technology_files import load_technology
from codesign.core.json_types import JsonObject
from codesign.hardware.activity import (
    CLOCK,
    FLIP_FLOP,
    Bit,
    Floats,
    Gate,
    GateNetlist,
    Records,
    cell_energies,
    edge_energies,
    read_netlist,
    replay,
    settle_of,
)
from codesign.hardware.constraints import clock_period_ns
from codesign.hardware.execute import Array, Job, Verdict, execute
from codesign.hardware.parameters import Parameters
from codesign.hardware.parts import PARTS, part_of
from codesign.hardware.synthesis import synthesize
from codesign.hardware.verilator import VerilatedMachine, need_verilator
from codesign.hardware.verilog import Netlist, bench_top
from codesign.hardware.waves import Scope, Waves, read_waves, traced_only

WHOLE_CYCLES = 1024
"""Runs up to this long are replayed whole."""

STRETCHES, STRETCH_CYCLES = 64, 9
"""Of a longer run: how many stretches, and cycles of each; the first gives what the second changes from."""

BITS_AT_ONCE = 1 << 17
"""Cycles of all instances that are replayed together: nets then take 16 KiB each."""

TREE_CELL, TREE_PINS = "CLKBUF1", 16
"""The clock's tree: buffers, and clock pins or buffers that each drives (0.45 pF)."""

MEMORY_TABLE, MEMORY_FACTOR = "cmos-130nm", (180 / 130) * (1.8 / 1.2) ** 2
"""SRAM figures of 130 nm and 1.2 V, the largest node that T1 scales to; capacitance grows with the node, energy with the square of the supply."""

ANSWERS_AT_ONCE = "_c"
"""How the names of modules of memories end that answer in the same cycle."""


@dataclass(frozen=True)
class PartPower:
    """A part of a machine, all its instances together.

    Args:
        part: Its name.
        cells, flip_flops: How many.
        switching_pj: In a cycle, of nets that change, or of a memory's accesses.
        clock_pj: In a cycle, of clock pins, or of the clock's tree.
        leakage_mw: At rest.
    """

    part: str
    cells: int
    flip_flops: int
    switching_pj: float
    clock_pj: float
    leakage_mw: float


@dataclass(frozen=True)
class MachinePower:
    """Power of a machine in a run.

    Args:
        parts: Of it.
        cycles: Of the run.
        replayed_cycles: Those whose edges were counted.
        interval_pj: Half of the interval around the energy of a cycle that holds 95 % of such samples' means; 0 where all cycles are counted.
        clock_ns: Of a cycle.
        multiplications: Of the run.
    """

    parts: tuple[PartPower, ...]
    cycles: int
    replayed_cycles: int
    interval_pj: float
    clock_ns: float
    multiplications: int

    @property
    def cycle_pj(self) -> float:
        """Energy of a cycle, leakage left out."""
        return sum(p.switching_pj + p.clock_pj for p in self.parts)

    @property
    def milliwatts(self) -> float:
        """Power at that clock, leakage included."""
        return self.cycle_pj / self.clock_ns + sum(p.leakage_mw for p in self.parts)

    def to_json(self) -> JsonObject:
        """Figures and where they come from."""
        each = self.cycle_pj * self.cycles / max(1, self.multiplications)
        source = cell_energies().source
        replayed = f"mapped netlist replayed in {self.replayed_cycles} of {self.cycles} simulated cycles; every flip-flop and port compared. {source}"
        memories = f"accesses of the same cycles; energies of {MEMORY_TABLE} times {MEMORY_FACTOR:.2f} (node and square of the supply, 0.18 um at 1.8 V)"
        tree = f"a {TREE_CELL} for every {TREE_PINS} clock pins, level by level. {source}"
        sources = {"cells": (Provenance.MEASURED, replayed), "clock tree": (Provenance.PUBLISHED, tree), "memories": (Provenance.SCALED, memories)}  # fmt: skip
        return {
            "milliwatts": round(self.milliwatts, 3), "clock_ns": round(self.clock_ns, 3), "cycle_pj": round(self.cycle_pj, 2),
            "interval_pj": round(self.interval_pj, 2), "multiplication_pj": round(each, 2), "cycles": self.cycles, "replayed_cycles": self.replayed_cycles,
            "parts": [vars(p) for p in self.parts], "left_out": "wires and glitches",
            "provenance": {k: {"kind": kind.value, "source": text} for k, (kind, text) in sources.items()},
        }  # fmt: skip


@dataclass(frozen=True)
class MappedMachine:
    """A machine's modules as cells, and where they stand.

    Args:
        top: Name of its top module.
        modules: By name, those with cells or modules within.
        places: By module, the scopes of its instances in a simulation; memories among them.
        simulated: The machine's Verilog, of which a simulator writes down what a replay wants.
    """

    top: str
    modules: Mapping[str, GateNetlist]
    places: Mapping[str, Sequence[Scope]]
    simulated: Netlist


def mapped_machine(netlist: Netlist, mapped: Path) -> MappedMachine:
    """Read what `synthesize` kept of a machine.

    Raises:
        SynthesisError: A flip-flop cannot be found in the Verilog.
    """
    found = json.loads(mapped.read_text())["modules"]
    modules = {k: read_netlist(m, k) for k, m in found.items() if m["cells"] and k not in netlist.shapes}
    places: dict[str, list[Scope]] = {}

    def walk(module: str, scope: Scope) -> None:
        places.setdefault(module, []).append(scope)
        for instance, kind in modules[module].boxes.items() if module in modules else ():
            walk(kind, (*scope, *instance.split(".")))

    walk(netlist.top, ("TOP", bench_top(netlist.top), "machine_inside"))
    wanted = {k: frozenset({b.name for b in m.given.values() if not b.inside} | {*m.ports}) for k, m in modules.items()}
    wanted |= {k: frozenset(found[k]["ports"]) - {CLOCK} for k in netlist.shapes if k in found}
    simulated = replace(
        netlist, logic=traced_only(netlist.logic, wanted), memories=traced_only(netlist.memories, wanted), bench=traced_only(netlist.bench, {})
    )  # fmt: skip
    return MappedMachine(netlist.top, modules, places, simulated)


class MeasuredMachine:
    """A machine mapped to cells and simulated with its signals in sight.

    Args:
        p: Its parameters.
        netlist: Its Verilog.

    Raises:
        MissingDependencyError: Verilator or Yosys is not installed.
        UserError: It has more elements than are synthesised.
    """

    def __init__(self, p: Parameters, netlist: Netlist) -> None:
        need_verilator()
        with tempfile.TemporaryDirectory() as folder:
            mapped = Path(folder, "mapped.json")
            self.synthesis = synthesize(p, netlist, mapped)
            self.machine = mapped_machine(netlist, mapped)
        self.simulation = VerilatedMachine(p, self.machine.simulated, quick=True, traced=True)

    def run(
        self, job: Job, values: Mapping[str, Array], seed: int, *, whole: bool = False
    ) -> tuple[Verdict, MachinePower]:
        """A run beside what it should give, and its power.

        Args:
            job: What the machine runs.
            values: Operands.
            seed: Of the stretches that are replayed.
            whole: Every cycle is replayed, however long the run.
        """
        verdict = execute(job, values, self.simulation.run)
        cycles = verdict.run.cycles
        stretches = ((0, cycles),) if whole else stretches_of(cycles, np.random.default_rng(seed))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "waves.vcd")
            self.simulation.run(job.image, job.image.memory(values), waves=path, windows=stretches)
            waves = read_waves(path)
        clock_ns, multiplied = clock_period_ns(self.synthesis.levels), verdict.run.counts.multiplied
        return verdict, machine_power(self.machine, waves, stretches, cycles, clock_ns, multiplied)


def stretches_of(cycles: int, rng: np.random.Generator) -> tuple[tuple[int, int], ...]:
    """First cycle and end of the stretches of a run that are replayed.

    >>> stretches_of(700, np.random.default_rng(0))
    ((0, 700),)
    """
    if cycles <= WHOLE_CYCLES:
        return ((0, cycles),)
    edges = np.linspace(0, cycles, STRETCHES + 1).astype(int)
    firsts = [int(rng.integers(a, b - STRETCH_CYCLES + 1)) for a, b in pairwise(edges)]
    return tuple((first, first + STRETCH_CYCLES) for first in firsts)


def machine_power(
    machine: MappedMachine, waves: Waves, stretches: Sequence[tuple[int, int]], cycles: int, clock_ns: float, multiplications: int
) -> MachinePower:  # fmt: skip
    """Power of a run.

    Args:
        machine: Its modules.
        waves: What they held in the stretches.
        stretches: First cycle and end of each.
        cycles: Of the run.
        clock_ns: Of a cycle.
        multiplications: Of the run.

    Raises:
        SynthesisError: The netlist and the simulation differ.
    """
    lengths = [end - first for first, end in stretches]
    counted = np.concatenate([np.arange(n) < n - 1 for n in lengths])
    recorded = _Recorded(waves, len(counted), int("".join("01"[int(c)] for c in counted[::-1]), 2))
    energy, parts = np.zeros(len(counted)), []
    cells = [(part, [m for m in machine.modules if part_of(m, machine.top) == part], _cells) for part in PARTS]
    for part, modules, measured in (*cells, *((k, v, _accesses) for k, v in _memories(machine).items())):
        spent, made = measured(machine, modules, recorded, part)
        energy += spent
        parts.append(replace(made, switching_pj=float(spent[counted].mean())))
    parts.append(_clock_tree(sum(p.flip_flops for p in parts)))
    total = int(counted.sum())
    means = np.array([energy[a : a + n - 1].mean() for a, n in zip(np.cumsum([0, *lengths]), lengths, strict=False)])
    spread = float(means.std(ddof=1) / math.sqrt(len(means)) * math.sqrt(1 - total / cycles)) if len(means) > 1 else 0.0
    return MachinePower(tuple(parts), cycles, total, 1.96 * spread, clock_ns, multiplications)


@dataclass(frozen=True)
class _Recorded:
    """Waves, how many cycles they have, and ones where the next one follows."""

    waves: Waves
    cycles: int
    follows: int

    def of(self, places: Sequence[Scope]) -> Records:
        """Of some instances of a module."""
        kept: dict[tuple[Scope, str], list[int]] = {}

        def value(bit: Bit, k: int) -> int:
            key = ((*places[k], *bit.inside.split(".")) if bit.inside else places[k], bit.name)
            if key not in kept:
                kept[key] = self.waves.bits(*key)
            return kept[key][bit.place]

        return Records(len(places), self.cycles, self.follows, value)


def _cells(machine: MappedMachine, modules: Sequence[str], recorded: _Recorded, part: str) -> tuple[Floats, PartPower]:
    """Energy by recorded cycle of nets that change, and what does not depend on them."""
    energy, cells, flops, clock_pj, leakage_nw = np.zeros(recorded.cycles), 0, 0, 0.0, 0.0
    for name in modules:
        module, places = machine.modules[name], machine.places[name]
        n = len(places)
        _, clock, leakage = edge_energies(module)
        cells, flops = cells + n * (len(module.gates) + len(module.flip_flops)), flops + n * len(module.flip_flops)
        clock_pj, leakage_nw = clock_pj + n * clock, leakage_nw + n * leakage
        settle, at_once = settle_of(module), max(1, BITS_AT_ONCE // recorded.cycles)
        for k in range(0, n, at_once) if module.gates or module.flip_flops else ():
            energy += replay(module, settle, recorded.of(places[k : k + at_once]), name)
    return energy, PartPower(part, cells, flops, 0.0, clock_pj, 1e-6 * leakage_nw)


def _memories(machine: MappedMachine) -> dict[str, list[str]]:
    """Memory modules by what they are part of."""
    found: dict[str, list[str]] = {}
    for module in machine.simulated.shapes:
        inside = machine.places[module][0]
        part = "scratchpad" if "scratchpad" in inside else "local memories" if "pe" in inside else "tables"
        found.setdefault(part, []).append(module)
    return found


def _accesses(
    machine: MappedMachine, modules: Sequence[str], recorded: _Recorded, part: str
) -> tuple[Floats, PartPower]:
    """Energy by recorded cycle of memories' accesses, and what does not depend on them."""
    energy, flops, clock_pj, leakage_mw = np.zeros(recorded.cycles), 0, 0.0, 0.0
    for name in modules:
        depth, width, _ = machine.simulated.shapes[name]
        figures, places = memory_figures(depth, width), machine.places[name]
        flops += figures.flip_flops * len(places)
        clock_pj, leakage_mw = clock_pj + figures.clock_pj * len(places), leakage_mw + figures.leakage_mw * len(places)
        for scope in places:
            for reads, times in _accesses_of(recorded, scope, name.endswith(ANSWERS_AT_ONCE)):
                energy += times * (figures.read_pj if reads else figures.write_pj)
    return energy, PartPower(part, flops, flops, 0.0, clock_pj, leakage_mw)


def _accesses_of(recorded: _Recorded, scope: Scope, at_once: bool) -> Iterator[tuple[bool, Floats]]:
    """By port of a memory, whether it reads, and in which cycles it is used.

    A memory that answers at once is always enabled: it works where its address changes.
    """
    waves, ports = recorded.waves, recorded.waves.signals[scope]
    for name in ports:
        if at_once and name.startswith("ren"):
            continue
        reads, used = name.startswith("r"), 0
        if at_once and name.startswith("raddr"):
            for bits in waves.bits(scope, name):
                used |= (bits ^ bits >> 1) & recorded.follows
        elif name.startswith(("ren", "wen")):
            for bits in waves.bits(scope, name):
                used |= bits
        if used:
            raw = np.frombuffer(used.to_bytes(-(-recorded.cycles // 8), "little"), np.uint8)
            yield reads, np.unpackbits(raw, count=recorded.cycles, bitorder="little").astype(float)


@dataclass(frozen=True)
class MemoryFigures:
    """Of one memory beside the library's cells.

    Args:
        read_pj, write_pj: Of a word.
        clock_pj: In a cycle, where it is made of flip-flops.
        leakage_mw: At rest.
        flip_flops: Of which it is made.
    """

    read_pj: float
    write_pj: float
    clock_pj: float
    leakage_mw: float
    flip_flops: int


def memory_figures(words: int, bits: int) -> MemoryFigures:
    """What a memory costs by the SRAM model (S2, S3); one below its least 64 bytes is made of the library's flip-flops, and read by A3.

    A write is one of a whole word; ports beyond one cost nothing.
    """
    table, size = load_technology(MEMORY_TABLE), words * bits / 8
    if size < 64:
        access = MEMORY_FACTOR * table.registers.access_pj(size, bits)
        flop = GateNetlist(1, (), (Gate(FLIP_FLOP, {"CLK": 0}),), {}, {}, {}, ())
        _, clock, leakage_nw = edge_energies(flop)
        n = words * bits
        return MemoryFigures(access, access, n * clock, 1e-6 * n * leakage_nw, n)
    sram = table.sram
    read, write, rests = (f(size, bits, 1) for f in (sram.read_pj, sram.write_pj, sram.leakage_mw))
    return MemoryFigures(MEMORY_FACTOR * read, MEMORY_FACTOR * write, 0.0, MEMORY_FACTOR * rests, 0)


def _clock_tree(flip_flops: int) -> PartPower:
    """Buffers from the clock's port to the flip-flops."""
    volts, cells, _ = cell_energies()
    cell, buffers, ends = cells[TREE_CELL], 0, flip_flops
    while ends > 1:
        ends = -(-ends // TREE_PINS)
        buffers += ends
    each = sum(cell["energy_pj"]["Y"].values()) + cell["input_pf"]["A"] * volts**2
    return PartPower("clock tree", buffers, 0, 0.0, buffers * each, 1e-6 * buffers * cell["leakage_nw"])
