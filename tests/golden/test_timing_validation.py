"""The timing tier beside recorded cycles: whatever rows the reference folder holds."""

import json

import numpy as np
import pytest

from codesign.timing.dram.device import known_devices
from experiments.validation.dram import compare_dram, recorded_device
from experiments.validation.noc import compare_noc
from experiments.validation.tileflow import compare_gemm
from tests.reference_data import REFERENCE, needs_data

_GAPS = ("same_bank", "same_bankgroup", "other_bankgroup", "other_rank", "whole_rank")
_COMMANDS = ("RD", "WR", "ACT", "PRE", "REF")


def test_gemm_cycles_equal_the_rtl() -> None:
    folder = REFERENCE / "measured" / "tileflow"
    needs_data("measured/tileflow", list(folder.glob("gemm*.csv")))
    for point in compare_gemm(folder, smoke=False).points:
        assert point.error == 0, point


def test_dram_runs_equal_the_record() -> None:
    folder = REFERENCE / "dram"
    needs_data("dram", list(folder.glob("runs*.json")))
    found = compare_dram(folder, smoke=True)
    summary = found.summary()
    assert summary["runs_with_equal_counts"] == len(found.points)
    assert summary["worst_error"] <= 0.15
    assert summary["median_error"] <= 0.05
    assert summary["energy_worst_error"] <= 0.05
    assert summary["commands_in_the_recorded_cycle"] == summary["commands"]
    assert summary["zero_load_figures_met"] == summary["zero_load_figures"]
    assert summary["streaming_worst_error"] <= 0.01


def test_dram_gaps_and_energies_follow_from_timings_and_currents() -> None:
    path = REFERENCE / "dram" / "devices.json"
    needs_data("dram", list((REFERENCE / "dram").glob("devices*.json")))
    entries = json.loads(path.read_text())["devices"]
    for entry in entries:
        device = known_devices().get(entry["id"]) or recorded_device(entry)
        gaps = device.gaps()
        for scope, name in enumerate(_GAPS):
            for first, after in entry["minimum_gaps_cycles"].get(name, {}).items():
                for second, least in after.items():
                    if device.bank_groups == 1 and name == "other_bankgroup":
                        continue
                    mine = gaps[scope, _COMMANDS.index(first), _COMMANDS.index(second)]
                    assert mine == least, (device.name, name, first, second)
        energy = device.energy_pj()
        names = {"activate": "activate_precharge", "read": "read_burst", "write": "write_burst", "refresh": "refresh"}
        for mine_name, theirs in names.items():
            assert energy[mine_name] == pytest.approx(entry["energy_per_event_pJ"][theirs], rel=1e-6)


def test_every_packet_arrives_in_the_recorded_cycle() -> None:
    folder = REFERENCE / "noc"
    needs_data("noc", list((folder / "traces").glob("*.json")))
    summary = compare_noc(folder, smoke=True).summary()
    assert summary["packets_in_the_recorded_cycle"] == summary["packets"]
    assert summary["injections_in_the_recorded_cycle"] == summary["packets"]
    assert summary["bounds_above_the_record"] == 0
    assert summary["traces_with_equal_link_loads"] == summary["traces"]
    assert summary["multicast_trees_equal"] == summary["multicast_trees"]
    assert np.isclose(summary["worst_error"], 0)
