"""Energy of a mapped netlist from the switching of its nets.

A module mapped to the library's cells is given what its inputs and flip-flops held in recorded cycles, many cycles and instances side by side as the bits of
integers. Its gates then say every other net, its flip-flops' data are compared with what they hold a cycle later, its outputs with the recorded ones.
So a stretch of cycles out of the middle of a run is replayed without what came before (D. Kim et al., Strober, ISCA 2016, take snapshots for the same purpose).
A net that changes costs ``C V^2 / 2`` for the pins that it drives, and the internal energy of its driver's edge; a pin may have an energy of its own. A flip-flop
takes both edges of the clock in every cycle. Not in it: wires, and glitches, as there are no delays.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from codesign.hardware.synthesis import SynthesisError, cell_library
from codesign.hardware.verilog import data_text

FLIP_FLOP = "DFFPOSX1"
CLOCK = "clk"
Floats = npt.NDArray[np.float64]
Settle = Callable[[list[int], int], None]


@dataclass(frozen=True)
class Gate:
    """A cell of a netlist: its kind, and by pin the number of its net."""

    kind: str
    pins: Mapping[str, int]


@dataclass(frozen=True)
class Bit:
    """A bit of a recorded signal.

    Args:
        inside: Name of the instance within the module whose port it is; empty for the module's own signals.
        name: Of the signal.
        place: Of the bit, 0 the lowest.
    """

    inside: str
    name: str
    place: int


@dataclass(frozen=True)
class GateNetlist:
    """A module as cells, the modules within it left out.

    Args:
        nets: How many; nets 0 and 1 are constants.
        gates: In an order in which every gate stands after those that drive it.
        flip_flops: Beside them.
        given: By net that is recorded (inputs, flip-flops, outputs of modules within), where its value stands.
        checked: By bit that the netlist gives to others, its net.
        boxes: By instance within the module, its module.
        ports: The module's own, the clock aside.
    """

    nets: int
    gates: tuple[Gate, ...]
    flip_flops: tuple[Gate, ...]
    given: Mapping[int, Bit]
    checked: Mapping[Bit, int]
    boxes: Mapping[str, str]
    ports: tuple[str, ...]


class CellEnergy(TypedDict):
    """Leakage of a cell, capacitance by input, and by pin the energy of its two edges."""

    leakage_nw: float
    input_pf: dict[str, float]
    energy_pj: dict[str, dict[str, float]]


class CellEnergies(NamedTuple):
    """The supply in volts, the figures by cell, and where they come from."""

    volts: float
    cells: dict[str, CellEnergy]
    source: str


@cache
def cell_energies() -> CellEnergies:
    """The standard cells' energies."""
    found = json.loads(data_text("cell_energies.json"))
    return CellEnergies(float(found["volts"]), {c["cell"]: c for c in found["cells"]}, str(found["source"]))


def read_netlist(module: Mapping[str, Any], name: str) -> GateNetlist:
    """A module out of Yosys' JSON.

    Raises:
        SynthesisError: A flip-flop has no name, or cells form a loop.
    """
    number: dict[object, int] = {
        "0": 0,
        "1": 1,
        "x": 0,
        "none": 2,
    }  # net 2 is nobody's: the next one's number is the count

    def net(bit: object) -> int:
        return number.setdefault(bit, len(number) - 1)

    known = {c["cell"] for c in cell_library()["cells"]}
    own = {k: v for k, v in module["ports"].items() if k != CLOCK}
    given = {
        net(b): Bit("", k, i) for k, v in own.items() if v["direction"] == "input" for i, b in enumerate(v["bits"])
    }
    checked = {
        Bit("", k, i): net(b) for k, v in own.items() if v["direction"] == "output" for i, b in enumerate(v["bits"]) if b != "x"
    }  # fmt: skip
    gates: list[Gate] = []
    flops: list[Gate] = []
    boxes: dict[str, str] = {}
    for cell_name, cell in module["cells"].items():
        if cell["type"] in known:
            gate = Gate(cell["type"], {pin: net(bits[0]) for pin, bits in cell["connections"].items()})
            (flops if gate.kind == FLIP_FLOP else gates).append(gate)
            continue
        boxes[cell_name] = cell["type"]
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "output":
                given |= {net(b): Bit(cell_name, port, i) for i, b in enumerate(bits) if b not in ("0", "1", "x")}
            elif port != CLOCK:
                checked |= {Bit(cell_name, port, i): net(b) for i, b in enumerate(bits) if b != "x"}
    stored = {f.pins["Q"] for f in flops}
    held = _names(module, {bit for bit, n in number.items() if n in stored}, name)
    given |= {net(bit): found for bit, found in held.items()}
    return GateNetlist(
        len(number) - 1, _ordered(gates, {0, 1, *given}), tuple(flops), given, checked, boxes, tuple(own)
    )


