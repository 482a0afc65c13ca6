"""What is learned of which designs fail: a rule where there is one, anything else where there is none."""

import numpy as np
import pytest
from scipy.special import expit

from codesign.optim.acquisition import LIKELY, View, hypervolume_improvement
from codesign.optim.failures import VARIANCES, fit_failures, fit_rule
from codesign.optim.surrogate import geometry_of
from spaces import Ordinal, PowerOfTwo, Space

SPACE = Space([PowerOfTwo("a", 1, 64), PowerOfTwo("b", 4, 256), Ordinal("c", [1, 2, 3, 4, 6, 8])])


def drawn(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Designs: features, and values of their sizes."""
    rows = SPACE.sample(count, np.random.default_rng(seed))
    return SPACE.features(rows), np.array([[p[n] for n in SPACE.names] for p in SPACE.to_points(rows)], dtype=float)


@pytest.mark.parametrize("seed", range(5))
def test_a_product_that_must_not_be_too_large_is_found_from_few_designs(seed: int) -> None:
    features, sizes = drawn(18, seed)
    works = sizes[:, 0] * sizes[:, 1] <= 256
    found = fit_failures(geometry_of(SPACE), features, works)
    others, theirs = drawn(200, seed + 100)
    truth = theirs[:, 0] * theirs[:, 1] <= 256
    assert ((found.probability(others) > 0.5) == truth).mean() >= 0.85


def test_a_region_that_is_no_sum_of_logarithms_is_left_to_the_process() -> None:
    features, sizes = drawn(80, 3)
    works = (sizes[:, 0] > 2) & (sizes[:, 0] < 32) & (sizes[:, 1] > 8) & (sizes[:, 1] < 128)
    found = fit_failures(geometry_of(SPACE), features, works)
    assert found.weight < 0.05
    others, theirs = drawn(200, 103)
    truth = (theirs[:, 0] > 2) & (theirs[:, 0] < 32) & (theirs[:, 1] > 8) & (theirs[:, 1] < 128)
    assert ((found.probability(others) > 0.5) == truth).mean() >= 0.9


@pytest.mark.parametrize("seed", range(4))
def test_outcomes_left_out_score_as_fits_without_them_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(24, 3))
    works = rng.random(24) < expit(2.0 * features[:, 0] - features[:, 1])
    score = fit_rule(features, works).log_score
    slow = 0.0
    for k in range(24):
        rest = np.arange(24) != k
        chance = fit_rule(features[rest], works[rest]).probability(features[k : k + 1])[0]
        slow += np.log(chance if works[k] else 1.0 - chance)
    assert score == pytest.approx(slow, abs=0.15 * abs(slow))


def test_the_mode_of_the_rule_has_no_slope() -> None:
    rng = np.random.default_rng(1)
    features, works = rng.normal(size=(30, 2)), rng.random(30) < 0.6
    rule = fit_rule(features, works)
    rows = np.concatenate([np.ones((30, 1)), features - rule.columns], axis=1)
    pull = rows.T @ (works - expit(rows @ rule.mean))
    assert any(np.allclose(pull, rule.mean / variance, atol=1e-6) for variance in VARIANCES)


def test_what_probably_fails_waits_however_good_it_is_expected_to_be() -> None:
    class Believed:
        """Two metrics; the first design is far better than the others and the least likely to work."""

        space = SPACE

        def predict(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean = np.array([[0.0, 0.0], [0.9, 0.9], [0.8, 0.8]])[: len(features)]
            return mean, np.full_like(mean, 0.01)

        def feasibility(self, features: np.ndarray) -> np.ndarray:
            return np.array([LIKELY * 0.9, LIKELY * 1.1, LIKELY * 0.5])[: len(features)]

    seen = np.array([[1.0, 1.0], [2.0, 2.0]])
    view = View.of(seen, seen, None, 0.1)
    first, second, third = hypervolume_improvement(Believed(), view)(SPACE.sample(3, np.random.default_rng(0)))  # type: ignore[arg-type]
    assert second > first > third > 0.0
