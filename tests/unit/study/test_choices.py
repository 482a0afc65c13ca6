"""Precision, zeros and support for zeros as parameters of a search (rules C1 to C6 of docs/reference/study-files.md)."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from codesign.arch.operand_macs import Operand, OperandPair
from codesign.arch.zero_support import ZeroSupport
from codesign.core.errors import UserError
from codesign.evaluation.choices import Choices, read_accuracy
from codesign.evaluation.design import DesignEvaluator, DesignSpace, load_design_space
from codesign.evaluation.judges import ByChoice, check_timing, load_networks, make_judge, space_with_choices
from codesign.evaluation.replay import recorded_space, replay_layers
from codesign.evaluation.specification import ChoicesSpec, JudgeSpec, WorkloadSpec
from codesign.optim.pareto import nondominated
from codesign.report.sensitivity import Constant, analyse
from codesign.report.study_page import report_data
from codesign.study.run import _choice_bounds, prepare, run_study, why_no_bounds
from codesign.study.specification import PlaceSpec, SearchSpec, StudySpec
from codesign.workloads.network_zeros import NetworkZeros, with_zeros
from codesign.workloads.precision import Precision, with_precision
from codesign.workloads.workload import Workload
from tests.command_line import run as command

SPACE = """
space:
  name: tiny
  bits: 8
  partial_bits: 24
  parameters: {side: [4, 8]}
  architecture:
    technology: cmos-22nm
    levels:
    - {name: DRAM, kind: dram, word_bits: 64, bandwidth_bytes_per_cycle: 8, ports: shared}
    - {name: Buffer, capacity_bytes: 64KiB, word_bits: 64, banks: 4, bandwidth_words_per_cycle: 4, fanout: {x: =side, y: =side}}
    - {name: Regs, kind: registers, capacity_bytes: 64, word_bits: 16}
    mac: {bits: 8}
