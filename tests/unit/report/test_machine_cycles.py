"""Every design says its machine's cycles beside the analytical ones, or why they are not known."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from codesign.evaluation.replay import recorded_space, replay_layers
from codesign.hardware.network import integer_widths
from codesign.hardware.timed import generated_run, timing_at
from codesign.report.study_page import report_data
from codesign.study import machines
from codesign.study.built import record_built
from codesign.study.machines import MACHINES_FILE, machine_cycles
from codesign.study.study import Study
from codesign.timing.simulate import Run
from codesign.timing.table import load_timing
from tests.unit.report.test_built_hardware import BUILT


@pytest.fixture
def study(study_folder: Path, tmp_path: Path) -> Study:
    """A study in a folder of its own, cut to three designs."""
    found = Study.open(shutil.copytree(study_folder, tmp_path / "study"))
    (found.folder / MACHINES_FILE).unlink(missing_ok=True)
    found.trials[:] = [t for t in found.trials if found.is_valid(t)][:3]
    return found


def test_cycles_are_those_of_the_recorded_mappings_on_the_machine(study: Study) -> None:
    found = machine_cycles(study, study.trials)
    trial = study.trials[0]
    space, cycles = recorded_space(study.config), found[trial.number]
    architecture, timing = space.build(trial.point), timing_at(load_timing("generated"), trial.point)
    assert cycles["generated"] == sum(x["generated"] * x["count"] for x in cycles["layers"])
    layers = replay_layers(space, architecture, study.detail(trial.number))
    assert [x["analytical"] for x in cycles["layers"]] == [x.cost.latency_cycles for x in layers]
    kept = [(x, row) for x, row in zip(layers, cycles["layers"], strict=True) if not row["anew"]]
    assert kept
    for layer, row in kept:
        run = generated_run(integer_widths(layer.computation, 8), architecture, layer.mapping, timing)
        assert isinstance(run, Run) and run.latency_cycles == row["generated"]


def test_predictions_are_kept_and_a_budget_ends_them(study: Study) -> None:
    first, *others = study.trials
    assert "generated" in machine_cycles(study, [first])[first.number]
    later = machine_cycles(study, study.trials, seconds=0.0)
    assert later[first.number] == json.loads((study.folder / MACHINES_FILE).read_text())["trials"][str(first.number)]
    assert all("within 0 CPU seconds" in later[t.number]["why"] for t in others)


def test_a_design_that_its_machine_does_not_run_says_why(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> Run:
        raise UserError("the loops are too many (rule G3)")

    monkeypatch.setattr(machines, "generated_run", refuses)
    trial = study.trials[0]
    row = next(t for t in report_data(study)["trials"] if t["number"] == trial.number)
    assert row["cycles"]["why"] == "layer 'conv1': the loops are too many (rule G3)"
    assert row["cycles"]["generated"] is None and row["cycles"]["analytical"] > 0


def test_designs_judged_by_their_machines_need_no_prediction(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, full = study.trials[0], Study.detail

    def judged(self: Study, number: int) -> object:
        detail = full(self, number)
        return {**detail, "layers": [{**x, "event_cycles": 2 * x["latency_cycles"]} for x in detail["layers"]]}

    monkeypatch.setattr(Study, "detail", judged)
    monkeypatch.setattr(machines, "generated_run", None)
    found = machine_cycles(study, [trial])[trial.number]
    assert found["generated"] == 2 * found["analytical"]


def test_simulated_cycles_stand_beside_the_others(study: Study) -> None:
    number = study.trials[0].number
    record_built(study.folder, number, BUILT)
    row = next(t for t in report_data(study)["trials"] if t["number"] == number)
    assert (row["cycles"]["simulated"], row["cycles"]["simulated_layers"]) == (818, ["conv1"])


def test_a_space_whose_machines_are_not_generated_has_none(study: Study) -> None:
    study.config["space"] = {**study.config["space"], "name": "no-such-space"}
    assert machine_cycles(study, [replace(t) for t in study.trials]) == {}
