"""Arrays that compute in memory: how area, cycle and energy grow; the presets are what the rules say."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.fields import Fields
from experiments.models.in_memory import (
    InMemoryArray,
    array_area_mm2,
    array_cycle_ns,
    in_memory_technology,
    mac_energy_fj,
    tops_per_watt,
)
from experiments.validation.in_memory import array_of_chip, errors_left_out

CHIPS = json.loads((Path(__file__).parents[2] / "data/measured/imc/zigzag_imc_chips.json").read_text("utf-8"))
DIGITAL = InMemoryArray(28, 0.9, 64, 64, 4, 64, 8, 8, 1, 8, adder_bits=8, accumulator_bits=22)
ANALOGUE = InMemoryArray(28, 0.9, 256, 256, 1, 256, 32, 8, 8, 8, adc_bits=6, dac_bits=8)


@pytest.mark.parametrize("array", [DIGITAL, ANALOGUE], ids=["digital", "analogue"])
def test_banks_multiply_area_and_leave_energy_of_a_product_and_cycle(array: InMemoryArray) -> None:
    more = replace(array, banks=3 * array.banks)
    assert array_area_mm2(more) == pytest.approx(3 * array_area_mm2(array))
    assert array_cycle_ns(more) == array_cycle_ns(array)
    assert mac_energy_fj(more) == pytest.approx(mac_energy_fj(array))


def test_energy_goes_with_the_square_of_the_supply() -> None:
    assert mac_energy_fj(replace(DIGITAL, volt=0.45)) == pytest.approx(mac_energy_fj(DIGITAL) / 4)
    assert tops_per_watt(DIGITAL) == pytest.approx(2e3 / mac_energy_fj(DIGITAL))


def test_zero_weights_and_quiet_inputs_save_switching() -> None:
    assert mac_energy_fj(replace(DIGITAL, zero_weights=0.75)) == pytest.approx(mac_energy_fj(DIGITAL) / 4)
    assert mac_energy_fj(replace(DIGITAL, toggle=0.5)) == pytest.approx(mac_energy_fj(DIGITAL) / 2)


def test_bit_serial_inputs_take_a_cycle_a_bit() -> None:
    assert DIGITAL.passes == 8 and replace(DIGITAL, bits_per_cycle=3).passes == 3


def test_a_finer_converter_costs_more() -> None:
    finer = replace(ANALOGUE, adc_bits=8)
    assert array_area_mm2(finer) > array_area_mm2(ANALOGUE)
    assert array_cycle_ns(finer) > array_cycle_ns(ANALOGUE)
    assert mac_energy_fj(finer) > mac_energy_fj(ANALOGUE)


def test_a_bit_line_has_a_converter_and_a_multiplier_for_every_input() -> None:
    deeper, wider = replace(ANALOGUE, rows=2 * ANALOGUE.rows), replace(ANALOGUE, columns=2 * ANALOGUE.columns)
    assert deeper.converters == ANALOGUE.converters and wider.converters == 2 * ANALOGUE.converters
    table = in_memory_technology()
    without_cells = replace(table, cell_um2=1e-12, cell_ff=1e-12)
    assert array_area_mm2(deeper, without_cells) == pytest.approx(array_area_mm2(ANALOGUE, without_cells))
    quiet, active = mac_energy_fj(replace(ANALOGUE, toggle=0.0)), mac_energy_fj(ANALOGUE)
    gates = ANALOGUE.inputs * ANALOGUE.columns * ANALOGUE.banks
    scale = ANALOGUE.node_nm / table.node_nm
    expected = gates * table.gate_ff / 2 * scale * ANALOGUE.volt**2 * ANALOGUE.passes / ANALOGUE.macs
    assert active - quiet == pytest.approx(expected)


def test_a_tree_as_wide_as_whole_products_has_an_accumulator_for_every_input() -> None:
    table = replace(in_memory_technology(), gate_um2=1.0, cell_um2=0.0)
    narrow, whole = replace(DIGITAL, adder_bits=15), replace(DIGITAL, adder_bits=16)
    products = DIGITAL.inputs * DIGITAL.outputs * DIGITAL.banks
    wider_trees = DIGITAL.outputs * DIGITAL.banks * (DIGITAL.inputs - 1) * 7.8
    grown = 1e6 * (array_area_mm2(whole, table) - array_area_mm2(narrow, table))
    assert grown == pytest.approx(wider_trees + products * 16 * (7.8 + 6))
    at_once = replace(whole, bits_per_cycle=8)
    assert whole.adds_whole_products and not narrow.adds_whole_products and not at_once.adds_whole_products


def test_bits_that_enter_together_take_rows_of_adders_and_their_time() -> None:
    table = in_memory_technology()
    two, booth = replace(DIGITAL, bits_per_cycle=2), replace(DIGITAL, bits_per_cycle=2, booth=True)
    products = DIGITAL.inputs * DIGITAL.outputs * DIGITAL.banks
    grown = 1e6 * (array_area_mm2(two) - array_area_mm2(DIGITAL)) / table.gate_um2
    assert grown == pytest.approx(products * 8 * (1 + 7.8))
    assert array_cycle_ns(two) == pytest.approx(array_cycle_ns(DIGITAL) + 4.8 * table.gate_ns)
    assert array_cycle_ns(booth) == array_cycle_ns(DIGITAL)


def test_a_constant_is_fitted_on_the_other_chips() -> None:
    errors = errors_left_out([(0.5, 0.0), (1.0, 0.0), (0.8, 0.2)])
    assert errors[0] == pytest.approx(0.5 * (1.0 + 0.8 * 0.8) / (1.0 + 0.64) - 1)
    assert errors[2] == pytest.approx(0.8 * (0.5 + 1.0) / (0.25 + 1.0) + 0.2 - 1)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda c: c["chip"])
def test_a_preset_is_what_the_rules_say_of_its_chip(chip: dict[str, object]) -> None:
    array, preset = array_of_chip(Fields(chip, "chips")), load_preset(f"imc-{str(chip['chip']).lower()}")
    assert preset.mac_units == array.macs
    assert preset.mac.energy_pj == pytest.approx(1e-3 * mac_energy_fj(array), rel=1e-4)
    assert preset.mac.area_mm2 == pytest.approx(array_area_mm2(array) / array.macs, rel=1e-4)
    assert preset.clock_hz == pytest.approx(1e9 / (array_cycle_ns(array) * array.passes), rel=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 0}, "`rows` must be > 0"),
        ({"toggle": 1.5}, "`toggle` must be between 0 and 1"),
        ({"adder_bits": None}, "give `adder_bits` of a digital array"),
        ({"bits_per_cycle": 16}, "`bits_per_cycle` 16 exceeds `input_bits` 8"),
    ],
)
def test_parameters_that_make_no_array_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(DIGITAL, **change)  # type: ignore[arg-type]
