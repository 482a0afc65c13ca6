"""Areas fitted to synthesised netlists: the constants in use are those of the table, and designs are priced with them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.arch.architecture import Architecture, Arithmetic, Fanout, LevelKind, StorageLevel
from codesign.arch.netlists import SIZES, LogicShape, NetlistAreas, array_level, logic_shape
from codesign.arch.technology import apply_technology
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


def _machine_nand2(netlists: NetlistAreas, shape: LogicShape) -> float:
    """Area of all logic of a machine."""
    return math.fsum(netlists.part_nand2(part, shape) * (shape.elements if part == "element" else 1) for part in SIZES)


def test_the_logic_s_area_is_that_of_the_machine() -> None:
    point = SCRATCHPAD.space.presets[0]
    built = SCRATCHPAD_NETLIST.build(point)
    table = load_technology("netlist-fitted-22nm")
    i = array_level(built)
    assert i is not None and table.netlists is not None
    shape = logic_shape(built, i, int(point["bus_bits"]))
    wanted = 1e-6 * table.registers.gate_area_um2 * _machine_nand2(table.netlists, shape)
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


def _buffer(instances: int, **given: float) -> StorageLevel:
    levels = (
        StorageLevel("DRAM", LevelKind.DRAM, word_bits=64, fanout=Fanout(instances)),
        StorageLevel("Buffer", LevelKind.SRAM, 65536, word_bits=64, banks=8, fanout=Fanout(4, 4), **given),  # type: ignore[arg-type]
        StorageLevel("Regs", LevelKind.REGISTERS, 64, word_bits=16),
    )
    table = load_technology("netlist-fitted-22nm")
    return apply_technology(Architecture("a", levels, Arithmetic(bits=8)), table).level("Buffer")


def test_area_and_leakage_of_a_crossbar_are_of_one_instance() -> None:
    table = load_technology("netlist-fitted-22nm")
    one, four = _buffer(1), _buffer(4)
    assert (one.area_mm2, one.leakage_mw) == (four.area_mm2, four.leakage_mw)
    assert one.area_mm2 is not None and one.leakage_mw is not None
    crossbar_mm2 = one.area_mm2 - table.sram.area_mm2(65536, 64, 8)
    gates_mw = one.leakage_mw - table.sram.leakage_mw(65536, 64, 8)
    assert gates_mw == pytest.approx(crossbar_mm2 * table.registers.leakage_nw_per_um2) and gates_mw > 0


def test_given_figures_of_a_buffer_stay() -> None:
    assert _buffer(1, leakage_mw=0.5).leakage_mw == 0.5 and _buffer(1, leakage_mw=0.5).area_mm2 == _buffer(1).area_mm2
    assert _buffer(1, area_mm2=2.0).area_mm2 == 2.0 and _buffer(1, area_mm2=2.0).leakage_mw == _buffer(1).leakage_mw


def test_another_node_scales_the_netlists() -> None:
    small, large = load_technology("netlist-fitted-7nm"), load_technology("netlist-fitted-45nm")
    assert small.registers.gate_area_um2 < large.registers.gate_area_um2
    assert small.netlists == large.netlists


def test_a_missing_constant_is_named() -> None:
    table = load_technology("netlist-fitted-22nm").netlists
    assert table is not None
    built = SCRATCHPAD_NETLIST.build(SCRATCHPAD.space.presets[0])
    shape = logic_shape(built, 1, 128)
    short = replace(table, nand2={**table.nand2, "crossbar": {"scratchpad": 1.0}})
    with pytest.raises(UserError, match="part 'crossbar': the constant 'turned bit' is missing"):
        _machine_nand2(short, shape)


def test_an_unknown_table_names_the_fitted_one() -> None:
    with pytest.raises(UserError, match="netlist-fited-22nm"):
        load_technology("netlist-fited-22nm")
