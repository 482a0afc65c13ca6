"""DRAM energy from commands: closed forms, states, locality, refusals."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.arch.dram import dram_energy_pj_per_bit
from codesign.arch.dram_power.command_energy import event_energies, standby_currents
from codesign.arch.dram_power.known_devices import power_device, power_devices, read_power_devices
from codesign.arch.dram_power.locality import Locality, bit_energy, dram_type_named, dram_type_of
from codesign.arch.dram_power.power_device import PowerDevice, Standard
from codesign.arch.presets import load_preset
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError
from experiments.models.dram_command_trace import Kind, TimedCommand, parse_kind, replay
from experiments.models.dram_specification import device_from_specification
from experiments.models.dram_states import state_energies
from experiments.models.dram_trace_energy import trace_energy

DDR4 = power_device("ddr4-2400-x8")
SPECIFICATIONS = Path(__file__).parents[2] / "data" / "measured" / "drampower" / "base_specs.json"


def commands(*parts: tuple[int, Kind, int]) -> list[TimedCommand]:
    return [TimedCommand(cycle, kind, bank) for cycle, kind, bank in parts]


@pytest.mark.parametrize("device", power_devices().values(), ids=lambda d: d.name)
def test_opening_and_closing_one_bank_draws_the_operating_current(device: PowerDevice) -> None:
    """ACT to PRE to ACT with one bank is the loop that IDD0 is measured in."""
    energies, times = event_energies(device), device.times
    loop = energies.activate + energies.precharge
    loop += (
        times.ras * (energies.open_bank + energies.open_shared)
        + times.rp * state_energies(device).closed_bank * device.banks
    )
    assert loop == pytest.approx(sum(s.volt * s.i0 * (times.ras + times.rp) * times.clock_s for s in device.supplies))


@pytest.mark.parametrize("device", power_devices().values(), ids=lambda d: d.name)
def test_standby_grows_by_one_step_for_each_open_bank(device: PowerDevice) -> None:
    for supply in device.supplies:
        standby = standby_currents(device, supply)
        assert standby.two - standby.one == pytest.approx(standby.one - standby.shared)
        assert standby.all_banks == pytest.approx(standby.shared + device.banks * (standby.one - standby.shared))


def test_refreshes_without_a_gap_draw_the_refresh_current() -> None:
    trace = commands((0, Kind.REFA, 0), (DDR4.times.rfc, Kind.END, 0))
    energy = trace_energy(replace(DDR4, devices=1), replay(DDR4, trace))
    expected = sum(s.volt * s.i5 * DDR4.times.rfc * DDR4.times.clock_s for s in DDR4.supplies)
    assert energy.total == pytest.approx(expected)


def test_cycles_of_all_states_add_up_to_the_trace() -> None:
    device = power_device("lpddr5-7500-x16")
    trace = commands(
        (0, Kind.ACT, 0),
        (60, Kind.PDEA, 0),
        (90, Kind.PDXA, 0),
        (100, Kind.RDA, 0),
        (200, Kind.PDEP, 0),
        (230, Kind.PDXP, 0),
        (300, Kind.SREFEN, 0),
        (700, Kind.DSMEN, 0),
        (800, Kind.DSMEX, 0),
        (900, Kind.SREFEX, 0),
        (1000, Kind.END, 0),
    )
    found = replay(device, trace)
    for part in (*found.ranks, *found.banks):
        states = (part.active, part.closed, part.power_down_active, part.power_down_closed, part.self_refresh)
        assert sum(states) + part.deep_sleep == 1000
    assert found.ranks[0].power_down_active == 30
    assert found.ranks[0].deep_sleep == 100
    assert found.ranks[0].self_refresh == 900 - 300 - device.times.rfc - 100


def test_closing_a_closed_bank_counts_nothing() -> None:
    found = replay(DDR4, commands((0, Kind.PRE, 3), (5, Kind.PREA, 0), (9, Kind.END, 0)))
    assert sum(bank.counts["pre"] for bank in found.banks) == 0


def test_power_down_waits_for_the_activation() -> None:
    found = replay(DDR4, commands((0, Kind.ACT, 0), (2, Kind.PDEA, 0), (50, Kind.END, 0)))
    assert found.ranks[0].power_down_active == 50 - DDR4.times.rcd_read


def test_devices_multiply_the_energy() -> None:
    trace = commands((0, Kind.ACT, 0), (20, Kind.RD, 0), (60, Kind.PRE, 0), (80, Kind.END, 0))
    one, eight = replace(DDR4, devices=1), DDR4
    statistics = replay(DDR4, trace)
    assert trace_energy(eight, statistics).total == pytest.approx(8 * trace_energy(one, statistics).total)


def test_a_bit_costs_less_the_more_rows_are_hit() -> None:
    totals = [bit_energy(DDR4, Locality(row_hits=h)).total for h in (0.0, 0.5, 1.0)]
    assert totals[0] > totals[1] > totals[2]
    assert totals[1] == pytest.approx((totals[0] + totals[2]) / 2)


@pytest.mark.parametrize("hits", [0.0, 0.75, 1.0])
def test_the_dram_type_charges_a_burst_as_the_device_does(hits: float) -> None:
    """For a device whose own burst is a line of 64 bytes, rule D2 and rule P13 agree."""
    found = dram_type_of(DDR4, Locality(row_hits=hits))
    assert dram_energy_pj_per_bit(found, 64) == pytest.approx(bit_energy(DDR4, Locality(row_hits=hits)).total)


def test_a_technology_takes_its_dram_from_a_device() -> None:
    table = load_technology("cmos-22nm+hbm2-2000-x128@0.5")
    assert table.dram_type().name == "hbm2-2000-x128@0.5"
    machine = load_preset("eyeriss", "cmos-22nm+hbm2-2000-x128@0.5")
    energy = machine.levels[0].energy
    assert energy is not None
    expected = bit_energy(power_device("hbm2-2000-x128"), Locality(row_hits=0.5)).total
    assert energy.read_pj == pytest.approx(expected * machine.levels[0].word_bits)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ddr9", "unknown DRAM device 'ddr9'"),
        ("ddr4-2400-x8@often", "a share of row hits"),
        ("ddr4-2400-x8@1.5", "must be between 0 and 1"),
    ],
)
def test_a_wrong_device_is_one_message(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        dram_type_named(text)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("idd3n", 0.01, "contradict each other: `i3p` is 22.5 mA, above `i3n` with 10 mA"),
        ("idd4r", 0.02, "contradict each other: `i3n`"),
        ("idd2p", -0.1, "`i2p` must be >= 0"),
        ("vdd", 0, "`vdd` must be"),
    ],
)
def test_currents_that_contradict_each_other_are_refused(field: str, value: float, message: str) -> None:
    given = json.loads(SPECIFICATIONS.read_text("utf-8"))["DDR4"]
    given["mempowerspec"][field] = value
    with pytest.raises(UserError, match=message):
        device_from_specification(given, Standard.DDR4, "mine", "mine.json")


def test_a_device_file_says_which_key_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("devices:\n- {name: a, standard: DDR7}\n", encoding="utf-8")
    with pytest.raises(UserError, match="DDR7"):
        read_power_devices(path)


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (commands((9, Kind.ACT, 0), (3, Kind.PRE, 0)), "must come in order"),
        (commands((0, Kind.ACT, 99)), "got rank 0, bank 99"),
        (commands((0, Kind.REFB, 0)), "states no time for this refresh"),
        (commands((0, Kind.DSMEN, 0)), "from self-refresh only"),
    ],
)
def test_traces_that_do_not_fit_are_refused(trace: list[TimedCommand], message: str) -> None:
    with pytest.raises(UserError, match=message):
        replay(DDR4, trace)


def test_a_command_of_another_standard_is_refused() -> None:
    with pytest.raises(UserError, match="DDR4 has no command REFSB"):
        parse_kind("REFSB", Standard.DDR4, "here")
