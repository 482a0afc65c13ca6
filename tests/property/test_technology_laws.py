"""Laws of the technology tables: positive, monotone where docs/reference/technology.md says so, consistent between sources."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.arch.architecture import Fanout, Links
from codesign.arch.dram import dram_energy_pj_per_bit, effective_bandwidth
from codesign.arch.logic import mac_area_mm2, mac_energy_pj
from codesign.arch.scaling import area_factor, energy_factor, wire_energy_factor
from codesign.arch.sram import FittedSram
from codesign.arch.technology import crossbar_area_mm2, dma_area_mm2, interconnect_area_mm2
from codesign.arch.technology_files import load_technology

FITTED = ("cmos-45nm", "cmos-22nm", "cmos-65nm", "cmos-12nm")
QUANTITIES = ("read_pj", "write_pj", "leakage_mw", "area_mm2")
names = st.sampled_from(FITTED)
capacities = st.integers(64, 32 << 20)
words = st.integers(1, 1024)
banks = st.integers(1, 32)
nodes = st.floats(7, 130)
laws = settings(max_examples=60, deadline=None, derandomize=True)


@laws
@given(names, st.sampled_from(QUANTITIES), capacities, capacities, words, words, banks)
def test_sram_figures_are_positive_and_grow_with_capacity_and_word(
    name: str, quantity: str, c1: int, c2: int, w1: int, w2: int, b: int
) -> None:
    figure = getattr(load_technology(name).sram, quantity)
    small = figure(min(c1, c2), min(w1, w2), b)
    assert 0 < small <= figure(max(c1, c2), max(w1, w2), b) * (1 + 1e-12)
    assert figure(2 * c1, w1, b) > figure(c1, w1, b)


@laws
@given(names, capacities, words, banks, banks)
def test_banks_cost_area_and_leakage(name: str, capacity: int, word: int, b1: int, b2: int) -> None:
    sram = load_technology(name).sram
    few, many = min(b1, b2), max(b1, b2)
    assert sram.area_mm2(capacity, word, few) <= sram.area_mm2(capacity, word, many) * (1 + 1e-12)
    assert sram.leakage_mw(capacity, word, few) <= sram.leakage_mw(capacity, word, many) * (1 + 1e-12)


@laws
@given(names, capacities, words, banks, banks)
def test_a_smaller_bank_takes_less_but_the_way_to_it_more(
    name: str, capacity: int, word: int, b1: int, b2: int
) -> None:
    sram = load_technology(name).sram
    assert isinstance(sram, FittedSram)
    few, many = min(b1, b2), max(b1, b2)
    bank_alone = replace(sram, read=replace(sram.read, route=0.0), write=replace(sram.write, route=0.0))
    for kind in ("read_pj", "write_pj"):
        of_bank, whole = getattr(bank_alone, kind), getattr(sram, kind)
        assert of_bank(capacity, word, many) <= of_bank(capacity, word, few) * (1 + 1e-12)
        way_many = whole(capacity, word, many) - of_bank(capacity, word, many)
        way_few = whole(capacity, word, few) - of_bank(capacity, word, few)
        assert way_many >= way_few - 1e-9 * whole(capacity, word, few)


@laws
@given(names, st.integers(128 << 10, 32 << 20), st.integers(8, 64))
def test_banks_save_read_energy_from_128_kib_for_words_up_to_64_bits(name: str, capacity: int, word: int) -> None:
    sram = load_technology(name).sram
    assert sram.read_pj(capacity, word, 8) < sram.read_pj(capacity, word, 1)


@laws
@given(names, st.integers(1, 64), st.integers(1, 64))
def test_wider_macs_cost_more(name: str, b1: int, b2: int) -> None:
    table = load_technology(name).arithmetic
    narrow, wide = min(b1, b2), max(b1, b2)
    assert 0 < mac_energy_pj(table, narrow) <= mac_energy_pj(table, wide)
    assert 0 < mac_area_mm2(table, narrow) <= mac_area_mm2(table, wide)


@laws
@given(names, st.integers(1, 4096), st.integers(1, 4096), st.sampled_from((8, 16, 32, 64)))
def test_register_files_grow_and_one_register_costs_less_than_half_a_kilobyte_of_sram(
    name: str, c1: int, c2: int, word: int
) -> None:
    technology = load_technology(name)
    registers = technology.registers
    small, large = min(c1, c2), max(c1, c2)
    assert 0 < registers.access_pj(small, word) <= registers.access_pj(large, word)
    assert 0 < registers.area_mm2(small, word) <= registers.area_mm2(large, word)
    assert 0 < registers.leakage_mw(small, word) <= registers.leakage_mw(large, word)
    assert registers.access_pj(word / 8, word) < technology.sram.read_pj(512, word, 1)


@laws
@given(nodes, nodes)
def test_smaller_nodes_take_less(n1: float, n2: float) -> None:
    small, large = min(n1, n2), max(n1, n2)
    for factor in (energy_factor, area_factor, wire_energy_factor):
        assert 0 < factor(large, small) <= 1 + 1e-12
        assert factor(small, large) * factor(large, small) == pytest.approx(1, rel=1e-9)
        assert factor(45, small) == pytest.approx(factor(45, large) * factor(large, small), rel=1e-9)


@laws
@given(st.sampled_from(load_technology("cmos-45nm").dram), st.integers(0, 8))
def test_longer_bursts_never_cost_more_per_bit(dram: object, doublings: int) -> None:
    burst = 8 << doublings
    one, two = dram_energy_pj_per_bit(dram, burst), dram_energy_pj_per_bit(dram, 2 * burst)  # type: ignore[arg-type]
    assert dram.transfer_pj_per_bit <= two <= one  # type: ignore[attr-defined]


@laws
@given(st.floats(1, 256), st.integers(1, 256), st.floats(0, 64))
def test_longer_bursts_and_wider_buses_never_slow_down(bus: float, beats: int, overhead: float) -> None:
    bandwidth = effective_bandwidth(bus, beats, overhead)
    assert 0 < bandwidth <= bus
    assert bandwidth <= effective_bandwidth(bus, beats + 1, overhead) * (1 + 1e-12)
    assert bandwidth < effective_bandwidth(2 * bus, beats, overhead)


@laws
@given(names, st.integers(2, 32), st.integers(1, 32), st.integers(8, 256), st.floats(0.01, 0.5))
def test_richer_links_take_more_area(name: str, x: int, y: int, bits: int, pitch_mm: float) -> None:
    technology = load_technology(name)
    area = {k: sum(interconnect_area_mm2(technology, Fanout(x, y, k), bits, pitch_mm)) for k in Links}
    assert 0 < area[Links.NONE] < area[Links.MULTICAST] < area[Links.PEER]
    more = sum(interconnect_area_mm2(technology, Fanout(x + 1, y, Links.SYSTOLIC), bits, pitch_mm))
    assert 0 < area[Links.SYSTOLIC] < more


@laws
@given(names, st.integers(8, 512), st.integers(1, 31), st.integers(16, 4096))
def test_crossbar_and_dma_grow(name: str, bits: int, few: int, burst: int) -> None:
    technology = load_technology(name)
    assert crossbar_area_mm2(technology, bits, few) < crossbar_area_mm2(technology, bits, few + 1)
    assert dma_area_mm2(technology, bits, burst) < dma_area_mm2(technology, bits, 2 * burst)
    assert dma_area_mm2(technology, bits, burst) < dma_area_mm2(technology, 2 * bits, burst)
