"""Compiled: the words that cross a boundary at least, and what a profile costs whatever its tiles (rules IB9 to IB11)."""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_inline
from codesign.mappers.imperfect.joint.boundaries import Boundaries
from codesign.mappers.imperfect.joint.counts import at_least, next_ceiling
from codesign.mapping.nest import FloatArray, IntArray

ROUNDED = 1.0 - 1e-12


class Spread(NamedTuple):
    """What the fan-outs of a profile do.

    Attributes:
        factor: ``L x D`` spatial factors.
        fewest: ``L x D`` tiles that each fan-out needs.
        shared_words: ``L`` output words that the instances of a level hold at most.
        sharing: ``T x L`` what diagonals leave of the words of a fan-out at least.
        unknown: ``L`` children of a fan-out that may do anything; 1 where `factor` says what it does.
    """

    factor: IntArray
    fewest: IntArray
    shared_words: FloatArray
    sharing: FloatArray
    unknown: IntArray


def room_for_spread(factor: IntArray, fewest: IntArray, tensors: int) -> Spread:
    """Known fan-outs, with room for what they share."""
    levels = len(factor)
    return Spread(factor, fewest, np.ones(levels), np.ones((tensors, levels)), np.ones(levels, np.int64))


@njit
def words_of(t: int, data: Boundaries, spread: Spread, inner: int) -> float:
    """Least words of all tiles of one tensor, side by side, that the fan-outs outside level `inner` make of one (rule IB9)."""
    bounds, terms, first_term, factor, fewest = data.bounds, data.terms, data.first_term, spread.factor, spread.fewest
    product = 1.0
    for a in range(data.axes[t]):
        first, past = first_term[t, a], first_term[t, a + 1]
        least = np.inf
        for corner in range(1 << (past - first)):  # linear in each number, so least where each is fewest or most
            number, total = 1.0, 0.0
            for k in range(first, past):
                d, c = terms[k, 0], terms[k, 1]
                along = 1
                for m in range(inner):
                    along = next_ceiling(at_least(along, factor[m, d], fewest[m, d]), bounds[d])
                along = bounds[d] if (corner >> (k - first)) & 1 else min(along, bounds[d])
                total = total * along + c * float(bounds[d] - along) * number
                number *= along
            least = min(least, number + total)
        product *= least
    return product


@njit_inline
def paid_words(k: int, b: int, number: float, least: float, data: Boundaries, spread: Spread) -> float:
    """Words of a term that are paid: diagonals share some, at `least` so many are sent, and first visits of the output are free."""
    t = data.tensor[b]
    for m in range(data.cut[k], min(data.level[b], data.shares.shape[0])):
        if data.shares[m] == 1 and spread.sharing[t, m] < 1.0:
            number = np.floor(number * spread.sharing[t, m] * ROUNDED)
    off = spread.shared_words[data.share[k]] if data.share[k] >= 0 else 0.0
    return max(0.0, max(number, least) - off)


@njit
def charge(b: int, price: FloatArray, data: Boundaries, spread: Spread) -> float:
    """Least cost of a boundary that closes last, with one tile outside all fan-outs (rules IB9, IB11)."""
    t, v, bounds = data.tensor[b], data.level[b], data.bounds
    factor, fewest = spread.factor, spread.fewest
    words = words_of(t, data, spread, v)
    total = 0.0
    for k in range(data.start[b], data.start[b + 1]):
        if price[k] == 0.0:
            continue
        number = words
        for d in range(bounds.shape[0]):
            if data.related[t, d] == 0:
                times, every = 1, True
                for m in range(v):
                    if m < data.cut[k] or data.shares[m] == 0:
                        times = at_least(times, factor[m, d], fewest[m, d])
                        if every:
                            times = next_ceiling(times, bounds[d])
                    elif factor[m, d] > 1:
                        every = False
                number *= times
        total += price[k] * paid_words(k, b, number, 0.0, data, spread)
    return total


@njit
def at_macs(b: int, price: FloatArray, data: Boundaries, spread: Spread) -> float:
    """Least cost of what the MACs ask for: every step, shared by children that want the same word (rules IB3, IB10)."""
    t, total, bounds, factor = data.tensor[b], 0.0, data.bounds, spread.factor
    for k in range(data.start[b], data.start[b + 1]):
        if price[k] == 0.0:
            continue
        number, least = 1.0, 1.0
        for m in range(data.cut[k], factor.shape[0]):
            if data.shares[m] == 1:
                least /= spread.unknown[m]
        for d in range(bounds.shape[0]):
            together, every = 1, 1
            for m in range(data.cut[k], factor.shape[0]):
                if data.shares[m] == 1:
                    every *= factor[m, d]
                    if data.related[t, d] == 0:
                        together *= factor[m, d] * spread.unknown[m]
            number *= (bounds[d] + together - 1) // together
            least *= bounds[d] / every
        total += price[k] * paid_words(k, b, number, max(least * ROUNDED, float(data.distinct[t])), data, spread)
    return total


@njit
def _fill_sharing(data: Boundaries, spread: Spread, output_words: float) -> None:
    """Output words that the instances of every level hold at most, and what diagonals leave of a fan-out's words at least."""
    related, factor, unknown = data.related, spread.factor, spread.unknown
    tensors, dims = related.shape
    for v in range(factor.shape[0]):
        copies = output_words
        for d in range(dims):
            if related[tensors - 1, d] == 0:
                for m in range(v):
                    copies *= factor[m, d] * unknown[m]
        spread.shared_words[v] = copies
    for t in range(tensors):
        for m in range(factor.shape[0]):
            spread.sharing[t, m] = _left_by_diagonals(data, spread, t, m)


@njit
def _left_by_diagonals(data: Boundaries, spread: Spread, t: int, m: int) -> float:
    """What diagonals leave of the words of tensor t at fan-out m at least."""
    factor, unknown, sharing = spread.factor, spread.unknown, 1.0
    for a in range(data.axes[t]):
        first, past = data.first_term[t, a], data.first_term[t, a + 1]
        both, either, moving, whole = 1.0, -1.0, 0, True
        if unknown[m] > 1 and past - first > 1:
            sharing = 1.0 / np.sqrt(unknown[m])
        for k in range(first, past):
            d = data.terms[k, 0]
            f = factor[m, d]
            if f > 1:
                moving += 1
                both *= f
                either += f
                product = 1
                for u in range(m, factor.shape[0]):
                    product *= factor[u, d]
                whole = whole and data.bounds[d] % product == 0
        if moving == 2 and whole:
            sharing *= either / both
    return sharing


@njit
def base_of(data: Boundaries, price: FloatArray, spread: Spread, output_words: float, each: FloatArray) -> float:
    """What a profile costs at least if every boundary closes last; `each` is filled with the cost of every boundary (rule IB11)."""
    _fill_sharing(data, spread, output_words)
    total = 0.0
    for b in range(data.level.shape[0]):
        if data.level[b] == spread.factor.shape[0]:
            each[b] = at_macs(b, price, data, spread)
        else:
            each[b] = charge(b, price, data, spread)
        total += each[b]
    return total
