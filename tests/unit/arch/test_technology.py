from dataclasses import replace

import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, Links, StorageLevel
from codesign.arch.dram import dram_energy_pj_per_bit
from codesign.arch.logic import mac_area_mm2, mac_energy_pj
from codesign.arch.technology import (
    DMA_CONTROL_GATES,
    Technology,
    apply_technology,
    crossbar_area_mm2,
    dma_area_mm2,
    dma_energy_pj_per_bit,
    dma_leakage_mw,
    hop_energy_pj_per_bit,
    interconnect_area_mm2,
    link_bits,
)
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError

CMOS = load_technology("cmos-45nm")


def machine() -> Architecture:
    return Architecture(
        "machine",
        (
            StorageLevel("DRAM", LevelKind.DRAM, word_bits=64),
            StorageLevel("Buffer", LevelKind.SRAM, 131072, word_bits=64, banks=4, fanout=Fanout(4, 2)),
            StorageLevel("Spad", LevelKind.REGISTERS, 8, word_bits=16),
        ),
        Arithmetic(bits=16),
    )


def test_every_open_figure_is_filled_from_the_table() -> None:
    filled = apply_technology(machine(), CMOS)
    dram, buffer, spad = filled.levels
    line = dram_energy_pj_per_bit(CMOS.dram_type("lpddr4"), 64)
    assert dram.energy == AccessEnergy(64 * line, 64 * line, 64 * line)
    assert (dram.area_mm2, dram.leakage_mw) == (0.0, 0.0)
    read, write = CMOS.sram.read_pj(131072, 64, 4), CMOS.sram.write_pj(131072, 64, 4)
    assert buffer.energy == AccessEnergy(read, write, write)
    assert buffer.area_mm2 == pytest.approx(CMOS.sram.area_mm2(131072, 64, 4) + crossbar_area_mm2(CMOS, 64, 4))
    assert buffer.leakage_mw == CMOS.sram.leakage_mw(131072, 64, 4)
    access = CMOS.registers.access_pj(8, 16)
    assert spad.energy == AccessEnergy(access, access, access)
    assert spad.area_mm2 == CMOS.registers.area_mm2(8, 16)
    assert filled.mac.energy_pj == mac_energy_pj(CMOS.arithmetic, 16)
    assert filled.mac.area_mm2 == mac_area_mm2(CMOS.arithmetic, 16)
    assert filled.technology == "cmos-45nm"


def test_figures_that_are_given_stay() -> None:
    given = AccessEnergy(1, 2, 3)
    start = replace(machine(), mac=Arithmetic(bits=16, energy_pj=7.0)).with_level("Buffer", energy=given, area_mm2=9.0)
    filled = apply_technology(start, CMOS)
    assert filled.level("Buffer").energy == given
    assert filled.level("Buffer").area_mm2 == 9.0
    assert filled.level("Buffer").leakage_mw == CMOS.sram.leakage_mw(131072, 64, 4)
    assert filled.mac.energy_pj == 7.0


def test_applying_twice_changes_nothing() -> None:
    once = apply_technology(machine(), CMOS)
    assert apply_technology(once, CMOS) == once


def test_interconnect_by_hand() -> None:
    filled = apply_technology(machine(), CMOS)
    mac_mm2, spad_mm2 = filled.mac.area_mm2, filled.level("Spad").area_mm2
    assert mac_mm2 is not None and spad_mm2 is not None
    pitch_mm = (mac_mm2 + spad_mm2) ** 0.5
    fanout = filled.level("Buffer").fanout
    assert fanout.hop_pj_per_bit == pytest.approx(CMOS.wires.energy_pj_per_bit_mm * pitch_mm)
    # three networks into a spad of 16-bit words
    assert link_bits(filled, 1) == 48
    # 8 children, 3 tag bits; rows of 4 wires on 2 rows and a trunk of 2
    registers = 8 * (48 + 2 * 3) * CMOS.registers.area_um2_per_bit * 1e-6
    wires = (8 + 2) * pitch_mm * 48 * CMOS.wires.pitch_um * 1e-3
    assert filled.extra_area_mm2 == pytest.approx(registers + wires)
    assert filled.extra_leakage_mw == pytest.approx(registers * CMOS.registers.leakage_nw_per_um2)
    parts = sum(v.area_mm2 or 0.0 for v in filled.levels[:2]) + 8 * (spad_mm2 + mac_mm2) + registers + wires
    assert filled.area_mm2 == pytest.approx(parts)


def test_interconnect_can_be_left_out_and_a_given_hop_energy_stays() -> None:
    without = apply_technology(machine(), CMOS, interconnect=False)
    assert without.extra_area_mm2 == 0.0
    assert without.level("Buffer").fanout.hop_pj_per_bit == 0.0
    given = machine().with_level("Buffer", fanout=Fanout(4, 2, hop_pj_per_bit=0.5))
    assert apply_technology(given, CMOS).level("Buffer").fanout.hop_pj_per_bit == 0.5


