"""Simulations by Verilator: as one program, and with one row of elements compiled for all rows."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from codesign.hardware.execute import execute, random_values
from codesign.hardware.verilator import VerilatedMachine, find_verilator, verilated_parts
from codesign.hardware.verilog import generate
from tests.unit.hardware.test_machines import CONV, nest_case
from tests.unit.hardware.test_verilog import machine


def test_a_row_apart_takes_its_elements_with_it() -> None:
    netlist = generate(machine("scratchpad", "systolic"))
    row, around = verilated_parts(netlist, True)
    assert "module machine_pe(" in row.text.replace(" (", "(") and "module machine_row(" in row.text
    assert "module machine_row(" not in around.text and "machine_row row_0 (" in around.text
    names = [line.split()[1].split("(")[0] for text in (row.text, around.text) for line in text.splitlines() if line.startswith("module ")]  # fmt: skip
    assert len(names) == len(set(names))


@pytest.mark.slow("oracle")
@pytest.mark.skipif(find_verilator() is None, reason="no Verilator or no C++ compiler")
@pytest.mark.parametrize("rows_apart", [False, True])
@pytest.mark.parametrize("links", ["none", "multicast", "systolic"])
def test_verilator_agrees_with_einsum_and_the_predicted_cycles(links: str, rows_apart: bool) -> None:
    job = nest_case(CONV, 5, links=links)
    simulation = VerilatedMachine(job.image.parameters, quick=True, rows_apart=rows_apart)
    verdict = execute(job, random_values(job.computation, np.random.default_rng(1)), simulation.run)
    assert verdict.wrong is None
    assert verdict.differences == ()
    assert verdict.run.cycles == job.predicted_cycles


@pytest.mark.slow("oracle")
@pytest.mark.skipif(find_verilator() is None, reason="no Verilator or no C++ compiler")
def test_two_may_build_one_machine_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codesign.hardware.verilator.cache_folder", lambda: tmp_path)
    job = nest_case(CONV, 5)
    netlist = generate(job.image.parameters)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(VerilatedMachine, job.image.parameters, netlist, quick=True) for _ in range(2)]
        simulations = [w.result() for w in waiting]
    values = random_values(job.computation, np.random.default_rng(1))
    assert all(execute(job, values, s.run).run.cycles == job.predicted_cycles for s in simulations)
    (archive,) = tmp_path.glob("*/machine.a")
    assert not [f for f in archive.parent.iterdir() if f.is_dir()]
