"""Energy from switching: hand-made netlists whose edges can be counted."""

from collections.abc import Callable

import numpy as np
import pytest

from codesign.hardware.activity import (
    Bit,
    Gate,
    GateNetlist,
    Records,
    cell_energies,
    edge_energies,
    read_netlist,
    replay,
    settle_of,
)
from codesign.hardware.synthesis import SynthesisError, cell_library


def edge(kind: str, pin: str) -> float:
    """Energy of an edge at an output, on average, in pJ."""
    return float(sum(cell_energies()[1][kind]["energy_pj"][pin].values())) / 2


def load(kind: str, pin: str) -> float:
    """Energy that charges an input pin, half of it an edge, in pJ."""
    volts, cells, _ = cell_energies()
    return float(cells[kind]["input_pf"][pin]) * volts**2 / 2


def told(values: dict[str, list[int]]) -> Callable[[Bit, int], int]:
    """By signal, its value in each instance: bit k is that of the k-th cycle."""
    return lambda bit, k: values[f"{bit.inside}.{bit.name}".lstrip(".")][k]


def signal(name: str) -> Bit:
    """Its only bit."""
    return Bit("", name, 0)


GATES = (Gate("NAND2X1", {"A": 2, "B": 3, "Y": 4}), Gate("INVX1", {"A": 4, "Y": 5}))
NAND = GateNetlist(6, GATES, (), {2: signal("a"), 3: signal("b")}, {signal("y"): 5}, {}, ("a", "b", "y"))
ONE = load("NAND2X1", "B") + edge("NAND2X1", "Y") + load("INVX1", "A") + edge("INVX1", "Y")
"""An edge of b while a is one."""


def test_a_gate_costs_its_load_and_its_own_energy() -> None:
    values = {"a": [0b111, 0b111], "b": [0b000, 0b010], "y": [0b000, 0b010]}  # b rises and falls in one instance
    found = replay(NAND, settle_of(NAND), Records(2, 3, 0b011, told(values)), "nand")
    assert found == pytest.approx([ONE, ONE, 0])


def test_edges_between_two_stretches_are_not_counted() -> None:
    values = {"a": [0b1111], "b": [0b1100], "y": [0b1100]}  # b differs between the stretches alone
    assert replay(NAND, settle_of(NAND), Records(1, 4, 0b0101, told(values)), "nand").sum() == 0


def test_a_flip_flop_takes_its_clock_in_every_cycle_and_its_data_a_cycle_later() -> None:
    flop = Gate("DFFPOSX1", {"D": 2, "CLK": 0, "Q": 3})
    netlist = GateNetlist(4, (), (flop,), {2: signal("d"), 3: signal("q")}, {}, {}, ("d",))
    _, clock, leakage_nw = edge_energies(netlist)
    assert clock == pytest.approx(2 * (edge("DFFPOSX1", "CLK") + load("DFFPOSX1", "CLK"))) and leakage_nw > 0
    values = {"d": [0b1001], "q": [0b0010]}  # q shows what d was a cycle before
    found = replay(netlist, settle_of(netlist), Records(1, 4, 0b0111, told(values)), "flop")
    d, q = load("DFFPOSX1", "D") + edge("DFFPOSX1", "D"), edge("DFFPOSX1", "Q")
    assert found == pytest.approx([d + q, q, d, 0])
    with pytest.raises(SynthesisError, match=r"flop\.q\[0\], instance 0, recorded cycle 1"):
        replay(netlist, settle_of(netlist), Records(1, 4, 0b0111, told({**values, "q": [0b0110]})), "flop")


def test_an_output_that_differs_is_named() -> None:
    values = {"a": [0b1, 0b1], "b": [0b1, 0b1], "y": [0b1, 0b0]}
    with pytest.raises(SynthesisError, match=r"nand\.\.y\[0\], instance 1, recorded cycle 0"):
        replay(NAND, settle_of(NAND), Records(2, 1, 0, told(values)), "nand")


def test_a_module_is_read_with_what_stands_inside() -> None:
    cells = {
        "g": {"type": "INVX1", "connections": {"A": [7], "Y": [8]}},
        "f": {"type": "DFFPOSX1", "connections": {"D": [8], "CLK": [2], "Q": [9]}},
        "ram": {"type": "ram_2x1", "connections": {"clk": [2], "raddr0": [9], "rdata0": [7]}, "port_directions": {"clk": "input", "raddr0": "input", "rdata0": "output"}},
    }  # fmt: skip
    ports = {"clk": {"direction": "input", "bits": [2]}, "out": {"direction": "output", "bits": [9]}}
    names = {"held": {"hide_name": 0, "bits": [9]}, "$x": {"hide_name": 1, "bits": [8]}}
    found = read_netlist({"ports": ports, "cells": cells, "netnames": names}, "module")
    assert found.boxes == {"ram": "ram_2x1"} and found.ports == ("out",)
    values = {"ram.rdata0": [0b0101], "ram.raddr0": [0b0100], "held": [0b0100], "out": [0b0100]}
    assert replay(found, settle_of(found), Records(1, 4, 0b0011, told(values)), "module").sum() > 0
    with pytest.raises(SynthesisError, match="1 flip-flops of module have no name"):
        read_netlist({"ports": ports, "cells": cells, "netnames": {}}, "module")


def test_instances_lie_side_by_side() -> None:
    rng = np.random.default_rng(0)
    held = [int(rng.integers(1 << 11)) for _ in range(5)]
    found = Records(5, 11, 0, lambda bit, k: held[k]).side_by_side(signal("a"))
    assert found == sum(value << 11 * k for k, value in enumerate(held))


def test_every_cell_that_is_mapped_to_has_energies() -> None:
    _, cells, _ = cell_energies()
    for cell in cell_library()["cells"]:
        assert cells[cell["cell"]]["leakage_nw"] > 0
        for output in cell["functions"]:
            assert cells[cell["cell"]]["energy_pj"][output]
