"""The shell around the strategies, and `create`."""

from typing import Any

import pytest

import codesign.optim
from codesign.core.errors import UserError
from codesign.optim import Evaluated, OutcomeConstraint
from spaces import Categorical, Constraint, Integer, Space

SPACE = Space([Integer("banks", 1, 8), Categorical("flow", ["ws", "os"])], [Constraint("c", "banks != 3", "odd")])


def make(**kwargs: Any) -> codesign.optim.Optimizer:
    return codesign.optim.create("random", SPACE, ["latency", "area"], **kwargs)


def test_the_front_is_feasible_non_dominated_and_sorted() -> None:
    optimizer = make()
    optimizer.tell({"banks": 8, "flow": "ws"}, {"latency": 1, "area": 9, "note": 4})
    optimizer.tell({"banks": 1, "flow": "ws"}, {"latency": 9, "area": 1})
    optimizer.tell({"banks": 2, "flow": "ws"}, {"latency": 9, "area": 2})
    optimizer.tell({"banks": 4, "flow": "os"}, {"latency": 0.1, "area": 0.1}, feasible=False)
    front = optimizer.front()
    assert front == [
        Evaluated({"banks": 8, "flow": "ws"}, {"latency": 1.0, "area": 9.0, "note": 4.0}),
        Evaluated({"banks": 1, "flow": "ws"}, {"latency": 9.0, "area": 1.0}),
    ]
    assert optimizer.hypervolume([10, 10]) == pytest.approx(9 * 1 + 1 * 8)
    assert optimizer.hypervolume({"area": 10, "latency": 10}) == pytest.approx(17)


def test_equal_designs_are_all_on_the_front() -> None:
    optimizer = make()
    for banks in (1, 2):
        optimizer.tell({"banks": banks, "flow": "ws"}, {"latency": 1, "area": 1})
    assert len(optimizer.front()) == 2


def test_metrics_of_an_infeasible_design_are_kept() -> None:
    optimizer = make()
    optimizer.tell({"banks": 4, "flow": "os"}, {"latency": 2.0, "area": float("inf")}, feasible=False)
    history = optimizer.history()
    assert history.objectives[0, 0] == 2.0
    assert not history.valid[0]


def test_a_lost_worker_gives_its_design_back() -> None:
    optimizer = make()
    (point,) = optimizer.ask()
    optimizer.forget(point)
    assert optimizer.pending == []
    with pytest.raises(UserError, match="not pending"):
        optimizer.forget(point)


def test_a_bound_removes_designs_from_the_front() -> None:
    optimizer = make(constraints=["power_w<=2", OutcomeConstraint("fps", 30, upper=False)])
    optimizer.tell({"banks": 8, "flow": "ws"}, {"latency": 1, "area": 1, "power_w": 3, "fps": 40})
    optimizer.tell({"banks": 1, "flow": "ws"}, {"latency": 2, "area": 2, "power_w": 2, "fps": 30})
    assert [e.point["banks"] for e in optimizer.front()] == [1]


def test_elites_of_an_earlier_study_are_tried_first() -> None:
    earlier = [({"banks": b, "flow": "ws"}, {"latency": 8.0 / b, "area": 1.0 + b}) for b in (1, 2, 4, 8)]
    earlier.append(({"banks": 3, "flow": "ws"}, {"latency": 0.01, "area": 0.01}))  # not valid here any more
    earlier.append(({"banks": 5, "flow": "ws"}, {"latency": 50.0, "area": 50.0}))  # dominated
    first = make(warm_start=earlier).ask(3)
    assert len(first) == 3
    assert {p["banks"] for p in first} < {1, 2, 4, 8}


