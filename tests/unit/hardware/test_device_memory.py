"""Machines beside a DRAM of the timing tier: the same integers, and times that the device allows."""

import json
from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.hardware.device_memory import DeviceMemory
from codesign.hardware.execute import execute, random_values
from codesign.hardware.simulate import simulate_in_python
from codesign.library.build_options import BuildOptions
from codesign.timing.dram.device import load_device
from tests.unit.cli.test_build import run
from tests.unit.hardware.test_machines import GEMM, nest_case

DDR4 = load_device("ddr4_2400_x16")


def closed_row_cycles() -> int:
    """Machine cycles of a read that opens a row: activate, read, data."""
    t = DDR4.timing
    return int(np.ceil((t.tRCDRD - t.AL + t.read_delay) * DDR4.clock_ns))


def test_a_read_of_a_closed_row_opens_it_first() -> None:
    (cycle,) = DeviceMemory(DDR4).ask(0, 0, 1, 16, write=False)
    assert closed_row_cycles() <= cycle <= closed_row_cycles() + 5


def test_a_row_that_is_open_answers_sooner_and_another_row_of_its_bank_later() -> None:
    row_bytes = DDR4.burst_bytes * DDR4.bursts_per_row
    memory, waits = DeviceMemory(DDR4), []
    banks = DDR4.banks_per_group * DDR4.bank_groups * DDR4.ranks
    for k, address in enumerate((0, DDR4.burst_bytes, row_bytes * banks)):
        waits.append(memory.ask(1000 * k, address, 1, 16, write=False)[0] - 1000 * k)
    first, hit, conflict = waits
    assert hit < first < conflict


def test_beats_of_one_burst_come_together_and_those_of_the_next_later() -> None:
    beats = DDR4.burst_bytes // 16
    found = DeviceMemory(DDR4).ask(0, 0, 2 * beats, 16, write=False)
    assert found == tuple(sorted(found))
    assert len(set(found[:beats])) == 1 and found[beats] > found[0]


def test_a_refresh_is_waited_for() -> None:
    interval = int(DDR4.timing.tREFI // DDR4.ranks * DDR4.clock_ns)  # ranks in turn, the first one first
    waits = [DeviceMemory(DDR4).ask(c, 0, 1, 16, write=False)[0] - c for c in range(interval - 40, interval + 200, 20)]
    assert max(waits) > closed_row_cycles() + 100


def test_a_machine_on_a_device_gives_the_same_integers() -> None:
    job = nest_case(GEMM, 3)
    values = random_values(GEMM, np.random.default_rng(0))
    verdict = execute(job, values, lambda image, given: simulate_in_python(image, given, device=DDR4))
    assert verdict.wrong is None
    assert verdict.differences == ()
    assert verdict.run.cycles > job.predicted_cycles  # DDR4 answers after more than 14 cycles


def test_build_takes_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--space", "dotcore", "--design", "pe_rows=4,pe_cols=4,banks=2", "--layer", "gemm M=2 N=3 K=32"]
    told += ["--simulate", "--evaluations", "10", "--format", "json", "--out", str(tmp_path)]
    assert run(monkeypatch, *told, "--memory", "hbm2_ch") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["simulation"]["bit_equal"] and document["simulation"]["simulator"] == "amaranth"
    assert document["simulation"]["cycles"] > document["predicted_cycles"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "hbm2_ch"}, "--memory is for --simulate of one layer"),
        ({"memory": "hbm2_ch", "simulate": True, "network": "a.onnx"}, "--memory is for --simulate of one layer"),
        ({"memory": "hbm2_ch", "simulate": True, "simulator": "verilator"}, "--memory is simulated by amaranth alone"),
    ],
)
def test_what_a_device_does_not_go_with_is_refused(options: dict[str, str | bool], message: str) -> None:
    with pytest.raises(UserError, match=message):
        BuildOptions(**options)  # type: ignore[arg-type]


def test_an_unknown_device_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--space", "dotcore", "--design", "pe_rows=4,pe_cols=4,banks=2", "--layer", "gemm M=2 N=3 K=32"]
    assert run(monkeypatch, *told, "--simulate", "--memory", "ddr9", "--evaluations", "5", "--out", str(tmp_path)) != 0
    assert "unknown DRAM device 'ddr9'" in capsys.readouterr().err
