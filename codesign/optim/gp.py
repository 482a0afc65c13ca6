"""Gaussian processes for log-scaled metrics over mixed discrete spaces.

The prior is written for what metrics of accelerators look like. In log space latency, energy and area are sums and maxima of
products of sizes, hence close to piecewise linear in the logarithms of sizes: rooflines. The covariance of two designs is

    k(x, x') = c + u h(x) h(x') + t g(x) g(x') + r A(x, x') + s M(sum_p D_p(x, x') / l_p^2) + v L(x, x') + w B(x, x') + noise.

- c: an unknown mean. h: how large the design is, the sum of the logarithms of its sizes: sizes tend to act alike (all cost area,
  all save time), so one trend with an unknown slope is learned from the very first designs, before any parameter's own effect.
- g: the prediction of an earlier study or of a cheaper evaluation (absent without one), whose unknown factor
  has variance t (the autoregression of Kennedy and O'Hagan, Biometrika 87(1), 2000, eq. 1).
- A: the order-1 arc-cosine kernel, the covariance of infinitely wide sums of max(0, w.x + b) (Cho and Saul, Kernel methods
  for deep learning, NIPS 2009, eq. 1 and 6), with a weight a_p per parameter: piecewise-linear functions that go on linearly
  where nothing was observed yet.
- M: Matern-5/2 with a lengthscale l_p per parameter; D_p is the squared distance in parameter p (half that of the one-hot
  vectors for a categorical one: 0 or 1). It holds what is left: jumps, ceilings, interactions.

- L: the share of sizes that are equal, an independent effect of each value: some sizes fit the layers and others do not.
- B: linear in the standardised indicators that one whole-number size divides another, as loops that fill an array do.

The medians of a_p and l_p follow the range of a parameter's values: one that grows from 4 to 64 is expected to matter more than one
that grows from 64 to 128, and labels less than sizes.

Hyperparameters maximise the marginal likelihood times log-normal priors (Rasmussen and Williams, Gaussian Processes for Machine
Learning, 2006, eq. 5.8 and 5.9). GPyTorch evaluates the same model in `codesign.optim.botorch_models`, and a test pins the two
equal; this one exists because at ten to two hundred points a compiled likelihood saves the overhead of tensors.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from codesign.core.jit import njit

Floats = NDArray[np.float64]

CONSTANT_VARIANCE = 4.0
"""Prior variance of the mean of standardised targets."""

TRANSFER_VARIANCE = 4.0
"""Prior variance of the factor of an earlier study's prediction (both standardised)."""

TREND_VARIANCE = 0.25
"""Prior variance of the slope over the standardised logarithm of a design's size."""

TYPICAL_RANGE = 2.0
"""The logarithm of largest over smallest value (a factor of 7.4) of a size that is expected to matter as the medians say."""

_WHOLE = 2.0**31

EQUAL = 1e-9
"""Coordinates in [0, 1] that differ by less are one value."""

NUGGET = 1e-8
"""Added to the diagonal for the Cholesky factorisation, relative to unit target variance."""

FIT_ITERATIONS = 100
"""Of the maximisation of the likelihood."""

_BOUND_SIGMAS = 4.0
"""Hyperparameters stay within this many prior standard deviations of their median."""


@final
@dataclass(frozen=True)
class Prior:
    """Log-normal priors (median, standard deviation of the logarithm) of the hyperparameters.

    Targets are standardised and coordinates lie in [0, 1], so the numbers hold for any space. Piecewise-linear trends and
    the rest share the variance; a parameter's effect bends over more than its whole range. `label_weight` multiplies the median
    weight of a parameter without an order. `range_power` is how the expected slope over a size's range grows with that range;
    elasticities that are all alike give 1.
    """

    rectified: tuple[float, float] = (0.6, 1.0)
    weight: tuple[float, float] = (1.0, 1.5)
    signal: tuple[float, float] = (0.2, 1.0)
    lengthscale: tuple[float, float] = (3.0, 0.75)
    level: tuple[float, float] = (0.003, 2.0)
    divides: tuple[float, float] = (0.003, 2.0)
    noise: tuple[float, float] = (1e-4, 1.5)
    label_weight: float = 0.3
    range_power: float = 1.0

    def layout(self, geometry: "Geometry") -> tuple[Floats, Floats]:
        """Means and standard deviations of the log hyperparameters: ``2 d + 5`` each.

        Order: signal, lengthscales, rectified, weights, level, divides, noise.
        """
        dimension = len(geometry.ordered)
        entries = [self.signal] + [self.lengthscale] * dimension + [self.rectified] + [self.weight] * dimension
        table = np.array([*entries, self.level, self.divides, self.noise], dtype=np.float64)
        mean = np.log(table[:, 0])
        slope = self.range_power * np.log(geometry.relative_ranges)
        mean[1 : dimension + 1] -= slope
        mean[dimension + 2 : -3] += 2.0 * slope + np.where(geometry.ordered, 0.0, math.log(self.label_weight))
        return mean, table[:, 1]


