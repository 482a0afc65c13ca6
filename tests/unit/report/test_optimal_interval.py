"""Intervals of technology constants over which a design stays optimal: held against every design of the space, and mistakes named."""

from pathlib import Path

import numpy as np
import pytest

from codesign.arch.constants import Constant, scaled_architecture
from codesign.core.errors import UserError
from codesign.core.goals import Objective
from codesign.evaluation.network import EvaluationOptions, WorkloadResult, evaluate_workload
from codesign.evaluation.replay import recorded_space, recorded_workload
from codesign.mappers.exact import ExactMapper
from codesign.report.optimal_interval import WIDEST, Stability, stability
from codesign.report.sensitivity import energy_by_constant, scaled_metrics
from codesign.study.run import run_study
from codesign.study.specification import StudySpec
from codesign.study.study import Study

RULES = [
    "pe<=8",
    "links=='systolic'",
    "scratchpad_kib<=128",
    "local_bytes<=64",
    "banks<=8",
    "burst_bytes>=128",
    "bus_bits>=128",
]


def run_random(folder: Path, *limits: str) -> Study:
    spec = StudySpec.from_json(
        {
            "workload": {"networks": ["alexnet"]},
            "place": {"out": str(folder)},
            "space": "gemmcore",
            "search": {
                "optimizer": "random",
                "trials": 4,
                "constraints": [*RULES, *limits],
                "objectives": ["edp", "area"],
            },
        }
    )
    run_study(spec).study.close()
    return Study.open(folder)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return run_random(tmp_path_factory.mktemp("stable"))


@pytest.fixture(scope="module")
def found(study: Study) -> Stability:
    return stability(study, (Constant.DRAM, Constant.SRAM), epsilon=0.3)


@pytest.mark.slow("oracle")
def test_no_design_of_the_space_is_better_inside_the_intervals(study: Study, found: Stability) -> None:
    assert found.intervals and found.gap <= found.epsilon
    space = recorded_space(study.config)
    rules = space.with_rules(RULES)  # type: ignore[attr-defined]
    points = rules.space.to_points(rules.space.enumerate())
    assert found.designs == len(points) and len(points) <= 40
    workload = recorded_workload(study.config, space)
    trial = next(t for t in study.trials if t.number == found.trial)
    parts = energy_by_constant(study.detail(trial.number), trial.metrics)
    rng = np.random.default_rng(0)
    for interval in found.intervals:
        assert 1 / WIDEST <= interval.low.factor <= 1.0 <= interval.high.factor <= WIDEST
        factor = float(np.exp(rng.uniform(np.log(interval.low.factor), np.log(interval.high.factor))))
        own = scaled_metrics(trial, parts, interval.constant, factor)
        for point in points:
            machine = scaled_architecture(space.build(point), {interval.constant: factor})
            options = EvaluationOptions(objective=Objective.EDP)
            other = evaluate_workload(workload, machine, ExactMapper(), options)
            assert isinstance(other, WorkloadResult)
            metrics = other.metrics.to_dict()
            share = min(own[o] / metrics[o] for o in study.objectives)
            assert share <= (1 + found.epsilon) * (1 + 1e-6), (interval.constant, factor, point)


def test_it_says_in_words_what_it_shows(study: Study, found: Stability) -> None:
    sentences = found.describe()
    assert f"of {found.designs} designs none is better by more than 30.00% in every objective" in sentences[0]
    assert [s.split(":")[0] for s in sentences[1:]] == ["dram", "sram"]
    document = found.to_json()
    assert document["trial"] == found.trial and len(document["intervals"]) == 2
    strict = stability(study, (Constant.DRAM,), epsilon=0.0)
    if not strict.intervals:
        assert "give --epsilon" in strict.describe()[0] and strict.gap > 0.0


def test_an_interval_ends_where_the_design_breaks_a_limit(study: Study, found: Stability, tmp_path: Path) -> None:
    chosen = next(t for t in study.trials if t.number == found.trial)
    limited = run_random(tmp_path, f"energy_j<={1.05 * chosen.metrics['energy_j']}")
    answer = stability(limited, (Constant.DRAM,), trial=chosen.number, epsilon=1.0)
    end = answer.intervals[0].high
    assert end.trial == chosen.number and 1.0 < end.factor < 1.5
    assert "(then it breaks a limit)" in answer.describe()[1]


def test_mistakes_are_named(study: Study) -> None:
    with pytest.raises(UserError, match=r"--epsilon must lie between 0 and 1, got 2"):
        stability(study, epsilon=2.0)
    with pytest.raises(UserError, match=r"--design 99 is not on the front"):
        stability(study, trial=99)


def test_an_analysis_with_nothing_proven_is_refused_where_there_are_no_bounds(tmp_path: Path) -> None:
    spec = StudySpec.from_json(
        {
            "workload": {"networks": ["alexnet"]},
            "place": {"out": str(tmp_path)},
            "space": "gemmcore",
            "search": {"optimizer": "random", "trials": 1, "constraints": RULES},
            "judge": {"mapper": "random", "evaluations": 20, "between_layers": {"resident_weights": True}},
        }
    )
    run = run_study(spec)
    with pytest.raises(UserError, match="has no bounds: activations or weights stay on chip"):
        stability(run.study)
    run.study.close()
