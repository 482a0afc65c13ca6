"""Workers that raise, die and go away: no design is lost, none comes back twice."""

import importlib.util
import os
import time
from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import MissingDependencyError, UserError
from codesign.evaluation.executors import open_executor
from codesign.evaluation.faults import DEATHS, Fault
from codesign.evaluation.parallel import Pool


def double(point: dict[str, Any]) -> int:
    if "mark" in point and not Path(point["mark"]).exists():
        Path(point["mark"]).touch()
        os._exit(9)  # as when the system is out of memory
    if point["x"] < 0:
        raise UserError("x must not be negative")
    if point["x"] == 13:
        os._exit(9)
    return 100 // point["x"]


def drain(pool: Pool[int | Fault], points: list[dict[str, Any]]) -> list[tuple[int, int | Fault]]:
    for point in points:
        pool.submit(point)
    found: list[tuple[int, int | Fault]] = []
    while len(found) < len(points):
        found += [(point["x"], value) for point, value in pool.collect()]
    return sorted(found, key=lambda pair: pair[0])


@pytest.mark.parametrize("workers", [1, 2])
def test_an_evaluation_that_raises_is_a_value(workers: int) -> None:
    with open_executor(double, "process", workers) as pool:
        results = drain(pool, [{"x": x} for x in (-1, 0, 5)])
    assert [x for x, _ in results] == [-1, 0, 5]
    first, second, third = (value for _, value in results)
    assert isinstance(first, Fault) and first.mistake and first.message == "x must not be negative"
    assert isinstance(second, Fault) and not second.mistake and second.message.startswith("ZeroDivisionError")
    assert third == 20


def test_a_worker_that_dies_is_replaced_and_its_design_evaluated_again(tmp_path: Path) -> None:
    with open_executor(double, "process", 2) as pool:
        results = drain(pool, [{"x": 4, "mark": str(tmp_path / "died")}, *({"x": x} for x in (1, 2, 5))])
    assert results == [(1, 100), (2, 50), (4, 25), (5, 20)]


@pytest.mark.slow("service")
def test_a_design_that_kills_every_worker_is_given_up() -> None:
    with open_executor(double, "process", 2) as pool:
        results = drain(pool, [{"x": 13}])
    assert isinstance(results[0][1], Fault) and f"{DEATHS} worker processes died" in results[0][1].message


def test_what_is_finished_can_be_fetched_without_waiting() -> None:
    with open_executor(double, "process", 2) as pool:
        pool.submit({"x": 5})
        deadline = time.monotonic() + 60
        found: list[Any] = []
        while not found and time.monotonic() < deadline:
            found = pool.ready()  # type: ignore[attr-defined]
        assert [value for _, value in found] == [20]


def test_unknown_executors_and_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="unknown executor 'dask'"), open_executor(double, "dask", 2):
        pass
    with (
        pytest.raises(UserError, match="--ray-address is used with --executor ray only"),
        open_executor(double, "process", 2, "auto"),
    ):
        pass
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(MissingDependencyError, match=r"needs the package 'ray'.*pip install"),
        open_executor(double, "ray", 2),
    ):
        pass


@pytest.mark.slow("service")
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
class TestRay:
    @pytest.mark.filterwarnings("ignore")
    def test_a_node_that_dies_in_mid_run_loses_no_trial_and_none_counts_twice(self, tmp_path: Path) -> None:
        import ray
        from ray.cluster_utils import Cluster

        from codesign.optim import create
        from codesign.study.explore import explore
        from codesign.study.study import Study, Trial
        from tests.unit.study.study_process import SPACE, config

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        doomed = cluster.add_node(num_cpus=1)
        study = Study.create_or_resume(tmp_path, config(), {})
        optimizer = create("random", SPACE, study.objectives, seed=0)
        killed_at: list[int] = []

        def on_trial(trial: Trial) -> None:
            if len(study.trials) == 6:
                cluster.remove_node(doomed, allow_graceful=False)
                killed_at.append(trial.number)

        try:
            ray.init(address=cluster.address, log_to_driver=False)
            assert ray.cluster_resources()["CPU"] == 2
            with open_executor(judge_on_node, "ray", 2, cluster.address) as pool:
                assert explore(study, optimizer, pool, 20, on_trial)
        finally:
            ray.shutdown()
            cluster.shutdown()
        assert killed_at
        study = Study.open(tmp_path)
        assert sorted(t.number for t in study.trials) == list(range(20))
        assert len({tuple(sorted(t.point.items())) for t in study.trials}) == 20
        assert not any(t.infeasible and t.infeasible["resource"] == "evaluation failed" for t in study.trials)
        nodes = [study.detail(t.number)["architecture"]["name"] for t in study.trials]
        assert len(set(nodes)) == 2 and len(set(nodes[-8:])) == 1  # both worked; after the death only one

    @pytest.mark.filterwarnings("ignore")
    def test_no_cluster_at_the_address(self) -> None:
        with (
            pytest.raises(UserError, match=r"no cluster at '127\.0\.0\.1:1'"),
            open_executor(double, "ray", 2, "127.0.0.1:1"),
        ):
            pass


def judge_on_node(point: dict[str, Any]) -> Any:
    from dataclasses import replace

    import ray

    from tests.unit.study.study_process import judge

    time.sleep(0.4)
    return replace(judge(point), architecture={"name": ray.get_runtime_context().get_node_id()})
