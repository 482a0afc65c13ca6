"""Worst cases: the worst of every scenario, met nowhere else in the range, proven by bounds, and mistakes named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.arch.constants import Constant
from codesign.bounds import DesignBounds
from codesign.bounds.scenarios import ScenarioBounds
from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import DesignEvaluator
from codesign.evaluation.judges import make_judge
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.evaluation.robust import (
    RobustEvaluator,
    WithTechnology,
    check_goals,
    need_bandwidth,
    parse_ranges,
    workloads_of,
    worst_of,
)
from codesign.evaluation.specification import JudgeSpec, WorkloadSpec
from codesign.mappers.exact import ExactMapper
from codesign.mappers.protocol import MapResult
from codesign.optim import create
from codesign.optim.pareto import front
from codesign.study.run import run_study
from codesign.study.specification import StudySpec
from codesign.workloads.workload import Workload
from experiments.attacks.hardware_spaces import random_network, random_space
from spaces.cores import CORE_SPACES

METRICS = ("latency_s", "energy_j", "area_mm2")


class Fixed:
    """Gives every layer the mapping that another run found."""

    name = "fixed"

    def __init__(self, results: dict[Any, MapResult]) -> None:
        self._results = results

    def map(self, problem: Any, *_: Any, **__: Any) -> MapResult:
        from codesign.cost.cost import evaluate

        found = self._results[problem.computation]
        cost = evaluate(problem.computation, problem.architecture, found.mapping)
        return replace(found, cost=cost)


@pytest.mark.parametrize("seed", [0, 2])
def test_nowhere_in_the_range_do_the_mappings_of_the_worst_corner_cost_more(seed: int) -> None:
    space, network = random_space(seed), random_network(seed)
    ranges = parse_ranges(
        ["dram=0.5:3", "sram=0.2:1.5", "wires=1:4", "mac=0.1:2", "leakage=0.5:5", "dram_bandwidth=0.4:2"]
    )
    constants, bandwidth = ranges.worst
    rng = np.random.default_rng(seed)
    for point in space.space.to_points(space.space.sample(3, rng)):
        worst = evaluate_workload(
            Workload.of([network]), WithTechnology(space, tuple(constants.items()), bandwidth).build(point), ExactMapper(),
            EvaluationOptions(),
        )  # fmt: skip
        if isinstance(worst, Infeasible):
            continue
        mapper: Any = Fixed({layer.computation: layer.result for layer in worst.layers})
        for _ in range(4):
            drawn = {n: float(rng.uniform(low, high)) for n, (low, high) in ranges.factors.items()}
            width = drawn.pop("dram_bandwidth")
            other = WithTechnology(space, tuple((Constant(n), f) for n, f in drawn.items()), width).build(point)
            found = evaluate_workload(Workload.of([network]), other, mapper, EvaluationOptions())
            assert not isinstance(found, Infeasible)
            for name in ("latency_s", "energy_j", "edp_js", "leakage_w", "area_mm2"):
                assert found.metrics.to_dict()[name] <= worst.metrics.to_dict()[name] * (1 + 1e-9)


def test_a_design_has_the_worst_figure_of_each_scenario() -> None:
    space = random_space(3)
    networks = [random_network(1), random_network(2)]
    evaluators = [
        (str(k), DesignEvaluator(space, Workload.of([n]), ExactMapper(), EvaluationOptions()))
        for k, n in enumerate(networks)
    ]
    point = space.space.to_points(space.space.sample(1, np.random.default_rng(1)))[0]
    found = RobustEvaluator(tuple(evaluators))(point)
    alone = [e(point).metrics for _, e in evaluators]
    assert found.metrics is not None and all(a is not None for a in alone)
    for name, value in found.metrics.to_dict().items():
        assert value == max(a.to_dict()[name] for a in alone if a is not None)
    assert [s["name"] for s in found.detail.to_json()["scenarios"]] == ["0", "1"]
    assert worst_of([found.metrics]).to_dict() == found.metrics.to_dict()


@pytest.mark.parametrize("seed", [1])
def test_the_proven_front_of_worst_cases_is_that_of_enumeration(seed: int) -> None:
    space = WithTechnology(random_space(seed), ((Constant.DRAM, 2.0), (Constant.LEAKAGE, 3.0)), 0.5)
    networks = [random_network(seed), random_network(seed + 20)]
    evaluate = RobustEvaluator(
        tuple((n.name, DesignEvaluator(space, Workload.of([n]), ExactMapper(), EvaluationOptions())) for n in networks)
    )
    bounds = ScenarioBounds([DesignBounds(space, n) for n in networks])
    rows = space.space.enumerate()
    found = [evaluate(point).metrics for point in space.space.to_points(rows)]
    good = [m is not None for m in found]
    values = np.array([[m.to_dict()[k] for k in METRICS] for m in found if m is not None])
    assert (values >= bounds.lower_bounds(rows[good], METRICS) * (1 - 1e-8)).all()
    optimizer = create("exact", space.space, METRICS, bounds=bounds)
    while points := optimizer.ask(1):
        metrics = evaluate(points[0]).metrics
        optimizer.tell(points[0], None if metrics is None else metrics.to_dict(), feasible=metrics is not None)
    state = optimizer.certificate()
    assert state is not None and state.proven
    proven = front(np.array([[v[k] for k in METRICS] for _, v in optimizer.front()]))
    assert np.allclose(proven, front(values), rtol=1e-6)


def test_networks_and_lengths_are_scenarios_of_their_own() -> None:
    ranges = parse_ranges(["batch=1,4", "dram=0.5:2"])
    found = workloads_of(WorkloadSpec(("alexnet", "vgg16"), (2.0, 1.0)), ranges)
    assert [name for name, _ in found] == ["alexnet batch 1", "alexnet batch 4", "vgg16 batch 1", "vgg16 batch 4"]
    assert [(w.networks, w.weights, w.batch) for _, w in found][1] == (("alexnet",), (2.0,), 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drm=1:2", "drm.*did you mean 'dram'"),
        ("dram=2:1", "dram=2:1: expected NAME=LOW:HIGH, two positive factors in order"),
        ("dram=0:1", "two positive factors"),
        ("dram", "expected NAME=LOW:HIGH"),
        ("dram=1:x", "expected NAME=LOW:HIGH"),
        ("seq=0,4", "whole numbers of at least 1"),
        ("past=-1,4", "whole numbers of at least 0"),
        ("seq=1:4", "expected NAME=VALUE,VALUE"),
    ],
)
def test_a_malformed_range_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_ranges([text])


def test_the_cache_may_be_empty() -> None:
    assert parse_ranges(["past=0,1024"]).lengths == {"past": (0, 1024)}


def test_what_does_not_go_together_is_refused() -> None:
    space = CORE_SPACES["gemmcore"]
    alone = WorkloadSpec(("alexnet",))
    with pytest.raises(UserError, match="given twice"):
        parse_ranges(["dram=1:2", "dram=1:3"])
    with pytest.raises(UserError, match=r"--vary is an option of --robust"):
        JudgeSpec(vary=("dram=1:2",))
    with pytest.raises(UserError, match="--robust is used with --scheduler layers, not soma"):
        JudgeSpec(robust=True, scheduler="soma")
    with pytest.raises(UserError, match="--robust plays no part with --timing event"):
        JudgeSpec(robust=True, timing="event")
    with pytest.raises(UserError, match=r"needs something that varies.*several --network"):
        make_judge(alone, JudgeSpec(robust=True), space)
    with pytest.raises(UserError, match="takes no metric of your own, got 'cost'"):
        make_judge(alone, JudgeSpec(robust=True, vary=("dram=1:2",)), space, metrics=[("cost", lambda _: 1.0)])
    with pytest.raises(UserError, match="power_w has no worst case at the least dram_bandwidth"):
        check_goals(JudgeSpec(robust=True, vary=("dram_bandwidth=0.5:1",)), ("latency_s", "power_w"))
    with pytest.raises(UserError, match="--robust takes upper limits only, got energy_j>="):
        check_goals(JudgeSpec(robust=True, vary=("dram=0.5:2",)), ("latency_s", "energy_j"), ("energy_j",))


def test_a_range_that_would_change_nothing_is_refused() -> None:
    space = CORE_SPACES["gemmcore"]
    unlimited = replace(
        space,
        builder=lambda point: replace(
            (built := space.build(point)),
            levels=tuple(
                replace(v, read_bandwidth_words_per_cycle=None, write_bandwidth_words_per_cycle=None)
                for v in built.levels
            ),
        ),
    )
    need_bandwidth(space)
    with pytest.raises(UserError, match="--vary dram_bandwidth changes nothing"):
        make_judge(WorkloadSpec(("alexnet",)), JudgeSpec(robust=True, vary=("dram_bandwidth=0.5:1",)), unlimited)


def test_a_robust_study_is_proven_recorded_and_resumed(tmp_path: Path) -> None:
    spec = StudySpec.from_json(
        {
            "workload": {"networks": ["alexnet"]},
            "place": {"out": str(tmp_path / "a")},
            "space": "gemmcore",
            "search": {"optimizer": "exact", "epsilon": 1.0, "constraints": ["pe<=8", "area<=0.5"]},
            "judge": {"robust": True, "vary": ["dram=0.5:4", "batch=1,2"]},
        }
    )
    run = run_study(spec)
    assert run.certificate is not None and run.certificate.proven
    trials = len(run.study.trials)
    record = run.study.detail(run.study.trials[0].number)
    assert [s["name"] for s in record["scenarios"]] == ["alexnet batch 1", "alexnet batch 2"]
    run.study.close()
    again = run_study(spec)
    assert len(again.study.trials) == trials and again.study.config["evaluation"]["vary"] == ["dram=0.5:4", "batch=1,2"]
    from codesign.report.sensitivity import analyse
    from codesign.report.study_page import write_report

    with pytest.raises(UserError, match=r"worst of several scenarios.*explore without --robust"):
        analyse(again.study)

    assert write_report(again.study).exists()
    again.study.close()
