"""An optimiser that walks the space along its diagonals: designs of equal sums of indices, small sums first."""

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.optim.protocols import History, Indices, Problem


@final
@dataclass(frozen=True)
class Diagonal:
    """Every design once, by the sum of its indices.

    Args:
        problem: What is searched.
    """

    problem: Problem

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """See `codesign.optim.protocols.Strategy`."""
        rows = self.problem.space.enumerate()
        known = {row.tobytes() for row in history.known()}
        left = [row for row in rows[np.argsort(rows.sum(axis=1), kind="stable")] if row.tobytes() not in known]
        return np.array(left[:count], np.int64).reshape(-1, rows.shape[1])
