"""Energy from switching: hand-made netlists whose edges can be counted."""

import pytest

from codesign.hardware.activity import Gate, GateNetlist, cell_energies, switching_energy
from codesign.hardware.synthesis import SynthesisError, cell_library


def edge(kind: str, pin: str) -> float:
    """Energy of an edge at an output, on average, in pJ."""
    return sum(cell_energies()[1][kind]["energy_pj"][pin].values()) / 2


def load(kind: str, pin: str) -> float:
    """Energy that charges an input pin, half of it an edge, in pJ."""
    volts, cells = cell_energies()
    return float(cells[kind]["input_pf"][pin]) * volts**2 / 2


def test_a_gate_costs_its_load_and_its_own_energy() -> None:
    gates = (Gate("NAND2X1", {"A": 2, "B": 3, "Y": 4}), Gate("INVX1", {"A": 4, "Y": 5}))
    netlist = GateNetlist(6, gates, (), {"a": (2,), "b": (3,)}, {"y": (5,)})
    inputs = [{"a": [1, 1], "b": [0, 0]}, {"a": [1, 1], "b": [1, 0]}, {"a": [1, 1], "b": [0, 0]}]
    expected = [{"y": [0, 0]}, {"y": [1, 0]}, {"y": [0, 0]}]
    found = switching_energy(netlist, inputs, 2, expected=expected, start=1)
    one = load("NAND2X1", "B") + edge("NAND2X1", "Y") + load("INVX1", "A") + edge("INVX1", "Y")
    assert found.changes == 2 * 3  # b, the nand and the inverter, of one instance alone
    assert found.nets == pytest.approx(2 * one)
    assert found.clock == 0 and found.leakage_nw > 0


def test_a_flip_flop_takes_its_clock_in_every_cycle_and_its_data_a_cycle_later() -> None:
    netlist = GateNetlist(4, (), (Gate("DFFPOSX1", {"D": 2, "CLK": 0, "Q": 3}),), {"d": (2,)}, {"q": (3,)})
    inputs = [{"d": [v]} for v in (1, 0, 0, 1)]
    found = switching_energy(netlist, inputs, 1, expected=[{"q": [v]} for v in (0, 1, 0, 0)])
    assert found.cycles == 4 and found.clock == pytest.approx(8 * (edge("DFFPOSX1", "CLK") + load("DFFPOSX1", "CLK")))
    assert found.changes == 3 + 2


def test_an_output_that_differs_is_named() -> None:
    netlist = GateNetlist(4, (Gate("INVX1", {"A": 2, "Y": 3}),), (), {"a": (2,)}, {"y": (3,)})
    with pytest.raises(SynthesisError, match="y in cycle 0, instance 1"):
        switching_energy(netlist, [{"a": [0, 0]}], 2, expected=[{"y": [1, 0]}])


def test_every_cell_that_is_mapped_to_has_energies() -> None:
    _, cells = cell_energies()
    for cell in cell_library()["cells"]:
        assert cells[cell["cell"]]["leakage_nw"] > 0
        for output in cell["functions"]:
            assert cells[cell["cell"]]["energy_pj"][output]