@final
@dataclass(frozen=True)
class Geometry:
    """Which features belong to which parameter, and how distances and products are taken.

    Args:
        owners: The parameter each feature describes: ``f``.
        ordered: Which parameters have an order: ``d``.
        ranges: Logarithm of largest over smallest value of each parameter, 0 where values are no positive numbers: ``d``,
            or empty where nothing is known of them.
        whole: Parameters of whole numbers: their feature, and intercept and slope of the logarithm of the value over it.
        pairs: Of `whole`, by position: two, the share of designs in which the second divides the first, and its deviation.
    """

    owners: tuple[int, ...]
    ordered: tuple[bool, ...]
    ranges: tuple[float, ...] = ()
    whole: tuple[tuple[int, float, float], ...] = ()
    pairs: tuple[tuple[int, int, float, float], ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The features of ordered parameters."""
        return tuple(f for f, owner in enumerate(self.owners) if self.ordered[owner])

    def divides(self, features: Floats) -> Floats:
        """Standardised indicators of `pairs`, scaled so that their product is a mean: ``n x f`` to ``n x q``."""
        if not self.pairs:
            return np.zeros((len(features), 0))
        which, intercept, slope = (np.array(v) for v in zip(*self.whole, strict=True))
        first, second, mean, spread = (np.array(v) for v in zip(*self.pairs, strict=True))
        values = np.round(np.exp(intercept + slope * features[:, which]))
        if values.max(initial=0.0) < _WHOLE:  # quicker than remainders of floating-point numbers
            values = values.astype(np.int32)
        shares = (values[:, first] % values[:, second] == 0) - mean
        return np.asarray(shares / spread / math.sqrt(len(self.pairs)))

    def sides(self, left: Floats, right: Floats) -> Floats:
        """Share of equal sizes, and product of the indicators of divisibility: ``n x f`` and ``k x f`` to ``2 x n x k``."""
        equal = np.zeros((len(left), len(right)))
        for f in self.sizes:
            equal += np.abs(left[:, f, None] - right[None, :, f]) < EQUAL
        return np.stack([equal / max(1, len(self.sizes)), self.divides(left) @ self.divides(right).T])

    @property
    def relative_ranges(self) -> Floats:
        """Ranges in units of a typical one, within a factor of five of it; 1 where there is none: ``d``."""
        ranges = np.array(self.ranges or [0.0] * len(self.ordered))
        return np.clip(np.where(ranges > 0.0, ranges / TYPICAL_RANGE, 1.0), 0.2, 5.0)

    @property
    def trend_weights(self) -> Floats:
        """What each centred feature adds to the size of a design, which has variance 1 over uniform designs: ``f``."""
        ranges = np.array(self.ranges or [0.0] * len(self.ordered))
        weights = np.where(self.ordered, ranges, 0.0)[list(self.owners)]
        deviation = math.sqrt(float((weights**2).sum()) / 12.0)
        return weights / deviation if deviation > 0.0 else weights

    def linear(self, features: Floats, transfer: Floats) -> Floats:
        """The terms with a slope of known prior variance, scaled by its root: ``n x f`` and ``n x t`` to ``n x (1 + t)``."""
        size = (features - 0.5) @ self.trend_weights
        return np.concatenate(
            [math.sqrt(TREND_VARIANCE) * size[:, None], math.sqrt(TRANSFER_VARIANCE) * transfer], axis=1
        )

    def distances(self, left: Floats, right: Floats) -> Floats:
        """Squared distance by parameter: ``n x f`` and ``k x f`` to ``d x n x k``."""
        result = np.zeros((len(self.ordered), len(left), len(right)))
        for feature, owner in enumerate(self.owners):
            scale = 1.0 if self.ordered[owner] else 0.5
            result[owner] += scale * (left[:, feature, None] - right[None, :, feature]) ** 2
        return result

    def centred(self, features: Floats) -> Floats:
        """Coordinates in [-1, 1] (one-hot vectors as they are): ``n x f``."""
        ordered = np.array(self.ordered)[list(self.owners)]
        return np.where(ordered, 2.0 * features - 1.0, features)

    def products(self, left: Floats, right: Floats) -> Floats:
        """Product of centred coordinates by parameter: ``n x f`` and ``k x f`` to ``d x n x k``."""
        result = np.zeros((len(self.ordered), len(left), len(right)))
        a, b = self.centred(left), self.centred(right)
        for feature, owner in enumerate(self.owners):
            result[owner] += a[:, feature, None] * b[None, :, feature]
        return result

    def squares(self, features: Floats) -> Floats:
        """Squared norm of the centred coordinates by parameter: ``n x f`` to ``d x n``."""
        result = np.zeros((len(self.ordered), len(features)))
        centred = self.centred(features)
        for feature, owner in enumerate(self.owners):
            result[owner] += centred[:, feature] ** 2
        return result


Pieces = tuple[Floats, Floats, Floats, Floats, Floats, Floats]


@njit
def _gram(
    signal: float, rectified: float, squared: Floats, product: Floats, norm_left: Floats, norm_right: Floats
) -> Pieces:
    """The learned part of the covariance and the pieces of its gradient, each ``n x k``.

    Args:
        signal: s.
        rectified: r.
        squared: Scaled squared distances: ``n x k``.
        product: Weighted inner products, 1 included: ``n x k``.
        norm_left: Weighted norms of the left points, 1 included: ``n``.
        norm_right: Weighted norms of the right points, 1 included: ``k``.

    Returns:
        s M, minus twice the derivative of s M by its squared distance, r A, and the derivatives of r A by the inner product
        and by the two squared norms.
    """
    n, k = squared.shape
    matern, slope, arc = np.empty((n, k)), np.empty((n, k)), np.empty((n, k))
    by_product, by_left, by_right = np.empty((n, k)), np.empty((n, k)), np.empty((n, k))
    root5 = math.sqrt(5.0)
    for i in range(n):
        for j in range(k):
            r = root5 * math.sqrt(squared[i, j])
            decay = math.exp(-r)
            matern[i, j] = signal * (1.0 + r + r * r / 3.0) * decay
            slope[i, j] = signal * (5.0 / 3.0) * (1.0 + r) * decay
            norms = norm_left[i] * norm_right[j]
            cosine = min(1.0, max(-1.0, product[i, j] / norms))
            angle, sine = math.acos(cosine), math.sqrt(max(0.0, 1.0 - cosine * cosine))
            arc[i, j] = rectified * norms * (sine + (math.pi - angle) * cosine) / math.pi
            by_product[i, j] = rectified * (math.pi - angle) / math.pi
            by_left[i, j] = rectified * sine / (2.0 * math.pi) * norm_right[j] / norm_left[i]
            by_right[i, j] = rectified * sine / (2.0 * math.pi) * norm_left[i] / norm_right[j]
    return matern, slope, arc, by_product, by_left, by_right


@njit
def _add_slopes(
    gradient: Floats,
    norms: Floats,
    shares: Floats,
    scales: tuple[float, float, float],
    parts: tuple[Floats, Floats],
    sides: Floats,
    by_side: tuple[Floats, Floats],
) -> None:
    """Add what each pair of points contributes to the gradient, and to the slopes by the points' norms (``n``)."""
    n, last = norms.shape[0], gradient.shape[0]
    d = (last - 5) // 2
    level, divides, noise = scales
    matern, arc = parts
    by_left, by_right = by_side
    for i in range(n):
        gradient[last - 1] += shares[i, i] * noise
        for j in range(n):
            share = shares[i, j]
            gradient[0] += share * matern[i, j]
            gradient[d + 1] += share * arc[i, j]
            gradient[last - 3] += share * level * sides[0, i, j]
            gradient[last - 2] += share * divides * sides[1, i, j]
            norms[i] += share * by_left[i, j]
            norms[j] += share * by_right[i, j]


def _negative_log_posterior(
    theta: Floats,
    base: Floats,
    distances: Floats,
    products: Floats,
    squares: Floats,
    sides: Floats,
    targets: Floats,
    mean: Floats,
    sigma: Floats,
) -> tuple[Any, Floats]:
    """Minus the log marginal likelihood and log prior, and the gradient (``2 d + 5``)."""
    d, n, _ = distances.shape
    scales = np.array([math.exp(-2.0 * value) for value in theta[1 : d + 1]])
    weights = np.array([math.exp(value) for value in theta[d + 2 : 2 * d + 2]])
    squared = (scales @ distances.reshape(d, n * n)).reshape(n, n)
    product = 1.0 + (weights @ products.reshape(d, n * n)).reshape(n, n)
    norm = np.sqrt(1.0 + weights @ squares)
    matern, slope, arc, by_product, by_left, by_right = _gram(
        math.exp(theta[0]), math.exp(theta[d + 1]), squared, product, norm, norm
    )
    level, divides, noise = math.exp(theta[2 * d + 2]), math.exp(theta[2 * d + 3]), math.exp(theta[2 * d + 4])
    gram = base + matern + arc + level * sides[0] + divides * sides[1]
    for i in range(n):
        gram[i, i] += noise + NUGGET
    chol = np.linalg.cholesky(gram)
    inverse_chol = np.linalg.solve(chol, np.eye(n))
    inverse = inverse_chol.T @ inverse_chol
    alpha = inverse @ targets
    value = 0.5 * (targets @ alpha)
    for i in range(n):
        value += math.log(chol[i, i])
    gradient = np.zeros(2 * d + 5)
    shares = 0.5 * (inverse - np.outer(alpha, alpha))
    norms = np.zeros(n)
    _add_slopes(gradient, norms, shares, (level, divides, noise), (matern, arc), sides, (by_left, by_right))
    slopes = distances.reshape(d, n * n) @ (shares * slope).ravel()
    angles = products.reshape(d, n * n) @ (shares * by_product).ravel()
    gradient[1 : d + 1] = scales * slopes
    gradient[d + 2 : 2 * d + 2] = weights * (angles + squares @ norms)
    for q in range(2 * d + 5):
        z = (theta[q] - mean[q]) / sigma[q]
        value += 0.5 * z * z
        gradient[q] += z / sigma[q]
    return value, gradient


def _base(left: Floats, right: Floats) -> Floats:
    """The part of the covariance without hyperparameters, from `Geometry.linear`: ``n x (1 + t)`` and ``k x (1 + t)`` to ``n x k``."""
    return CONSTANT_VARIANCE + left @ right.T


def _sides(theta: Floats, sides: Floats) -> Floats:
    """The terms of `Geometry.sides` with their variances: ``2 x n x k`` to ``n x k``."""
    return np.asarray(math.exp(theta[-3]) * sides[0] + math.exp(theta[-2]) * sides[1])


def _covariance(geometry: Geometry, theta: Floats, left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """The learned terms s M + r A, and the weighted norms of the right designs: ``n x f`` and ``k x f`` to ``n x k`` and ``k``."""
    from scipy.spatial.distance import cdist

    d, owners = len(geometry.ordered), np.array(geometry.owners)
    scales = np.exp(-theta[1 : d + 1])[owners] * np.where(np.array(geometry.ordered)[owners], 1.0, math.sqrt(0.5))
    weights = np.exp(theta[d + 2 : 2 * d + 2])[owners]
    a, b = geometry.centred(left), geometry.centred(right)
    norm_left, norm_right = np.sqrt(1.0 + a**2 @ weights), np.sqrt(1.0 + b**2 @ weights)
    squared = cdist(left * scales, right * scales, "sqeuclidean")
    product = np.ascontiguousarray(1.0 + (a * weights) @ b.T)
    pieces = _gram(math.exp(theta[0]), math.exp(theta[d + 1]), squared, product, norm_left, norm_right)
    return pieces[0] + pieces[2], norm_right


@final
@dataclass(frozen=True)
class GaussianProcess:
    """A fitted model of one metric (in its own scale: standardised target times `scale` plus `offset`).

    Args:
        geometry: Of the space.
        theta: Log hyperparameters: ``2 d + 5``.
        features: Of the observed designs: ``n x f``.
        transfer: Standardised predictions of earlier knowledge at them: ``n x t``, t = 0 without any.
        targets: Standardised: ``n``.
        chol: Lower Cholesky factor of the covariance of the observations: ``n x n``.
        alpha: Inverse covariance times targets: ``n``.
        offset: Mean of the targets before standardisation.
        scale: Standard deviation of the targets before standardisation.
    """

    geometry: Geometry
    theta: Floats
    features: Floats
    transfer: Floats
    targets: Floats
    chol: Floats
    alpha: Floats
    offset: float
    scale: float

    @property
    def noise(self) -> float:
        """Variance of the observation noise of standardised targets, nugget included."""
        return float(np.exp(self.theta[-1])) + NUGGET

    def mean(self, features: Floats) -> Floats:
        """Posterior mean alone, which needs no triangular system solved: ``k x f`` to ``k``."""
        cross, _, _ = self._cross(features, np.zeros((len(features), 0)))
        return (cross.T @ self.alpha) * self.scale + self.offset

    def _cross(self, features: Floats, transfer: Floats) -> tuple[Floats, Floats, Floats]:
        """Covariance of the observations with other points, ``n x k``; those points' norms and linear features."""
        geometry = self.geometry
        learned, norms = _covariance(geometry, self.theta, self.features, features)
        linear = geometry.linear(features, transfer)
        cross = _base(geometry.linear(self.features, self.transfer), linear) + learned
        return cross + _sides(self.theta, geometry.sides(self.features, features)), norms, linear

    def predict(self, features: Floats, transfer: Floats | None = None) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation of the noise-free metric: ``k x f`` (and ``k x t``) to two ``k``."""
        from scipy.linalg import solve_triangular

        geometry = self.geometry
        cross, norms, linear = self._cross(features, np.zeros((len(features), 0)) if transfer is None else transfer)
        half = solve_triangular(self.chol, cross, lower=True, check_finite=False)
        d = len(geometry.ordered)
        prior = CONSTANT_VARIANCE + (linear**2).sum(axis=1) + math.exp(self.theta[0])
        prior = prior + math.exp(self.theta[d + 1]) * norms**2
        prior = prior + math.exp(self.theta[-2]) * (geometry.divides(features) ** 2).sum(axis=1)
        prior = prior + (math.exp(self.theta[-3]) if geometry.sizes else 0.0)
        variance = np.maximum(prior - (half**2).sum(axis=0), 1e-12)
        return (cross.T @ self.alpha) * self.scale + self.offset, np.sqrt(variance) * self.scale

    def condition(self, features: Floats, targets: Floats, transfer: Floats | None = None) -> "GaussianProcess":
        """The same hyperparameters with more observations (targets in the metric's own scale)."""
        known = np.zeros((len(features), 0)) if transfer is None else transfer
        grown = replace(
            self,
            features=np.concatenate([self.features, features]),
            transfer=np.concatenate([self.transfer, known]),
            targets=np.concatenate([self.targets, (targets - self.offset) / self.scale]),
        )
        return _factorised(grown)


def _factorised(model: GaussianProcess) -> GaussianProcess:
    geometry, x = model.geometry, model.features
    learned, _ = _covariance(geometry, model.theta, x, x)
    linear = geometry.linear(x, model.transfer)
    gram = _base(linear, linear) + learned + _sides(model.theta, geometry.sides(x, x))
    gram[np.diag_indices_from(gram)] += model.noise
    chol: Floats = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
    alpha = np.linalg.solve(chol.T, np.linalg.solve(chol, model.targets))
    return replace(model, chol=chol, alpha=alpha)


def standardise(targets: Floats) -> tuple[Floats, float, float]:
    """Targets with mean 0 and standard deviation 1, and the two (1 for constant targets)."""
    offset, scale = float(targets.mean()), float(targets.std())
    if not scale > 1e-12 * max(1.0, abs(offset)):
        scale = 1.0
    return (targets - offset) / scale, offset, scale


def fit(
    geometry: Geometry,
    features: Floats,
    targets: Floats,
    prior: Prior,
    transfer: Floats | None = None,
    *,
    max_iterations: int = FIT_ITERATIONS,
) -> GaussianProcess:
    """The model with the most probable hyperparameters.

    L-BFGS from the prior's medians: a fixed start makes the fit a function of the data alone, so that a resumed
    study continues as if it had never stopped.

    Args:
        geometry: Of the space.
        features: Of the observed designs: ``n x f``.
        targets: The metric, already log-scaled where it is to be: ``n``.
        prior: Of the hyperparameters.
        transfer: Standardised predictions of earlier knowledge: ``n x t``.
        max_iterations: Bound on the L-BFGS iterations.
    """
    from scipy.optimize import minimize

    scaled, offset, scale = standardise(targets)
    known = np.zeros((len(features), 0)) if transfer is None else transfer
    mean, sigma = prior.layout(geometry)
    linear = geometry.linear(features, known)
    fixed = (_base(linear, linear), geometry.distances(features, features), geometry.products(features, features))
    squares, sides = geometry.squares(features), geometry.sides(features, features)

    def loss(theta: Floats) -> tuple[Any, Floats]:
        return _negative_log_posterior(theta, *fixed, squares, sides, scaled, mean, sigma)

    bounds = [(m - _BOUND_SIGMAS * s, m + _BOUND_SIGMAS * s) for m, s in zip(mean, sigma, strict=True)]
    options = {"maxiter": max_iterations, "ftol": 1e-7}
    result: Any = minimize(loss, mean, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    empty = np.zeros(0)
    theta = np.asarray(result.x, dtype=np.float64)
    return _factorised(GaussianProcess(geometry, theta, features, known, scaled, empty, empty, offset, scale))
