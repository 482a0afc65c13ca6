"""Counts, cycles and energies of DRAM traces beside the assertions of DRAMPower's own tests."""

from experiments.validation.drampower import compare_drampower
from tests.reference_data import REFERENCE, needs_data


def test_every_recorded_check_holds() -> None:
    folder = REFERENCE / "measured" / "drampower"
    needs_data("measured/drampower", list(folder.glob("cases.jsonl")))
    found = compare_drampower(folder, smoke=False)
    assert [p for p in found.points if p.predicted != p.measured] == []
    assert found.missing == {}
    assert found.more["checks_held"] == found.more["checks"] > 1000
