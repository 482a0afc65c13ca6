"""Costs of random valid mappings, which the experiments after the CoSA paper compare with."""

import numpy as np

from codesign.core.goals import Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState, make_state
from codesign.cost.arrays import Reuse
from codesign.cost.packed import VALID
from codesign.mappers.driver import Encoded, Scorer, score_state
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import FloatArray
from codesign.mapping.space import MapState, draw_state, outermost_state


@njit
def _sample(scorer: Scorer, state: MapState, random: RandomState, draws: int, found: FloatArray) -> tuple[int, int]:
    """Draw at most `draws` states until `found` is full of costs of valid ones; returns (valid, drawn)."""
    valid = drawn = 0
    while valid < found.shape[0] and drawn < draws:
        draw_state(scorer.space, state, random)
        drawn += 1
        status, energy, cycles = score_state(scorer, state)
        if status == VALID:
            found[valid, 0], found[valid, 1] = energy, cycles
            valid += 1
    return valid, drawn


def sample_costs(
    problem: MappingProblem, count: int, *, seed: int, max_draws: int = 100_000_000
) -> tuple[FloatArray, int]:
    """Costs of random valid mappings, ``n x 2`` (energy_pj, latency_cycles) with n <= `count`, and the mappings drawn for them."""
    encoded = Encoded.of(problem, Reuse.TIMELOOP)
    found = np.empty((count, 2))
    state = outermost_state(encoded.space)
    valid, drawn = _sample(encoded.scorer(Objective.ENERGY), state, make_state(seed), max_draws, found)
    return found[:valid], int(drawn)
