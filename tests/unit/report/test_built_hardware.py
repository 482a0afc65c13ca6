"""What was built of a study's design: shown on its page; what cannot be built is refused with one message."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.cost.cost import Infeasible
from codesign.report.study_page import report_data, write_report
from codesign.study.built import record_built
from codesign.study.study import Study
from tests.command_line import run

AREAS = {
    "technology": "cmos-22nm",
    "parts": [{"part": "elements", "netlist_mm2": 0.02, "table_mm2": 0.01, "fitted_mm2": 0.019}],
}
BUILT = {
    "layer": "conv1",
    "folder": "built",
    "diagram": "<svg xmlns='http://www.w3.org/2000/svg'><title>diagram</title></svg>",
    "areas": AREAS,
    "predicted_cycles": 818,
    "analytic_cycles": 96,
    "simulation": {"cycles": 818, "bit_equal": True},
}


@pytest.fixture
def folder(study_folder: Path, tmp_path: Path) -> Path:
    """A study of one's own: what is built is noted in its folder."""
    return Path(shutil.copytree(study_folder, tmp_path / "study"))


def test_a_built_layer_stands_on_the_page_of_its_design(folder: Path) -> None:
    study = Study.open(folder)
    knee = report_data(study)["knee"]
    record_built(study.folder, knee, BUILT)
    assert report_data(study)["designs"][str(knee)]["built"] == [BUILT]
    page = write_report(study).read_text("utf-8")
    assert "Built hardware" in page and "netlist_mm2" in page


def test_a_layer_built_again_replaces_what_was_kept(folder: Path) -> None:
    study = Study.open(folder)
    for cycles in (818, 900):
        record_built(study.folder, 3, {**BUILT, "predicted_cycles": cycles})
    path = record_built(study.folder, 3, {**BUILT, "layer": "conv2"})
    text = path.read_text("utf-8")
    assert text.count("conv1") == 1 and "900" in text and "conv2" in text


def test_an_infeasible_trial_is_not_built(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study.open(folder)
    number = study.trials[0].number
    study.trials[0] = replace(
        study.trials[0], infeasible=Infeasible("capacity of level 'Scratchpad'", 9, 8, "bytes").to_json()
    )
    monkeypatch.setattr(Study, "open", lambda *given, **named: study)
    refused = run("build", folder, "--trial", number)
    assert refused.code == 2
    assert f"trial {number} is infeasible: there is nothing to build" in refused.err


def test_a_trial_that_is_not_there_is_named(folder: Path) -> None:
    refused = run("build", folder, "--trial", 999)
    assert refused.code == 2 and "has no trial 999" in refused.err
