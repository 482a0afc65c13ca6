"""MACs for operands of given widths (rules A4-A7)."""

import math

import pytest

from codesign.arch.architecture import Arithmetic
from codesign.arch.logic import mac_area_mm2, mac_energy_pj
from codesign.arch.operand_macs import Operand, OperandPair, mac_for
from codesign.arch.technology import Technology, element_ratio
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError

TECHNOLOGY = load_technology("cmos-45nm")
REGISTERS = TECHNOLOGY.registers


def mac(*pairs: tuple[Operand, Operand]) -> Arithmetic:
    return mac_for(TECHNOLOGY, Arithmetic(name="unit"), [OperandPair.of(*p) for p in pairs])


def i(bits: int) -> Operand:
    return Operand(bits)


def f(bits: int) -> Operand:
    return Operand(bits, floating=True)


@pytest.mark.parametrize("bits", [4, 8, 16, 32])
def test_equal_integers_cost_what_the_table_says(bits: int) -> None:
    made = mac((i(bits), i(bits)))
    assert made.energy_pj == pytest.approx(mac_energy_pj(TECHNOLOGY.arithmetic, bits), rel=1e-12)
    assert made.area_mm2 == pytest.approx(mac_area_mm2(TECHNOLOGY.arithmetic, bits), rel=1e-12)
    assert (made.bits, made.name) == (bits, "unit")


def test_unequal_integers_cost_as_their_cells() -> None:
    # 16 x 4 cells are 8 x 8: 0.2 pJ; the sum has 28 bits
    adder = 0.05 * 28 / 16
    assert mac((i(16), i(4))).energy_pj == pytest.approx(0.2 + adder, rel=1e-12)


def test_floats_cost_what_the_table_says() -> None:
    assert mac((f(16), f(16))).energy_pj == pytest.approx(1.1 + 0.9, rel=1e-12)  # added up in 32 bits
    assert mac((f(32), f(32))).energy_pj == pytest.approx(3.7 + 0.9, rel=1e-12)
    assert mac((f(16), f(16))).area_mm2 == pytest.approx((1640 + 4184) * 1e-6, rel=1e-12)
    # 8 bits lie on the law through 16 and 32
    assert mac((f(8), f(8))).energy_pj == pytest.approx(1.1 * 1.1 / 3.7 + 0.4, rel=1e-12)


def test_published_ratios_are_met() -> None:
    """FP8 costs 1.5 to 2.8 times an INT8 MAC (van Baalen et al., 2023); INT8 costs 2.4 times INT4 at system level (Keller et al., 2023)."""
    eight = mac((i(8), i(8))).energy_pj
    four = mac((i(4), i(4))).energy_pj
    small = mac((f(8), f(8))).energy_pj
    assert eight is not None and four is not None and small is not None
    assert 1.5 < small / eight < 2.8
    assert 2.0 < eight / four < 3.0


def test_a_mac_for_two_pairs_is_as_wide_as_either() -> None:
    made = mac((i(16), i(8)), (i(16), i(4)))
    widest, narrow = made.energy_of([16, 8]), made.energy_of([4, 16])
    assert widest == mac((i(16), i(8))).energy_pj == made.energy_pj
    # the upper bits of the multiplier rest, the adder has 32 bits, and 4 bits are picked out of 8
    picked = 4 * 1 * REGISTERS.multiplexer_share * REGISTERS.energy_pj_per_bit
    assert narrow == pytest.approx(0.2 + 0.1 + picked, rel=1e-12)
    assert made.area_mm2 is not None
    alone = mac((i(16), i(8))).area_mm2
    assert alone is not None
    assert made.area_mm2 == pytest.approx(
        alone + 1e-6 * 4 * REGISTERS.multiplexer_share * REGISTERS.area_um2_per_bit, rel=1e-12
    )


def test_an_integer_beside_a_float_is_made_one() -> None:
    made = mac((f(16), i(4)))
    picked = 4 * math.log2(16 / 4) * REGISTERS.multiplexer_share * REGISTERS.energy_pj_per_bit
    assert made.energy_pj == pytest.approx(2.0 + picked + 0.05, rel=1e-12)


def test_integers_and_floats_have_a_unit_each() -> None:
    both, one, other = mac((i(8), i(8)), (f(16), f(16))), mac((i(8), i(8))), mac((f(16), f(16)))
    assert both.area_mm2 == pytest.approx((one.area_mm2 or 0) + (other.area_mm2 or 0), rel=1e-12)
    assert both.energy_of([8, 8]) == one.energy_pj
    assert both.energy_of([16, 16]) == other.energy_pj


def test_a_table_without_floats_is_named() -> None:
    with pytest.raises(UserError, match=r"no `float_add` and `float_multiply`.*technology 'maestro-28nm'"):
        mac_for(load_technology("maestro-28nm"), Arithmetic(), [OperandPair.of(f(8), f(8))])


def test_netlists_scale_integers_and_leave_floats() -> None:
    fitted, plain = load_technology("netlist-fitted-22nm"), load_technology("cmos-22nm")
    ratio = element_ratio(fitted)
    assert ratio != 1.0 and element_ratio(plain) == 1.0

    def area(table: Technology, *operands: Operand) -> float:
        made = mac_for(table, Arithmetic(name="unit"), [OperandPair.of(*operands)])
        assert made.area_mm2 is not None
        assert made.leakage_mw == pytest.approx(made.area_mm2 * table.arithmetic.leakage_nw_per_um2)
        return made.area_mm2

    assert area(fitted, i(8), i(8)) == pytest.approx(ratio * area(plain, i(8), i(8)))
    assert area(fitted, f(16), f(16)) == area(plain, f(16), f(16))
