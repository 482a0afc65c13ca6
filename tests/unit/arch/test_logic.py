import math

import pytest

from codesign.arch.logic import (
    ArithmeticPoint,
    ArithmeticTable,
    Registers,
    accumulator_bits,
    mac_area_mm2,
    mac_energy_pj,
    power_law,
)
from codesign.arch.scaling import area_factor, energy_factor, wire_energy_factor
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError

TABLE = load_technology("cmos-45nm").arithmetic


def test_multiplier_and_adder_go_through_the_table() -> None:
    multiply = tuple((p.bits, p.energy_pj) for p in TABLE.multiply)
    add = tuple((p.bits, p.energy_pj) for p in TABLE.add)
    for points in (multiply, add):
        for bits, energy in points:
            assert power_law(points, bits, 1.0) == pytest.approx(energy, rel=1e-12)
    # halfway in the logarithm: 16 bits lie between 8 and 32
    assert power_law(multiply, 16, 2.0) == pytest.approx(math.sqrt(0.2 * 3.1), rel=1e-12)


def test_power_law_of_one_point_and_of_zeros() -> None:
    assert power_law(((8, 2.0),), 16, 2.0) == 8.0
    assert power_law(((8, 0.0), (16, 4.0)), 12, 2.0) == 2.0


def test_mac_by_hand() -> None:
    # 8 bits: multiplier 0.2 pJ, and an adder of 24 bits between 16 (0.05) and 32 (0.1): log2 is a straight line
    assert accumulator_bits(8) == 24
    assert mac_energy_pj(TABLE, 8) == pytest.approx(0.2 + 0.05 * 24 / 16, rel=1e-12)
    adder_um2 = 67 * (24 / 16) ** (math.log(137 / 67) / math.log(2))
    assert mac_area_mm2(TABLE, 8) == pytest.approx((282 + adder_um2) * 1e-6, rel=1e-12)


def test_an_arithmetic_table_must_list_widths_in_order() -> None:
    one, two = ArithmeticPoint(8, 1, 1), ArithmeticPoint(16, 2, 2)
    with pytest.raises(UserError, match=r"`add` must list one or more widths, narrowest first, got \[16, 8\]"):
        ArithmeticTable(45, "made up", (two, one), (one,), 0)
    with pytest.raises(UserError, match=r"`multiply` must list one or more widths"):
        ArithmeticTable(45, "made up", (one,), (), 0)
    with pytest.raises(UserError, match=r"`energy_pj` must be >= 0, got -1"):
        ArithmeticPoint(8, -1, 1)


def test_registers_by_hand() -> None:
    registers = Registers(45, "made up", 0.01, 5.0, 2.0, 0.4, 1.0)
    # 4 words of 16 bits: two multiplexers deep, three multiplexed words
    assert registers.access_pj(8, 16) == pytest.approx(16 * 0.01 * (1 + 0.4 * 2))
    assert registers.area_mm2(8, 16) == pytest.approx(5e-6 * (64 + 0.4 * 48))
    assert registers.leakage_mw(8, 16) == pytest.approx(registers.area_mm2(8, 16) * 1e6 * 2e-9 * 1e3)
    # one word has nothing to choose from
    assert registers.access_pj(2, 16) == pytest.approx(0.16)
    assert registers.area_mm2(2, 16) == pytest.approx(80e-6)


def test_scaling_between_nodes_of_the_table() -> None:
    assert energy_factor(45, 45) == 1.0
    # 0.373 V^2 - 0.1582 V + 0.04104 at 0.8 V over 1.103 V^2 - 0.362 V + 0.2767 at 0.9 V
    expected = (0.373 * 0.64 - 0.1582 * 0.8 + 0.04104) / (1.103 * 0.81 - 0.362 * 0.9 + 0.2767)
    assert energy_factor(45, 20) == pytest.approx(expected, rel=1e-12)
    assert area_factor(45, 7) == 0.059
    # 256 bits over 10 mm: 310 pJ at 40 nm, 200 pJ at 10 nm
    assert wire_energy_factor(40, 10) == pytest.approx(200 / 310, rel=1e-12)
    with pytest.raises(UserError, match="`node_nm` must be between 7 and 130, got 5"):
        energy_factor(45, 5)
