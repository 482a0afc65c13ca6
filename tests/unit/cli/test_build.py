import json
from pathlib import Path

import pytest

from codesign.cli import app as application
from codesign.cli.build import show
from codesign.library.built_hardware import BuiltDocument, BuiltHardware
from codesign.study.built import RunRecord


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of `codesign build`."""
    monkeypatch.setattr("sys.argv", ["codesign", "build", *arguments])
    try:
        application.main()
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


def test_a_core_is_written_and_its_simulation_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--space", "dotcore", "--design", "pe_rows=4,pe_cols=4,banks=2", "--layer", "gemm M=2 N=3 K=16"]
    arguments += [
        "--simulate",
        "--simulator",
        "amaranth",
        "--evaluations",
        "10",
        "--format",
        "json",
        "--out",
        str(tmp_path),
    ]
    assert run(monkeypatch, *arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["simulation"]["bit_equal"]
    assert document["simulation"]["accesses_equal"]
    assert document["simulation"]["cycles"] == document["predicted_cycles"]
    for name in (
        "accelerator.v",
        "Makefile",
        "README.md",
        "diagram.svg",
        "registers.json",
        "testbench.cpp",
        "dram.bin",
    ):
        assert (tmp_path / name).stat().st_size > 0
    assert "module accelerator(" in (tmp_path / "accelerator.v").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "what is to be built?"),
        (("--space", "gemmcore"), "--space needs a --layer"),
        (("--trial", "3"), "--trial needs one study"),
        (("--network", "experiments/data/digits_int8.onnx"), "--network needs a machine"),
        (("--network", "no.onnx", "--space", "scratchpad"), "not an ONNX network"),
        (("--network", "a.onnx", "--layer", "gemm M=8 N=8 K=8"), "--network and --layer contradict each other"),
        (
            (
                "--host-driver",
                "--simulate",
                "--simulator",
                "amaranth",
                "--space",
                "gemmcore",
                "--layer",
                "gemm M=8 N=8 K=8",
            ),
            "a host's program runs around Verilator's simulation alone",
        ),
        (
            ("--space", "scratchpad", "--layer", "gemm M=8 N=8 K=8", "--outstanding", "0"),
            "--outstanding must be >= 1, got 0",
        ),
        (("--space", "eyeriss", "--layer", "gemm M=8 N=8 K=8"), "no `bus_bits`"),
    ],
)
def test_what_cannot_be_built_is_refused_with_one_message(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert message in capsys.readouterr().err


def test_one_burst_under_way_is_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cycles, files = {}, {}
    for outstanding in ("1", "16"):
        arguments = ["--space", "scratchpad", "--design", "pe_rows=4,pe_cols=4", "--layer", "gemm M=8 N=8 K=32"]
        arguments += ["--outstanding", outstanding, "--format", "json", "--out", str(tmp_path / outstanding)]
        assert run(monkeypatch, *arguments, "--evaluations", "20") == 0
        document = json.loads(capsys.readouterr().out)
        assert document["analytic_cycles"] <= document["predicted_cycles"]
        cycles[outstanding] = document["predicted_cycles"]
        files[outstanding] = (tmp_path / outstanding / "accelerator.v").read_text()
    assert cycles["16"] < cycles["1"]
    assert files["16"] != files["1"]


def test_cycles_that_are_simulated_alone_are_said_first(capsys: pytest.CaptureFixture[str]) -> None:
    run: RunRecord = {
        "simulator": "verilator", "bit_equal": True, "dram_equal": True, "accesses_equal": True, "cycles": 944,
        "predicted_cycles": 943, "seconds": 0.1, "cycles_per_second": 9440,
    }  # fmt: skip
    document: BuiltDocument = {
        "status": "ok", "out": "chip", "files": ["a.v"], "predicted_cycles": 943, "analytic_cycles": 780.0,
        "generate_seconds": 0.1, "simulation": run,
    }  # fmt: skip
    show(BuiltHardware(Path("chip"), ("a.v",), document), "text")
    assert "cycles      944 simulated, 943 by pipeline depths of the plain port, 780 by" in capsys.readouterr().out
    document["predicted_cycles"] = 944
    show(BuiltHardware(Path("chip"), ("a.v",), document), "text")
    assert "cycles      944 by pipeline depths, 780 by" in capsys.readouterr().out
