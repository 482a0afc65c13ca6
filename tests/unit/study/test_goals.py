"""Objectives by name, bounds with units, rules on parameters, metrics of one's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import UserError
from codesign.evaluation.design import Evaluation
from codesign.evaluation.detail import NoDetail
from codesign.evaluation.metrics import OWN_UNITS, JudgedMetric, Metrics, format_si, unit_of
from codesign.evaluation.own_metrics import WithOwnMetrics
from codesign.study.config import check_same
from codesign.study.goals import own_metrics, read_goals, ruled
from spaces.scratchpad import SCRATCHPAD
from spaces.space_file import load_space_file

FILE = Path(__file__).parents[2] / "data" / "spaces" / "clustered.yaml"
MODULE = """
def cost(design):
    return 2 * design.metrics["area_mm2"] + design.point["banks"] + design.architecture.mac_units

def bad(design):
    return float("nan")

def failing(design):
    return design.metrics["are_mm2"]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_cost_of_tests.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return "own_cost_of_tests"


def test_names_short_full_and_of_the_space() -> None:
    assert read_goals(["latency", "energy_j"], [], SCRATCHPAD).objectives == ("latency_s", "energy_j")
    assert read_goals([], [], SCRATCHPAD).objectives == ("latency_s", "energy_j", "area_mm2")
    assert read_goals([], [], load_space_file(FILE)).objectives == ("latency_s", "energy_j", "cost")
    with pytest.raises(UserError, match=r"unknown objective 'cots'; did you mean 'cost'.*module:function"):
        read_goals(["latency", "cots"], [], load_space_file(FILE))


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        ("latency<=5ms", "latency_s<=0.005"),
        ("latency_s <= 5e-3", "latency_s<=0.005"),
        ("power<=1500 mW", "power_w<=1.5"),
        ("energy < 2uJ", "energy_j<=2e-06"),
        ("area<=4mm2", "area_mm2<=4"),
        ("area>=500000um2", "area_mm2>=0.5"),
        ("edp<=1e-6", "edp_js<=1e-06"),
    ],
)
def test_bounds_have_units(text: str, recorded: str) -> None:
    goals = read_goals([], [text], SCRATCHPAD)
    assert [str(b) for b in goals.bounds] == [recorded] and goals.rules == ()


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        ("s_per_token<=2ms", "s_per_token<=0.002"),
        ("ttft_s<=5ms", "ttft_s<=0.005"),
        ("tokens_per_j>=3", "tokens_per_j>=3"),
    ],
)
def test_bounds_of_serving_have_their_stated_units(text: str, recorded: str) -> None:
    judged = {name: JudgedMetric(name) for name in OWN_UNITS}
    assert [str(b) for b in read_goals([], [text], SCRATCHPAD, judged).bounds] == [recorded]


@pytest.mark.parametrize(("text", "unit"), [("tokens_per_j>=1mJ", "1/J"), ("tokens_per_s>=1ms", "1/s")])
def test_a_rate_takes_no_unit(text: str, unit: str) -> None:
    judged = {name: JudgedMetric(name) for name in OWN_UNITS}
    with pytest.raises(UserError, match=f"must be a number, got .*it is counted in {unit}"):
        read_goals([], [text], SCRATCHPAD, judged)


