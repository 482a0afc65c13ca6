"""Gaussian processes for log-scaled metrics over mixed discrete spaces.

The prior is written for what metrics of accelerators look like: in log space they are close to linear in the
logarithms of sizes, with bends (rooflines) and jumps (ceilings). The covariance of two designs is

    k(x, x') = c + sum_p w_p L_p(x, x') + sum_p v_p M(D_p(x, x') / b^2) + s M(sum_p D_p(x, x') / l_p^2)

with L_p the product of centred coordinates of parameter p (a linear trend with a weight of its own per
parameter), M the Matern-5/2 function of a squared distance, D_p the squared distance in parameter p (half the
squared distance of one-hot vectors for a categorical one: 0 or 1). The third term bends single trends, the fourth holds
interactions. Hyperparameters maximise the marginal likelihood times log-normal priors (Rasmussen and Williams,
Gaussian Processes for Machine Learning, 2006, eq. 5.8-5.9 for the likelihood and its gradient).

GPyTorch evaluates the same model in `codesign.optim.botorch_models`; a test pins the two equal. This one exists because at
ten to two hundred points a compiled likelihood is some twenty times faster.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from codesign.core.jit import njit

Floats = NDArray[np.float64]

CONSTANT_VARIANCE = 4.0
"""Prior variance of the mean of standardised targets."""

BEND_LENGTHSCALE = 0.5
"""Lengthscale of the one-parameter terms, in units of a parameter's whole range."""

NUGGET = 1e-8
"""Added to the diagonal for the Cholesky factorisation, relative to unit target variance."""


@final
@dataclass(frozen=True)
class Prior:
    """Log-normal priors (median, sigma of the logarithm) of the hyperparameters.

    Targets are standardised, coordinates lie in [0, 1]. The medians say: a metric varies about as much by its trends as by
    everything else, and interactions are smooth over most of a parameter's range.
    """

    lengthscale: tuple[float, float] = (1.0, 0.75)
    signal: tuple[float, float] = (0.3, 1.0)
    trend: tuple[float, float] = (0.3, 1.5)
    bend: tuple[float, float] = (0.03, 1.5)
    noise: tuple[float, float] = (1e-4, 1.5)

    def layout(self, dimension: int) -> tuple[Floats, Floats]:
        """Means and standard deviations of the log hyperparameters: ``3 d + 2`` each.

        Order: signal, lengthscales, trend weights, bend weights, noise.
        """
        entries = [self.signal] + [self.lengthscale] * dimension + [self.trend] * dimension
        entries += [self.bend] * dimension + [self.noise]
        table = np.array(entries, dtype=np.float64)
        return np.log(table[:, 0]), table[:, 1]


@njit
def _gram(theta: Floats, distances: Floats, products: Floats, bend: float) -> tuple[Floats, Floats, Floats]:
    """Covariance without noise, and the pieces its gradient needs.

    Args:
        theta: Log hyperparameters: ``3 d + 2``.
        distances: ``d x n x k``.
        products: ``d x n x k``.
        bend: Lengthscale of the one-parameter terms.

    Returns:
        The covariance ``n x k``, minus twice the derivative of M by its squared distance ``n x k``, and the
        one-parameter Matern terms ``d x n x k``.
    """
    d, n, k = distances.shape
    signal = math.exp(theta[0])
    root5 = math.sqrt(5.0)
    inverse = np.exp(-2.0 * theta[1 : d + 1])
    trend, bends = np.exp(theta[d + 1 : 2 * d + 1]), np.exp(theta[2 * d + 1 : 3 * d + 1])
    gram, slope, parts = np.empty((n, k)), np.empty((n, k)), np.empty((d, n, k))
    for i in range(n):
        for j in range(k):
            total, squared = CONSTANT_VARIANCE, 0.0
            for p in range(d):
                distance = distances[p, i, j]
                squared += distance * inverse[p]
                r = root5 * math.sqrt(distance) / bend
                part = (1.0 + r + r * r / 3.0) * math.exp(-r)
                parts[p, i, j] = part
                total += trend[p] * products[p, i, j] + bends[p] * part
            r = root5 * math.sqrt(squared)
            decay = math.exp(-r)
            gram[i, j] = total + signal * (1.0 + r + r * r / 3.0) * decay
            slope[i, j] = signal * (5.0 / 3.0) * (1.0 + r) * decay
    return gram, slope, parts


