"""A front of generated cycles, proven from the analytical bound below them, is that of enumeration."""

from pathlib import Path

import numpy as np
import pytest

from codesign.evaluation.specification import JudgeSpec, WorkloadSpec
from codesign.library.building import BuildOptions, build
from codesign.optim.pareto import front
from codesign.study.run import prepare, run_study
from codesign.study.specification import PlaceSpec, SearchSpec, StudySpec
from spaces.design import DesignSpace
from spaces.parameters import Categorical, Ordinal
from spaces.scratchpad import ScratchpadBuilder
from spaces.space import Space


def listed(rows: list[int]) -> DesignSpace:
    """Machines of so many rows, two widths and two scratchpads."""
    return DesignSpace(
        "listed",
        Space(
            [
                Ordinal("pe_rows", rows),
                Ordinal("pe_cols", [4, 16]),
                Categorical("links", ["multicast"]),
                Ordinal("scratchpad_kib", [32, 1024]),
                Ordinal("local_bytes", [64]),
                Ordinal("banks", [8]),
                Ordinal("burst_beats", [16]),
                Ordinal("bus_bits", [32]),
                Categorical("dataflow", ["weight-stationary"]),
            ]
        ),
        ScratchpadBuilder(),
        partial_bits=32,
    )


FOUR, EIGHT = listed([4]), listed([4, 16])
DIGITS = str(Path(__file__).parents[2] / "experiments" / "data" / "digits.onnx")
JUDGE = JudgeSpec(mapper="anneal", evaluations=30, timing="event", timing_table="generated", objective="latency")


def spec(out: Path, space: str = "EIGHT", judge: JudgeSpec = JUDGE) -> StudySpec:
    """The listed space, searched until its front is proven."""
    return StudySpec(
        space=f"{__name__}:{space}",
        workload=WorkloadSpec(networks=(DIGITS,), dims={"n": 1}),
        judge=judge,
        search=SearchSpec(objectives=("latency", "area"), optimizer="exact"),
        place=PlaceSpec(out=str(out)),
    )


@pytest.mark.parametrize("name", ["FOUR", pytest.param("EIGHT", marks=pytest.mark.slow("oracle"))])
def test_the_proven_front_is_that_of_enumeration(tmp_path: Path, name: str) -> None:
    asked, space = spec(tmp_path, name), {"FOUR": FOUR, "EIGHT": EIGHT}[name].space
    run = run_study(asked)
    certificate = run.certificate
    assert certificate is not None and certificate.proven, certificate
    assert certificate.designs == len(space.enumerate()) and certificate.evaluated < certificate.designs
    evaluate = prepare(asked).judge.evaluate
    values = []
    for point in space.to_points(space.enumerate()):
        metrics = evaluate(point).metrics
        assert metrics is not None
        values.append([metrics.latency_s, metrics.area_mm2])
    truth = front(np.array(values))
    found = np.array([[t.metrics["latency_s"], t.metrics["area_mm2"]] for t in run.study.front()])
    assert len(truth) == len(found)
    for row in truth:
        assert (np.abs(found / row - 1.0) < 1e-9).all(axis=1).any()


@pytest.mark.slow("oracle")
def test_a_built_trial_takes_the_cycles_it_was_judged_by(tmp_path: Path) -> None:
    study = run_study(spec(tmp_path / "study")).study
    number = study.front()[0].number
    layer = min(study.detail(number)["layers"], key=lambda x: x["event_cycles"])
    study.close()
    options = BuildOptions(number, str(layer["name"]), simulate=True, simulator="amaranth")
    built = build(str(tmp_path / "study"), tmp_path / "hardware", options)
    assert built.mismatch is None
    assert built.document["simulation"]["cycles"] == built.document["predicted_cycles"] == layer["event_cycles"]
    assert built.document["analytic_cycles"] <= layer["event_cycles"]