def test_rules_on_parameters_narrow_the_space() -> None:
    goals = read_goals([], ["pe_rows>=32", "pe_rows * pe_cols <= 2048", "scratchpad_kib <= 64"], SCRATCHPAD)
    assert goals.bounds == () and goals.rules == ("pe_rows>=32", "pe_rows * pe_cols <= 2048", "scratchpad_kib <= 64")
    space = ruled(SCRATCHPAD, goals.rules)
    preset = SCRATCHPAD.space.presets[0]
    assert space.space.violations(preset) and not space.space.presets  # the preset has 16 rows
    assert not space.space.violations({**preset, "pe_rows": 32, "scratchpad_kib": 64})
    assert space.to_json() != SCRATCHPAD.to_json()  # another study
    sized = ruled(load_space_file(FILE), read_goals([], ["buffer_bytes>=64KiB"], load_space_file(FILE)).rules)
    assert len(sized.space.enumerate()) < len(load_space_file(FILE).space.enumerate())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latncy<=5ms", r"unknown metric or parameter 'latncy'.*--constraint latncy<=5ms.*did you mean 'latency'"),
        ("latency<=5W", r"expected a quantity in s, got '5W'"),
        ("latency<=5 minutes", r"unknown unit 'minutes'"),
        ("edp<=5ms", r"the bound on 'edp' must be a number, got '5ms'"),
        ("latency<=fast", r"the bound on 'latency' must be a number or a number with a unit \(s\), got 'fast'"),
        ("latency<=pe_rows", r"a bound is on metrics or on parameters, got both"),
        ("latency=5", r"expected a bound such as"),
        ("pe_rows>=", r"not an expression"),
        ("pe_rows>=x", r"unknown parameter 'x'"),
        ("dataflow == weight_stationary", r"a label stands in quotes: 'weight_stationary'"),
    ],
)
def test_constraints_that_cannot_be_read_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ruled(SCRATCHPAD, read_goals([], [text], SCRATCHPAD).rules)


def test_a_bound_of_a_file_is_named_as_such() -> None:
    space = replace(load_space_file(FILE), bounds=("latency<=5mss",))
    with pytest.raises(UserError, match=r"unknown unit 'mss' in '5mss' \(`bounds` of space 'mine': latency<=5mss\)"):
        read_goals([], ["power_w<=2"], space)


def test_metrics_of_a_module(module: str) -> None:
    goals = read_goals(["latency", f"{module}:cost"], [f"{module}:cost<=900"], SCRATCHPAD)
    assert goals.objectives == ("latency_s", f"{module}:cost") and str(goals.bounds[0]) == f"{module}:cost<=900"
    point = SCRATCHPAD.space.presets[0]

    def judge(_: Any) -> Evaluation:
        return Evaluation(Metrics(1.0, 2.0, 3.0, 0.1), None, 0.0, NoDetail(), {})

    found = WithOwnMetrics(judge, SCRATCHPAD, goals.metrics)(point)
    assert found.metrics is not None
    assert found.metrics.to_dict()[f"{module}:cost"] == 2 * 3.0 + point["banks"] + 256
    assert unit_of(f"{module}:cost") == "" and format_si(266.0, "") == "266"
    assert [n for n, _ in own_metrics(["latency_s", f"{module}:cost"], SCRATCHPAD)] == [f"{module}:cost"]
    for name, message in (("bad", r"must be a finite number, got nan"), ("failing", r"failed: KeyError: 'are_mm2'")):
        metrics = read_goals(["latency", f"{module}:{name}"], [], SCRATCHPAD).metrics
        with pytest.raises(UserError, match=message):
            WithOwnMetrics(judge, SCRATCHPAD, metrics)(point)
    with pytest.raises(UserError, match=r"unknown function 'cots'.*did you mean 'cost'"):
        read_goals(["latency", f"{module}:cots"], [], SCRATCHPAD)
    with pytest.raises(UserError, match=r"cannot load metric 'no_such_module:x': ModuleNotFoundError"):
        read_goals(["latency", "no_such_module:x"], [], SCRATCHPAD)


def test_metrics_of_a_space_are_all_recorded() -> None:
    space = load_space_file(FILE)
    assert [n for n, _ in read_goals(["latency", "energy"], [], space).metrics] == ["cost"]


def test_a_study_is_the_same_however_its_optimiser_is_written() -> None:
    config = {"space": {"name": "mine", "source": "mine:MINE"}, "optimizer": "rl", "seed": 0}
    check_same(config, {**config, "optimizer": "rl:ppo", "space": {"name": "mine", "source": "other:MINE"}}, "study.db")
    check_same(
        {**config, "optimizer": "nsga2, two fidelities"}, {**config, "optimizer": "nsga2:10, two fidelities"}, "x"
    )
    with pytest.raises(UserError, match="another optimizer"):
        check_same(config, {**config, "optimizer": "rl:dqn"}, "study.db")
    with pytest.raises(UserError, match="another space"):
        check_same(config, {**config, "space": {"name": "ours"}}, "study.db")
