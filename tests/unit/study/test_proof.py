"""The file of a proof: written, read back, continued; thinned bounds stay bounds; distances to a proven front."""

from pathlib import Path

import numpy as np
import pytest

from codesign.optim.certificate import Certificate
from codesign.optim.pareto import thinned
from codesign.report.compare import distance
from codesign.study.proof import GapHistory, read_proof, write_proof


def state(epsilon: float, evaluated: int) -> Certificate:
    return Certificate(100, evaluated, 0, 3, 0.0, epsilon, 0.5, 0.6)


def test_a_proof_is_read_back_and_its_history_goes_on(tmp_path: Path) -> None:
    history = GapHistory.of(tmp_path)
    for trials, epsilon in ((1, float("inf")), (2, 0.5)):
        history.add(trials, state(epsilon, trials))
    outer = np.array([[1.0, 2.0], [2.0, 1.0]])
    write_proof(tmp_path, state(0.5, 2), ("latency_s", "energy_j"), outer, history)
    found = read_proof(tmp_path)
    assert found is not None and found["outer_front"] == outer.tolist() and found["objectives"][1] == "energy_j"
    assert "of 100 designs 2 were evaluated" in found["sentence"] and found["epsilon_proven"] == 0.5
    assert found["history"] == [[1, None, 0.5, 0.6], [2, 0.5, 0.5, 0.6]]
    again = GapHistory.of(tmp_path)
    again.add(2, state(0.4, 2))  # learned anew
    again.add(3, state(0.1, 3))
    assert [row[:2] for row in again.rows] == [[1, None], [2, 0.4], [3, 0.1]]


def test_no_proof_is_none(tmp_path: Path) -> None:
    assert read_proof(tmp_path) is None


@pytest.mark.parametrize("most", [1, 7, 50])
def test_thinned_points_bound_what_all_points_bound(most: int) -> None:
    rng = np.random.default_rng(most)
    points = rng.random((200, 3))
    fewer = thinned(points, most)
    assert len(fewer) <= most
    assert all((fewer <= row).all(axis=1).any() for row in points)


def test_distance_is_the_worst_of_the_nearest() -> None:
    truth = np.array([[1.0, 4.0], [2.0, 2.0], [4.0, 1.0]])
    assert distance(truth, truth) == 0.0
    assert distance(truth[1:], truth) == pytest.approx(1.0)  # (1, 4) is reached by (2, 2) within a factor of 2
