"""`codesign explore`, `report` and `compare` end to end, small, and what they say to mistakes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from codesign.study.study import Study
from tests.command_line import run as codesign

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


SMALL = (
    "--trials",
    "4",
    "--evaluations",
    "100",
    "--objectives",
    "latency",
    "energy",
    "area",
    "--seed",
    "3",
    "--certify",
    "0",
)


def test_explore_an_onnx_file_then_resume_compare_and_report(tmp_path: Path) -> None:
    network = str(LIGHT / "light_squeezenet.onnx")
    run = codesign(
        "explore", "--network", network, *SMALL, "--space", "eyeriss", "--optimizer", "random", "--constraint", "power_w<=20",
        "--out", "runs/a", "--format", "json", cwd=tmp_path,
    )  # fmt: skip
    assert run.code == 0, run.err
    front = json.loads(run.out)
    assert front["trials"] == 4 and front["front"]
    assert "hypervolume" in run.err and "reference point" in run.err
    page = (tmp_path / "runs/a/report.html").read_text()
    assert "Build this one" in page and 'src="http' not in page
    again = codesign(
        "explore", "--network", network, *SMALL, "--space", "eyeriss", "--optimizer", "random", "--constraint", "power_w<=20",
        "--out", "runs/a", "--trials", "5", "--workers", "2", "--certify", "0.5", cwd=tmp_path,
    )  # fmt: skip
    assert again.code == 0, again.err
    assert "going on after 4 finished trials" in again.err
    assert "bounding the designs not tried, for 0.5 CPU s at most" in again.err
    assert re.search(
        r"No design of the space beats this front by more than a factor of [\d.]+, proven in [\d.]+ CPU s",
        " ".join(again.out.split()),
    )
    assert len(Study.open(tmp_path / "runs/a").trials) == 5
    compared = codesign("compare", "runs/a", "--out", "c.html", "--format", "json", cwd=tmp_path)
    assert compared.code == 0, compared.err
    group = json.loads(compared.out)["groups"][0]
    assert group["optimizer"] == "random" and group["certified_factor"] > 1.0
    (tmp_path / "runs/a/report.html").unlink()
    reported = codesign("report", "runs/a", cwd=tmp_path)
    assert reported.code == 0 and "Pareto front:" in reported.out
    assert (tmp_path / "runs/a/report.html").exists()


def test_an_empty_front_says_which_bound_excludes_the_designs(tmp_path: Path) -> None:
    run = codesign(
        "explore", "--network", "alexnet", "--trials", "2", "--evaluations", "50", "--optimizer", "random", "--mapper", "random", "--certify", "0",
        "--constraint", "power_w<=1000", "--constraint", "area_mm2<=1e-6", "--out", "runs/a", cwd=tmp_path,
    )  # fmt: skip
    assert run.code == 0, run.err
    said = " ".join(run.out.split())
    assert "power_w<=1000 kept by 2 of 2" in said and "area_mm2<=1e-06 kept by 0 of 2" in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--network", "resnet51"), "unknown network 'resnet51'"),
        (("--network", "missing.onnx"), "missing.onnx"),
        (("--space", "scratchpd"), "unknown space 'scratchpd'; did you mean 'scratchpad'"),
        (("--optimizer", "mob"), "unknown optimiser 'mob'"),
        (("--mapper", "aneal"), "unknown mapper 'aneal'"),
        (("--objectives", "latency"), "two to four objectives"),
        (("--objectives", "latency", "speed"), "unknown objective 'speed'"),
        (("--constraint", "power_w=2"), "power_w=2"),
        (("--weights", "1", "2"), "expected 1 weights"),
        (("--activations", "kept"), "--activation-buffer"),
        (("--activation-buffer", "64XB"), "unknown unit 'XB'"),
    ],
)
def test_a_mistake_gets_one_message_and_exit_code_2(change: tuple[str, ...], message: str, tmp_path: Path) -> None:
    options = {"--network": ("alexnet",), "--out": ("r",), "--trials": ("1",)}
    options[change[0]] = change[1:]
    arguments = [part for key, values in options.items() for part in (key, *values)]
    run = codesign("explore", *arguments, cwd=tmp_path)
    assert run.code == 2, run.err
    assert message in " ".join(run.err.split())
    assert "Traceback" not in run.err
    assert not (tmp_path / "r" / "study.db").exists()


def test_help_is_quick_and_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, codesign.cli.app as a; a.register_commands(); "
        "print([m for m in ('torch', 'botorch', 'llvmlite', 'ortools', 'onnx', 'pymoo', 'plotly') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout.strip() == "[]"
