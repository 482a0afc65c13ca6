"""Which parameters decide an objective: a functional analysis of variance of a model fitted to the trials.

A trial's logarithm of an objective is modelled by the optimiser's own Gaussian process (`codesign.optim.gp`), and the variance
of its prediction over the box of values that were tried is split by parameter (Sobol', Mathematics and Computers in
Simulation 55, 2001; for a model of trials: Hutter, Hoos and Leyton-Brown, ICML 2014):

    first_p = Var_x( E[f | x_p = x] ) / Var(f)              what the parameter does alone
    total_p = E( Var(f | all but x_p) ) / Var(f)            with every interaction (Jansen's estimator)

How far the model can be believed is stated with it: Q2, the share of the variance of the trials it predicts when each trial
is left out in turn (hyperparameters fixed).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign.core.point import PointValue
from codesign.optim import gp

Floats = NDArray[np.float64]

LEAST_TRIALS = 10
"""With fewer feasible designs no importance is given."""

MOST_TRIALS = 200
"""More are thinned evenly: a fit is cubic in their number."""

SAMPLES = 1024
"""Designs drawn for every expectation; shares are then good to about 0.03."""


@dataclass(frozen=True)
class Effects:
    """What the parameters do to one objective.

    Args:
        q2: Share of the variance predicted with each trial left out; 1 is perfect, 0 or less is worthless.
        first: Share of the variance by parameter, alone.
        total: The same with interactions.
        main: By parameter (value, factor): the factor on the objective's geometric mean when the parameter has the value.
    """

    q2: float
    first: dict[str, float]
    total: dict[str, float]
    main: dict[str, tuple[tuple[Any, float], ...]]


@dataclass(frozen=True)
class _Axis:
    """One parameter as it was tried: its values (None: absent) and the features of each, ``v x f``."""

    name: str
    values: tuple[Any, ...]
    ordered: bool
    features: Floats


def effects(points: Sequence[Mapping[str, Any]], names: Sequence[str], objective: Floats) -> Effects:
    """Fit and split.

    Args:
        points: Feasible designs: ``n``.
        names: Of the parameters.
        objective: Positive values: ``n``.
    """
    if len(points) > MOST_TRIALS:
        chosen = np.unique(np.linspace(0, len(points) - 1, MOST_TRIALS).round().astype(int))
        points, objective = [points[i] for i in chosen], objective[chosen]
    axes = [_axis(name, points) for name in names]
    live = [a for a in axes if len(a.values) > 1]
    zero = dict.fromkeys(names, 0.0)
    if not live or float(np.ptp(np.log10(objective))) < 1e-12:
        return Effects(math.nan, zero, dict(zero), {})
    geometry = gp.Geometry(
        tuple(p for p, a in enumerate(live) for _ in range(a.features.shape[1])), tuple(a.ordered for a in live)
    )
    rows = np.array([[a.values.index(_value(point, a.name)) for a in live] for point in points], dtype=np.int64)
    model = gp.fit(geometry, _features(live, rows), np.log10(objective), gp.Prior())
    first, total, main = _split(model, live, np.random.default_rng(0))
    return Effects(_left_out(model), {**zero, **first}, {**zero, **total}, main)


def _value(point: Mapping[str, PointValue], name: str) -> Any:
    return point.get(name)


def _axis(name: str, points: Sequence[Mapping[str, Any]]) -> _Axis:
    """Numbers are one coordinate in [0, 1], on a log scale where positive; anything else is one-hot."""
    seen = {_value(p, name) for p in points}
    numbers = [v for v in seen if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(numbers) != len(seen - {None}):
        values = tuple(sorted(seen, key=str))
        return _Axis(name, values, False, np.eye(len(values)))
    ordered = tuple(sorted(numbers)) + ((None,) if None in seen else ())
    scale = np.array([math.nan if v is None else float(v) for v in ordered])
    if np.nanmin(scale) > 0:
        scale = np.log2(scale)
    span = float(np.nanmax(scale) - np.nanmin(scale)) or 1.0
    return _Axis(name, ordered, True, np.nan_to_num((scale - np.nanmin(scale)) / span, nan=0.5)[:, None])


def _features(axes: Sequence[_Axis], rows: NDArray[np.int64]) -> Floats:
    return np.concatenate([a.features[rows[:, p]] for p, a in enumerate(axes)], axis=1)


def _left_out(model: gp.GaussianProcess) -> float:
    """Q2 of leave-one-out predictions (Rasmussen and Williams, 2006, eq. 5.12)."""
    from scipy.linalg import cho_solve

    inverse = np.diag(cho_solve((model.chol, True), np.eye(len(model.targets))))
    residuals = model.alpha / inverse
    return float(1.0 - (residuals**2).sum() / ((model.targets - model.targets.mean()) ** 2).sum())


def _split(
    model: gp.GaussianProcess, axes: Sequence[_Axis], rng: np.random.Generator
) -> tuple[dict[str, float], dict[str, float], dict[str, tuple[tuple[Any, float], ...]]]:
    rows = np.stack([rng.integers(len(a.values), size=SAMPLES) for a in axes], axis=1)
    other = np.stack([rng.integers(len(a.values), size=SAMPLES) for a in axes], axis=1)
    base = model.mean(_features(axes, rows))
    variance = max(float(base.var()), 1e-30)
    first, total, main = {}, {}, {}
    for p, axis in enumerate(axes):
        means = []
        for value in range(len(axis.values)):
            fixed = rows.copy()
            fixed[:, p] = value
            means.append(float(model.mean(_features(axes, fixed)).mean()))
        changed = rows.copy()
        changed[:, p] = other[:, p]
        difference = model.mean(_features(axes, changed)) - base
        first[axis.name] = float(np.var(means)) / variance
        total[axis.name] = float((difference**2).mean()) / (2.0 * variance)
        centre = float(np.mean(means))
        main[axis.name] = tuple((v, 10.0 ** (m - centre)) for v, m in zip(axis.values, means, strict=True))
    return first, total, main