@njit
def _negative_log_posterior(
    theta: Floats, distances: Floats, products: Floats, targets: Floats, mean: Floats, sigma: Floats, bend: float
) -> tuple[float, Floats]:
    """Minus the log marginal likelihood and log prior, and the gradient (``3 d + 2``)."""
    d, n, _ = distances.shape
    gram, slope, parts = _gram(theta, distances, products, bend)
    noise = math.exp(theta[3 * d + 1])
    noiseless = gram.copy()
    for i in range(n):
        gram[i, i] += noise + NUGGET
    chol = np.linalg.cholesky(gram)
    inverse_chol = np.linalg.solve(chol, np.eye(n))
    inverse = inverse_chol.T @ inverse_chol
    alpha = inverse @ targets
    value: Any = 0.5 * (targets @ alpha)
    for i in range(n):
        value += math.log(chol[i, i])
    gradient = np.zeros(3 * d + 2)
    for i in range(n):
        for j in range(n):
            weight = 0.5 * (inverse[i, j] - alpha[i] * alpha[j])
            rest = noiseless[i, j] - CONSTANT_VARIANCE
            for p in range(d):
                gradient[1 + p] += weight * slope[i, j] * distances[p, i, j] * math.exp(-2.0 * theta[1 + p])
                linear = math.exp(theta[d + 1 + p]) * products[p, i, j]
                bent = math.exp(theta[2 * d + 1 + p]) * parts[p, i, j]
                gradient[d + 1 + p] += weight * linear
                gradient[2 * d + 1 + p] += weight * bent
                rest -= linear + bent
            gradient[0] += weight * rest
        gradient[3 * d + 1] += 0.5 * (inverse[i, i] - alpha[i] * alpha[i]) * noise
    for q in range(3 * d + 2):
        z = (theta[q] - mean[q]) / sigma[q]
        value += 0.5 * z * z
        gradient[q] += z / sigma[q]
    return value, gradient


@final
@dataclass(frozen=True)
class Geometry:
    """Which features belong to which parameter, and how distances and trends are taken.

    Args:
        owners: The parameter each feature describes: ``f``.
        ordered: Which parameters have an order: ``d``.
    """

    owners: tuple[int, ...]
    ordered: tuple[bool, ...]

    def distances(self, left: Floats, right: Floats) -> Floats:
        """Squared distance by parameter: ``n x f`` and ``k x f`` to ``d x n x k``."""
        result = np.zeros((len(self.ordered), len(left), len(right)))
        for feature, owner in enumerate(self.owners):
            scale = 1.0 if self.ordered[owner] else 0.5
            result[owner] += scale * (left[:, feature, None] - right[None, :, feature]) ** 2
        return result

    def products(self, left: Floats, right: Floats) -> Floats:
        """Product of centred coordinates by parameter: ``n x f`` and ``k x f`` to ``d x n x k``."""
        result = np.zeros((len(self.ordered), len(left), len(right)))
        for feature, owner in enumerate(self.owners):
            shift, scale = (0.5, 2.0) if self.ordered[owner] else (0.0, 1.0)
            result[owner] += scale * (left[:, feature, None] - shift) * scale * (right[None, :, feature] - shift)
        return result