def test_options_come_by_suffix_or_by_name_in_text_or_number() -> None:
    for options in ({"population": 7}, {"population": "7"}):
        codesign.optim.create("nsga2", SPACE, ["latency"], options=options)
    codesign.optim.create("nsga2:7", SPACE, ["latency"])
    assert codesign.optim.options_of("moead") == {"population": 10, "neighbours": 5}
    assert "acquisition" in codesign.optim.options_of("mobo")


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"name": "mobbo"}, "unknown optimiser 'mobbo'; did you mean 'mobo'"),
        ({"name": "optuna"}, "needs a sampler; write it as 'optuna:SAMPLER'"),
        ({"name": "optuna:tep"}, "did you mean 'tpe'"),
        ({"name": "optuna:cmaes"}, "handles one objective, got 2"),
        ({"name": "random:3"}, "takes nothing after a colon"),
        ({"name": "nsga2:1"}, "population: expected at least 2, got 1"),
        ({"name": "nsga2:many"}, "option 'population' must be of type int, got 'many'"),
        ({"name": "mobo:ehvj"}, "did you mean 'ehvi'"),
        ({"name": "mobo", "options": {"pol": 3}}, "did you mean 'pool'"),
        ({"name": "mobo", "options": {"pool": 0}}, "`pool` must be >= 1, got 0"),
        ({"name": "mobo", "options": {"design": "corner"}}, "did you mean 'corners'"),
        ({"name": "mobo", "options": {"margin": 0}}, "`margin` must be > 0, got 0"),
        ({"objectives": []}, "at least one name"),
        ({"objectives": "latency"}, "expected a list of names"),
        ({"objectives": ["a", "a"]}, "objectives must differ"),
        ({"constraints": ["power < two"]}, "expected a form such as 'power_w<=2'"),
        ({"constraints": ["p<=1", "p>=2"]}, "p>=2 and p<=1 contradict each other"),
        ({"constraints": ["p<=1e999"]}, "the bound must be finite"),
        ({"reference_point": [1]}, "expected a finite number per objective"),
        ({"reference_point": {"latncy": 1}}, "did you mean 'latency'"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"initial": [{"banks": 3, "flow": "ws"}]}, "initial design 1 breaks a known constraint"),
        ({"initial": [{"banks": 9, "flow": "ws"}]}, "expected one of 1, 2"),
        ({"warm_start": [({"bank": 1}, {"latency": 1, "area": 1})]}, "did you mean 'banks'"),
    ],
)
def test_bad_requests_are_refused(kwargs: dict[str, Any], message: str) -> None:
    settings = {"name": "random", "objectives": ["latency", "area"], **kwargs}
    with pytest.raises(UserError) as caught:
        codesign.optim.create(settings.pop("name"), SPACE, **settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("point", "values", "message"),
    [
        ({"banks": 1, "flow": "ws"}, {"latency": 1.0}, "missing metric 'area'"),
        ({"banks": 1, "flow": "ws"}, {"latency": 1.0, "area": "big"}, "'area' must be a number, got 'big'"),
        ({"banks": 1, "flow": "ws"}, {"latency": 1.0, "area": None}, "'area' must be a number, got None"),
        ({"banks": 1, "flow": "ws"}, {"latency": 1.0, "area": float("inf")}, "'area' must be finite, got inf"),
        ({"banks": 99, "flow": "ws"}, {"latency": 1.0, "area": 1.0}, "expected one of"),
    ],
)
def test_bad_answers_are_refused(point: dict[str, Any], values: dict[str, Any], message: str) -> None:
    optimizer = make()
    with pytest.raises(UserError) as caught:
        optimizer.tell(point, values)
    assert message in str(caught.value)
    assert len(optimizer.history().indices) == 0


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_ask_wants_a_positive_number(count: Any) -> None:
    with pytest.raises(UserError, match="expected a positive number"):
        make().ask(count)


def test_hypervolume_wants_a_reference_point() -> None:
    with pytest.raises(UserError, match="no reference point"):
        make().hypervolume()
    assert make(reference_point=[1, 1]).hypervolume() == 0.0


@pytest.mark.filterwarnings("ignore")
def test_processes_of_optuna_are_told_the_worst_seen_of_designs_that_failed() -> None:
    from codesign.optim.optuna_samplers import OptunaSampler

    optimizer = codesign.optim.create("optuna:gp", Space([Integer("a", 0, 5)]), ["x", "y"])
    for a, values in ((0, {"x": 1.0, "y": 9.0}), (1, {}), (2, {"x": 4.0, "y": 2.0})):
        optimizer.tell({"a": a}, values, feasible=bool(values))
    study = OptunaSampler(optimizer.problem, "gp")._study(optimizer.history(), 0)
    assert [t.values for t in study.trials] == [[1.0, 9.0], [4.0, 9.0], [4.0, 2.0]]
