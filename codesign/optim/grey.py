"""Proposals where every design has bounds: what is known is computed, only the ratio of a metric to its bound is learned.

Log metric = log expected + log ratio, and nowhere below the bound. What is expected without an evaluation is the bound, or more where the bounds
say so (`Expects`). A metric whose bound is its value (area) is not modelled. The ratio is a function of the parameters and of the bounds: designs that different parameters make equally fast by their bounds are often alike in what is left. The next design is the one
whose expected metrics add most hypervolume; designs whose bound is dominated by an evaluated one are never proposed. Without any
evaluation the bounds alone choose, so there is no initial design.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, final, runtime_checkable

import numpy as np

from codesign.optim import candidates, ehvi, gp
from codesign.optim.bounded import BoundedDesigns, designs_of
from codesign.optim.failures import fit_failures
from codesign.optim.hypervolume import MARGIN
from codesign.optim.optimizer import satisfied
from codesign.optim.pareto import front, nondominated
from codesign.optim.protocols import Floats, History, Indices, LowerBounds, Problem, SearchSpace
from codesign.optim.surrogate import fit_surrogate, geometry_of

LISTED = 200_000
"""Spaces of up to so many combinations are bounded whole."""

DRAWN = 20_000
"""Designs drawn at random and bounded in a larger space."""

SCORED = 3_000
"""Designs of the outer front that are scored at most, evenly spread over it."""

RATIO_PRIOR = gp.Prior(
    weight=(1.0, 1.0), lengthscale=(1.5, 0.75), level=(1e-9, 0.01), divides=(1e-9, 0.01), range_power=0.7
)
"""Of ratios of metrics to bounds, which already know what divides what."""

SURE = 1e-9
"""Standard deviation of what is taken for certain."""


@runtime_checkable
class Expects(Protocol):
    """Bounds that also say what to expect of a design before any evaluation."""

    def expected(self, indices: Indices, metrics: Sequence[str]) -> Floats:
        """Metrics, perhaps above or below what an evaluation will show: ``n x d`` rows to ``n x m``."""


@final
class GreyBox:
    """Chooses designs by bounds and by what evaluations showed of them.

    Args:
        problem: What is searched.
        bounds: Of its designs; positive for every objective.
    """

    def __init__(self, problem: Problem, bounds: LowerBounds) -> None:
        self._problem, self._bounds = problem, bounds
        self._hints: dict[bytes, Floats] = {}

    @cached_property
    def _rows(self) -> Indices:
        space = self._problem.space
        if space.cardinality_bound <= LISTED:
            return space.enumerate(LISTED)
        drawn = np.concatenate(
            [space.to_indices(space.presets, "preset"), space.sample(DRAWN, np.random.default_rng(self._problem.seed))]
        )
        return np.unique(drawn, axis=0)

    @cached_property
    def _designs(self) -> BoundedDesigns:
        return designs_of(self._bounds, self._rows)

    @cached_property
    def _log_bounds(self) -> Floats:
        return np.log(self._designs.values(self._problem.objectives))

    @cached_property
    def _log_hints(self) -> Floats:
        return self._hinted(self._rows, self._log_bounds)

    def _hinted(self, rows: Indices, log_bounds: Floats) -> Floats:
        """Logarithms of what is expected before any evaluation, nowhere below the bounds: ``n x d`` and ``n x m`` to ``n x m``."""
        if not len(rows) or not isinstance(self._bounds, Expects):
            return log_bounds
        new = {key: row for row in rows if (key := row.tobytes()) not in self._hints}
        if new:
            values = np.log(self._bounds.expected(np.array(list(new.values())), self._problem.objectives))
            self._hints |= dict(zip(new, values, strict=True))
        hints: Floats = np.maximum(np.array([self._hints[row.tobytes()] for row in rows]), log_bounds)
        return hints

    @cached_property
    def _alike(self) -> Indices:
        return self._designs.alike()

    @cached_property
    def _exact(self) -> tuple[bool, ...]:
        return tuple(o in self._designs.exact_metrics for o in self._problem.objectives)

    @cached_property
    def _possible(self) -> Indices:
        """Designs whose bounds keep every limit: ``n``."""
        keep = np.isfinite(self._log_bounds).all(axis=1)
        for constraint in self._problem.constraints:
            if constraint.upper:
                values = self._designs.values([constraint.metric])[:, 0]
                keep &= ~(values > constraint.bound)
        return np.flatnonzero(keep)

    # ---- proposing -------------------------------------------------------------------------------

    def propose(self, history: History, count: int) -> Indices:
        """The next designs, each with the earlier ones of the batch and the pending ones at what is expected of them."""
        models = self._models(history)
        good = satisfied(self._problem, history)
        seen = np.log(history.objectives[good])
        waiting = list(history.pending)
        known = {row.tobytes() for row in history.known()}
        chosen: list[Indices] = []
        while len(chosen) < count:
            believed = self._expected(np.array(waiting), models) if waiting else np.zeros((0, seen.shape[1]))
            row = self._best(np.concatenate([seen, believed]), models, known)
            if row is None:
                break
            known.add(row.tobytes())
            chosen.append(row)
            waiting.append(row)
        return np.array(chosen, dtype=np.int64).reshape(-1, len(self._problem.space.names))

    def _best(self, seen: Floats, models: "Ratios", known: set[bytes]) -> Indices | None:
        """The new design whose expected metrics, in logarithms, add most to what is seen."""
        positions = self._candidates(seen, known)
        if not len(positions):
            return None
        expected = models.at(self._rows[positions], self._log_bounds[positions], self._log_hints[positions])
        low, span = self._frame(seen, expected)
        grid, cells = ehvi.boxes(_inside(seen, low, span), np.full(len(low), 1.0 + MARGIN))

        def gain(rows: Indices, values: Floats) -> Floats:
            scaled = (values - low) / span
            improvement = ehvi.improvement(scaled, np.full_like(scaled, SURE), grid, cells, True)
            return np.asarray(improvement * models.works(rows))

        gains = gain(self._rows[positions], expected)
        if gains.max() <= 0.0:
            gains = -expected.sum(axis=1)
        best: Indices = self._rows[positions[int(np.argmax(gains))]]
        if self._problem.space.cardinality_bound <= LISTED:
            return best
        return candidates.maximise(
            self._problem.space, lambda rows: gain(rows, self._expected(rows, models)), self._rows[positions], known
        )

    def _candidates(self, seen: Floats, known: set[bytes]) -> Indices:
        """New designs whose bound no design seen dominates, at most `SCORED`."""
        positions = self._possible
        told = np.array([p for p in positions if self._rows[p].tobytes() in known], dtype=np.int64)
        positions = positions[~np.isin(self._alike[positions], self._alike[told])]
        for values in front(seen) if len(seen) else ():
            positions = positions[~(values <= self._log_bounds[positions]).all(axis=1)]
        if len(positions) > SCORED:
            best = positions[nondominated(self._log_bounds[positions])]
            rest = np.setdiff1d(positions, best)
            step = max(1, len(rest) // max(1, SCORED - len(best)))
            positions = np.sort(np.concatenate([best, rest[::step]])) if len(best) < SCORED else best
        return np.asarray(positions, dtype=np.int64)

    def _expected(self, rows: Indices, models: "Ratios") -> Floats:
        """Logarithms of the metrics expected of some designs: ``k x d`` to ``k x m``."""
        known = np.log(self._bounds.lower_bounds(rows, self._problem.objectives))
        return models.at(rows, known, self._hinted(rows, known))

    def _frame(self, seen: Floats, expected: Floats) -> tuple[Floats, Floats]:
        """Where hypervolume is measured: the range of the front that is expected."""
        if self._problem.reference_point is not None:
            top = np.log(np.maximum(np.array(self._problem.reference_point), 1e-300))
            low = np.concatenate([seen, expected]).min(axis=0)
            return low, np.where(top > low, (top - low) / (1.0 + MARGIN), 1.0)
        points = front(np.concatenate([seen, expected]))
        low, high = points.min(axis=0), points.max(axis=0)
        return low, np.where(high > low, high - low, 1.0)

    # ---- what was learned ------------------------------------------------------------------------

    def _models(self, history: History) -> "Ratios":
        known = np.isfinite(history.objectives).all(axis=1)
        rows = history.indices[known]
        bounds = np.zeros((len(rows), len(self._exact)))
        if len(rows):
            bounds = np.log(self._bounds.lower_bounds(rows, self._problem.objectives))
        possible = self._log_bounds[self._possible]
        low, high = (possible.min(axis=0), possible.max(axis=0)) if len(possible) else (bounds[:0].sum(axis=0),) * 2
        scale = BoundScale(low, np.where(high > low, high - low, 1.0))
        return Ratios(self._problem, self._exact, rows, bounds, self._hinted(rows, bounds), scale, history)


@final
@dataclass(frozen=True)
class BoundScale:
    """Where bounds lie in the space, so that they can be coordinates beside the parameters.

    Args:
        low: Least logarithms: ``m``.
        span: Their ranges: ``m``.
    """

    low: Floats
    span: Floats

    def features(self, space: SearchSpace, rows: Indices, bounds: Floats) -> Floats:
        """Features of some designs and their bounds: ``n x d`` and ``n x m`` to ``n x (f + m)``."""
        return np.concatenate([space.features(rows), (bounds - self.low) / self.span], axis=1)

    def geometry(self, plain: gp.Geometry) -> gp.Geometry:
        """The geometry of parameters and bounds, each bound a parameter with an order."""
        d, m = len(plain.ordered), len(self.low)
        return replace(
            plain,
            owners=(*plain.owners, *range(d, d + m)),
            ordered=(*plain.ordered, *(True,) * m),
            ranges=(*plain.ranges, *(0.0,) * m),
        )


@final
class Ratios:
    """What is believed of the ratios of metrics to bounds, and of which designs work.

    Args:
        problem: What is searched.
        exact: Which objectives are their bounds: ``m``.
        rows: Designs evaluated: ``n x d``.
        bounds: Logarithms of their bounds: ``n x m``.
        hints: Logarithms of what was expected of them: ``n x m``.
        scale: Where bounds lie in the space.
        history: Everything told.
    """

    def __init__(
        self,
        problem: Problem,
        exact: tuple[bool, ...],
        rows: Indices,
        bounds: Floats,
        hints: Floats,
        scale: BoundScale,
        history: History,
    ) -> None:
        self._space, self._scale = problem.space, scale
        self._models: list[gp.GaussianProcess | float] = []
        geometry = geometry_of(problem.space)
        told = history.objectives[np.isfinite(history.objectives).all(axis=1)]
        ratios = np.log(told) - hints
        for column, known in enumerate(exact):
            values = ratios[:, column]
            if known or not len(values):
                self._models.append(0.0)
            elif len(values) < 3 or values.std() < 1e-9:
                self._models.append(float(values.mean()))
            else:
                features = scale.features(self._space, rows, bounds)
                self._models.append(gp.fit(scale.geometry(geometry), features, values, RATIO_PRIOR))
        self._failures = None
        if not history.valid.all():
            self._failures = fit_failures(geometry, self._space.features(history.indices), history.valid)
        limited = problem.constraints and len(rows) >= 2
        self._surrogate = fit_surrogate(problem, history, {}, gp.Prior()) if limited else None

    def at(self, rows: Indices, bounds: Floats, hints: Floats) -> Floats:
        """Logarithms of the metrics expected of some designs, nowhere below their bounds: ``k x d`` and ``k x m`` twice to ``k x m``."""
        features = self._scale.features(self._space, rows, bounds)
        columns = [np.full(len(rows), m) if isinstance(m, float) else m.predict(features)[0] for m in self._models]
        found: Floats = np.maximum(hints + np.stack(columns, axis=1), bounds)
        return found

    def works(self, rows: Indices) -> Floats:
        """The probability that a design works and keeps every limit: ``k``."""
        features = self._space.features(rows)
        if self._surrogate is not None:
            return self._surrogate.feasibility(features)
        return np.ones(len(rows)) if self._failures is None else self._failures.probability(features)


def _inside(seen: Floats, low: Floats, span: Floats) -> Floats:
    """What is seen, in the frame, as far as it lies below its reference point."""
    scaled = (seen - low) / span
    return front(scaled[(scaled < 1.0 + MARGIN).all(axis=1)]) if len(scaled) else scaled