@final
@dataclass(frozen=True)
class GaussianProcess:
    """A fitted model of one metric (in its own, standardised scale: ``target * scale + offset``).

    Args:
        geometry: Of the space.
        theta: Log hyperparameters: ``3 d + 2``.
        features: Of the observed designs: ``n x f``.
        chol: Lower Cholesky factor of the covariance of the observations: ``n x n``.
        alpha: Inverse covariance times targets: ``n``.
        offset: Mean of the targets before standardisation.
        scale: Standard deviation of the targets before standardisation.
        loss: Minus the log posterior of the hyperparameters.
    """

    geometry: Geometry
    theta: Floats
    features: Floats
    chol: Floats
    alpha: Floats
    offset: float
    scale: float
    loss: float

    @property
    def noise(self) -> float:
        """Variance of the observation noise of standardised targets."""
        return float(np.exp(self.theta[-1]))

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation of the noise-free metric: ``k x f`` to ``k`` and ``k``."""
        from scipy.linalg import solve_triangular

        cross, _, _ = _gram(
            self.theta,
            self.geometry.distances(self.features, features),
            self.geometry.products(self.features, features),
            BEND_LENGTHSCALE,
        )
        mean = cross.T @ self.alpha
        half = solve_triangular(self.chol, cross, lower=True, check_finite=False)
        variance = np.maximum(self._prior_variance(features) - (half**2).sum(axis=0), 1e-12)
        return mean * self.scale + self.offset, np.sqrt(variance) * self.scale

    def _prior_variance(self, features: Floats) -> Floats:
        d = len(self.geometry.ordered)
        weights = np.exp(self.theta)
        total = np.full(len(features), CONSTANT_VARIANCE + weights[0] + weights[2 * d + 1 : 3 * d + 1].sum())
        for feature, owner in enumerate(self.geometry.owners):
            shift, scale = (0.5, 2.0) if self.geometry.ordered[owner] else (0.0, 1.0)
            total += weights[d + 1 + owner] * (scale * (features[:, feature] - shift)) ** 2
        return total

    def condition(self, features: Floats, targets: Floats) -> "GaussianProcess":
        """The same hyperparameters with more observations (targets in the metric's own scale)."""
        joined = np.concatenate([self.features, features])
        old = self.chol @ (self.chol.T @ self.alpha)
        new = (targets - self.offset) / self.scale
        return _with_theta(
            self.geometry, self.theta, joined, np.concatenate([old, new]), self.offset, self.scale, self.loss
        )


def _with_theta(
    geometry: Geometry, theta: Floats, features: Floats, targets: Floats, offset: float, scale: float, loss: float
) -> GaussianProcess:
    gram, _, _ = _gram(
        theta, geometry.distances(features, features), geometry.products(features, features), BEND_LENGTHSCALE
    )
    gram[np.diag_indices_from(gram)] += np.exp(theta[-1]) + NUGGET
    chol: Floats = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
    alpha = np.linalg.solve(chol.T, np.linalg.solve(chol, targets))
    return GaussianProcess(geometry, theta, features, chol, alpha, offset, scale, loss)


def standardise(targets: Floats) -> tuple[Floats, float, float]:
    """Targets with mean 0 and standard deviation 1, and the two (1 for constant targets)."""
    offset, scale = float(targets.mean()), float(targets.std())
    if not scale > 1e-12 * max(1.0, abs(offset)):
        scale = 1.0
    return (targets - offset) / scale, offset, scale


def fit(
    geometry: Geometry, features: Floats, targets: Floats, prior: Prior, *, max_iterations: int = 100
) -> GaussianProcess:
    """The model with the most probable hyperparameters.

    L-BFGS from the prior's medians: a fixed start makes the fit a function of the data alone, so that a resumed
    study continues as if it had never stopped.

    Args:
        geometry: Of the space.
        features: Of the observed designs: ``n x f``.
        targets: The metric, already log-scaled where it is to be: ``n``.
        prior: Of the hyperparameters.
        max_iterations: Bound on the L-BFGS iterations.
    """
    from scipy.optimize import minimize

    scaled, offset, scale = standardise(targets)
    mean, sigma = prior.layout(len(geometry.ordered))
    distances, products = geometry.distances(features, features), geometry.products(features, features)

    def loss(theta: Floats) -> tuple[float, Floats]:
        return _negative_log_posterior(theta, distances, products, scaled, mean, sigma, BEND_LENGTHSCALE)

    bounds = [(m - 4.0 * s, m + 4.0 * s) for m, s in zip(mean, sigma, strict=True)]
    result: Any = minimize(
        loss, mean, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": max_iterations, "ftol": 1e-7}
    )
    return _with_theta(geometry, np.asarray(result.x), features, scaled, offset, scale, float(result.fun))
