import numpy as np
import pytest

from codesign.optim.capacities import exponents, fit_capacities


def test_every_number_of_sizes_has_the_same_prior_probability() -> None:
    vectors, prior = exponents(3)
    assert len(vectors) == 3**3 - 1
    assert len(np.unique(vectors, axis=0)) == len(vectors)
    for used in (1, 2, 3):
        of_this = np.abs(vectors).sum(axis=1) == used
        assert np.exp(prior[of_this]).sum() == pytest.approx(1.0)


def test_a_limit_is_equally_likely_all_over_the_gap() -> None:
    logs, works = np.array([[0.2], [0.4], [0.8], [0.9]]), np.array([True, True, False, False])
    rules = fit_capacities(logs, np.ones(1), works)
    assert rules.probability(np.array([[0.6]])) == pytest.approx([0.5], abs=0.05)
    assert rules.probability(np.array([[0.5]])) == pytest.approx([0.75], abs=0.05)
    assert rules.probability(np.array([[0.1]])) > 0.9
    assert rules.probability(np.array([[0.95]])) < 0.1


def test_two_rules_that_hold_at_once_are_told_from_forty_designs() -> None:
    rng, ranges = np.random.default_rng(3), np.array([3.0, 3.0, 2.0, 4.0])

    def fits(logs: np.ndarray) -> np.ndarray:  # a product against a capacity, and a ratio
        return (logs[:, 0] + logs[:, 1] - logs[:, 3] <= 2.1) & (logs[:, 3] - logs[:, 2] <= 2.3)

    seen, new = rng.random((40, 4)) * ranges, rng.random((2000, 4)) * ranges
    rules = fit_capacities(seen, ranges, fits(seen))
    right = (rules.probability(new) > 0.5) == fits(new)
    assert right.mean() > 0.9
    assert rules.weights.sum() == pytest.approx(1.0)
