"""A space of one's own, as a file and in Python, from a clean folder: explore, resume, report, sensitivity, export."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.command_line import run as here

SPACE = Path(__file__).parents[1] / "data" / "spaces" / "clustered.yaml"
SMALL = (
    "--certify",
    "0",
    "--mapper",
    "random",
    "--evaluations",
    "40",
    "--optimizer",
    "random",
    "--trials",
    "3",
    "--seed",
    "1",
)
PYTHON = """
from dataclasses import replace
from spaces.scratchpad import SCRATCHPAD

MINE = replace(SCRATCHPAD, name="mine")

def chip_cost(design):
    return design.metrics["area_mm2"] * 2 + design.point["banks"]
"""


def codesign(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    script = "from codesign.cli.app import main; import sys; sys.path = [p for p in sys.path if p]; main()"  # as installed: not the folder
    command = [sys.executable, "-W", "ignore", "-c", script, *(str(a) for a in arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def make_network(folder: Path) -> str:
    weights = [numpy_helper.from_array(np.zeros((8, 4, 3, 3), np.float32), "w")]
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 4, 10, 10)), ("y", (1, 8, 8, 8)))
    )
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], name="conv")], "own", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "own.onnx")
    return "own.onnx"


def embedded(page: Path) -> dict[str, object]:
    line = next(v for v in page.read_text().splitlines() if v.startswith("const DATA = "))
    return dict(json.loads(line.removeprefix("const DATA = ").removesuffix(";").replace("<\\/", "</")))


def test_a_space_file_from_search_to_export(tmp_path: Path) -> None:
    shutil.copy(SPACE, tmp_path / "mine.yaml")
    network = make_network(tmp_path)
    arguments = (
        "explore",
        "--network",
        network,
        "--space",
        "mine.yaml",
        *SMALL,
        "--constraint",
        "bus_bits>=128",
        "--constraint",
        "latency<=5ms",
        "--out",
        "runs/a",
    )
    run = codesign(*arguments, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "cost*" in run.stdout
    assert "; bus_bits>=128\n" in here("study", "show", "runs/a", cwd=tmp_path).out
    (tmp_path / "mine.yaml").unlink()  # the study holds what it needs
    assert here("report", "runs/a", cwd=tmp_path).code == 0
    data = embedded(tmp_path / "runs/a/report.html")
    assert (
        data["note"] == "" and data["objectives"] == ["latency_s", "energy_j", "cost"] and data["units"]["cost"] == ""
    )  # type: ignore[index]
    assert all(t["point"]["bus_bits"] >= 128 for t in data["trials"])  # type: ignore[attr-defined]
    [design, *_] = data["designs"].values()  # type: ignore[attr-defined]
    assert (
        design["architecture"]["name"] == "mine"
        and design["layers"][0]["occupancy"]
        and design["roofline"]["bytes_per_cycle"]
    )
    varied = here("sensitivity", "runs/a", "--factor", "2", "--constant", "mac", cwd=tmp_path)
    assert varied.code == 0, varied.err
    export = here("report", "runs/a", "--export-design", "0", "--to", "design", cwd=tmp_path)
    assert export.code == 0 and (tmp_path / "design" / "arch.yaml").exists(), export.err
    again = here(
        "evaluate",
        "--network",
        network,
        "--arch",
        "design/arch.yaml",
        "--partial-bits",
        "24",
        "--mappings",
        "design/layers",
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert again.code == 0, again.err
    trial = next(t for t in data["trials"] if t["number"] == 0)  # type: ignore[attr-defined]
    assert json.loads(again.out)["metrics"]["latency_s"] == trial["metrics"]["latency_s"]


@pytest.mark.slow("service")
def test_a_space_and_a_metric_in_python_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text(PYTHON)
    network = make_network(tmp_path)
    arguments = (
        "explore",
        "--network",
        network,
        "--space",
        "ours:MINE",
        *SMALL,
        "--objectives",
        "latency",
        "energy",
        "ours:chip_cost",
        "--out",
        "runs/a",
    )
    run = codesign(*arguments, "--workers", "2", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    data = embedded(tmp_path / "runs/a/report.html")
    assert data["note"] == "" and data["labels"]["ours:chip_cost"] == "chip cost"  # type: ignore[index]
    for trial in data["trials"]:  # type: ignore[attr-defined]
        assert trial["metrics"]["ours:chip_cost"] == trial["metrics"]["area_mm2"] * 2 + trial["point"]["banks"]
    varied = codesign("sensitivity", "runs/a", "--factor", "2", "--constant", "mac", "--format", "json", cwd=tmp_path)
    assert varied.returncode == 0, varied.stderr
    more = codesign(*arguments, "--trials", "4", cwd=tmp_path)
    assert more.returncode == 0 and "going on after 3 finished trials" in more.stderr, more.stderr
