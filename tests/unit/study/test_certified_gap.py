"""The certified gap of a study: right against every design, remembered, idempotent, in report, comparison and library."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.library.studies import explore
from codesign.optim.pareto import front
from codesign.report.compare import compare, comparison_json, describe
from codesign.report.study_page import report_data
from codesign.study.certified import CERTIFIED_FILE, STATE_FILE, read_certified
from codesign.study.run import run_study
from codesign.study.specification import StudySpec
from tests.unit.study.test_proof_of_studies import RULES


def asked(folder: Path, trials: int, certify: float, optimizer: str = "random", *limits: str) -> StudySpec:
    search: dict[str, Any] = {"optimizer": optimizer, "trials": trials, "certify": certify}
    search |= {"epsilon": 0.5} if optimizer == "exact" else {}
    return StudySpec.from_json(
        {
            "workload": {"networks": ["alexnet"]},
            "place": {"out": str(folder)},
            "space": "gemmcore",
            "search": {**search, "constraints": [*RULES, *limits]},
        }
    )


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """The metrics of all designs of the small space: ``n x 3``."""
    run = run_study(asked(tmp_path_factory.mktemp("all"), 1000, 0.0, "exhaustive"))
    values = run.study.values(run.study.trials)
    run.study.close()
    return np.asarray(values)


def true_factor(known: np.ndarray, every: np.ndarray) -> float:
    return max(float((known / row).max(axis=1).min()) for row in every)


def test_the_factor_holds_for_every_design_and_is_remembered(tmp_path: Path, every: np.ndarray) -> None:
    run = run_study(asked(tmp_path, 3, 1.0))
    values = front(run.study.values(run.study.trials))
    found = run.certified
    assert found is not None and found.factor is not None
    assert true_factor(values, every) <= found.factor < 1.2 * true_factor(values, every)
    document = read_certified(run.study)
    assert document is not None and document["certified_factor"] == found.factor
    data = report_data(run.study)
    assert data["proof"]["outer_front"] and "No design" not in str(data["summary"])
    assert any("no design of the space beats this front" in part["text"] for part in data["summary"])
    run.study.close()
    (tmp_path / STATE_FILE).write_bytes(b"cut short")  # a crash may leave this: nothing is lost but time
    more = run_study(asked(tmp_path, 6, 1.0))
    assert more.certified is not None and more.certified.factor is not None
    assert more.certified.factor <= found.factor * (1 + 1e-9)
    assert true_factor(front(more.study.values(more.study.trials)), every) <= more.certified.factor
    more.study.close()
    idle = run_study(asked(tmp_path, 6, 1e-9))
    assert idle.certified is None and read_certified(idle.study) is not None
    idle.study.close()


def test_a_study_of_another_start_in_the_folder_is_not_believed(tmp_path: Path) -> None:
    run = run_study(asked(tmp_path / "a", 2, 0.5))
    run.study.close()
    other = run_study(asked(tmp_path / "b", 2, 0.0, "sobol"))
    (tmp_path / "b" / CERTIFIED_FILE).write_text((tmp_path / "a" / CERTIFIED_FILE).read_text())
    assert read_certified(other.study) is None
    other.study.close()


def test_zero_switches_it_off_and_exact_says_it_itself(tmp_path: Path) -> None:
    off = run_study(asked(tmp_path / "off", 2, 0.0))
    assert off.certified is None and not (tmp_path / "off" / CERTIFIED_FILE).exists()
    proven = run_study(asked(tmp_path / "exact", 1000, 5.0, "exact"))
    assert proven.certificate is not None and proven.certificate.proven and proven.certified is None
    for run in (off, proven):
        run.study.close()


def test_comparisons_show_the_factor(tmp_path: Path) -> None:
    runs = [run_study(asked(tmp_path / name, 4, 0.5, name)) for name in ("random", "sobol")]
    runs.append(run_study(asked(tmp_path / "exact", 1000, 0.5, "exact")))
    found = compare([r.study for r in runs])
    groups: Any = comparison_json(found)["groups"]
    factors = {g["optimizer"]: g["certified_factor"] for g in groups}
    assert 1.0 <= factors["exact"] <= 1.5 and factors["random"] > 1.0 and factors["sobol"] > 1.0
    assert any("beats the front by more than a factor" in sentence for sentence in describe(found))
    for run in runs:
        run.study.close()


def test_the_library_says_the_same(tmp_path: Path) -> None:
    result = explore(asked(tmp_path, 3, 0.5, "random", "power_w<=2"))
    assert result.certified is not None and result.to_json()["certified_factor"] == result.certified.factor
    result.close()


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_seconds_are_checked(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(UserError, match=r"certify.* must be a number"):
        asked(tmp_path, 2, seconds)
