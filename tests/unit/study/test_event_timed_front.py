"""The front under the event tier, and designs judged by it."""

from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import UserError
from codesign.evaluation.design import load_design_space
from codesign.evaluation.judges import analytical, low_fidelity, make_judge
from codesign.evaluation.specification import BetweenLayers, JudgeSpec, WorkloadSpec
from codesign.evaluation.timed import EventEvaluator
from codesign.report.study_page import report_data
from codesign.study.retime import TIMING_FILE
from codesign.study.run import run_study
from codesign.study.simulated_fronts import read_front
from codesign.study.specification import PlaceSpec, SearchSpec, StudySpec

WORKLOAD = WorkloadSpec(networks=("alexnet",))
POINT = {
    "pe_rows": 16,
    "pe_cols": 16,
    "links": "systolic",
    "scratchpad_kib": 256,
    "local_bytes": 64,
    "banks": 4,
    "burst_beats": 16,
    "bus_bits": 128,
    "dataflow": "weight-stationary",
}
QUICK = JudgeSpec(mapper="anneal", evaluations=30, timing="event")


def test_the_front_is_simulated_after_the_search(tmp_path: Path) -> None:
    spec = StudySpec(
        WORKLOAD, PlaceSpec(str(tmp_path)), search=SearchSpec(optimizer="random", trials=3, seed=1), judge=QUICK
    )
    run = run_study(spec)
    try:
        front = run.study.front()
        assert [design.trial for design in run.timed] == [trial.number for trial in front]
        assert any(design.on_front for design in run.timed)
        for design, trial in zip(run.timed, front, strict=True):
            network = design.network
            assert network.latency_cycles >= network.analytic_cycles
            assert design.metrics["latency_s"] >= trial.metrics["latency_s"]
            assert trial.metrics["energy_j"] <= design.metrics["energy_j"]  # leakage lasts longer, the rest stays
        shown = report_data(run.study)["designs"][str(front[0].number)]["events"]
        assert shown == read_front(tmp_path / TIMING_FILE)[0]
        assert {row["waits_for"] for row in shown["timing"]}
        assert shown["timeline"]["events"]
    finally:
        run.study.close()


def test_a_judge_of_events_is_the_dear_fidelity() -> None:
    space = load_design_space("scratchpad")
    dear = make_judge(WORKLOAD, QUICK, space).evaluate
    cheap = make_judge(WORKLOAD, low_fidelity(QUICK, None, 20), space).evaluate
    assert isinstance(dear, EventEvaluator)
    assert not isinstance(cheap, EventEvaluator)
    point = POINT
    found, plain = dear(point), make_judge(WORKLOAD, analytical(QUICK), space).evaluate(point)
    assert found.metrics is not None
    assert plain.metrics is not None
    assert found.metrics.latency_s > plain.metrics.latency_s
    for layer in found.detail.to_json()["layers"]:
        assert layer["event_cycles"] >= layer["latency_cycles"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"timing": "events"}, "unknown --timing 'events'"),
        ({"timing_table": "gemmini-rtl"}, "--timing-table is an option of --timing event"),
        (
            {"timing": "event", "scheduler": "cosma"},
            "--timing event is used with --scheduler layers or segments, not cosma",
        ),
        (
            {"timing": "event", "between_layers": BetweenLayers(resident_weights=True)},
            "--timing event moves all activations and weights through DRAM",
        ),
    ],
)
def test_fields_that_do_not_go_together(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        JudgeSpec(**fields)
