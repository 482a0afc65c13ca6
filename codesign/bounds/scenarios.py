"""Bounds of a worst case over several scenarios: the largest of their bounds, for the worst of several figures is at least each one's bound."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.bounds.box_bounds import BoxBounds
from codesign.bounds.design import BoundTable, DesignBounds
from codesign.bounds.parts import Parts

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@final
class ScenarioBounds:
    """Bounds of designs whose every metric is the worst over scenarios (rule R4 of docs/explanation/robust.md).

    Args:
        models: The bounds in each scenario, over the same search space.
    """

    exact_metrics = DesignBounds.exact_metrics

    def __init__(self, models: Sequence[DesignBounds]) -> None:
        self._models = tuple(models)

    @property
    def parts(self) -> Parts | None:
        """Which parameters each part of an architecture depends on, where the space says so."""
        return self._models[0].parts

    def lower_bounds(self, indices: Indices, metrics: Sequence[str]) -> Floats:
        """The largest bound of all scenarios; see `codesign.optim.protocols.LowerBounds`."""
        return _largest([m.lower_bounds(indices, metrics) for m in self._models])

    def table(self, indices: Indices) -> "ScenarioTable":
        """The bounds of some designs, to be looked at and sharpened: ``n x d`` rows."""
        return ScenarioTable([m.table(indices) for m in self._models])

    @cached_property
    def boxes(self) -> "ScenarioBoxes":
        """Bounds of boxes of designs."""
        return ScenarioBoxes([m.boxes for m in self._models])


@final
class ScenarioTable:
    """Bounds of a fixed list of designs; a `codesign.optim.bounded.BoundedDesigns`.

    Args:
        tables: Of each scenario, the same designs.
    """

    exact_metrics = DesignBounds.exact_metrics

    def __init__(self, tables: Sequence[BoundTable]) -> None:
        self._tables = tuple(tables)

    def values(self, metrics: Sequence[str], at: Indices | None = None) -> Floats:
        """Bounds by metric, NaN for one without: ``n x m``, or the rows `at`."""
        return _largest([t.values(metrics, at) for t in self._tables])

    def reaches(
        self, at: Indices, corners: Floats, metrics: Sequence[str], limits: Mapping[str, float]
    ) -> NDArray[np.bool_]:
        """Whether a design may lie below a corner: it must do so in every scenario: ``n x k``."""
        found = [t.reaches(at, corners, metrics, limits) for t in self._tables]
        return np.asarray(np.logical_and.reduce(found))

    def alike(self) -> Indices:
        """Equal numbers for designs that are alike in every scenario: ``n``."""
        numbers = np.stack([t.alike() for t in self._tables], axis=1)
        return np.asarray(np.unique(numbers, axis=0, return_inverse=True)[1], dtype=np.int64).reshape(-1)

    def sharpen(self, at: int, peers: Indices, within: float = 0.0, enough: Callable[[], bool] = lambda: False) -> bool:
        """Raise the bounds of a design in every scenario; False once nothing is left to do."""
        sharpened = [t.sharpen(at, peers, within, enough) for t in self._tables]
        return any(sharpened)


@final
class ScenarioBoxes:
    """Bounds of boxes; a `codesign.optim.boxed.BoxedBounds`.

    Args:
        boxes: Of each scenario. Technology and workload change no part's kind, so one split into roots serves all.
    """

    def __init__(self, boxes: Sequence[BoxBounds]) -> None:
        self._boxes = tuple(boxes)

    @property
    def why_not(self) -> str:
        """Why there are none; empty where there are."""
        return next((b.why_not for b in self._boxes if b.why_not), "")

    @property
    def slow(self) -> bool:
        """Whether a bound takes about as long as an evaluation in some scenario."""
        return any(b.slow for b in self._boxes)

    def roots(self, low: Indices, high: Indices) -> Sequence[tuple[Indices, Indices]]:
        """A box as boxes that have bounds."""
        return self._boxes[0].roots(low, high)

    def lower_bounds(self, low: Indices, high: Indices, metrics: Sequence[str]) -> Floats:
        """Values that no design of a box is evaluated below: ``n x d`` twice to ``n x m``."""
        return _largest([b.lower_bounds(low, high, metrics) for b in self._boxes])

    def sharpened(
        self,
        low: Indices,
        high: Indices,
        metrics: Sequence[str],
        tolerance: float = 0.0,
        enough: Callable[[], bool] | None = None,
        goal: Floats | None = None,
    ) -> Floats:
        """The sharpest bounds there are of one box: ``d`` twice to ``m``."""
        return _largest([b.sharpened(low, high, metrics, tolerance, enough, goal) for b in self._boxes])

    def cut(self, low: Indices, high: Indices, metrics: Sequence[str], most: float) -> tuple[int, int] | None:
        """Where to split a box, by the first scenario that has an idea."""
        return next((found for b in self._boxes if (found := b.cut(low, high, metrics, most)) is not None), None)

    def suggested(self, low: Indices, high: Indices, metrics: Sequence[str]) -> tuple[Indices, Floats] | None:
        """A promising design of a box, by the first scenario that has an idea, and what it is expected to be there."""
        return next((found for b in self._boxes if (found := b.suggested(low, high, metrics)) is not None), None)


def _largest(found: Sequence[Floats]) -> Floats:
    """NaN, for a metric without a bound, stays."""
    return np.asarray(np.maximum.reduce(list(found)), dtype=np.float64)
