"""Fit named constants of a timing table to measured cycles, and say how well the data tell them apart.

Residuals are logarithms of predicted over measured, weighed down where they are large (soft L1), so one odd run does not
rule the fit. Constants are positive and fitted as logarithms.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from codesign.core.errors import UserError
from codesign.mapping.nest import FloatArray

Predict = Callable[[dict[str, float], list[int]], FloatArray]
"""Cycles predicted with constants for the rows of some indices."""

_SOFT = 0.02
"""Residuals below this count as squares, those above by their size."""
_BLIND = 1e-3
"""A direction of constants that moves predictions this much less than the best seen one cannot be told from the data."""
_STEP = 1e-3
_WIDTH_95 = 1.96


@dataclass(frozen=True)
class FitProblem:
    """What is fitted to what.

    Args:
        names: The constants.
        start: Where the search begins; all positive.
        predict: The model.
        measured: ``N`` cycles.
    """

    names: tuple[str, ...]
    start: dict[str, float]
    predict: Predict
    measured: FloatArray

    def __post_init__(self) -> None:
        for name in self.names:
            if not self.start[name] > 0:
                raise UserError(f"constant `{name}` must start > 0, got {self.start[name]:g}", where="calibration")
        if not (self.measured > 0).all():
            raise UserError("measured cycles must be > 0", where="calibration")


@dataclass(frozen=True)
class Fit:
    """Fitted constants.

    Args:
        values: By name.
        intervals: 95 % intervals by name, from the curvature of the fit and the spread of its residuals.
        predicted: ``N`` cycles.
        mean_error: Mean of |predicted / measured - 1|.
        blind: Constants that the data cannot tell apart, if any.
    """

    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    predicted: FloatArray
    mean_error: float
    blind: tuple[str, ...] = ()


@dataclass(frozen=True)
class Folds:
    """Predictions of rows whose group was left out.

    Args:
        predicted: ``N`` cycles.
        fits: One a group, in order of the groups.
    """

    predicted: FloatArray
    fits: tuple[Fit, ...]

    def spread(self, name: str) -> list[float]:
        """Least and greatest value of a constant over the fits."""
        found = [fit.values[name] for fit in self.fits]
        return [min(found), max(found)]


def fit_constants(problem: FitProblem, rows: Sequence[int] | None = None, *, evaluations: int = 25) -> Fit:
    """Fit the constants on some rows.

    Args:
        problem: What is fitted.
        rows: Indices; by default all.
        evaluations: Steps of the search.

    Raises:
        UserError: There are not more rows than constants.
    """
    from scipy.optimize import least_squares

    chosen = list(range(len(problem.measured))) if rows is None else list(rows)
    if len(chosen) <= len(problem.names):
        raise UserError(
            f"{len(problem.names)} constants need more than {len(problem.names)} measured rows, got {len(chosen)}",
            where="calibration",
            hint="fit fewer constants",
        )
    truth = np.log(problem.measured[chosen])

    def residuals(x: FloatArray) -> FloatArray:
        constants = dict(zip(problem.names, np.exp(x).tolist(), strict=True))
        difference: FloatArray = np.log(problem.predict(constants, chosen)) - truth
        return difference

    start = np.log([problem.start[name] for name in problem.names])
    found = least_squares(
        residuals, start, loss="soft_l1", f_scale=_SOFT, diff_step=_STEP, max_nfev=evaluations, x_scale=0.1,
        bounds=(start - 4.0, start + 4.0),
    )  # fmt: skip
    values = dict(zip(problem.names, np.exp(found.x).tolist(), strict=True))
    predicted = np.exp(found.fun + truth)
    intervals, blind = _intervals(problem.names, found.x, found.jac, found.fun)
    error = float(np.abs(predicted / problem.measured[chosen] - 1).mean())
    return Fit(values, intervals, predicted, error, blind)


_WARM_EVALUATIONS = 8
"""Of fits that begin at the fit of all rows."""

_SPREAD, _DRAWS = 5.0, 120
"""Starts are drawn up to so many powers of two around the given one; so many for each constant."""


def coarse_start(problem: FitProblem) -> FitProblem:
    """The problem with a better start: the best of random ones.

    What is hidden behind something else has no slope; a slope search alone would leave it where it is.
    """
    rows = list(range(len(problem.measured)))
    rng = np.random.default_rng(0)
    powers = rng.uniform(-_SPREAD, _SPREAD, (_DRAWS * len(problem.names), len(problem.names)))
    powers[0] = 0.0
    tried = [
        {name: problem.start[name] * 2.0**power for name, power in zip(problem.names, row, strict=True)}
        for row in powers
    ]
    misses = [float(np.abs(np.log(problem.predict(c, rows) / problem.measured)).mean()) for c in tried]
    return replace(problem, start=tried[int(np.argmin(misses))])


def _intervals(
    names: tuple[str, ...], x: FloatArray, jacobian: FloatArray, residual: FloatArray
) -> tuple[dict[str, tuple[float, float]], tuple[str, ...]]:
    """Intervals of each constant, and the constants in directions that the rows do not see."""
    _, sizes, ways = np.linalg.svd(jacobian, full_matrices=False)
    unseen = ways[sizes < _BLIND * sizes[0]] if len(sizes) and sizes[0] > 0 else ways
    blind = sorted({names[i] for way in unseen for i in np.nonzero(np.abs(way) > 0.3)[0]})
    sigma = 1.4826 * float(np.median(np.abs(residual)))
    scale = 1.0 / np.maximum(sizes, 1e-12)
    variance = (np.square(ways.T * scale)).sum(axis=1) * sigma**2
    half = np.minimum(_WIDTH_95 * np.sqrt(variance), 50.0)
    low, high = np.exp(x - half), np.exp(x + half)
    return {n: (float(low[i]), float(high[i])) for i, n in enumerate(names)}, tuple(blind)


def refuse_blind(fit: Fit) -> Fit:
    """The fit, if the data tell its constants apart.

    Raises:
        UserError: They do not; the message names the constants.
    """
    if fit.blind:
        raise UserError(
            f"the measured rows cannot tell these constants apart: {', '.join(fit.blind)}",
            where="calibration",
            hint="leave one of them at its value in the table, or measure rows that differ in it",
        )
    return fit


def leave_one_group_out(problem: FitProblem, groups: Sequence[str]) -> Folds:
    """Predict each group with constants fitted on all others.

    Raises:
        UserError: There is only one group.
    """
    names = list(dict.fromkeys(groups))
    if len(names) < 2:
        raise UserError("leaving one group out needs at least two groups", where="calibration")
    everything = fit_constants(problem)
    warm = replace(problem, start=everything.values)
    predicted = np.zeros(len(problem.measured))
    fits = []
    for name in names:
        rest = [i for i, g in enumerate(groups) if g != name]
        mine = [i for i, g in enumerate(groups) if g == name]
        fit = fit_constants(warm, rest, evaluations=_WARM_EVALUATIONS)
        predicted[mine] = problem.predict(fit.values, mine)
        fits.append(fit)
    return Folds(predicted, tuple(fits))
