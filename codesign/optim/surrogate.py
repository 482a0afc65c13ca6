"""What is believed about every metric: one Gaussian process each, feasibility, and earlier knowledge."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtr

from codesign.core.errors import UserError
from codesign.optim import gp
from codesign.optim.failures import Failures, fit_failures
from codesign.optim.protocols import Bools, Evaluated, Floats, History, Indices, Problem, SearchSpace

_SOME = (0.1, 0.9)
"""Shares of designs between which it is worth knowing whether one size divides another."""

_RANGE_SAMPLE = 256
"""Valid designs from which the ranges of values are read."""


@final
@dataclass(frozen=True)
class MetricModel:
    """One metric: its scale and its Gaussian process, on top of an earlier study's model if there is one.

    Args:
        process: Of the metric, or of its logarithm.
        log: True where the process models the logarithm.
        earlier: The model of the same metric in an earlier study; its standardised prediction is what the process builds on.
    """

    process: gp.GaussianProcess
    log: bool
    earlier: "MetricModel | None" = None

    def transfer(self, features: Floats) -> Floats:
        """What earlier knowledge says at some designs, standardised: ``n x f`` to ``n x t``."""
        return _transfer(self.earlier, features)

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation in the scale that is modelled: ``n x f`` to two ``n``."""
        return self.process.predict(features, self.transfer(features))

    def explained(self, features: Floats) -> Floats:
        """The share of the uncertainty about a design that is the earlier model's own: ``n x f`` to ``n``.

        With high = factor x low + difference and independent parts it is factor^2 var(low) / (factor^2 var(low) + var(rest)),
        the factor being the change of the prediction per unit of the transferred one.
        """
        if self.earlier is None:
            return np.zeros(len(features))
        transfer = self.transfer(features)
        mean, rest = self.process.predict(features, transfer)
        factor = self.process.predict(features, transfer + 1.0)[0] - mean
        low = factor * self.earlier.predict(features)[1] / self.earlier.process.scale
        return np.asarray(low**2 / (low**2 + rest**2), dtype=np.float64)

    def believe(self, features: Floats) -> tuple["MetricModel", Floats]:
        """The model told its own prediction at some designs, and that prediction: for pending designs.

        The "Kriging believer" of Ginsbourger, Le Riche and Carraro (Kriging is well-suited to parallelize optimization, 2010).
        """
        transfer = self.transfer(features)
        mean, _ = self.process.predict(features, transfer)
        return MetricModel(self.process.condition(features, mean, transfer), self.log, self.earlier), mean


def _transfer(earlier: "MetricModel | None", features: Floats) -> Floats:
    if earlier is None:
        return np.zeros((len(features), 0))
    mean, _ = earlier.predict(features)
    return ((mean - earlier.process.offset) / earlier.process.scale)[:, None]


def geometry_of(space: SearchSpace) -> gp.Geometry:
    """Features of a space, the range of each ordered parameter's values as far as valid designs take them, and which sizes divide which."""
    rows = space.sample(_RANGE_SAMPLE, np.random.default_rng(0))
    points, features = space.to_points(rows), space.features(rows)
    ranges, whole, columns = [], [], []
    for position, (name, ordered) in enumerate(zip(space.names, space.ordered, strict=True)):
        given = [p.get(name) for p in points]
        values = [v for v in given if isinstance(v, int | float) and not isinstance(v, bool) and v > 0]
        ranges.append(math.log(max(values) / min(values)) if values and ordered else 0.0)
        if ordered and len(values) == len(points) and max(values) > min(values) and all(v == int(v) for v in values):
            feature, logs = features[:, space.feature_owners.index(position)], np.log(np.array(values))
            slope, intercept = np.polyfit(feature, logs, 1)
            if np.abs(intercept + slope * feature - logs).max() < 1e-6:
                whole.append((space.feature_owners.index(position), float(intercept), float(slope)))
                columns.append(np.round(np.exp(logs)))
    return gp.Geometry(space.feature_owners, space.ordered, tuple(ranges), tuple(whole), _dividing(columns))


def _dividing(columns: Sequence[Floats]) -> tuple[tuple[int, int, float, float], ...]:
    """Pairs of sizes of which the second divides the first in some designs and not in others, with mean and deviation."""
    found = []
    for p, first in enumerate(columns):
        for q, second in enumerate(columns):
            share = float((first % second == 0).mean()) if p != q else 0.0
            if _SOME[0] <= share <= _SOME[1]:
                found.append((p, q, share, math.sqrt(share * (1.0 - share))))
    return tuple(found)


