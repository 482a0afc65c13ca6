"""Proofs of studies and what they cannot prove: an objective without a bound, a bound on a metric of one's own, an epsilon out of range."""

from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import UserError
from codesign.study.run import run_study
from codesign.study.specification import StudySpec

RULES = [
    "pe<=8",
    "links=='systolic'",
    "scratchpad_kib<=128",
    "local_bytes<=64",
    "banks<=8",
    "burst_bytes>=128",
    "bus_bits>=128",
]
OWN = "tests.unit.study.test_proof_of_studies:price"


def price(design: Any) -> float:
    """A metric of one's own: a price that grows with the area."""
    return 10.0 * float(design.metrics["area_mm2"])


def asked(folder: Path, **search: Any) -> StudySpec:
    return StudySpec.from_json(
        {
            "workload": {"networks": ["alexnet"]},
            "place": {"out": str(folder)},
            "space": "gemmcore",
            "search": {
                "optimizer": "exact",
                "epsilon": 0.5,
                **search,
                "constraints": [*RULES, *search.pop("constraints", ())],
            },
        }
    )


def test_an_objective_without_a_bound_is_searched_as_a_black_box_and_said(tmp_path: Path) -> None:
    run = run_study(asked(tmp_path, objectives=["latency", OWN], trials=2))
    assert run.certificate is not None and not run.certificate.proven and run.certificate.epsilon_proven is None
    assert run.certificate.withdrawn == f"objective {OWN!r} has no positive bound" and len(run.study.trials) == 2
    run.study.close()


def test_a_bound_on_a_metric_of_ones_own_keeps_the_proof(tmp_path: Path) -> None:
    run = run_study(asked(tmp_path, constraints=[f"{OWN}<=1000"]))
    assert run.certificate is not None and run.certificate.proven and not run.certificate.withdrawn
    run.study.close()


@pytest.mark.parametrize("epsilon", [-0.1, 1.1])
def test_an_epsilon_out_of_range_is_refused_before_anything_runs(tmp_path: Path, epsilon: float) -> None:
    with pytest.raises(UserError, match=f"`epsilon` must be between 0 and 1, got {epsilon:g}"):
        run_study(asked(tmp_path / "a", epsilon=epsilon))
    assert not (tmp_path / "a").exists()
