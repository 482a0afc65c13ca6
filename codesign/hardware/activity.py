"""Energy of a mapped netlist from the switching of its nets.

A module mapped to the library's cells is run on recorded inputs, cycle by cycle and without delays, many instances side by side as the bits of integers.
A net that changes costs ``C V^2 / 2`` for the pins that it drives, and the internal energy of its driver's edge; a pin may have an energy of its own. A flip-flop
takes both edges of the clock in every cycle. Not in it: wires, glitches (there are no delays), memories, the clock's tree.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from codesign.hardware.synthesis import SynthesisError, cell_library, liberty, yosys_command

FLIP_FLOP = "DFFPOSX1"


@dataclass(frozen=True)
class Gate:
    """A cell of a netlist: its kind, and by pin the number of its net."""

    kind: str
    pins: Mapping[str, int]


@dataclass(frozen=True)
class GateNetlist:
    """A module as cells.

    Args:
        nets: How many; nets 0 and 1 are constants.
        gates: In an order in which every gate stands after those that drive it.
        flip_flops: Beside them.
        inputs, outputs: By port, its nets, the lowest bit first. What a box gives is an input, named ``port`` of the box.
    """

    nets: int
    gates: tuple[Gate, ...]
    flip_flops: tuple[Gate, ...]
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class SwitchingEnergy:
    """Energy of a run, all instances together, in pJ.

    Args:
        nets: Of loads and cells where nets change.
        clock: Of flip-flops at the clock's edges.
        leakage_nw: Power of the cells at rest, in nW.
        changes: Edges of nets.
        cycles: Of the run.
    """

    nets: float
    clock: float
    leakage_nw: float
    changes: int
    cycles: int

    @property
    def total(self) -> float:
        """Energy without leakage, which lasts as long as the clock makes it."""
        return self.nets + self.clock


@cache
def cell_energies() -> tuple[float, dict[str, dict[str, Any]]]:
    """The supply in volts, and by cell its pins' capacitances, energies and leakage."""
    found = json.loads(resources.files("codesign.hardware").joinpath("data/cell_energies.json").read_text("utf-8"))
    return float(found["volts"]), {c["cell"]: c for c in found["cells"]}