@pytest.mark.parametrize(
    ("links", "register_bits", "wire_pitches"),
    [
        (Links.NONE, 8 * 40, 8 + 2),
        (Links.SYSTOLIC, 8 * 2 * 40, 8),
        (Links.MULTICAST, 8 * (40 + 2 * 3), 8 + 2),
        (Links.PEER, 8 * (2 * 40 + 2 * 3), 8 + 2 + 8),
    ],
)
def test_area_of_links_by_hand(links: Links, register_bits: int, wire_pitches: int) -> None:
    registers, wires = interconnect_area_mm2(CMOS, Fanout(4, 2, links), 40, 0.05)
    assert registers == pytest.approx(register_bits * CMOS.registers.area_um2_per_bit * 1e-6)
    assert wires == pytest.approx(wire_pitches * 0.05 * 40 * 0.28e-3)
    assert interconnect_area_mm2(CMOS, Fanout(1, 1, links), 40, 0.05) == (0.0, 0.0)


def test_a_systolic_hop_is_latched() -> None:
    wire = hop_energy_pj_per_bit(CMOS, Links.MULTICAST, 0.05)
    assert wire == pytest.approx(CMOS.wires.energy_pj_per_bit_mm * 0.05)
    latched = hop_energy_pj_per_bit(CMOS, Links.SYSTOLIC, 0.05)
    assert latched == pytest.approx(wire + CMOS.registers.energy_pj_per_bit)


def test_links_are_as_wide_as_the_ports_they_go_to() -> None:
    levels = (
        StorageLevel("DRAM", LevelKind.DRAM, word_bits=64),
        StorageLevel("Buffer", LevelKind.SRAM, 65536, word_bits=128, keep=frozenset({"input", "weight"})),
        StorageLevel("Sums", LevelKind.SRAM, 4096, word_bits=512, keep=frozenset({"output"}), fanout=Fanout(4, 4)),
        StorageLevel("Spad", LevelKind.REGISTERS, 2, word_bits=8, keep=frozenset({"weight"})),
    )
    architecture = Architecture("machine", levels, Arithmetic(bits=8))
    # below Sums: inputs go to the MAC (8), weights to the spad (8), outputs to the MAC's accumulator (24)
    assert link_bits(architecture, 2) == 8 + 8 + 24
    # below DRAM: the buffer takes inputs and weights, the sums outputs
    assert link_bits(architecture, 0) == 128 + 128 + 512
    # a level that keeps a tensor by its own name may keep any role
    named = architecture.with_level("Spad", keep=frozenset({"Weights"}))
    assert link_bits(named, 2) == 3 * 8


def test_dma_by_hand() -> None:
    registers = CMOS.registers
    bits = 2 * 8 * 128 + 2 * 64
    expected_um2 = bits * registers.area_um2_per_bit + DMA_CONTROL_GATES * registers.gate_area_um2
    assert dma_area_mm2(CMOS, bus_bits=64, burst_bytes=128) == pytest.approx(expected_um2 * 1e-6)
    assert dma_leakage_mw(CMOS, 64, 128) == pytest.approx(expected_um2 * registers.leakage_nw_per_um2 * 1e-6)
    assert dma_energy_pj_per_bit(CMOS) == 2 * registers.energy_pj_per_bit


def test_crossbar_by_hand() -> None:
    assert crossbar_area_mm2(CMOS, 64, 1) == 0.0
    assert crossbar_area_mm2(CMOS, 64, 8) == pytest.approx((8 * 64 * 0.28e-3) ** 2)


def test_longer_bursts_cost_less_per_word() -> None:
    def dram_pj(burst_bytes: int) -> float:
        energy = apply_technology(machine(), CMOS, dram="ddr3", dram_burst_bytes=burst_bytes).level("DRAM").energy
        assert energy is not None
        return energy.read_pj

    assert dram_pj(64) == pytest.approx(70 * 64)
    assert dram_pj(256) < dram_pj(128) < dram_pj(64)


def test_an_on_chip_level_without_capacity_is_refused() -> None:
    with pytest.raises(UserError, match="an on-chip level needs `capacity_bytes`") as error:
        apply_technology(machine().with_level("Buffer", capacity_bytes=None), CMOS)
    assert error.value.where == "architecture 'machine': level 'Buffer'"


def test_an_unknown_dram_type_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown DRAM type 'lpdr4'.*did you mean 'lpddr4'"):
        apply_technology(machine(), CMOS, dram="lpdr4")


def test_a_technology_needs_its_default_dram_type() -> None:
    with pytest.raises(UserError, match="unknown DRAM type 'flash'"):
        Technology("x", 45, CMOS.sram, CMOS.arithmetic, CMOS.registers, CMOS.wires, CMOS.dram, default_dram="flash")
