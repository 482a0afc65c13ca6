"""Descent from a schedule under the cost kernel: prime factors moved one or two at a time, loops reordered.

Not part of the published method: the program's objective is a heuristic, and a schedule that is next to a better one under the
kernel need not stay where the program left it (docs/explanation/cosa.md).
"""

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.cosa.decode import choose_orders
from codesign.mappers.driver import Scorer, value_of_state
from codesign.mapping.nest import IntArray
from codesign.mapping.space import MapSpace, MapState, copy_state


@njit
def polish(
    scorer: Scorer, state: MapState, scratch: tuple[MapState, MapState], orders: IntArray, limit: int
) -> tuple[float, int]:
    """Improve a state until no move of one prime factor, nor of two at once, to other slots is better.

    After every improvement the loop orders and free bypasses are chosen anew by `choose_orders`.

    Args:
        state: Overwritten by the best state found.
        scratch: Two states to work in.
        limit: Mappings to score at most.

    Returns:
        The best value (infinite if no valid mapping was found) and the number of mappings scored.
    """
    space, (trial, other) = scorer.space, scratch
    best, scored = choose_orders(scorer, state, other, orders, limit)
    improved = True
    while improved:
        improved = False
        for pairs in (False, True):  # pairs only where no single move helps
            if improved or scored >= limit:
                break
            for p in range(space.prime.shape[0]):
                if _repeats(space, state, p, -1):
                    continue
                for a in range(space.n_choices[p]):
                    copy_state(state, trial)
                    trial.slot[p] = space.choices[p, a]
                    if trial.slot[p] == state.slot[p]:
                        continue
                    left = limit - scored
                    if pairs:
                        value, more = _second_move(scorer, state, trial, p, best, left)
                    else:
                        value, more = value_of_state(scorer, trial), 1
                    scored += more
                    if value < best:
                        copy_state(trial, state)
                        best, improved, left = value, True, left - more
                        if left > 0:
                            best, more = choose_orders(scorer, state, other, orders, left)
                            scored += more
                    if scored >= limit:
                        return best, scored
    return best, scored


@njit
def _second_move(
    scorer: Scorer, state: MapState, trial: MapState, first: int, bound: float, limit: int
) -> tuple[float, int]:
    """Move a second prime of `trial` until the value is below `bound`; that value, else infinity, and the mappings scored."""
    scored, space = 0, scorer.space
    for q in range(first + 1, space.prime.shape[0]):
        if _repeats(space, state, q, first):
            continue
        for b in range(space.n_choices[q]):
            trial.slot[q] = space.choices[q, b]
            if trial.slot[q] == state.slot[q]:
                continue
            if scored >= limit:
                return np.inf, scored
            value = value_of_state(scorer, trial)
            scored += 1
            if value < bound:
                return value, scored
        trial.slot[q] = state.slot[q]
    return np.inf, scored


@njit
def _repeats(space: MapSpace, state: MapState, prime: int, but: int) -> bool:
    """Whether moving this prime is the same as moving the one before it: equal in value, dimension, slot and choices."""
    q = prime - 1
    if q < 0 or q == but:
        return False
    same = space.prime[q] == space.prime[prime] and space.prime_dim[q] == space.prime_dim[prime]
    same = same and state.slot[q] == state.slot[prime] and space.n_choices[q] == space.n_choices[prime]
    for i in range(space.n_choices[prime]):
        same = same and space.choices[q, i] == space.choices[prime, i]
    return same  # type: ignore[no-any-return]
