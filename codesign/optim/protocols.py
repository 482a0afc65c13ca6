"""What an optimiser needs of a search space, and the values optimisers and their shell exchange.

Nothing here knows what a design means: a design is a row of choice indices (``n x d`` integers). `spaces.Space`
satisfies `SearchSpace`; so may a user's own class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from codesign.core.grid_space import GridSpace
from codesign.core.point import Point, PointValue
from codesign.optim.outcomes import OutcomeConstraint

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class SearchSpace(GridSpace, Protocol):
    """A finite space of designs with known validity rules."""

    @property
    def cardinality_bound(self) -> int:
        """An upper bound on the number of designs."""

    @property
    def presets(self) -> Sequence[Mapping[str, PointValue]]:
        """Designs worth trying first."""

    @property
    def feature_owners(self) -> tuple[int, ...]:
        """The parameter each feature describes: ``f``."""

    def to_indices(self, points: Sequence[Mapping[str, object]], where: str = "design") -> Indices:
        """Dicts as canonical rows: ``n x d``."""

    def is_valid(self, indices: Indices) -> Bools:
        """Which rows obey the known rules: ``n``."""

    def features(self, indices: Indices) -> Floats:
        """Rows as points of the unit cube: ``n x f``."""

    def neighbours(self, row: Indices) -> Indices:
        """The valid rows one change away: ``m x d``."""

    def enumerate(self, limit: int = ...) -> Indices:
        """All valid rows: ``n x d``; a UserError where there are more combinations than `limit`."""


@runtime_checkable
class LowerBounds(Protocol):
    """The one method by which a space, or a model beside it, tells what it knows beforehand."""

    def lower_bounds(self, indices: Indices, metrics: Sequence[str]) -> Floats:
        """Values that no evaluation of these designs is below, NaN for a metric without: ``n x d`` rows to ``n x m``."""


class Evaluated(NamedTuple):
    """A design with its metrics."""

    point: Point
    values: dict[str, float]


@dataclass(frozen=True)
class Problem:
    """What is searched, and for what.

    Args:
        space: The designs.
        objectives: Names of the metrics to minimise, in column order.
        constraints: Bounds on other metrics.
        reference_point: In objective units, one per objective; None where it is to be inferred.
        seed: Base of every random choice.
        warm_start: Designs of earlier studies with their metrics.
        noisy: True where evaluating a design again may give other numbers.
        bounds: Values that no design can be below (a `codesign.optim.bounded.LowerBounds`); a space may give them itself.
    """

    space: SearchSpace
    objectives: tuple[str, ...]
    constraints: tuple[OutcomeConstraint, ...] = ()
    reference_point: tuple[float, ...] | None = None
    seed: int = 0
    warm_start: tuple[Evaluated, ...] = ()
    noisy: bool = False
    bounds: LowerBounds | None = None


@dataclass(frozen=True)
class History:
    """What is known when designs are proposed; rows in the order they were told.

    Args:
        indices: Evaluated designs: ``n x d``.
        objectives: Their objectives, NaN where a design failed: ``n x m``.
        outcomes: Their constrained metrics, NaN where unknown: ``n x c``.
        valid: Which were told as feasible: ``n``.
        pending: Designs being evaluated: ``p x d``.
    """

    indices: Indices
    objectives: Floats
    outcomes: Floats
    valid: Bools
    pending: Indices

    def goes_on(self, told: Indices) -> bool:
        """Whether the evaluated designs begin with some that were told before: ``k x d``."""
        return len(told) <= len(self.indices) and np.array_equal(told, self.indices[: len(told)])

    def known(self) -> Indices:
        """Evaluated and pending designs: ``(n + p) x d``."""
        return np.concatenate([self.indices, self.pending])


class Strategy(Protocol):
    """A way to choose the next designs: a function of the history and a random generator."""

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """Up to `count` designs: ``k x d``. The shell replaces repeats and fills what is missing."""