def _names(module: Mapping[str, Any], bits: set[object], name: str) -> dict[object, Bit]:
    """By Yosys' number of a net, a signal of the Verilog that it is."""
    found: dict[object, Bit] = {}
    for signal, entry in module["netnames"].items():
        if entry["hide_name"]:
            continue
        for place, bit in enumerate(entry["bits"]):
            if bit in bits and (bit not in found or found[bit].name.startswith("$")):
                found[bit] = Bit("", signal.removeprefix("\\"), place)
    if len(found) < len(bits):
        raise SynthesisError(f"{len(bits) - len(found)} flip-flops of {name} have no name in its Verilog")
    return found


def _outputs(kind: str) -> dict[str, str]:
    """A cell's functions by output."""
    found: dict[str, str] = next(c["functions"] for c in cell_library()["cells"] if c["cell"] == kind)
    return found


def _ordered(gates: Sequence[Gate], ready: set[int]) -> tuple[Gate, ...]:
    """Gates after those that drive them."""
    readers: dict[int, list[int]] = {}
    missing, due = [], []
    for k, gate in enumerate(gates):
        wants = {n for pin, n in gate.pins.items() if pin not in _outputs(gate.kind)} - ready
        missing.append(len(wants))
        for n in wants:
            readers.setdefault(n, []).append(k)
        if not wants:
            due.append(k)
    found = []
    while due:
        gate = gates[due.pop()]
        found.append(gate)
        for output in _outputs(gate.kind):
            for reader in readers.pop(gate.pins.get(output, -1), ()):
                missing[reader] -= 1
                if not missing[reader]:
                    due.append(reader)
    if len(found) < len(gates):
        raise SynthesisError(f"{len(gates) - len(found)} cells form a loop or hang on nothing")
    return tuple(found)


def _expression(function: str, pins: Mapping[str, int]) -> str:
    """A Liberty function as Python over the list ``v`` of nets; ``m`` has a one for every cycle.

    >>> _expression("(!((A B)+C))", {"A": 5, "B": 6, "C": 7})
    'm & (~((v[5] & v[6])|v[7]))'
    """
    spaced = re.sub(r"(?<=[\w)])\s+(?=[\w(!])", " & ", function.strip())
    named = re.sub(r"[A-Z]\w*", lambda found: f"v[{pins[found.group()]}]", spaced)
    return "m & " + named.replace("!", "~").replace("+", "|")


def settle_of(netlist: GateNetlist) -> Settle:
    """A function that computes all gates once."""
    lines = ["def settle(v, m):"]
    for gate in netlist.gates:
        for output, function in _outputs(gate.kind).items():
            if output in gate.pins:
                lines.append(f"    v[{gate.pins[output]}] = {_expression(function, gate.pins)}")
    space: dict[str, Any] = {}
    exec(compile("\n".join([*lines, "    return"]), "netlist", "exec"), space)
    found: Settle = space["settle"]
    return found