def fit_metric(
    space: SearchSpace,
    geometry: gp.Geometry,
    indices: Indices,
    values: Floats,
    earlier: MetricModel | None,
    prior: gp.Prior,
    iterations: int = gp.FIT_ITERATIONS,
) -> MetricModel:
    """The model of one metric; on a log scale where all its values are positive.

    Args:
        space: The designs.
        geometry: Of the space.
        indices: Those evaluated: ``n x d``.
        values: The metric: ``n``, finite.
        earlier: The same metric's model in an earlier study.
        prior: Of the hyperparameters.
        iterations: Of the fit at most.
    """
    log = bool((values > 0).all())
    features = space.features(indices)
    scaled = np.log(values) if log else values
    return MetricModel(
        gp.fit(geometry, features, scaled, prior, _transfer(earlier, features), max_iterations=iterations), log, earlier
    )


@final
@dataclass(frozen=True)
class Surrogate:
    """Models of all metrics, and of whether a design works.

    Args:
        space: The designs.
        objectives: One model per objective.
        limits: For each outcome constraint its model, its bound in the modelled scale, and True for an upper bound.
        failures: Which designs work, or None while none has failed.
    """

    space: SearchSpace
    objectives: tuple[MetricModel, ...]
    limits: tuple[tuple[MetricModel, float, bool], ...] = ()
    failures: Failures | None = None

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Means and standard deviations of the objectives in their modelled scales: ``n x f`` to two ``n x m``."""
        predictions = [model.predict(features) for model in self.objectives]
        return np.stack([p[0] for p in predictions], axis=1), np.stack([p[1] for p in predictions], axis=1)

    def feasibility(self, features: Floats) -> Floats:
        """The probability that a design works and keeps every bound: ``n``."""
        probability = np.ones(len(features))
        for model, bound, upper in self.limits:
            mean, deviation = model.predict(features)
            z = (bound - mean) / deviation
            probability *= ndtr(z if upper else -z)
        if self.failures is not None:
            probability *= self.failures.probability(features)
        return probability

    def believe(self, features: Floats) -> tuple["Surrogate", Floats]:
        """The surrogate with its own predictions taken for true at pending designs, and the objectives there: ``n x m``."""
        told = [model.believe(features) for model in self.objectives]
        limits = tuple((model.believe(features)[0], bound, upper) for model, bound, upper in self.limits)
        models = tuple(model for model, _ in told)
        return Surrogate(self.space, models, limits, self.failures), np.stack([mean for _, mean in told], axis=1)

    def scale(self, values: Floats) -> Floats:
        """Objectives in their modelled scales: ``n x m``."""
        columns = [np.log(v) if model.log else v for model, v in zip(self.objectives, values.T, strict=True)]
        return np.stack(columns, axis=1)


def fit_surrogate(
    problem: Problem,
    history: History,
    earlier: Mapping[str, MetricModel],
    prior: gp.Prior,
    iterations: int = gp.FIT_ITERATIONS,
) -> Surrogate:
    """Models of all metrics from everything told; a failed design still teaches where designs fail, and what it gave."""
    space = problem.space
    geometry = geometry_of(space)
    models: dict[str, MetricModel] = {}
    names = [*problem.objectives, *(c.metric for c in problem.constraints)]
    for name, values in zip(names, np.concatenate([history.objectives, history.outcomes], axis=1).T, strict=True):
        if name not in models:
            known: Bools = np.isfinite(values)
            models[name] = fit_metric(
                space, geometry, history.indices[known], values[known], earlier.get(name), prior, iterations
            )
    limits = []
    for constraint in problem.constraints:
        model = models[constraint.metric]
        bound = constraint.bound
        if model.log:
            bound = float(np.log(bound)) if bound > 0 else -np.inf
        limits.append((model, bound, constraint.upper))
    failures = None if history.valid.all() else fit_failures(geometry, space.features(history.indices), history.valid)
    return Surrogate(space, tuple(models[o] for o in problem.objectives), tuple(limits), failures)


def fit_earlier(problem: Problem, trials: Sequence[Evaluated], prior: gp.Prior) -> dict[str, MetricModel]:
    """Models of the metrics of earlier studies, by name; metrics with fewer than three values are left out."""
    models = {}
    geometry = geometry_of(problem.space)
    rows = problem.space.to_indices([t.point for t in trials], "warm start")
    for name in {*problem.objectives, *(c.metric for c in problem.constraints)}:
        values = np.array([t.values.get(name, np.nan) for t in trials], dtype=np.float64)
        known = np.isfinite(values)
        if known.sum() >= 3:
            models[name] = fit_metric(problem.space, geometry, rows[known], values[known], None, prior)
    if not models:
        raise UserError(
            f"warm start: expected at least three designs with {', '.join(problem.objectives)}, got {len(trials)} designs"
        )
    return models