def gate_netlist(text: str, top: str, clock: str = "clk") -> GateNetlist:
    """Map a module to cells.

    Args:
        text: Verilog with the module and black boxes for its memories.
        top: Its name.
        clock: Port of the clock.

    Raises:
        SynthesisError: Yosys failed, or cells form a loop.
        MissingDependencyError: There is no Yosys.
    """
    lines = [
        "read_verilog -sv design.v", f"hierarchy -top {top}", f"synth -top {top} -flatten -noalumacc -noabc -noshare", "dfflibmap -liberty cells.lib",
        "abc -liberty cells.lib", "opt_clean -purge", "write_json netlist.json", "",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "design.v").write_text(text, "utf-8")
        (folder / "cells.lib").write_text(liberty(), "utf-8")
        (folder / "run.ys").write_text("\n".join(lines))
        done = subprocess.run([*yosys_command(), "-q", "run.ys"], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SynthesisError(f"Yosys failed: {(done.stderr or done.stdout)[-1500:]}")
        module = json.loads((folder / "netlist.json").read_text())["modules"][top]
    return _read(module, clock)


def _read(module: dict[str, Any], clock: str) -> GateNetlist:
    number: dict[object, int] = {
        "0": 0,
        "1": 1,
        "x": 0,
        "none": 2,
    }  # net 2 is nobody's: the next one's number is the count

    def net(bit: object) -> int:
        return number.setdefault(bit, len(number) - 1)

    known = {c["cell"] for c in cell_library()["cells"]}
    inputs: dict[str, tuple[int, ...]] = {}
    outputs: dict[str, tuple[int, ...]] = {}
    gates: list[Gate] = []
    flops: list[Gate] = []
    for name, port in module["ports"].items():
        nets = tuple(net(b) for b in port["bits"])
        if port["direction"] == "input" and name != clock:
            inputs[name] = nets
        elif port["direction"] == "output":
            outputs[name] = nets
    for cell in module["cells"].values():
        if cell["type"] not in known:  # a memory: what it gives is recorded
            gives = {n: b for n, b in cell["connections"].items() if cell["port_directions"].get(n) == "output"}
            inputs |= {n: tuple(net(b) for b in bits) for n, bits in gives.items()}
            continue
        gate = Gate(cell["type"], {pin: net(bits[0]) for pin, bits in cell["connections"].items()})
        (flops if gate.kind == FLIP_FLOP else gates).append(gate)
    ready = {0, 1, *(n for nets in inputs.values() for n in nets), *(f.pins["Q"] for f in flops)}
    return GateNetlist(len(number) - 1, _ordered(gates, ready), tuple(flops), inputs, outputs)


def _outputs(kind: str) -> dict[str, str]:
    """A cell's functions by output."""
    found: dict[str, str] = next(c["functions"] for c in cell_library()["cells"] if c["cell"] == kind)
    return found


def _ordered(gates: Sequence[Gate], ready: set[int]) -> tuple[Gate, ...]:
    """Gates after those that drive them."""
    found, waiting = [], list(gates)
    while waiting:
        left = []
        for gate in waiting:
            gives = _outputs(gate.kind)
            if all(n in ready for pin, n in gate.pins.items() if pin not in gives):
                found.append(gate)
                ready |= {gate.pins[o] for o in gives if o in gate.pins}
            else:
                left.append(gate)
        if len(left) == len(waiting):
            raise SynthesisError(f"{len(left)} cells form a loop or hang on nothing")
        waiting = left
    return tuple(found)


def _expression(function: str, pins: Mapping[str, int]) -> str:
    """A Liberty function as Python over the list ``v`` of nets; ``m`` has a one for every instance.

    >>> _expression("(!((A B)+C))", {"A": 5, "B": 6, "C": 7})
    'm & (~((v[5] & v[6])|v[7]))'
    """
    spaced = re.sub(r"(?<=[\w)])\s+(?=[\w(!])", " & ", function.strip())
    named = re.sub(r"[A-Z]\w*", lambda found: f"v[{pins[found.group()]}]", spaced)
    return "m & " + named.replace("!", "~").replace("+", "|")


def _settle(netlist: GateNetlist) -> Any:
    """A function that computes all gates once."""
    lines = ["def settle(v, m):"]
    for gate in netlist.gates:
        for output, function in _outputs(gate.kind).items():
            if output in gate.pins:
                lines.append(f"    v[{gate.pins[output]}] = {_expression(function, gate.pins)}")
    space: dict[str, Any] = {}
    exec(compile("\n".join([*lines, "    return"]), "netlist", "exec"), space)
    return space["settle"]


def switching_energy(
    netlist: GateNetlist,
    inputs: Sequence[Mapping[str, Sequence[int]]],
    instances: int,
    *,
    expected: Sequence[Mapping[str, Sequence[int]]] = (),
    start: int = 0,
) -> SwitchingEnergy:
    """Run a netlist on recorded inputs, from flip-flops at zero.

    Args:
        netlist: The module.
        inputs: By cycle and port, the value of every instance.
        instances: Side by side.
        expected: By cycle and output, what every instance gives; compared.
        start: First cycle that counts.

    Raises:
        SynthesisError: An output differs.
    """
    mask, settle, changes = (1 << instances) - 1, _settle(netlist), [0] * netlist.nets
    values = [0] * netlist.nets
    values[1] = mask
    settle(values, mask)
    for cycle, given in enumerate(inputs):
        before = values.copy()
        for flop, now in [(f, before[f.pins["D"]]) for f in netlist.flip_flops] if cycle else []:
            values[flop.pins["Q"]] = now
        for port, nets in netlist.inputs.items():
            for bit, net in enumerate(nets):
                values[net] = sum(((value >> bit) & 1) << k for k, value in enumerate(given[port]))
        settle(values, mask)
        for port, wanted in expected[cycle].items() if expected else ():
            _compare(values, netlist.outputs[port], wanted, f"{port} in cycle {cycle}")
        if cycle >= start:
            for net, (old, new) in enumerate(zip(before, values, strict=True)):
                if old != new:
                    changes[net] += (old ^ new).bit_count()
    return _energy(netlist, changes, instances, len(inputs) - start)


def _compare(values: Sequence[int], nets: Sequence[int], wanted: Sequence[int], where: str) -> None:
    for k, value in enumerate(wanted):
        got = sum((values[net] >> k & 1) << bit for bit, net in enumerate(nets))
        if got != value & ((1 << len(nets)) - 1):
            raise SynthesisError(f"the mapped netlist gives {got:#x} at {where}, instance {k}, the design {value:#x}")


def _energy(netlist: GateNetlist, changes: Sequence[int], instances: int, cycles: int) -> SwitchingEnergy:
    volts, cells = cell_energies()
    total = clock = leakage = 0.0
    for gate in (*netlist.gates, *netlist.flip_flops):
        cell = cells[gate.kind]
        leakage += cell["leakage_nw"] * instances
        for pin, net in gate.pins.items():
            edge = sum(cell["energy_pj"].get(pin, {"rise": 0.0, "fall": 0.0}).values())
            charge = cell["input_pf"].get(pin, 0.0) * volts**2
            if gate.kind == FLIP_FLOP and pin == "CLK":
                clock += (edge + charge) * instances * cycles
            else:
                total += (edge + charge) / 2 * changes[net]
    return SwitchingEnergy(total, clock, leakage, sum(changes), cycles)
