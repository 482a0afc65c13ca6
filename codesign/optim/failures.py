"""Which designs fail: a rule that adds up sizes, or anything else, whichever told the designs seen better.

Hardware often fails where a product of sizes is too large: a sum of their logarithms against a threshold. Logistic regression over
logarithms of sizes and labels knows such rules from a few failures. The Gaussian process of labels knows any other shape, later.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit, ndtr

from codesign.optim import gp
from codesign.optim.protocols import Bools, Floats

LABEL_PRIOR = gp.Prior(noise=(0.05, 1.0))
"""Feasibility labels are +1 and -1 with noise: a hard boundary seldom is where a smooth function puts it."""

VARIANCES = (0.25, 1.0, 4.0, 16.0, 64.0)
"""Of the weights of the rule, whose features are logarithms of sizes; the one with the most evidence is taken."""

_STEPS = 50
"""Newton steps at most."""

_DOUBT = 1.0
"""By how much the rule's log score must be better for equal weight: its shape is an assumption."""


@final
@dataclass(frozen=True)
class LinearRule:
    """Bayesian logistic regression, its posterior taken as normal about its mode (Rasmussen and Williams 2006, section 3.4).

    Args:
        columns: Centre of each feature: ``f``.
        mean: Of the weights, the constant first: ``1 + f``.
        covariance: Of the weights: ``1 + f`` squared.
        log_score: Sum of the log probabilities of every outcome, each predicted without it.
    """

    columns: Floats
    mean: Floats
    covariance: Floats
    log_score: float

    def probability(self, features: Floats) -> Floats:
        """That designs work: ``n x f`` to ``n``."""
        rows = _with_constant(features - self.columns)
        latent = rows @ self.mean
        variance = np.einsum("ij,jk,ik->i", rows, self.covariance, rows)
        return _averaged(latent, variance)


def fit_rule(features: Floats, works: Bools) -> LinearRule:
    """The rule with the most evidence: ``n x f`` and ``n``."""
    columns = features.mean(axis=0)
    rows, signs = _with_constant(features - columns), np.where(works, 1.0, -1.0)
    fits = [_at_variance(rows, signs, variance) for variance in VARIANCES]
    _, mean, covariance, score = max(fits, key=lambda fit: fit[0])
    return LinearRule(columns, mean, covariance, score)


def _with_constant(features: Floats) -> Floats:
    return np.concatenate([np.ones((len(features), 1)), features], axis=1)


def _averaged(latent: Floats, variance: Floats) -> Floats:
    """The logistic function averaged over a normal distribution (MacKay 1992)."""
    return np.asarray(expit(latent / np.sqrt(1.0 + np.pi / 8.0 * variance)))


def _at_variance(rows: Floats, signs: Floats, variance: float) -> tuple[float, Floats, Floats, float]:
    """Log evidence, mode and covariance of the weights, and the log score of outcomes left out."""
    prior = np.full(rows.shape[1], 1.0 / variance)
    weights = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        missed = expit(-signs * (rows @ weights))
        curvature = missed * (1.0 - missed)
        precision = rows.T @ (rows * curvature[:, None]) + np.diag(prior)
        step = np.linalg.solve(precision, rows.T @ (signs * missed) - prior * weights)
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    covariance = np.linalg.inv(precision)
    latent = rows @ weights
    fit = np.log(expit(signs * latent)).sum() - 0.5 * (prior * weights**2).sum()
    evidence = fit + 0.5 * (np.linalg.slogdet(covariance)[1] + np.log(prior).sum())
    # without one outcome the posterior at it is wider, and its mean moves back by what the outcome had pulled
    spread = np.einsum("ij,jk,ik->i", rows, covariance, rows)
    left = spread / np.maximum(1.0 - curvature * spread, 1e-9)
    pulled = latent - left * signs * missed
    score = float(np.log(np.maximum(_averaged(signs * pulled, left), 1e-300)).sum())
    return float(evidence), weights, covariance, score


def label_log_score(labels: gp.GaussianProcess, works: Bools) -> float:
    """Likewise of a Gaussian process of labels: outcomes left out, in closed form (Rasmussen and Williams 2006, section 5.4.2)."""
    inverse = np.linalg.solve(labels.chol, np.eye(len(works)))
    diagonal = (inverse**2).sum(axis=0)
    mean = (labels.targets - labels.alpha / diagonal) * labels.scale + labels.offset
    deviation = labels.scale / np.sqrt(diagonal)
    signs = np.where(works, 1.0, -1.0)
    return float(np.log(np.maximum(ndtr(signs * mean / deviation), 1e-300)).sum())


@final
@dataclass(frozen=True)
class Failures:
    """What is believed of which designs work.

    Args:
        labels: A least-squares classifier (Rasmussen and Williams 2006, section 6.5).
        rule: The other model.
        scale: Ranges of the features as the rule takes them: ``f``.
        weight: How far the rule is believed rather than the classifier: by how well each predicts the designs seen, from 0 to 1.
    """

    labels: gp.GaussianProcess
    rule: LinearRule
    scale: Floats
    weight: float

    def probability(self, features: Floats) -> Floats:
        """That designs work: ``n x f`` to ``n``."""
        mean, deviation = self.labels.predict(features)
        smooth = ndtr(mean / np.sqrt(deviation**2 + self.labels.noise * self.labels.scale**2))
        return np.asarray((1.0 - self.weight) * smooth + self.weight * self.rule.probability(features * self.scale))


def fit_failures(geometry: gp.Geometry, features: Floats, works: Bools) -> Failures:
    """Both models of the designs told, some of which failed: ``n x f`` and ``n``."""
    labels = gp.fit(geometry, features, np.where(works, 1.0, -1.0), LABEL_PRIOR)
    ranges = np.array(geometry.ranges or [0.0] * len(geometry.ordered))[list(geometry.owners)]
    scale = np.where(ranges > 0.0, ranges, 1.0)
    rule = fit_rule(features * scale, works)
    weight = float(expit(rule.log_score - label_log_score(labels, works) - _DOUBT))
    return Failures(labels, rule, scale, weight)
