"""The files printed in docs/reference/files.md, or linked by it, are real: they load, evaluate, and agree with each other."""

import re
from pathlib import Path

import pytest

from tests.command_line import run

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "files.md"
LINKED = {
    name: (PAGE.parent / "data" / name).read_text()
    for name in re.findall(r"\(data/((?:timeloop|maestro)/[\w.]+)\)", PAGE.read_text())
}
BLOCKS = LINKED | dict(re.findall(r"^```(?:yaml|text) (\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in BLOCKS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_page_shows_all_forms() -> None:
    own = {f"own/{name}.yaml" for name in ("arch", "problem", "mapping", "constraints")}
    timeloop = {f"timeloop/{name}.yaml" for name in ("arch", "problem", "mapping", "constraints", "ert")}
    assert set(BLOCKS) == own | timeloop | {"maestro/layer.m"}


def test_own_and_timeloop_files_say_the_same(folder: Path) -> None:
    own, timeloop = (
        run("evaluate", *(folder / form).iterdir(), "--format", "json", "--clock-hz", "5e8")
        for form in ("own", "timeloop")
    )
    assert (own.code, own.err, timeloop.code, timeloop.err) == (0, "", 0, "")
    a, b = own.json, timeloop.json
    assert a["latency_cycles"] == b["latency_cycles"] and a["latency_s"] == b["latency_s"]
    assert a["energy_pj"] == pytest.approx(b["energy_pj"], rel=1e-12)
    assert a["loopnest"] == b["loopnest"]


@pytest.mark.parametrize("form", ["own", "timeloop"])
def test_a_mapper_obeys_the_printed_constraints(folder: Path, form: str) -> None:
    (folder / form / "mapping.yaml").unlink()
    found = run("map", *(folder / form).iterdir(), "--evaluations", 3000, "--format", "json").json
    assert found["status"] == "ok"
    along_k = [n for n in found["mapping"] if n.get("parallel") == "k"]
    assert [(n["factor"], n["axis"]) for n in along_k] == [(4, "x")]


def test_the_printed_dataflow_runs_on_the_printed_machine(folder: Path) -> None:
    outcome = run("evaluate", folder / "maestro" / "layer.m", folder / "own" / "arch.yaml", "--format", "json")
    assert outcome.code == 0
    assert outcome.json["compute"]["macs"] == 8 * 8 * 3 * 3 * 8 * 8
