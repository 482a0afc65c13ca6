"""What an optimiser may be told of designs beforehand: bounds that no evaluation can fall below."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final

import numpy as np

from codesign.optim.protocols import Bools, Floats, Indices, LowerBounds


class BoundedDesigns(Protocol):
    """Bounds of a fixed list of designs, which may be sharpened at a price."""

    exact_metrics: frozenset[str]
    """Metrics whose bound is their value."""

    def values(self, metrics: Sequence[str], at: Indices | None = None) -> Floats:
        """Bounds by metric, NaN for one without: ``n x m``, or of the designs `at`."""

    def reaches(self, at: Indices, corners: Floats, metrics: Sequence[str], limits: Mapping[str, float]) -> Bools:
        """Whether a design may lie below a corner in every metric and keep all limits: ``n`` designs, ``k x m`` to ``n x k``."""

    def alike(self) -> Indices:
        """Equal numbers for designs that are shown to be evaluated alike, metric for metric: ``n``."""

    def sharpen(self, at: int, peers: Indices, within: float = 0.0, enough: Callable[[], bool] = lambda: False) -> bool:
        """Raise the bounds of a design, perhaps of related peers too; False once nothing is left to do.

        They may stay lower than they could be by a part of the share `within`, or once they are `enough`.
        """


@final
class PlainBounds:
    """Bounds that are numbers and nothing else.

    Args:
        model: Gives them.
        indices: The designs: ``n x d``.
    """

    def __init__(self, model: LowerBounds, indices: Indices) -> None:
        self._model, self._indices = model, indices
        self.exact_metrics: frozenset[str] = frozenset(getattr(model, "exact_metrics", ()))

    def values(self, metrics: Sequence[str], at: Indices | None = None) -> Floats:
        """See `BoundedDesigns`."""
        rows = self._indices if at is None else self._indices[at]
        return np.asarray(self._model.lower_bounds(rows, metrics), dtype=np.float64)

    def reaches(self, at: Indices, corners: Floats, metrics: Sequence[str], limits: Mapping[str, float]) -> Bools:
        """See `BoundedDesigns`: each metric alone."""
        values = self.values(metrics, at)
        return np.asarray((values[:, None, :] < corners[None]).all(axis=2), dtype=np.bool_)

    def alike(self) -> Indices:
        """See `BoundedDesigns`: every design is its own kind."""
        return np.arange(len(self._indices))

    def sharpen(self, at: int, peers: Indices, within: float = 0.0, enough: Callable[[], bool] = lambda: False) -> bool:
        """See `BoundedDesigns`: there is nothing sharper."""
        return False


def designs_of(model: LowerBounds, indices: Indices) -> BoundedDesigns:
    """The bounds of some designs: the model's own table where it has one."""
    table: Any = getattr(model, "table", None)
    if table is not None:
        found: BoundedDesigns = table(indices)
        return found
    return PlainBounds(model, indices)


def bounds_for(space: object, given: LowerBounds | None) -> LowerBounds | None:
    """The bounds an optimiser may use: those given, else the space's own if it has any."""
    if given is not None:
        return given
    return space if isinstance(space, LowerBounds) else None
