"""Sensitivity of designs that were judged by schedules of whole networks."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from codesign.arch.constants import Constant
from codesign.cli.app import join_lists, register_commands
from codesign.core.errors import UserError
from codesign.report.sensitivity import analyse, write_sensitivity
from codesign.report.study_page import report_data
from codesign.scheduling.soma.model.hardware import Memory, SomaHardware
from codesign.study.study import Study


def scaled_memory(memory: Memory, factor: float) -> Memory:
    return replace(
        memory,
        read_pj_per_byte=memory.read_pj_per_byte * factor,
        write_pj_per_byte=memory.write_pj_per_byte * factor,
    )


@pytest.fixture(scope="module", params=["soma", "cosma"])
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp(request.param)
    options = {
        "soma": "--network gpt2-small-block --space soma-edge --scheduler soma --evaluations 40 --trials 4",
        "cosma": "--network squeezenet --scheduler cosma --trials 6",
    }
    command = f"{options[request.param]} --optimizer sobol --objectives latency energy area --out {folder}"
    app = typer.Typer()
    register_commands(app, "explore")
    done = CliRunner().invoke(app, join_lists(command.split()))
    assert done.exit_code == 0, (done.output, done.exception)
    return Study.open(folder)


def test_energies_by_level_add_up_and_are_varied(study: Study, tmp_path: Path) -> None:
    found = analyse(study, factors=(0.5, 2.0))
    assert found.exact == "sums"
    varied = {v.constant for v in found.variations}
    assert {Constant.DRAM, Constant.SRAM, Constant.LEAKAGE} <= varied
    assert (Constant.MAC in varied) == (study.config["mapper"]["name"] == "soma")
    for trial in (t for t in study.trials if not t.infeasible):
        saved = {
            v.constant: trial.metrics["energy_j"] - v.metrics[trial.number]["energy_j"]
            for v in found.variations
            if v.factor == 0.5
        }
        assert sum(saved.values()) == pytest.approx(0.5 * trial.metrics["energy_j"], rel=1e-9)
    assert write_sensitivity(found, tmp_path)[1].exists()
    with pytest.raises(UserError, match=r"no layer mappings to search again.*leave out --remap"):
        analyse(study, remap=True)


def test_the_report_shows_where_energy_goes(study: Study) -> None:
    data = report_data(study)
    design = data["designs"][str(data["knee"])]
    knee = next(t for t in study.trials if t.number == data["knee"])
    assert sum(v for _, v in design["energy"]) == pytest.approx(knee.metrics["energy_j"])
    assert "Of its energy" in " ".join(part["text"] for part in data["summary"])


def test_a_study_without_energy_by_level_is_refused_with_the_reason(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Study.detail

    def older(self: Study, number: int) -> Mapping[str, Any]:
        return {k: v for k, v in full(self, number).items() if k != "energy_by_level_pj"}

    monkeypatch.setattr(Study, "detail", older)
    with pytest.raises(UserError, match=r"records no energy by level.*earlier version"):
        analyse(study)


@pytest.mark.parametrize("study", ["soma"], indirect=True)
def test_scaled_constants_of_the_template_give_the_same_energy(study: Study) -> None:
    from codesign.scheduling.soma.evaluator import Problem, Schedule, evaluate
    from codesign.scheduling.soma.model.cut_layers import cut_wide_layers
    from codesign.scheduling.soma.model.load import load_graph
    from codesign.scheduling.soma.model.notation import encoding_from_json
    from codesign.scheduling.soma.model.rules import DEFAULT
    from spaces.soma_template import SOMA_EDGE

    source = load_graph("gpt2-small-block")
    trial = study.front()[0]
    (network,) = study.detail(trial.number)["networks"]
    hardware = SOMA_EDGE.hardware(trial.point)
    graph = cut_wide_layers(source.graph, hardware.gbuf.capacity_bytes)
    encoding = encoding_from_json(network["encoding"], graph, "record")

    def energy(changed: SomaHardware) -> float:
        outcome = evaluate(Problem(graph, source.batch, changed, DEFAULT), encoding)
        assert isinstance(outcome, Schedule)
        return outcome.energy_pj * 1e-12

    found = analyse(study, (Constant.DRAM, Constant.SRAM), (2.0,))
    dram, sram = (v.metrics[trial.number]["energy_j"] - trial.metrics["energy_j"] for v in found.variations)
    base = energy(hardware)
    assert energy(replace(hardware, dram_pj_per_byte=2 * hardware.dram_pj_per_byte)) - base == pytest.approx(dram)
    changed = replace(
        hardware,
        al1=scaled_memory(hardware.al1, 1 + 1e-9),
        wl1=scaled_memory(hardware.wl1, 1 + 1e-9),
        ol1=scaled_memory(hardware.ol1, 1 + 1e-9),
        ol2=scaled_memory(hardware.ol2, 1 + 1e-9),
        gbuf=scaled_memory(hardware.gbuf, 1 + 1e-9),
    )
    assert (energy(changed) - base) / 1e-9 == pytest.approx(sram, rel=1e-4)
