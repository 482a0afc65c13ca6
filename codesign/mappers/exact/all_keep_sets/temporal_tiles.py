"""Temporal tiles of one profile: words that enter every level, what fits, and what windows share; compiled."""

import numpy as np

from codesign.core.jit import njit
from codesign.cost.arrays import UNBOUNDED
from codesign.mappers.exact.problem.tables import INF, Grid
from codesign.mapping.nest import FloatArray, IntArray


@njit
def fill_tiles(
    value: FloatArray,
    inside: FloatArray,
    coef: FloatArray,
    bits: IntArray,
    capacity: IntArray,
    words: FloatArray,
    penalty: FloatArray,
) -> None:
    """Words of every tensor's tile at every level, and where they fit.

    Args:
        value: ``D x N`` temporal sizes.
        inside: ``L x D`` product of the spatial factors from a level inwards.
        coef: ``T x A x D``.
        bits: ``L x T`` of an element.
        capacity: ``L`` bits.
        words: ``T x L x N`` tile words times iterations left: what enters if every step of the loops outside brings a tile.
        penalty: ``L x 2**T x N`` infinite where the tiles of a set of tensors do not fit.
    """
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
    t: int,
    value: FloatArray,
    inside: FloatArray,
    coef: FloatArray,
    slides: IntArray,
    words: FloatArray,
    shared: FloatArray,
    steady: IntArray,
) -> None:
    """Fill `Windows.shared` and `Windows.steady` for one tensor.

    Args:
        t: The tensor.
        value: See `fill_tiles`.
        inside: See there.
        coef: See there.
        slides: ``T x A x D`` 1 where windows overlap when the dimension moves the axis.
        words: See there.
        shared: ``L x L x D x N``, overwritten.
        steady: ``L x L x D``, overwritten.
    """
    n_dims, n = value.shape
    shared[:] = 0.0
    steady[:] = 1
    for a in range(coef.shape[1]):
        for d in range(n_dims):
            if slides[t, a, d] == 0:
                continue
            for v in range(inside.shape[0]):
                for c in range(v):
                    for e in range(n_dims):
                        if coef[t, a, e] > 0.0 and inside[c, e] != inside[v, e]:
                            steady[c, v, d] = 0
                    for x in range(n):
                        extent = 1.0
                        for e in range(n_dims):
                            if coef[t, a, e] > 0.0:
                                extent += coef[t, a, e] * (value[e, x] * inside[v, e] - 1.0)
                        common = extent - coef[t, a, d] * value[d, x] * inside[c, d]
                        if common > 0.0:
                            shared[c, v, d, x] = words[t, v, x] / extent * common


@njit
def list_chains(
    number: IntArray,
    tables: FloatArray,
    axis_of: IntArray,
    value: FloatArray,
    inside: FloatArray,
    place: IntArray,
    counts: IntArray,
    grid: Grid,
    chains: IntArray,
    saved: FloatArray,
    first: IntArray,
) -> None:
    """List the first loops after which others may save words, those of each level and dimension together.

    Args:
        number: ``L x D`` table when the first loop is over a dimension, -1 none.
        tables: ``K x 2 x J x tiles of the axis`` shares saved, see `codesign.mappers.exact.problem.sliding_windows.chain_table`.
        axis_of: ``D x A`` the dimensions of the axis each stands on, -1 padded.
        value: ``D x N`` temporal sizes.
        inside: ``L x D`` product of the spatial factors from a level inwards.
        place: ``D x sizes`` position of every divisor of a bound.
        counts: ``D`` number of them.
        grid: The lattice of temporal tiles.
        chains: See `Windows`; rows beyond its end are counted only.
        saved: What each chain may save; rows beyond its end are counted only.
        first: Overwritten; its last entry says how many there are.
    """
    n = 0
    for c in range(number.shape[0]):
        for d in range(number.shape[1]):
            first[c * number.shape[1] + d] = n
            k = number[c, d]
            if k < 0:
                continue
            stride, count = grid.stride[d], grid.n_divisors[d]
            for x in range(value.shape[1]):
                tile = 0
                for a in range(axis_of.shape[1]):
                    e = axis_of[d, a]
                    if e >= 0:
                        tile = tile * counts[e] + place[e, int(value[e, x] * inside[c, e])]
                i = x // stride % count
                for j in range(1, count):
                    if grid.grow[d, j, i] < 0:
                        continue
                    factor = place[d, int(grid.divisor[d, j])]
                    touched, fresh = tables[k, 0, factor, tile], tables[k, 1, factor, tile]
                    if touched <= 0.0 and fresh <= 0.0:
                        continue
                    if n < chains.shape[0]:
                        chains[n, 0], chains[n, 1], chains[n, 2], chains[n, 3] = c, d, j, x
                        chains[n, 4] = x + (grid.grow[d, j, i] - i) * stride
                        saved[n, 0], saved[n, 1], saved[n, 2] = touched, fresh, 1.0 - 1.0 / grid.divisor[d, j]
                    n += 1
    first[-1] = n
