"""Studies: every trial durable, resume exact, another problem refused, damage met."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm.session import SessionTransactionState

import spaces
from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import Evaluation
from codesign.evaluation.detail import LayersDetail, NoDetail
from codesign.evaluation.metrics import Metrics
from codesign.evaluation.parallel import SerialPool
from codesign.optim import create
from codesign.study.config import StudyConfig
from codesign.study.explore import explore
from codesign.study.study import Study, hypervolume_curve

SPACE = spaces.Space([spaces.PowerOfTwo("pes", 1, 64), spaces.Integer("banks", 1, 8)])


def config(seed: int = 0) -> StudyConfig:
    return StudyConfig(
        {"name": "toy", "space": SPACE.to_json()},
        {"names": ["toy"]},
        ("latency_s", "area_mm2"),
        ("power_w<=40",),
        "mobo",
        {"name": "anneal"},
        {},
        seed,
    )


def judge(point: dict[str, Any]) -> Evaluation:
    pes, banks = point["pes"], point["banks"]
    if pes == 64 and banks == 1:
        return Evaluation(None, Infeasible("capacity of level 'X'", 3, 2, "bytes"), 0.01, NoDetail(), {})
    latency = 1.0 / min(pes, 4 * banks)
    metrics = Metrics(latency, (pes + banks) * latency, pes + 0.5 * banks, 0.0)
    return Evaluation(metrics, None, 0.01, LayersDetail({}, 0, (), {}), {"name": "toy"})


def run(folder: Path, trials: int, seed: int = 0, optimizer_name: str = "mobo") -> Study:
    study = Study.create_or_resume(folder, config(seed), {"python": "3"})
    optimizer = create(optimizer_name, SPACE, study.objectives, seed=seed, constraints=list(config().constraints))
    explore(study, optimizer, SerialPool(judge), trials)
    return study


def test_an_interrupted_run_continues_exactly(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 14)
    run(tmp_path / "parts", 6)
    parts = run(tmp_path / "parts", 14)
    assert [t.point for t in parts.trials] == [t.point for t in whole.trials]
    assert [t.metrics for t in Study.open(tmp_path / "parts").trials] == [t.metrics for t in whole.trials]


def test_another_problem_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    run(tmp_path, 2)
    with pytest.raises(UserError, match="another seed: 0, asked for 1"):
        Study.create_or_resume(tmp_path, config(seed=1), {})


def test_no_study(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no study in"):
        Study.open(tmp_path)
    (tmp_path / "study.json").write_text("[]")
    with pytest.raises(UserError, match="does not say where the study is"):
        Study.open(tmp_path)


def test_infeasible_trials_are_kept_with_their_reason(tmp_path: Path) -> None:
    study = run(tmp_path, 56, optimizer_name="random")
    reasons = [t.infeasible for t in study.trials if t.infeasible]
    assert reasons and reasons[0]["resource"] == "capacity of level 'X'"
    assert all(study.is_valid(t) for t in study.front())
    assert all(t.metrics["power_w"] <= 40 for t in study.front())


class CountingPool:
    """Two workers that finish in order; counts how many designs they were given at once."""

    size = 2

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._given: list[dict[str, Any]] = []
        self.most = 0

    def submit(self, point: dict[str, Any]) -> None:
        self._given.append(point)
        self.most = max(self.most, len(self._given))

    def ready(self) -> list[tuple[dict[str, Any], Evaluation]]:
        return []

    def collect(self) -> list[tuple[dict[str, Any], Evaluation]]:
        point = self._given.pop(0)
        return [(point, replace(judge(point), seconds=self._seconds))]


@pytest.mark.parametrize(("seconds", "most"), [(1e-3, 3), (1e6, 2)])
def test_a_design_is_kept_ready_where_recording_and_proposing_take_long(
    seconds: float, most: int, tmp_path: Path
) -> None:
    study = Study.create_or_resume(tmp_path, config(), {})
    pool = CountingPool(seconds)
    assert explore(study, create("random", SPACE, study.objectives, seed=0), pool, 8)
    assert pool.most == most and len(study.trials) == 8


def test_the_dashboard_of_optuna_finds_figures_reasons_and_a_note(tmp_path: Path) -> None:
    import optuna

    study = run(tmp_path, 56, optimizer_name="random")
    study.close()
    opened = optuna.load_study(study_name="study", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert opened.metric_names == ["latency_s", "area_mm2"]
    by_number = {t.user_attrs["number"]: t for t in opened.trials}
    for trial in study.trials:
        shown = by_number[trial.number]
        assert shown.params == trial.point
        if trial.infeasible:
            assert shown.state.name == "FAIL" and shown.user_attrs["infeasible"] == "capacity of level 'X'"
            continue
        assert shown.values == [trial.metrics[o] for o in study.objectives]
        assert shown.user_attrs["power_w"] == trial.metrics["power_w"]
        assert list(shown.constraints.values()) == [trial.metrics["power_w"] - 40]
    assert {t.user_attrs["number"] for t in opened.best_trials} == {t.number for t in study.front()}
    # where the dashboard keeps the notes that people write beside a study
    system = opened._storage.get_study_system_attrs(opened._study_id)
    assert system["dashboard:note_ver"] == 1 and "subject to power_w<=40" in system["dashboard:note_str:0"]


def test_the_hypervolume_never_falls_and_its_reference_is_fixed(tmp_path: Path) -> None:
    study = run(tmp_path, 12)
    reference = study.reference_point()
    assert reference is not None
    curve = hypervolume_curve(study.values(study.trials), reference)
    assert curve == sorted(curve) and curve[-1] > 0
    assert run(tmp_path, 20).reference_point() == reference


class InterruptedPool(SerialPool[Evaluation]):
    """Ctrl-C meets the fourth wait inside a transaction, while a design is done that nobody collected."""

    def __init__(self, study: Study) -> None:
        super().__init__(judge)
        self._study = study

    def collect(self) -> list[tuple[dict[str, Any], Evaluation]]:
        if len(self._study.trials) == 3:
            session = self._study._database._storage.scoped_session()
            session.begin()
            session.get_transaction()._state = SessionTransactionState.CLOSED
            raise KeyboardInterrupt
        return super().collect()

    def ready(self) -> list[tuple[dict[str, Any], Evaluation]]:
        return [] if len(self._study.trials) < 3 else super().collect()


def test_an_interruption_inside_a_transaction_keeps_what_is_finished(tmp_path: Path) -> None:
    study = Study.create_or_resume(tmp_path, config(), {})
    with pytest.raises(KeyboardInterrupt):
        explore(study, create("random", SPACE, study.objectives, seed=0), InterruptedPool(study), 9)
    assert len(study.trials) == 4
    study.close()
    assert len(Study.open(tmp_path).trials) == 4


def test_the_space_may_run_out(tmp_path: Path) -> None:
    study = Study.create_or_resume(tmp_path, config(), {})
    optimizer = create("random", SPACE, study.objectives, seed=0)
    assert not explore(study, optimizer, SerialPool(judge), 1000)
    assert len(study.trials) == 7 * 8
    assert [t.number for t in Study.open(tmp_path).trials] == list(range(56))
