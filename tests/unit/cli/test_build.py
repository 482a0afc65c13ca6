import json
from pathlib import Path

from typer.testing import CliRunner

from codesign.cli.app import app

RUNNER = CliRunner()


def test_a_core_is_written_and_its_simulation_agrees(tmp_path: Path) -> None:
    arguments = [
        "build",
        "--space",
        "dotcore",
        "--design",
        "pe_rows=4,pe_cols=4,banks=2",
        "--layer",
        "gemm M=2 N=3 K=32",
    ]
    done = RUNNER.invoke(
        app, [*arguments, "--simulate", "--simulator", "amaranth", "--evaluations", "10", "--out", str(tmp_path), "--format", "json"]
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
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


def _message(*arguments: str) -> str:
    done = RUNNER.invoke(app, ["build", *arguments])
    assert done.exit_code != 0
    return str(done.exception)


def test_nothing_named_is_refused() -> None:
    assert "what is to be built?" in _message()


def test_a_space_without_a_layer_is_refused() -> None:
    assert "--space needs a --layer" in _message("--space", "gemmcore")


def test_a_trial_without_a_study_is_refused() -> None:
    assert "--trial needs one study" in _message("--trial", "3")


def test_a_space_without_a_bus_is_refused() -> None:
    assert "no `bus_bits`" in _message("--space", "eyeriss", "--layer", "gemm M=8 N=8 K=8", "--evaluations", "20")
