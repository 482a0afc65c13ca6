"""Acquisition functions in closed form: how much evaluating a design is worth, given what is believed."""

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from scipy.special import ndtr

from codesign.optim import ehvi
from codesign.optim.pareto import front
from codesign.optim.protocols import Floats, Indices
from codesign.optim.surrogate import Surrogate


class Acquisition(Protocol):
    """Scores designs, larger is better."""

    def __call__(self, rows: Indices) -> Floats:
        """The worth of each design: ``n x d`` to ``n``."""


@final
@dataclass(frozen=True)
class View:
    """The scale in which improvement is measured: modelled objectives, reference point at 0, divided by the range seen.

    Args:
        reference: In modelled scales: ``m``.
        span: Range of the objectives seen: ``m``.
        front: Non-dominated observations below the reference, in this scale: ``k x m``.
    """

    reference: Floats
    span: Floats
    front: Floats

    @classmethod
    def of(cls, observed: Floats, feasible: Floats, reference: Floats | None, margin: float) -> "View":
        """The view for some observations.

        Args:
            observed: Everything seen, feasible or not, in modelled scales: ``n x m``.
            feasible: The rows the front is made of: ``k x m``.
            reference: The user's reference point; without one it lies `margin` of the range beyond the worst value of any
                feasible design (of any design at all, while none is feasible), which for the first trials is better than the front's.
            margin: See above.
        """
        basis = feasible if len(feasible) else observed
        low, high = basis.min(axis=0), basis.max(axis=0)
        span = np.where(high > low, high - low, 1.0)
        point = high + margin * span if reference is None else reference
        scaled = (feasible - point) / span
        return cls(point, span, front(scaled[(scaled < 0).all(axis=1)]))

    def apply(self, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
        """Predictions in this scale: two ``n x m``."""
        return (mean - self.reference) / self.span, deviation / self.span


LIKELY = 0.25
"""Designs less likely to work than this are left to the end: where much is expected of what fails, one after another would be tried."""

DOUBTFUL = 1e-6
"""What such designs count for."""


@final
@dataclass(frozen=True)
class HypervolumeImprovement:
    """Expected hypervolume improvement, or its probability, times the probability of being feasible.

    Args:
        surrogate: What is believed.
        view: The scale and the front.
        expected: The improvement, not its probability.
        grid: From `ehvi.boxes`.
        cells: From `ehvi.boxes`.
    """

    surrogate: Surrogate
    view: View
    expected: bool
    grid: Floats
    cells: Indices

    def __call__(self, rows: Indices) -> Floats:
        """The worth of each design: ``n x d`` to ``n``."""
        features = self.surrogate.space.features(rows)
        mean, deviation = self.view.apply(*self.surrogate.predict(features))
        works = self.surrogate.feasibility(features)
        worth = ehvi.improvement(mean, deviation, self.grid, self.cells, self.expected)
        return worth * np.where(works < LIKELY, DOUBTFUL, 1.0) * works


def hypervolume_improvement(surrogate: Surrogate, view: View, *, expected: bool = True) -> HypervolumeImprovement:
    """Expected hypervolume improvement of designs, exact; or (HASCO's acquisition) the probability that the hypervolume grows at all."""
    grid, cells = ehvi.boxes(view.front, np.zeros(len(view.span)))
    return HypervolumeImprovement(surrogate, view, expected, grid, cells)


RHO = 0.05
"""Weight of the sum in the augmented Chebyshev function (Knowles, ParEGO, IEEE Trans. Evol. Comp. 10(1), 2006, eq. 2)."""


@final
@dataclass(frozen=True)
class ScalarisedImprovement:
    """Expected improvement of a randomly weighted Chebyshev function of the objectives, over samples of the posterior.

    qNParEGO (Daulton, Balandat and Bakshy, NeurIPS 2020, appendix) for one design at a time: the objectives keep a model each,
    and the improvement over the best observation is averaged over fixed normal samples.

    Args:
        surrogate: What is believed.
        view: The scale.
        weights: Sum to 1: ``m``.
        samples: Standard normal: ``s x m``.
    """

    surrogate: Surrogate
    view: View
    weights: Floats
    samples: Floats

    def __call__(self, rows: Indices) -> Floats:
        """The worth of each design: ``n x d`` to ``n``."""
        features = self.surrogate.space.features(rows)
        mean, deviation = self.view.apply(*self.surrogate.predict(features))
        drawn = mean[:, None, :] + deviation[:, None, :] * self.samples[None]
        gain = np.maximum(self._best() - chebyshev(drawn, self.weights), 0.0).mean(axis=1)
        return np.asarray(gain * self.surrogate.feasibility(features), dtype=np.float64)

    def _best(self) -> float:
        return float(chebyshev(self.view.front, self.weights).min()) if len(self.view.front) else 0.0


@final
@dataclass(frozen=True)
class ScalarisedBound:
    """Lower confidence bound of a randomly weighted Chebyshev function.

    Random scalarisations of Paria, Kandasamy and Poczos (UAI 2019), with their confidence-bound variant.

    Args:
        surrogate: What is believed.
        view: The scale.
        weights: Sum to 1: ``m``.
        beta: How many standard deviations of optimism.
    """

    surrogate: Surrogate
    view: View
    weights: Floats
    beta: float = 1.0

    def __call__(self, rows: Indices) -> Floats:
        """The worth of each design: ``n x d`` to ``n``, positive."""
        features = self.surrogate.space.features(rows)
        mean, deviation = self.view.apply(*self.surrogate.predict(features))
        bound = chebyshev(mean - self.beta * deviation, self.weights)
        return np.asarray(ndtr(-bound) * self.surrogate.feasibility(features), dtype=np.float64)


def chebyshev(values: Floats, weights: Floats) -> Floats:
    """The augmented Chebyshev function, smaller is better: ``... x m`` to ``...``."""
    weighted = values * weights
    result: Floats = weighted.max(axis=-1) + RHO * weighted.sum(axis=-1)
    return result