"""
NETWORK = "gpt2-small-block"
WORKLOAD = WorkloadSpec((NETWORK,), phase="decode", past=15)
JUDGE = JudgeSpec(mapper="anneal", evaluations=30)
BOTH = ChoicesSpec(("W16A16", "W8A8", "W4A8KV4"), ("dense", "weight=2:4"), ("none", "skipping"))


@pytest.fixture
def space(tmp_path: Path) -> DesignSpace:
    (tmp_path / "tiny.yaml").write_text(SPACE)
    return load_design_space(str(tmp_path / "tiny.yaml"))


def test_several_values_are_a_parameter_and_one_is_fixed(space: DesignSpace) -> None:
    one = space_with_choices(ChoicesSpec(("W4A8",)), WORKLOAD, JUDGE, space)
    several = space_with_choices(BOTH, WORKLOAD, JUDGE, space)
    assert one.space.names == ("side",)
    headline = make_judge(WORKLOAD, JUDGE, one).headline
    assert headline.endswith("; choices: precision W4A8")
    assert several.space.names == ("side", "precision", "zeros", "zero_support")
    assert several.space.cardinality_bound == 2 * 3 * 2 * 2
    assert one.build({"side": 4}).mac.energy_of([8, 4]) != space.build({"side": 4}).mac.energy_pj
    assert space_with_choices(ChoicesSpec(), WORKLOAD, JUDGE, space) is space


def test_macs_are_built_for_the_precision_and_units_cost_area(space: DesignSpace) -> None:
    chosen = space_with_choices(BOTH, WORKLOAD, JUDGE, space)
    plain = {"side": 4, "precision": "W8A8", "zeros": "dense", "zero_support": "none"}
    areas = {p: chosen.build({**plain, "precision": p}).area_mm2 for p in BOTH.precision}
    # 8-bit operands: the MAC of the space itself
    assert areas["W8A8"] == pytest.approx(space.build({"side": 4}).area_mm2, rel=1e-12)
    assert areas["W4A8KV4"] < areas["W8A8"] < areas["W16A16"]  # type: ignore[operator]
    skipping = chosen.build({**plain, "zero_support": "skipping"})
    assert skipping.area_mm2 > areas["W8A8"]  # type: ignore[operator]
    # its area does not depend on what runs on it
    assert skipping.area_mm2 == chosen.build({**plain, "zeros": "weight=2:4", "zero_support": "skipping"}).area_mm2


def test_designs_are_judged_by_what_they_chose(space: DesignSpace) -> None:
    chosen = space_with_choices(BOTH, WORKLOAD, JUDGE, space)
    judge = make_judge(WORKLOAD, JUDGE, chosen).evaluate
    assert isinstance(judge, ByChoice)
    point = {"side": 8, "precision": "W4A8KV4", "zeros": "weight=2:4", "zero_support": "skipping"}
    found = judge(point).metrics
    inner = judge.of(point)
    assert isinstance(inner, DesignEvaluator)
    [network] = load_networks(WORKLOAD, space)
    by_hand = with_zeros(with_precision(network, Precision.parse("W4A8KV4")), NetworkZeros.parse("weight=2:4"))
    assert inner.workload == Workload.of([by_hand])
    assert found == replace(inner, workload=Workload.of([by_hand]))(point).metrics
    assert found is not None
    dense = judge({**point, "zeros": "dense"}).metrics
    wide = judge({**point, "precision": "W16A16"}).metrics
    assert dense is not None and wide is not None
    assert found.latency_s < dense.latency_s
    assert found.energy_j < wide.energy_j


def test_a_unit_that_meets_no_zeros_changes_no_cycle(space: DesignSpace) -> None:
    """A tensor without zeros is written plainly, so its traffic is that of hardware without formats (law F9)."""
    chosen = space_with_choices(BOTH, WORKLOAD, JUDGE, space)
    judge = make_judge(WORKLOAD, replace(JUDGE, mapper="exact"), chosen).evaluate
    point = {"side": 4, "precision": "W8A8", "zeros": "dense", "zero_support": "none"}
    plain, unit = judge(point), judge({**point, "zero_support": "skipping"})
    assert plain.metrics is not None and unit.metrics is not None
    assert unit.metrics.latency_s == plain.metrics.latency_s
    assert unit.metrics.energy_j > plain.metrics.energy_j  # the units work


def test_schedulers_of_whole_networks_refuse_a_space_that_chooses(space: DesignSpace) -> None:
    chosen = space_with_choices(BOTH, WORKLOAD, JUDGE, space)
    with pytest.raises(UserError, match="of --scheduler layers, not fused"):
        make_judge(WorkloadSpec((NETWORK,)), JudgeSpec(scheduler="fused"), chosen)


def test_partial_sums_widen_with_products(space: DesignSpace) -> None:
    chosen = space_with_choices(ChoicesSpec(("W16A16", "W8A8", "fp16")), WORKLOAD, JUDGE, space)
    judge = make_judge(WORKLOAD, JUDGE, chosen).evaluate
    assert isinstance(judge, ByChoice)
    widths = {}
    for label in ("W16A16", "W8A8", "fp16"):
        inner = judge.of({"side": 4, "precision": label})
        assert isinstance(inner, DesignEvaluator)
        widths[label] = {g.computation.output.partial_bits for g in inner.workload.distinct_layers()}
    assert widths == {"W16A16": {40}, "W8A8": {24}, "fp16": {32}}


def study(tmp_path: Path, **search: Any) -> StudySpec:
    (tmp_path / "tiny.yaml").write_text(SPACE)
    (tmp_path / "accuracy.csv").write_text("precision,zeros,accuracy\nW8A8,,76%\nW4A8,dense,74%\nW4A8,,73%\n")
    choices = ChoicesSpec(
        ("W8A8", "W4A8"), ("dense", "weight=2:4"), ("none", "skipping"), str(tmp_path / "accuracy.csv")
    )
    return StudySpec(
        WORKLOAD,
        PlaceSpec(str(tmp_path / "out")),
        str(tmp_path / "tiny.yaml"),
        choices,
        SearchSpec(**{"optimizer": "random", "trials": 6, "objectives": ("latency", "energy", "error"), **search}),
        JUDGE,
    )


def test_a_study_records_reports_and_repeats_what_was_chosen(tmp_path: Path) -> None:
    spec = study(tmp_path, constraints=("accuracy>=0.735",))
    assert StudySpec.from_json(yaml.safe_load(yaml.safe_dump(spec.to_json()))) == spec
    run = run_study(spec)
    try:
        found = run.study
        for name in ("tiny.yaml", "accuracy.csv"):
            (tmp_path / name).unlink()
        for trial in found.trials:
            cheap = trial.point["precision"] == "W4A8"
            pruned = trial.point["zeros"] != "dense"
            assert trial.metrics["accuracy"] == (0.76 if not cheap else 0.73 if pruned else 0.74)
            assert trial.metrics["error"] == pytest.approx(1 - trial.metrics["accuracy"])
            assert found.is_valid(trial) == (trial.metrics["accuracy"] >= 0.735)
            space = recorded_space(found.config)
            detail = found.detail(trial.number)
            layers = replay_layers(space, space.build(trial.point), detail)
            for layer, record in zip(layers, detail["layers"], strict=True):
                assert layer.cost.energy_pj == pytest.approx(record["energy_pj"], rel=1e-12)
                assert layer.cost.latency_cycles == record["latency_cycles"]
        again = analyse(found, [Constant.MAC], [2.0], remap=True)
        for trial in found.trials:
            assert again.variations[0].metrics[trial.number]["error"] == trial.metrics["error"]
        assert report_data(found)["designs"]
    finally:
        run.study.close()


def test_the_front_of_precisions_and_zeros_is_proven(tmp_path: Path) -> None:
    spec = study(tmp_path, optimizer="exact", trials=None)
    run = run_study(spec)
    try:
        assert run.certificate is not None
        assert run.certificate.proven
        trials = run.study.trials
        prepared = prepare(spec)
        every = [prepared.judge.evaluate(p) for p in prepared.space.space.to_points(prepared.space.space.enumerate())]
        values = np.array([[e.metrics.to_dict()[o] for o in run.study.objectives] for e in every if e.metrics])
        front = {tuple(v) for v in values[nondominated(values)]}
        assert {tuple(t.metrics[o] for o in run.study.objectives) for t in run.study.front()} == front
        assert len(trials) <= len(every)
    finally:
        run.study.close()


def test_bounds_are_below_every_design(space: DesignSpace) -> None:
    from codesign.bounds.choices import ChoiceBounds

    chosen = space_with_choices(BOTH, WORKLOAD, JUDGE, space)
    judge = make_judge(WORKLOAD, JUDGE, chosen).evaluate
    assert isinstance(judge, ByChoice)
    inner = [e for e in judge.evaluators if isinstance(e, DesignEvaluator)]
    bounds = ChoiceBounds(chosen, judge.choices, [e.workload for e in inner])
    rows = chosen.space.enumerate()
    names = ("latency", "energy", "area", "power")
    least = bounds.lower_bounds(rows, names)
    assert (least > 0).all()
    for row, point in zip(least, chosen.space.to_points(rows), strict=True):
        metrics = judge(point).metrics
        assert metrics is not None
        found = np.array([metrics.latency_s, metrics.energy_j, metrics.area_mm2, metrics.power_w])
        assert (row <= found).all(), point


def test_choices_are_plain_values() -> None:
    pairs = (OperandPair(Operand(16, floating=True), Operand(4)),)
    table = read_accuracy(Path(__file__).parents[2] / "data" / "accuracy" / "by_precision.yaml")
    choices = Choices((("W4Afp16", pairs),), ("dense", "weight=2:4"), (ZeroSupport.GATING,), table)
    assert Choices.from_json(json.loads(json.dumps(choices.to_json()))) == choices
    points = list(choices.combinations())
    assert points == [{"zeros": "dense"}, {"zeros": "weight=2:4"}]
    assert [choices.of(p).precision for p in points] == ["W4Afp16"] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("precision,acuracy\nW8A8,1\n", r"unknown column 'acuracy'.*line 1"),
        ("precision,accuracy\nW8A8,76\n", r"`accuracy` must be from 0 to 1 or in %, got '76'.*line 1"),
        ("precision,accuracy\nW8A8,good\n", "`accuracy` must be a number, got 'good'"),
        ("precision,error\nW8A8,-1\n", "`error` must be >= 0, got '-1'"),
        ("", "expected lines with the columns"),
        ("precision,accuracy\nW8A8,0.7,\n", r"expected 2 fields, one a named column, got more: ''.*line 1"),
        ("precision,accuracy\nW8A8,0.7,x,y\n", "got more: 'x', 'y'"),
        ("precision,accuracy,\nW8A8,0.7,\n", "expected 2 fields, one a named column"),
        ("precision,accuracy\nW8A8\n", "`accuracy` must be a number, got ''"),
        ("precision,error\nW8A8,inf\n", "`error` must be a finite number, got 'inf'"),
        ("precision,error\nW8A8,nan\n", "`error` must be a finite number, got 'nan'"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        read_accuracy(tmp_path / "t.csv")


def test_tables_are_utf_8_with_or_without_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("precision,accuracy\nW8A8,0.7\n", "utf-8-sig")
    assert read_accuracy(path).rows[0].value == 0.7
    path.write_bytes("precision,accuracy\nW8Aé,0.7\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"expected UTF-8, got byte 0xe9 at 22.*t\.csv.*save the table as UTF-8"):
        read_accuracy(path)


def test_the_space_s_own_precision_is_that_of_its_netlists(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(SPACE.replace("cmos-22nm", "netlist-fitted-22nm"))
    plain = load_design_space(str(tmp_path / "tiny.yaml"))
    chosen = space_with_choices(ChoicesSpec(("W8A8",)), WorkloadSpec(("alexnet",)), JUDGE, plain)
    without, built = plain.build({"side": 8}), chosen.build({"side": 8})
    assert built.area_mm2 == pytest.approx(without.area_mm2, rel=1e-12)
    assert built.leakage_w == pytest.approx(without.leakage_w, rel=1e-12)


BAD: list[tuple[tuple[str, ...], str]] = [
    (("--precision", "W8"), "a precision is written like W4A8"),
    (("--precision", "W8A8 W8A8"), "`precision` names 'W8A8' twice"),
    (("--precision", "W8A8,nothing=W4A8"), "no operator is called 'nothing'"),
    (("--zeros", "weight=3"), "a density must be a number from 0 to 1"),
    (("--zero-support", "skiping", "--zeros", "weight=0.5"), "unknown support for zeros 'skiping'"),
    (("--zero-support", "skipping"), "support for zeros needs zeros"),
    (("--precision", "W8A8 W4A8", "--scheduler", "soma", "--space", "soma-edge"), "are of --scheduler layers, not soma"),
    (("--accuracy", "t.csv"), "--accuracy needs --precision or --zeros"),
    (("--precision", "W8A8 W4A8", "--accuracy", "t.csv"), "the table has no line for precision W4A8"),
    (("--precision", "W8A8", "--accuracy", "t.csv", "--objectives", "latency accuracy"), "'accuracy' is better the greater it is"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "message"), BAD)
def test_mistakes_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SPACE)
    (tmp_path / "t.csv").write_text("precision,accuracy\nW8A8,0.7\n")
    place = itertools.chain(("--space", "tiny.yaml") if "--space" not in flags else ())
    outcome = command("explore", "--network", NETWORK, "--seq", 16, *place, *flags, "--out", "out")
    assert outcome.code == 2, outcome.out
    assert message in " ".join(outcome.err.split())


def test_no_bounds_where_an_own_metric_replaces_a_figure() -> None:
    space = replace(
        load_design_space("gemmcore"),
        metrics=(("area_mm2", lambda d: 1e-3 * d.metrics["area_mm2"]),),  # type: ignore[call-arg]
    )
    workload, how = WorkloadSpec(("alexnet",)), JudgeSpec()
    several = space_with_choices(ChoicesSpec(precision=("W8A8", "W4A8")), workload, how, space)
    for metrics, known in ((space.metrics, False), ((), True)):  # type: ignore[attr-defined]
        judge = make_judge(workload, how, several, metrics=metrics)
        assert (_choice_bounds(judge) is not None) == known


def test_a_bayesian_search_without_bounds_says_why(tmp_path: Path) -> None:
    def reason(**more: Any) -> str:
        given = {"workload": {"networks": ["alexnet"]}, "space": "gemmcore", "place": {"out": str(tmp_path)}, **more}
        return why_no_bounds(prepare(StudySpec.from_json(given)))

    assert reason() == ""
    assert "whose bounds serve 'exact' alone" in reason(choices={"precision": ["W8A8", "W4A8"]})
    assert reason(choices={"precision": ["W8A8", "W4A8"]}, search={"optimizer": "nsga2"}) == ""
    assert "mapper 'salsa' also finds mappings" in reason(judge={"mapper": "salsa"})


def test_zeros_are_not_simulated() -> None:
    space = load_design_space("gemmcore")
    workload, how = WorkloadSpec(("alexnet",)), JudgeSpec(timing="event")
    choices = ChoicesSpec(zeros=("dense", "weight=0.5"), zero_support=("skipping",))
    several = space_with_choices(choices, workload, how, space)
    with pytest.raises(UserError, match="the event tier knows dense accesses only"):
        check_timing(how, workload, several)
