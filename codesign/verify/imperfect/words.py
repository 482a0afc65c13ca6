"""The fewest words that cross a boundary when its tensor closes at some place, imperfect factors; compiled (rules J3 to J5).

A place is a level and how many tiles every dimension has there. Tiles and children that are cut are counted as few as they can be.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray


class Facts(NamedTuple):
    """A problem under one keep set. L levels, T tensors (the output last), D dimensions, A axes, B boundaries.

    Attributes:
        bounds: ``D``.
        coef: ``T x A x D``.
        related: ``T x D`` 1 where a dimension indexes a tensor.
        window: ``T x D`` 1 where a loop over the dimension slides a window of the tensor.
        shares: ``L`` 1 where equal words are sent once.
        first: ``T + 1`` where the boundaries of each tensor start, that of the MACs first, then from the inside out.
        tensor: ``B``.
        level: ``B`` the level that words enter; L for the MACs.
        parent: ``B`` the next level out that keeps the tensor.
    """

    bounds: IntArray
    coef: IntArray
    related: IntArray
    window: IntArray
    shares: IntArray
    first: IntArray
    tensor: IntArray
    level: IntArray
    parent: IntArray


class Spread(NamedTuple):
    """What the fan-outs do.

    Attributes:
        factor: ``L x D`` spatial factors; 1 at a fan-out of which nothing is known.
        fewest: ``L x D`` tiles without which a factor would be a smaller one (rule J2).
        unknown: ``L`` children of a fan-out of which nothing is known; else 1.
        ratio: ``T x L`` what diagonals leave of the words at least (rule S3).
        held: ``L + 1`` output words that all instances of a level hold at most (rule O3).
    """

    factor: IntArray
    fewest: IntArray
    unknown: IntArray
    ratio: FloatArray
    held: FloatArray


class Prices(NamedTuple):
    """What words cost: energy in pJ, or cycles of one port.

    Attributes:
        sent: ``B x (L + 1)`` for each word at the outlet of a level, and at L for each that arrives at the MACs.
        parent: ``B`` for each word that the parent reads, first visits of outputs apart.
        child: ``B`` for each word that fills the level, first visits of outputs apart.
    """

    sent: FloatArray
    parent: FloatArray
    child: FloatArray


@njit
def ceiling(n: int, f: int) -> int:
    """``ceil(n / f)``."""
    return (n + f - 1) // f


@njit
def rounded_up(n: int, bound: int) -> int:
    """The least number of tiles, from n on, that equal tiles of a bound can have."""
    if n <= 1 or n >= bound:
        return min(max(n, 1), bound)
    return ceiling(bound, (bound - 1) // (n - 1))


@njit
def _active(spread: Spread, d: int, n: int, first: int, past: int, cut: int, shares: IntArray) -> int:
    """Fewest children of n tiles along a dimension at the fan-outs `first` to `past`; those from `cut` on that share count once (J3)."""
    count = n
    for m in range(first, past):
        f = spread.factor[m, d]
        if f > 1 and (m < cut or shares[m] == 0):
            count = spread.fewest[m, d] if count == 1 else (count - 1) * f + 1
    return count


@njit
def tiles_along(facts: Facts, spread: Spread, d: int, n: int, w: int, v: int) -> int:
    """Fewest tiles of level v along a dimension that indexes the tensor, where n stand at level w (rule J3)."""
    return rounded_up(_active(spread, d, n, w, v, v, facts.shares), facts.bounds[d])


@njit
def asked_along(facts: Facts, spread: Spread, d: int, n: int, w: int, v: int, cut: int) -> int:
    """How often words are asked for along a dimension that does not index the tensor, counted at the outlet of level `cut` (rule J3)."""
    together = 1
    for m in range(cut, w):
        if facts.shares[m] == 1:
            together *= spread.factor[m, d]
    groups = ceiling(n, together)
    if groups > 1:
        return rounded_up(_active(spread, d, groups, w, v, cut, facts.shares), facts.bounds[d])
    if n == 1:
        return _active(spread, d, 1, w, v, cut, facts.shares)
    count = 1  # the first tile of the group is whole: all of its children work
    for m in range(w, v):
        if m < cut or facts.shares[m] == 0:
            count *= spread.factor[m, d]
    return count


@njit
def _whole_axis(facts: Facts, t: int, a: int, tiles: IntArray) -> float:
    """Words along an axis summed over its tiles, numbers of them given (rules C1 and J4)."""
    number, total = 1.0, 0.0
    for d in range(facts.bounds.shape[0]):
        c = facts.coef[t, a, d]
        if c > 0:
            total = total * tiles[d] + c * float(facts.bounds[d] - tiles[d]) * number
            number *= tiles[d]
    return number + total


@njit
def _fewest_whole(facts: Facts, t: int, a: int, fewest: IntArray, room: IntArray) -> float:
    """The least over all numbers of tiles from the fewest on: linear in each number, so at an end."""
    least, dims = np.inf, facts.bounds.shape[0]
    for corner in range(4):
        bit = 0
        for d in range(dims):
            if facts.coef[t, a, d] > 0:
                room[d] = facts.bounds[d] if (corner >> bit) & 1 == 1 else fewest[d]
                bit += 1
        least = min(least, _whole_axis(facts, t, a, room))
    return least


@njit
def _slid_axis(facts: Facts, t: int, a: int, along: int, runs: int, fewest: IntArray) -> float:
    """Words along an axis when a loop over dimension `along` slides the window, in so many runs (rule J5)."""
    bounds, other = facts.bounds, -1
    for d in range(bounds.shape[0]):
        if d != along and facts.coef[t, a, d] > 0:
            other = d
    if other < 0:
        return float(bounds[along])
    n, bound, step = fewest[other], bounds[other], facts.coef[t, a, along]
    most = float(n)  # the sum of min(tile, step) over the other dimension's tiles
    if facts.coef[t, a, other] == 1 and step > 1 and n < bound:
        largest = bound if n == 1 else ceiling(bound, n - 1) - 1
        if largest > 1:
            most = n + (bound - n) * (min(largest, step) - 1.0) / (largest - 1.0)
    words: float = runs * float(bound) + (bounds[along] - runs) * most
    return words


@njit
def words_along(facts: Facts, t: int, slid: int, runs: int, fewest: IntArray, room: IntArray) -> float:
    """Fewest words of all tiles of a tensor side by side; `slid` is the dimension along which a window slides, -1 for none."""
    product = 1.0
    for a in range(facts.coef.shape[1]):
        if slid >= 0 and facts.coef[t, a, slid] > 0:
            product *= _slid_axis(facts, t, a, slid, runs, fewest)
        elif facts.coef[t, a].any():
            product *= _fewest_whole(facts, t, a, fewest, room)
    return product


@njit
def charge(
    facts: Facts, spread: Spread, prices: Prices, b: int, tiles: IntArray, w: int, slid: int, after: int, room: IntArray
) -> float:
    """Least cost of a boundary that closes at level w among so many tiles.

    Args:
        facts: The problem.
        spread: Its fan-outs.
        prices: Of a word.
        b: The boundary, not one of the MACs.
        tiles: ``D`` tiles inside the loop that closes it.
        w: The level of that loop.
        slid: The dimension of the loop if a window slides along it, else -1.
        after: Tiles of that dimension outside the loop.
        room: ``2 x D``.
    """
    t, v, fewest = facts.tensor[b], facts.level[b], room[0]
    for d in range(tiles.shape[0]):
        if facts.related[t, d] == 1:
            fewest[d] = tiles_along(facts, spread, d, tiles[d], w, v)
    runs = tiles_along(facts, spread, slid, after, w, v) if slid >= 0 else 0
    words = words_along(facts, t, slid, runs, fewest, room[1])
    cost: float = _priced(facts, spread, prices, b, tiles, w, words)
    return cost


@njit
def _priced(facts: Facts, spread: Spread, prices: Prices, b: int, tiles: IntArray, w: int, words: float) -> float:
    """The cost of a boundary whose tiles have so many words side by side."""
    t, v, u = facts.tensor[b], facts.level[b], facts.parent[b]
    total, last = 0.0, facts.related.shape[0] - 1
    for cut in range(u, v + 1):
        net = prices.parent[b] if cut == u else prices.child[b] if cut == v else 0.0
        if prices.sent[b, cut] == 0.0 and net == 0.0:
            continue
        number = words
        for d in range(tiles.shape[0]):
            if facts.related[t, d] == 0:
                number *= asked_along(facts, spread, d, tiles[d], w, v, cut)
        for m in range(cut, v):
            number *= spread.ratio[t, m]
        off = spread.held[cut] if t == last else 0.0
        total += prices.sent[b, cut] * number + net * max(0.0, number - off)
    return total


@njit
def at_macs(facts: Facts, spread: Spread, prices: Prices, b: int) -> float:
    """Least cost of what the MACs ask for: each takes one word of every tensor a step (rules T1 and J6)."""
    t, u, levels = facts.tensor[b], facts.parent[b], facts.shares.shape[0]
    total, last = 0.0, facts.related.shape[0] - 1
    for cut in range(u, levels + 1):
        net = prices.parent[b] if cut == u else 0.0
        if prices.sent[b, cut] == 0.0 and net == 0.0:
            continue
        number = 1.0
        for d in range(facts.bounds.shape[0]):
            together = 1
            if facts.related[t, d] == 0:
                for m in range(cut, levels):
                    if facts.shares[m] == 1:
                        together *= spread.factor[m, d] * spread.unknown[m]
            number *= ceiling(facts.bounds[d], together)
        for m in range(cut, levels):
            number *= spread.ratio[t, m]
        off = spread.held[u] if t == last and cut == u else 0.0
        total += prices.sent[b, cut] * number + net * max(0.0, number - off)
    return total


@njit
def fill_shared(facts: Facts, spread: Spread) -> None:
    """Fill `ratio` and `held` of fan-outs (rules S3 and O3)."""
    tensors, dims = facts.related.shape
    for v in range(spread.held.shape[0]):
        spread.held[v] = 1.0
        for d in range(dims):
            if facts.related[tensors - 1, d] == 1:
                spread.held[v] *= facts.bounds[d]
            else:
                for m in range(v):
                    spread.held[v] *= spread.factor[m, d] * spread.unknown[m]
    for t in range(tensors):
        for m in range(spread.factor.shape[0]):
            spread.ratio[t, m] = _ratio(facts, spread, t, m)


@njit
def _ratio(facts: Facts, spread: Spread, t: int, m: int) -> float:
    """What diagonals leave of the words that a fan-out sends at least."""
    if facts.shares[m] == 0:
        return 1.0
    ratio = 1.0
    for a in range(facts.coef.shape[1]):
        both, either, terms, moving, perfect = 1.0, -1.0, 0, 0, True
        for d in range(facts.bounds.shape[0]):
            if facts.coef[t, a, d] == 0:
                continue
            terms += 1
            f, every = spread.factor[m, d], 1
            for k in range(spread.factor.shape[0]):
                every *= spread.factor[k, d]
            perfect = perfect and facts.bounds[d] % every == 0
            if f > 1:
                moving, both, either = moving + 1, both * f, either + f
        if terms > 1 and spread.unknown[m] > 1:
            ratio /= np.sqrt(float(spread.unknown[m]))
        elif moving > 1 and perfect:
            ratio *= either / both
    return ratio * (1.0 - 1e-12)


@njit
def closed(facts: Facts, spread: Spread, prices: Prices, each: FloatArray, room: IntArray) -> float:
    """Least cost of all boundaries, whatever the loops in time; `each` is filled with that of every boundary (rule J6)."""
    fill_shared(facts, spread)
    total, tiles, fewest = 0.0, room[2], room[0]
    tiles[:] = 1
    for b in range(facts.tensor.shape[0]):
        t, v = facts.tensor[b], facts.level[b]
        if v == facts.shares.shape[0]:
            each[b] = at_macs(facts, spread, prices, b)
        else:
            words = 1.0
            for d in range(tiles.shape[0]):
                fewest[d] = tiles_along(facts, spread, d, 1, 0, v)
            for a in range(facts.coef.shape[1]):
                if not facts.coef[t, a].any():
                    continue
                least = _fewest_whole(facts, t, a, fewest, room[1])
                for d in range(tiles.shape[0]):
                    if facts.coef[t, a, d] > 0 and facts.window[t, d] == 1:
                        least = min(least, _slid_axis(facts, t, a, d, fewest[d], fewest))
                words *= least
            each[b] = _priced(facts, spread, prices, b, tiles, 0, words)
        total += each[b]
    return total
