"""Temporal tiles of one profile: words that enter every level, what fits, and what windows share; compiled."""

import numpy as np

from codesign.core.jit import njit
from codesign.cost.arrays import UNBOUNDED
from codesign.mappers.exact.even.word_prices import Arrays
from codesign.mappers.exact.problem.lattice import INF
from codesign.mapping.nest import FloatArray


@njit
def fill_tiles(value: FloatArray, inside: FloatArray, arrays: Arrays, words: FloatArray, penalty: FloatArray) -> None:
    """Words of every tensor's tile at every level, and where they fit.

    Args:
        value: ``D x N`` temporal sizes.
        inside: ``L x D`` product of the spatial factors from a level inwards.
        words: ``T x L x N`` tile words times iterations left: what enters if every step of the loops outside brings a tile.
        penalty: ``L x 2**T x N`` infinite where the tiles of a set of tensors do not fit.
    """
    coef, bits, capacity = arrays.coef, arrays.bits, arrays.capacity
    n_tensors, n_axes, n_dims = coef.shape
    n_levels, n = inside.shape[0], value.shape[1]
    left, box, extent = np.ones(n), np.empty((n_tensors, n)), np.empty(n)
    for d in range(n_dims):
        for x in range(n):
            left[x] *= value[d, n - 1] / value[d, x]
    for v in range(n_levels):
        for t in range(n_tensors):
            box[t] = 1.0
            for a in range(n_axes):
                moves = False
                for d in range(n_dims):
                    moves = moves or coef[t, a, d] > 0.0
                if not moves:
                    continue
                extent[:] = 1.0
                for d in range(n_dims):
                    if coef[t, a, d] > 0.0:
                        for x in range(n):
                            extent[x] += coef[t, a, d] * (value[d, x] * inside[v, d] - 1.0)
                for x in range(n):
                    box[t, x] *= extent[x]
            for x in range(n):
                words[t, v, x] = box[t, x] * left[x]
        for kept in range(1 << n_tensors):
            penalty[v, kept] = 0.0
            if kept == 0 or capacity[v] == UNBOUNDED:
                continue
            for x in range(n):
                used = 0.0
                for t in range(n_tensors):
                    if kept >> t & 1 == 1:
                        used += box[t, x] * bits[v, t]
                if used > capacity[v]:
                    penalty[v, kept, x] = INF


@njit
def shared_words(
    t: int, value: FloatArray, inside: FloatArray, arrays: Arrays, words: FloatArray, shared: FloatArray
) -> None:
    """Fill `codesign.mappers.exact.even.joint_program.Moved.shared` (``L x L x D x N``) for one tensor."""
    coef, (n_dims, n) = arrays.coef, value.shape
    shared[:] = 0.0
    for a in range(coef.shape[1]):
        for d in range(n_dims):
            if arrays.slides[t, a, d] == 0:
                continue
            for v in range(inside.shape[0]):
                for c in range(v):
                    for x in range(n):
                        extent = 1.0
                        for e in range(n_dims):
                            if coef[t, a, e] > 0.0:
                                extent += coef[t, a, e] * (value[e, x] * inside[v, e] - 1.0)
                        common = extent - coef[t, a, d] * value[d, x] * inside[c, d]
                        if common > 0.0:
                            shared[c, v, d, x] = words[t, v, x] / extent * common
