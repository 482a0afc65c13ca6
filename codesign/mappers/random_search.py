"""Random search: draw mappings, keep the best valid one (the baseline of the CoSA and SALSA papers)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codesign.core import clock
from codesign.core.goals import Budget, Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState, make_state
from codesign.cost.arrays import Reuse
from codesign.cost.packed import VALID
from codesign.mappers.driver import Encoded, Scorer, value_of_state
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.space import MapState, copy_state, draw_state, outermost_state


@njit
def _search(
    scorer: Scorer, state: MapState, best: MapState, best_value: float, random: RandomState, draws: int
) -> tuple[float, int]:
    """Draw `draws` states; returns the best value and how many were valid."""
    valid = 0
    for _ in range(draws):
        draw_state(scorer.space, state, random)
        value = value_of_state(scorer, state)
        valid += value < np.inf
        if value < best_value:
            best_value = value
            copy_state(state, best)
    return best_value, valid


@dataclass(frozen=True)
class RandomMapper:
    """Uniform random slots, orders and bypasses; `evaluated` counts valid mappings only, as the papers do.

    Args:
        max_draws: Give up after this many draws in all, valid or not, when a budget counts valid mappings.
    """

    max_draws: int = 5_000_000
    name: ClassVar[str] = "random"

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`. Without a budget, 10,000 valid mappings are scored."""
        started = clock.wall_seconds()
        encoded = Encoded.of(problem, reuse)
        random, scorer = make_state(seed), encoded.scorer(objective)
        state, best = outermost_state(encoded.space), outermost_state(encoded.space)
        wanted = budget.scored_or(10_000)
        best_value = np.inf
        valid = draws = 0
        if encoded.space.least_units <= 1 and encoded.score(state)[0] != VALID:
            return encoded.result(None, 0, started, seed)
        while (wanted is None or valid < wanted) and draws < self.max_draws:
            chunk = 2_000 if wanted is None else min(2_000, wanted - valid)
            best_value, found = _search(scorer, state, best, best_value, random, chunk)
            valid += found
            draws += chunk
            if clock.is_spent(budget, started):
                break
        return encoded.result(best if np.isfinite(best_value) else None, valid, started, seed)
