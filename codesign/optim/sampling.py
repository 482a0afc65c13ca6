"""Strategies that do not learn: random, Sobol and exhaustive search."""

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.core.errors import UserError
from codesign.optim.protocols import History, Indices, Problem

EXHAUSTIVE_LIMIT = 200_000
"""The largest number of index combinations that exhaustive search accepts."""


@final
@dataclass(frozen=True)
class Random:
    """Uniform draws over the valid index combinations."""

    problem: Problem

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """New draws; the shell replaces those already known."""
        return self.problem.space.sample(count, rng)


@final
@dataclass(frozen=True)
class Sobol:
    """A scrambled Sobol sequence over the index cube, rounded down to choices.

    Invalid and repeated designs are skipped, so the sequence is walked from its start until enough new designs are found
    (Sobol, USSR Comput. Math. Math. Phys. 7, 1967; scrambling after Owen as in scipy.stats.qmc).
    """

    problem: Problem

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """The first new valid designs of the sequence."""
        from scipy.stats import qmc

        space = self.problem.space
        known = {row.tobytes() for row in history.known()}
        found: list[Indices] = []
        sequence = qmc.Sobol(len(space.names), scramble=True, rng=np.random.default_rng(self.problem.seed))
        drawn = 6
        while len(found) < count and drawn < 15:
            unit = sequence.random_base2(drawn) if drawn == 6 else sequence.random(2 ** (drawn - 1))
            cells = np.minimum((unit * space.cardinalities).astype(np.int64), np.array(space.cardinalities) - 1)
            rows = space.canonical(cells)
            for row in rows[space.is_valid(rows)]:
                if row.tobytes() not in known:
                    known.add(row.tobytes())
                    found.append(row)
            drawn += 1
        return np.array(found[:count], dtype=np.int64).reshape(-1, len(space.names))


@final
@dataclass(frozen=True)
class Exhaustive:
    """Every valid design once, in index order."""

    problem: Problem

    def __post_init__(self) -> None:
        bound = self.problem.space.cardinality_bound
        if bound > EXHAUSTIVE_LIMIT:
            raise UserError(
                f"exhaustive search: the space has up to {bound} designs, expected at most {EXHAUSTIVE_LIMIT}",
                hint="use mobo, or a smaller space",
            )

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """The next designs in index order."""
        known = {row.tobytes() for row in history.known()}
        rows = [row for row in self.problem.space.enumerate(EXHAUSTIVE_LIMIT) if row.tobytes() not in known]
        return np.array(rows[:count], dtype=np.int64).reshape(-1, len(self.problem.space.names))
