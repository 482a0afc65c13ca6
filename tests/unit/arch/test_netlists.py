"""Areas fitted to synthesised netlists: the constants in use are those of the table, and designs are priced with them."""

import json
from pathlib import Path

import pytest

from codesign.arch.netlists import array_level, logic_shape
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError
from experiments.netlist_areas import fitted, read
from spaces.scratchpad import SCRATCHPAD, SCRATCHPAD_NETLIST

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "docs" / "results" / "netlists.csv"
CONSTANTS = ROOT / "codesign" / "arch" / "technologies" / "netlists.json"


def test_the_constants_in_use_are_fitted_to_the_table() -> None:
    constants, result = fitted(read(TABLE))
    document = json.loads(CONSTANTS.read_text("utf-8"))
    for part, wanted in constants.items():
        assert document["nand2"][part] == pytest.approx(wanted, rel=1e-6)
    assert result["worst_error"] <= 0.10
    assert result["rank_correlation"] >= 0.98


def test_a_netlist_fitted_design_differs_in_area_and_leakage_alone() -> None:
    point = SCRATCHPAD.space.presets[0]
    plain, fitted_design = SCRATCHPAD.build(point), SCRATCHPAD_NETLIST.build(point)
    assert fitted_design.area_mm2 != plain.area_mm2
    assert fitted_design.mac.energy_pj == plain.mac.energy_pj
    assert fitted_design.levels[1].energy == plain.levels[1].energy


def test_the_logic_s_area_is_that_of_the_machine() -> None:
    point = SCRATCHPAD.space.presets[0]
    built = SCRATCHPAD_NETLIST.build(point)
    table = load_technology("netlist-fitted-22nm")
    i = array_level(built)
    assert i is not None and table.netlists is not None
    shape = logic_shape(built, i, int(point["bus_bits"]))
    wanted = 1e-6 * table.registers.gate_area_um2 * table.netlists.machine_nand2(shape)
    crossbar = 1e-6 * table.registers.gate_area_um2 * table.netlists.part_nand2("crossbar", shape)
    assert built.mac.area_mm2 is not None
    wires = _wires(built, table)
    macs = shape.elements * built.mac.area_mm2
    assert built.extra_area_mm2 - wires + macs + crossbar == pytest.approx(wanted)


def _wires(built, table):  # type: ignore[no-untyped-def]
    """The footprint of the network's wires, which netlists do not have."""
    from codesign.arch.technology import interconnect_area_mm2, link_bits

    inner = built.mac.area_mm2
    pitch = (built.levels[2].area_mm2 + inner) ** 0.5
    return interconnect_area_mm2(table, built.levels[1].fanout, link_bits(built, 1), pitch)[1]


def test_another_node_scales_the_netlists() -> None:
    small, large = load_technology("netlist-fitted-7nm"), load_technology("netlist-fitted-45nm")
    assert small.registers.gate_area_um2 < large.registers.gate_area_um2
    assert small.netlists == large.netlists


def test_an_unknown_table_names_the_fitted_one() -> None:
    with pytest.raises(UserError, match="netlist-fited-22nm"):
        load_technology("netlist-fited-22nm")
