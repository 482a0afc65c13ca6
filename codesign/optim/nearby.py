"""Proposals where many designs fail: near those that work.

Far from every design that works neither the metrics nor the rule of failures are known, so a search that values the unknown tries one
corner of the space after another, and most of them fail. While failures are frequent candidates therefore stay in a trust region: the
union of balls about the designs that work. Eriksson and Poloczek move one box about the best design (Scalable constrained Bayesian
optimization, AISTATS 2021). A function of the history alone.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.optim.candidates import Score, unique_new
from codesign.optim.optimizer import satisfied
from codesign.optim.protocols import Bools, Floats, History, Indices, Problem, SearchSpace

RADIUS = 1.0
"""Of the balls: the sum over parameters of moves as shares of their ranges."""

LABEL = 0.25
"""What another label counts for."""

LAST = 8
"""Designs, the last ones told, that say whether failures are frequent."""

FREQUENT = 0.4
"""The share of failures among them from which candidates stay near."""

FAR = 1e-9
"""What the worth of other designs is multiplied by."""

CANDIDATES = 1000

_MOVED = 4
"""Parameters that a candidate changes at most."""


@final
@dataclass(frozen=True)
class Nearby:
    """Where candidates lie.

    Args:
        space: The designs.
        centres: Those that work: ``k x d``, at least one.
    """

    space: SearchSpace
    centres: Indices

    def contains(self, rows: Indices) -> Bools:
        """Which designs are near: ``n x d`` to ``n``."""
        from scipy.spatial.distance import cdist

        owners = np.array(self.space.feature_owners)
        # two of a label's coordinates change
        weights = np.where(np.array(self.space.ordered)[owners], 1.0, LABEL / 2.0)
        left, right = self.space.features(rows) * weights, self.space.features(self.centres) * weights
        distance: Floats = cdist(left, right, "cityblock").min(axis=1)
        return distance <= RADIUS + 1e-9

    def among(self, rows: Indices, known: set[bytes]) -> Indices:
        """The rows that are near; all of them if every near one is known: ``n x d`` to ``k x d``."""
        near = rows[self.contains(rows)]
        return near if len(unique_new(self.space, near, known)) else rows

    def limited(self, score: Score) -> Score:
        """The score, at least zero, with what is not near left to the end."""
        return lambda rows: score(rows) * np.where(self.contains(rows), 1.0, FAR)

    def candidates(self, rng: np.random.Generator) -> Indices:
        """Designs that differ from one that works in a few parameters, and the neighbours of all that work: ``k x d``."""
        sizes = np.array(self.space.cardinalities)
        drawn = self.centres[rng.integers(0, len(self.centres), CANDIDATES)]
        count = rng.integers(1, _MOVED + 1, (CANDIDATES, 1))
        moved = np.argsort(rng.random(drawn.shape), axis=1) < count
        reach = np.maximum(1, np.round(1.5 * RADIUS / count * rng.random((CANDIDATES, 1)) * (sizes - 1))).astype(
            np.int64
        )
        near = np.clip(drawn + rng.integers(-reach, reach + 1), 0, sizes - 1)
        other = np.where(np.array(self.space.ordered), near, rng.integers(0, sizes, drawn.shape))
        rows = self.space.canonical(np.where(moved, other, drawn))
        return np.concatenate([rows, *(self.space.neighbours(row) for row in self.centres)])


def nearby_of(problem: Problem, history: History) -> Nearby | None:
    """Where the next candidates lie; None where failures are rare, or where no design has worked."""
    good = satisfied(problem, history)
    last = good[-LAST:]
    centres = good if good.any() else history.valid & np.isfinite(history.objectives).all(axis=1)
    if (~last).sum() < FREQUENT * len(last) or not centres.any():
        return None
    return Nearby(problem.space, history.indices[centres])
