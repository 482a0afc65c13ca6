"""The least cost of a profile's nests by a table from the outside in (rules K4 to K7); compiled.

A state says, for every tensor, how many of the boundaries passed last are *open* (no loop has moved the tensor since) and how many of
those are *untouched* (no loop at all has stood outside them). ``least[v, x, s]``: what nests cost from the loops of level v on,
tile x reached, in state s.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray


class States(NamedTuple):
    """Which states there are and where they lead, for one keep set. S states, B boundaries.

    Attributes:
        possible: ``L x S`` 1 where a state may occur among the loops of a level.
        after: ``S x D`` the state after a loop over a dimension.
        ended: ``L x S`` the state after a level's storage: what it keeps is open and untouched.
        closes: ``L x S x D x (B + 1)`` boundaries that a loop closes, then -1; each is 2 x its number, plus 1 if untouched.
        waiting: ``L x S x (B + 1)`` boundaries that nothing has closed yet, those further out included, then -1.
        open: ``S x (B + 1)`` boundaries open at the outermost level, then -1.
        tensor: ``B``.
    """

    possible: IntArray
    after: IntArray
    ended: IntArray
    closes: IntArray
    waiting: IntArray
    open: IntArray
    tensor: IntArray


class Grid(NamedTuple):
    """A profile's tiles in time and what its boundaries move. L levels, T tensors, D dimensions, N tiles, B boundaries.

    Attributes:
        sizes: ``D x V`` divisors of each dimension's iterations in time, ascending, 0 padded.
        n_sizes: ``D`` how many.
        stride: ``D`` of the tile's number.
        steps: ``D x V x V`` 1 where one loop takes a size to another (any factor where tensors slide along, else primes).
        allowed: ``L x D`` 1 where a level may loop over a dimension.
        windows: ``T`` 1 where two dimensions move one axis.
        fits: ``L x N`` 1 where a level's tiles fit it and the fan-out above it allows the tile.
        left: ``N`` iterations outside a tile.
        words: ``B x N``.
        overlap: ``B x L x D x N`` words of the tile that are also in the next when a loop of a level moves it; 0 without windows.
        chain: ``2 x T x L x D x V x N`` the share of later tiles that may slide too (rule K6), touched and untouched.
    """

    sizes: IntArray
    n_sizes: IntArray
    stride: IntArray
    steps: IntArray
    allowed: IntArray
    windows: IntArray
    fits: IntArray
    left: FloatArray
    words: FloatArray
    overlap: FloatArray
    chain: FloatArray


@njit
def step(grid: Grid, states: States, price: FloatArray, v: int, x: int, state: int, d: int, j: int) -> float:
    """What a loop of level v over dimension d costs that takes tile x to the d-th size number j (rule K5)."""
    cost, left = 0.0, grid.left[x]
    for n in range(states.closes.shape[3]):
        code = states.closes[v, state, d, n]
        if code < 0:
            break
        b, fresh = code >> 1, code & 1
        t, full = states.tensor[b], grid.words[b, x]
        if grid.windows[t] == 0:
            cost += price[b] * full * left
            continue
        later = left * grid.sizes[d, (x // grid.stride[d]) % grid.n_sizes[d]] / grid.sizes[d, j]
        same = grid.overlap[b, v, d, x] if fresh == 1 else 0.0
        saved = (same if fresh == 1 else full) * later * grid.chain[fresh, t, v, d, j, x]
        cost += price[b] * (full * later + (full - same) * (left - later) - saved)
    return cost


@njit
def fill(grid: Grid, states: States, price: FloatArray, least: FloatArray) -> None:
    """Write ``least``, ``L x N x S``."""
    levels, tiles, n_states = least.shape
    for v in range(levels):
        for x in range(tiles - 1, -1, -1):
            for state in range(n_states):
                least[v, x, state] = np.inf
                if states.possible[v, state] == 0:
                    continue
                best = np.inf
                if v > 0 and grid.fits[v, x] == 1:
                    best = least[v - 1, x, states.ended[v, state]]
                elif v == 0 and x == tiles - 1:
                    best = 0.0
                    for n in range(states.open.shape[1]):
                        b = states.open[state, n]
                        if b < 0:
                            break
                        best += price[b] * grid.words[b, x]
                for d in range(grid.stride.shape[0]):
                    if grid.allowed[v, d] == 0:
                        continue
                    i = (x // grid.stride[d]) % grid.n_sizes[d]
                    new = states.after[state, d]
                    for j in range(i + 1, grid.n_sizes[d]):
                        if grid.steps[d, i, j] == 1:
                            rest = least[v, x + (j - i) * grid.stride[d], new]
                            if rest < best:
                                best = min(best, rest + step(grid, states, price, v, x, state, d, j))
                least[v, x, state] = best


@njit
def cheapest(
    grid: Grid, states: States, price: FloatArray, rest: FloatArray, limit: float, now: FloatArray, after: FloatArray
) -> float:
    """The least cost of a nest if it is below `limit`, else infinite; from the inside out.

    Args:
        grid: The profile.
        states: The states of the keep set's open boundaries.
        price: ``B``.
        rest: ``L x S`` the least that what is not closed yet costs.
        limit: Partial nests are left out that cannot get below it, but for rounding.
        now: ``N x S`` room for the table of the level at hand.
        after: ``N x S`` room for the table of the next level.
    """
    levels, tiles, n_states = states.possible.shape[0], grid.left.shape[0], now.shape[1]
    now[:] = np.inf
    now[0, 0] = 0.0
    for v in range(levels - 1, -1, -1):
        after[:] = np.inf
        for x in range(tiles):
            for state in range(n_states):
                spent = now[x, state]
                if not (spent + rest[v, state]) * (1.0 - 1e-9) < limit:
                    continue
                if v > 0 and grid.fits[v, x] == 1:
                    new = states.ended[v, state]
                    after[x, new] = min(after[x, new], spent)
                for d in range(grid.stride.shape[0]):
                    if grid.allowed[v, d] == 0:
                        continue
                    i = (x // grid.stride[d]) % grid.n_sizes[d]
                    new = states.after[state, d]
                    for j in range(i + 1, grid.n_sizes[d]):
                        if grid.steps[d, i, j] == 1:
                            total = spent + step(grid, states, price, v, x, state, d, j)
                            place = x + (j - i) * grid.stride[d]
                            if total < now[place, new] and (total + rest[v, new]) * (1.0 - 1e-9) < limit:
                                now[place, new] = total
        if v > 0:
            now[:] = after
    best = np.inf
    for state in range(n_states):
        total = now[tiles - 1, state]
        for n in range(states.open.shape[1]):
            b = states.open[state, n]
            if b < 0 or not total < np.inf:
                break
            total += price[b] * grid.words[b, tiles - 1]
        best = min(best, total)
    return best if best * (1.0 - 1e-9) < limit else np.inf


@njit
def chain_share(
    coef: IntArray, inside: IntArray, size: IntArray, rest: IntArray, v: int, target: int, moved: int, part: float
) -> float:
    """The largest share of later tiles that may slide as the first did (rule K6).

    Args:
        coef: Coefficients of the axis's dimensions.
        inside: ``L x K`` spatial factors of each inside the loops of a level.
        size: Size in time of each now.
        rest: Iterations in time left of each.
        v: Level reached.
        target: How far the first loop moves the tile; 0 if one that does not move it stands further in.
        moved: How far all loops over the axis have moved it.
        part: Share of the steps that is left.
    """
    best = 0.0
    for u in range(v, -1, -1):
        for k in range(len(coef)):
            if u < v and inside[u, k] == inside[u + 1, k]:
                continue
            for g in range(2, rest[k] + 1):
                if rest[k] % g != 0:
                    continue
                far = coef[k] * size[k] * inside[u, k]
                gain = part * (1.0 - 1.0 / g) if far == target + moved else 0.0
                size[k] *= g
                rest[k] //= g
                gain += chain_share(coef, inside, size, rest, u, target, moved + far, part / g)
                size[k] //= g
                rest[k] *= g
                best = max(best, gain)
    return best
