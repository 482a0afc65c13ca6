"""Annealing of mappings by their simulated cycles, in compiled code.

The analytical cycles of a mapping, and those with waits in closed form (rule E12), are never above its simulated ones, and every
objective grows with the cycles. So a move that either value already rules out is rejected without a simulation: the number that decides on
acceptance is drawn first, and turned into the largest value accepted. Of the others only those that rule E12 puts below the best mapping met in
the walk are simulated; the rest count by that rule. So no mapping becomes the best by a bound that is too low.

* W2: Three starts have a walk of 2,000 moves each. Later walks begin in turn at the best mapping met, with all loops
  outermost, and at a start.
* W3: It ends after 48 walks or 25 million simulated operations, or with the budget. Mappings of more than 10,000
  simulated operations are passed over.
"""

import math
from collections.abc import Sequence

import numpy as np

from codesign.core import clock
from codesign.core.goals import Budget, Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState, make_state, uniform
from codesign.cost.kernel import score
from codesign.cost.packed import VALID
from codesign.mappers.annealing import Walkers
from codesign.mappers.driver import Encoded, Scorer, value_of
from codesign.mappers.moves import Cooling, change_state, geometric
from codesign.mapping.mapping import Mapping
from codesign.mapping.space import build_nest, copy_state, outermost_state
from codesign.timing.derive import Machine, derive
from codesign.timing.engine import COMPLETE, run
from codesign.timing.event_state import SIMULATED
from codesign.timing.least_cycles import least_cycles

HOT, COLD = 0.5, 0.003
"""First and last temperature: relative worsening accepted with probability 1/e."""

OPERATIONS = 10_000
"""Operations of one simulation at most; a mapping that needs more is passed over."""

MOVES, WALKS = 2_000, 48
"""Moves of one walk, and walks."""

_AT_THE_BEST, _OUTERMOST, _AT_A_START = 0, 1, 2

EFFORT = 25_000_000
"""Simulated operations after which no further walk begins: two or three seconds."""


@njit
def timed_value(
    scorer: Scorer, machine: Machine, count: int, energy: float, cycles: float, most: float, best: float
) -> tuple[float, int]:
    """The objective of a nest just found valid, with simulated cycles where it may be below `best`; infinite where cut short.

    Where the cycles with waits in closed form already give more than `most`, or no less than `best`, the value is theirs and
    nothing is simulated.

    Returns:
        The value, and the operations simulated.
    """
    plan, _ = derive(scorer.kernel, scorer.nest, count, machine)
    least = value_of(scorer.objective, energy, max(cycles, least_cycles(plan)))
    if least > most or least >= best:
        return least, 0
    result = run(plan, True, OPERATIONS, np.zeros((0, 4)))
    value = value_of(scorer.objective, energy, result[1]) if result[0] == COMPLETE else np.inf
    return value, result[5][SIMULATED]


@njit
def anneal_timed(
    scorer: Scorer, machine: Machine, walkers: Walkers, random: RandomState, cooling: Cooling
) -> tuple[float, int]:
    """Walk from the state at hand, the best met kept in `walkers.best`; returns its value, infinite where no state was valid, and the operations simulated."""
    current, best, operations = np.inf, np.inf, 0
    temperature = cooling.hot
    for move in range(cooling.moves):
        copy_state(walkers.state, walkers.trial)
        if move > 0:
            change_state(scorer.space, walkers.trial, random)
        count = build_nest(scorer.space, walkers.trial, scorer.table, scorer.nest)
        status, energy, cycles = score(scorer.kernel, scorer.nest, count)
        temperature *= cooling.rate
        most = current * uniform(random) ** -temperature if current < np.inf else np.inf
        if status != VALID or value_of(scorer.objective, energy, cycles) > most:
            continue
        value, spent = timed_value(scorer, machine, count, energy, cycles, most, best)
        operations += spent
        if value > most or value == np.inf:
            continue
        current = value
        copy_state(walkers.trial, walkers.state)
        if value < best:
            best = value
            copy_state(walkers.trial, walkers.best)
    return best, operations


def search_timed(
    encoded: Encoded,
    starts: Sequence[Mapping],
    machine: Machine,
    objective: Objective,
    budget: Budget,
    seed: int,
    *,
    walks: int = WALKS,
) -> tuple[Mapping | None, int]:
    """The best mapping by simulated cycles that walks meet, and how many mappings were scored.

    Every start has its walk. Walks after these begin in turn at the best mapping met, with all loops outermost, and at a start.

    Args:
        starts: Mappings of it; not empty.
        walks: How many at most.
    """
    began = clock.wall_seconds()
    space, scorer = encoded.space, encoded.scorer(objective)
    best, value = outermost_state(space), math.inf
    scored = operations = 0
    for i in range(walks):
        moves = MOVES if budget.evaluations is None else min(MOVES, budget.evaluations - scored)
        if clock.is_spent(budget, began) or moves < 1 or operations >= EFFORT:
            break
        met, turn = outermost_state(space), i % 3 if i >= len(starts) else _AT_A_START
        state = outermost_state(space) if turn == _OUTERMOST else encoded.state_of(starts[i % len(starts)])
        from_best = turn == _AT_THE_BEST and math.isfinite(value)
        if from_best:
            copy_state(best, state)
        walkers = Walkers(state, outermost_state(space), met)
        random, cooling = make_state(seed, i), geometric(moves, 0.2 * HOT if from_best else HOT, COLD)
        found, spent = anneal_timed(scorer, machine, walkers, random, cooling)
        scored, operations = scored + moves, operations + spent
        if found < value:
            value = found
            copy_state(met, best)
    if not math.isfinite(value):
        return None, scored
    return encoded.mapping_of(best), scored
