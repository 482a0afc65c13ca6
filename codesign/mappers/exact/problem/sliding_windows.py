"""Windows that slide on after the loop that moved them first: what a closed boundary may still save.

By rule R2 a step of any loop outside costs only the new words if it moves the tile exactly as the innermost loop
does. Whether it does depends on the loops in between, so the dynamic program cannot see it. This module
computes the most that can be saved so: the largest sum over all sequences of further loops along the same axis,
relative to the iterations left at the closing tile. Loops along other axes end the chain; loops that do not index the
tensor only lessen the saving. Almost everywhere the answer is 0.
"""

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray

UNTOUCHED = 1


@njit
def _room_for_one(states: IntArray, values: FloatArray, waiting: int) -> tuple[IntArray, FloatArray]:
    """Both arrays, doubled if they are full."""
    if waiting + 2 > states.shape[0]:
        return np.concatenate((states, np.empty_like(states))), np.concatenate((values, np.empty_like(values)))
    return states, values


@njit
def most_saved(
    level: int, used: int, wanted: int, sizes: IntArray, bounds: IntArray, coef: IntArray, spatial: IntArray, walk: bool
) -> float:
    """Largest sum of (steps of repeating loops) / (iterations left), over sequences of loops from here outwards.

    Args:
        level: Level whose loops may come next.
        used: Bit mask of the axis' dimensions that level has looped over already.
        wanted: Travel that the next repeating loop must have.
        sizes: Current size of each dimension of the axis.
        bounds: Bounds of these dimensions.
        coef: Their coefficients.
        spatial: ``L x axis dimensions`` spatial factors of each fan-out.
        walk: Whether inner loops are walked truly (rule R2 with `Reuse.WALK`) or extrapolated.
    """
    n = sizes.shape[0]
    states = np.empty((256, 3 + n), np.int64)  # sequences still to be extended: level, used, wanted, sizes
    values = np.empty((256, 2))  # what each has saved, and the share of iterations left outside it
    states[0, 0], states[0, 1], states[0, 2] = level, used, wanted
    states[0, 3:] = sizes
    values[0, 0], values[0, 1] = 0.0, 1.0
    waiting = 1
    best = 0.0
    while waiting > 0:
        waiting -= 1
        at, taken, need = states[waiting, 0], states[waiting, 1], states[waiting, 2]
        saved, share = values[waiting, 0], values[waiting, 1]
        best = max(best, saved)
        if saved + share <= best:
            continue
        size = states[waiting, 3:].copy()
        unfinished = False
        for d in range(n):
            outside = 1
            for m in range(at):
                outside *= spatial[m, d]
            left = bounds[d] // (size[d] * outside)
            unfinished = unfinished or left > 1
            if taken >> d & 1 == 1:
                continue
            travel = coef[d] * size[d]
            for f in range(2, left + 1):
                if left % f != 0:
                    continue
                states, values = _room_for_one(states, values, waiting)
                states[waiting, 0], states[waiting, 1] = at, taken | (1 << d)
                states[waiting, 2] = need + (travel * (f - 1) if walk else travel)
                states[waiting, 3:] = size
                states[waiting, 3 + d] *= f
                values[waiting, 0] = saved + (share * (1.0 - 1.0 / f) if travel == need else 0.0)
                values[waiting, 1] = share / f
                waiting += 1
        if at > 0 and unfinished:
            states, values = _room_for_one(states, values, waiting)
            states[waiting, 0], states[waiting, 1], states[waiting, 2] = at - 1, 0, need
            for d in range(n):
                states[waiting, 3 + d] = size[d] * spatial[at - 1, d]
            values[waiting, 0], values[waiting, 1] = saved, share
            waiting += 1
    return best


@njit
def chain_table(
    level: int, divisors: IntArray, counts: IntArray, bounds: IntArray, coef: IntArray, spatial: IntArray, walk: bool
) -> FloatArray:
    """Most saved after each first loop, as a share of (words not fetched by a repeating step) x (iterations left).

    Args:
        level: Level of the first loop.
        divisors: ``axis dimensions x J`` in the lattice's order.
        spatial: ``L x axis dimensions``.

    Returns:
        ``2 x axis dimensions x J x sub-tiles``: touched or untouched before; first dimension; its factor; tile of the axis.
    """
    n = bounds.shape[0]
    total = 1
    for d in range(n):
        total *= counts[d]
    table = np.zeros((2, n, divisors.shape[1], total))
    sizes = np.ones(n, np.int64)
    for sub in range(total):
        rest = sub
        fits = True
        for d in range(n - 1, -1, -1):
            sizes[d] = divisors[d, rest % counts[d]]
            rest //= counts[d]
            outside = 1
            for m in range(level):
                outside *= spatial[m, d]
            fits = fits and bounds[d] % (sizes[d] * outside) == 0
        if not fits:
            continue
        for d in range(n):
            outside = 1
            for m in range(level):
                outside *= spatial[m, d]
            left = bounds[d] // (sizes[d] * outside)
            travel = coef[d] * sizes[d]
            for j in range(1, counts[d]):
                f = divisors[d, j]
                if left % f != 0:
                    continue
                moved = travel * (f - 1) if walk else travel
                sizes[d] *= f
                for kind in range(2):
                    wanted = moved + travel if kind == UNTOUCHED else moved
                    table[kind, d, j, sub] = most_saved(level, 1 << d, wanted, sizes, bounds, coef, spatial, walk) / f
                sizes[d] //= f
    return table
