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
def _most_saved(
    level: int, used: int, wanted: int, saved: float, share: float, best: float, sizes: IntArray, reach: IntArray,
    coef: IntArray, walk: bool,
) -> float:  # fmt: skip
    """Largest sum of (steps of repeating loops) / (iterations left), over sequences of loops that go on from here outwards.

    Args:
        level: Level whose loops may come next.
        used: Bit mask of the axis' dimensions that level has looped over already.
        wanted: Travel that the next repeating loop must have.
        saved: That sum so far.
        share: Of the iterations, what is left outside the loops so far.
        best: The largest sum of other sequences.
        sizes: Current size of each dimension of the axis; changed and put back.
        reach: ``L' x axis dimensions``, see `chain_table`.
        coef: Coefficients of the dimensions.
        walk: Whether inner loops are walked truly (rule R2 with `Reuse.WALK`) or extrapolated.
    """
    best = max(best, saved)
    if saved + share <= best:
        return best
    unfinished = False
    for d in range(sizes.shape[0]):
        left, travel = reach[level, d] // sizes[d], coef[d] * sizes[d]
        unfinished = unfinished or left > 1
        if used >> d & 1 == 1:
            continue
        for f in range(2, left + 1):
            if left % f == 0:
                then = wanted + (travel * (f - 1) if walk else travel)
                more = share * (1.0 - 1.0 / f) if travel == wanted else 0.0
                sizes[d] *= f
                best = _most_saved(
                    level, used | (1 << d), then, saved + more, share / f, best, sizes, reach, coef, walk
                )
                sizes[d] //= f
    if level > 0 and unfinished:
        for d in range(sizes.shape[0]):
            sizes[d] *= reach[level - 1, d] // reach[level, d]
        best = _most_saved(level - 1, 0, wanted, saved, share, best, sizes, reach, coef, walk)
        for d in range(sizes.shape[0]):
            sizes[d] //= reach[level - 1, d] // reach[level, d]
    return best


@njit
def chain_table(divisors: IntArray, counts: IntArray, reach: IntArray, coef: IntArray, walk: bool) -> FloatArray:
    """Most saved after each first loop, as a share of (words not fetched by a repeating step) x (iterations left).

    Args:
        divisors: ``axis dimensions x J`` in the lattice's order.
        counts: How many each dimension has.
        reach: ``L' x axis dimensions`` largest size at each level, that of the first loop last: what the fan-outs outside
            leave of the bounds.
        coef: Coefficients of the dimensions.
        walk: See `_most_saved`.

    Returns:
        ``2 x axis dimensions x J x sub-tiles``: touched or untouched before; first dimension; its factor; tile of the axis.
    """
    n, level = counts.shape[0], reach.shape[0] - 1
    total = 1
    for d in range(n):
        total *= counts[d]
    table = np.zeros((2, n, divisors.shape[1], total))
    sizes = np.ones(n, np.int64)
    for sub in range(total):
        rest, fits = sub, True
        for d in range(n - 1, -1, -1):
            sizes[d] = divisors[d, rest % counts[d]]
            rest //= counts[d]
            fits = fits and reach[level, d] % sizes[d] == 0
        if not fits:
            continue
        for d in range(n):
            left, travel = reach[level, d] // sizes[d], coef[d] * sizes[d]
            for j in range(1, counts[d]):
                f = divisors[d, j]
                if left % f != 0:
                    continue
                moved = travel * (f - 1) if walk else travel
                sizes[d] *= f
                for kind in range(2):
                    wanted = moved + travel if kind == UNTOUCHED else moved
                    most = _most_saved(level, 1 << d, wanted, 0.0, 1.0, 0.0, sizes, reach, coef, walk)
                    table[kind, d, j, sub] = most / f
                sizes[d] //= f
    return table