def edge_energies(netlist: GateNetlist) -> tuple[Floats, float, float]:
    """What an edge of each net costs in pJ, what the clock's two edges cost in a cycle in pJ, and the leakage in nW."""
    volts, cells, _ = cell_energies()
    edge, clock, leakage = np.zeros(netlist.nets), 0.0, 0.0
    for gate in (*netlist.gates, *netlist.flip_flops):
        cell = cells[gate.kind]
        leakage += cell["leakage_nw"]
        for pin, net in gate.pins.items():
            both = sum(cell["energy_pj"].get(pin, {"rise": 0.0, "fall": 0.0}).values())
            charge = cell["input_pf"].get(pin, 0.0) * volts**2
            if gate.kind == FLIP_FLOP and pin == "CLK":
                clock += both + charge
            else:
                edge[net] += (both + charge) / 2
    return edge, clock, leakage


@dataclass(frozen=True)
class Records:
    """What a simulation held, of several instances of a module.

    Args:
        instances: How many.
        cycles: Of each.
        follows: Ones where the next recorded cycle is the next one of the run too: the edges between them are counted.
        value: By bit of a recorded signal and instance, an integer whose bit k is its value in the k-th cycle.
    """

    instances: int
    cycles: int
    follows: int
    value: Callable[[Bit, int], int]

    def side_by_side(self, bit: Bit) -> int:
        """A bit in all cycles of the first instance, then of the next."""
        return self.repeated(lambda k: self.value(bit, k))

    def repeated(self, of: Callable[[int], int]) -> int:
        """Stretches of an integer, one for each instance."""
        if self.instances == 1:
            return of(0)
        wide = -(-self.cycles // 8)
        rows = np.frombuffer(b"".join(of(k).to_bytes(wide, "little") for k in range(self.instances)), np.uint8)
        bits = np.unpackbits(rows.reshape(self.instances, wide), axis=1, count=self.cycles, bitorder="little")
        return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def replay(netlist: GateNetlist, settle: Settle, records: Records, where: str) -> Floats:
    """Energy of nets that change, by recorded cycle, all instances together, in pJ.

    Args:
        netlist: The module.
        settle: Its gates as a function.
        records: What its instances held.
        where: Name of the module, for messages.

    Raises:
        SynthesisError: A flip-flop or an output is not what the simulation says.
    """
    wide = records.instances * records.cycles
    mask, follows = (1 << wide) - 1, records.repeated(lambda _: records.follows)
    values = [0] * netlist.nets
    values[1] = mask
    for net, bit in netlist.given.items():
        values[net] = records.side_by_side(bit)
    settle(values, mask)
    for bit, net in netlist.checked.items():
        _equal(values[net] ^ records.side_by_side(bit), mask, records, f"{where}.{bit.inside}.{bit.name}[{bit.place}]")
    for flop in netlist.flip_flops:
        held = netlist.given[flop.pins["Q"]]
        wrong = values[flop.pins["D"]] ^ values[flop.pins["Q"]] >> 1
        _equal(wrong, follows, records, f"{where}.{held.name}[{held.place}]")
    found = np.zeros(wide)
    edge, _, _ = edge_energies(netlist)
    for net in map(int, np.flatnonzero(edge)):
        changed = (values[net] ^ values[net] >> 1) & follows
        if changed:
            raw = np.frombuffer(changed.to_bytes(-(-wide // 8), "little"), np.uint8)
            found[np.unpackbits(raw, count=wide, bitorder="little").view(bool)] += edge[net]
    return np.asarray(found.reshape(records.instances, records.cycles).sum(axis=0))


def _equal(wrong: int, looked_at: int, records: Records, where: str) -> None:
    wrong &= looked_at
    if wrong:
        instance, cycle = divmod((wrong & -wrong).bit_length() - 1, records.cycles)
        raise SynthesisError(
            f"the mapped netlist differs from the design: {where}, instance {instance}, recorded cycle {cycle}"
        )
