"""Compiled: the words that cross a boundary at least, and what a profile costs whatever its tiles (rules IB9 to IB11)."""

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.imperfect.joint.boundaries import Boundaries
from codesign.mappers.imperfect.joint.counts import at_least, next_ceiling
from codesign.mapping.nest import FloatArray, IntArray

ROUNDED = 1.0 - 1e-12


@njit
def words_of(
    t: int, count: IntArray, row: int, bounds: IntArray, terms: IntArray, first_term: IntArray, axes: IntArray,
    factor: IntArray, fewest: IntArray, inner: int, outer: int,
) -> float:  # fmt: skip
    """Least words of all tiles of one tensor, side by side, with so many tiles or more (rule IB9).

    `outer` to `inner` (not included) are the fan-outs that were crossed since; windows are split by them.
    """
    product = 1.0
    for a in range(axes[t]):
        first, past = first_term[t, a], first_term[t, a + 1]
        least = np.inf
        for corner in range(1 << (past - first)):  # linear in each number, so least where each is fewest or most
            number, total = 1.0, 0.0
            for k in range(first, past):
                d, c = terms[k, 0], terms[k, 1]
                along = count[row, d]
                for m in range(outer, inner):
                    along = next_ceiling(at_least(along, factor[m, d], fewest[m, d]), bounds[d])
                along = bounds[d] if (corner >> (k - first)) & 1 else min(along, bounds[d])
                total = total * along + c * float(bounds[d] - along) * number
                number *= along
            least = min(least, number + total)
        product *= least
    return product


@njit
def charge(
    b: int, count: IntArray, row: int, outer: int, price: FloatArray, bounds: IntArray, related: IntArray, terms: IntArray,
    first_term: IntArray, axes: IntArray, level: IntArray, tensor: IntArray, start: IntArray, walked: IntArray,
    diagonal: IntArray, share: IntArray, factor: IntArray, fewest: IntArray, shared_words: FloatArray,
    sharing: FloatArray,
) -> float:  # fmt: skip
    """Least cost of a boundary that closes at a place with `count` tiles, the fan-outs from `outer` on being inside (rule IB9)."""
    t, v = tensor[b], level[b]
    words = words_of(t, count, row, bounds, terms, first_term, axes, factor, fewest, v, outer)
    total = 0.0
    for k in range(start[b], start[b + 1]):
        if price[k] == 0.0:
            continue
        number = words
        for d in range(bounds.shape[0]):
            if related[t, d] == 0:
                times, every = count[row, d], outer == 0
                for m in range(outer, v):
                    if walked[k, m] == 1:
                        times = at_least(times, factor[m, d], fewest[m, d])
                        if every:
                            times = next_ceiling(times, bounds[d])
                    elif factor[m, d] > 1:
                        every = False
                number *= times
        for m in range(outer, v):
            if diagonal[k, m] == 1 and sharing[t, m] < 1.0:
                number = np.floor(number * sharing[t, m] * ROUNDED)
        off = shared_words[share[k]] if share[k] >= 0 else 0.0
        total += price[k] * max(0.0, number - off)
    return total


@njit
def at_macs(
    b: int, price: FloatArray, bounds: IntArray, related: IntArray, tensor: IntArray, start: IntArray, walked: IntArray,
    diagonal: IntArray, share: IntArray, factor: IntArray, shared_words: FloatArray, sharing: FloatArray,
    unknown: IntArray,
) -> float:  # fmt: skip
    """Least cost of what the MACs ask for: every step, shared by children that want the same word (rule IB10).

    `unknown`: ``L`` children of a fan-out that may do anything; 1 where `factor` says what it does.
    """
    t, total = tensor[b], 0.0
    for k in range(start[b], start[b + 1]):
        if price[k] == 0.0:
            continue
        number = 1.0
        for d in range(bounds.shape[0]):
            together = 1
            if related[t, d] == 0:
                for m in range(factor.shape[0]):
                    if walked[k, m] == 0:
                        together *= factor[m, d] * unknown[m]
            number *= (bounds[d] + together - 1) // together
        for m in range(factor.shape[0]):
            if diagonal[k, m] == 1 and sharing[t, m] < 1.0:
                number = np.floor(number * sharing[t, m] * ROUNDED)
        off = shared_words[share[k]] if share[k] >= 0 else 0.0
        total += price[k] * max(0.0, number - off)
    return total


@njit
def _fill_sharing(
    bounds: IntArray, related: IntArray, terms: IntArray, first_term: IntArray, axes: IntArray, factor: IntArray,
    shared_words: FloatArray, sharing: FloatArray, output_words: float, unknown: IntArray,
) -> None:  # fmt: skip
    """Output words that the instances of every level hold at most, and what diagonals leave of a fan-out's words at least."""
    tensors, dims = related.shape
    levels = factor.shape[0]
    for v in range(levels):
        copies = output_words
        for d in range(dims):
            if related[tensors - 1, d] == 0:
                for m in range(v):
                    copies *= factor[m, d] * unknown[m]
        shared_words[v] = copies
    for t in range(tensors):
        for m in range(levels):
            sharing[t, m] = 1.0
            for a in range(axes[t]):
                first, past = first_term[t, a], first_term[t, a + 1]
                both, either, moving, whole = 1.0, -1.0, 0, True
                if unknown[m] > 1 and past - first > 1:
                    sharing[t, m] = 1.0 / np.sqrt(unknown[m])
                for k in range(first, past):
                    d = terms[k, 0]
                    f = factor[m, d]
                    if f > 1:
                        moving += 1
                        both *= f
                        either += f
                        product = 1
                        for u in range(m, levels):
                            product *= factor[u, d]
                        whole = whole and bounds[d] % product == 0
                if moving == 2 and whole:
                    sharing[t, m] *= either / both
    return


@njit
def base_of(
    data: Boundaries, price: FloatArray, factor: IntArray, fewest: IntArray, shared_words: FloatArray, sharing: FloatArray,
    output_words: float, each: FloatArray, unknown: IntArray,
) -> float:  # fmt: skip
    """What a profile costs at least if every boundary closes last; `each` is filled with the cost of every boundary (rule IB11)."""
    _fill_sharing(
        data.bounds, data.related, data.terms, data.first_term, data.axes, factor, shared_words, sharing, output_words,
        unknown,
    )  # fmt: skip
    ones = np.ones((1, data.bounds.shape[0]), np.int64)
    total = 0.0
    for b in range(data.level.shape[0]):
        if data.level[b] == factor.shape[0]:
            each[b] = at_macs(
                b, price, data.bounds, data.related, data.tensor, data.start, data.walked, data.diagonal,
                data.share, factor, shared_words, sharing, unknown,
            )  # fmt: skip
        else:
            each[b] = charge(
                b, ones, 0, 0, price, data.bounds, data.related, data.terms, data.first_term, data.axes, data.level,
                data.tensor, data.start, data.walked, data.diagonal, data.share, factor, fewest,
                shared_words, sharing,
            )  # fmt: skip
        total += each[b]
    return total
