"""Folded tiles of one profile: dimensions of windows that index the same tensors count as one; compiled.

A folded tile is a vector of prime exponents, one axis for each prime of each group of dimensions. Axes of groups with
windows come last, so that what depends on windows is a small table that repeats (section D11 in docs/explanation/exact-mapper.md).
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.exact.even.word_prices import Arrays, axis_length
from codesign.mappers.exact.problem.lattice import INF
from codesign.mapping.nest import FloatArray, IntArray


class Folds(NamedTuple):
    """What the folded tiles of all profiles of a problem share. G groups, A prime axes, E legs.

    Attributes:
        prime: ``A`` prime of every axis.
        group: ``A`` its group; those with windows last.
        n_plain: Axes of groups without windows.
        most: Tiles of any profile at most, and those of the windows alone.
        member: ``D`` group of every dimension.
        window: ``G`` 1 where windows are.
        mask: ``G`` tensors that its dimensions index.
        free: ``L x G`` 1 where a level may loop over one of them.
        simple: ``T`` 1 where a tensor has no windows and no strides.
        leg_dim: ``E`` a dimension of windows, once for each of its primes.
        leg_axis: ``E`` the axis of that prime.
    """

    prime: FloatArray
    group: IntArray
    n_plain: int
    most: tuple[int, int]
    member: IntArray
    window: IntArray
    mask: IntArray
    free: IntArray
    simple: IntArray
    leg_dim: IntArray
    leg_axis: IntArray


class FoldedTiles(NamedTuple):
    """The tiles of one profile, N of them, W of the windows alone.

    Attributes:
        outer: ``(L + 1) x D`` bounds over the factors of the fan-outs outside each level, the MACs last.
        inside: ``L x D`` product of the spatial factors from a level inwards.
        counts: N and W.
        exponent: ``E`` of the prime in each leg's dimension.
        size: ``A`` exponents of every axis.
        stride: ``A``.
        plain: ``T x N / W`` product of the temporal sizes without windows that index each tensor.
        left: ``N / W`` steps of all loops outside over these dimensions.
        filled: ``T x L`` 1 where the two tables of windows are made.
        words: ``T x L x W`` words that enter an instance in all steps of loops over windows, if every step brings at least
            what is new; the least of all tiles that a folded one stands for, spatial factors of the other dimensions included.
        need: ``T x L x W`` least words of the tile.
    """

    outer: FloatArray
    inside: FloatArray
    counts: IntArray
    exponent: IntArray
    size: IntArray
    stride: IntArray
    plain: FloatArray
    left: FloatArray
    filled: IntArray
    words: FloatArray
    need: FloatArray


@njit
def room_for_tiles(outer: FloatArray, arrays: Arrays, folds: Folds) -> FoldedTiles:
    """Room for the tiles of profiles whose bounds `outer` says."""
    most, most_window = folds.most
    (n_levels, n_tensors), n_axes = arrays.keeps.shape, folds.prime.shape[0]
    words = np.empty((n_tensors, n_levels, most_window))
    return FoldedTiles(
        outer, np.empty((n_levels, outer.shape[1])), np.empty(2, np.int64), np.empty(folds.leg_dim.shape[0], np.int64),
        np.empty(n_axes, np.int64), np.empty(n_axes, np.int64), np.empty((n_tensors, most // most_window)),
        np.empty(most // most_window), np.empty((n_tensors, n_levels), np.int64), words, np.empty_like(words),
    )  # fmt: skip


@njit
def shape_tiles(tiles: FoldedTiles, folds: Folds) -> None:
    """Take in the bounds of a profile; the tables of windows are made by `fill_windows`."""
    size, rest = tiles.size, tiles.outer[tiles.inside.shape[0]]
    for v in range(tiles.inside.shape[0]):
        for d in range(rest.shape[0]):
            tiles.inside[v, d] = tiles.outer[v, d] / rest[d]
    size[:] = 1
    for e in range(folds.leg_dim.shape[0]):
        tiles.exponent[e] = _exponent(rest[folds.leg_dim[e]], folds.prime[folds.leg_axis[e]])
        size[folds.leg_axis[e]] += tiles.exponent[e]
    for a in range(folds.n_plain):
        for d in range(rest.shape[0]):
            if folds.member[d] == folds.group[a]:
                size[a] += _exponent(rest[d], folds.prime[a])
    n, n_window = 1, 1
    for a in range(size.shape[0] - 1, -1, -1):
        tiles.stride[a] = n
        n *= size[a]
        if a >= folds.n_plain:
            n_window = n
    tiles.counts[0], tiles.counts[1] = n, n_window
    tiles.filled[:] = 0
    for i in range(n // n_window):
        tiles.left[i] = 1.0
        tiles.plain[:, i] = 1.0
        for a in range(folds.n_plain):
            e = i * n_window // tiles.stride[a] % size[a]
            factor = folds.prime[a] ** e
            tiles.left[i] *= folds.prime[a] ** (size[a] - 1 - e)
            for t in range(tiles.plain.shape[0]):
                if folds.mask[folds.group[a]] >> t & 1 == 1:
                    tiles.plain[t, i] *= factor


@njit
def _exponent(value: float, prime: float) -> int:
    """How often a prime divides a whole number."""
    count = 0
    while value % prime == 0.0:
        value /= prime
        count += 1
    return count


@njit
def _fill_simple(
    t: int, folds: Folds, size: IntArray, stride: IntArray, scale: float, words: FloatArray, need: FloatArray
) -> None:
    """`fill_windows` where words follow from the products of the groups."""
    for w in range(need.shape[0]):
        need[w], words[w] = scale, scale
        for a in range(folds.n_plain, size.shape[0]):
            e = w // stride[a] % size[a]
            if folds.mask[folds.group[a]] >> t & 1 == 1:
                need[w] *= folds.prime[a] ** e
                e = size[a] - 1
                words[w] *= folds.prime[a] ** e
            else:
                words[w] *= folds.prime[a] ** (size[a] - 1 - e)


@njit
def fill_windows(t: int, v: int, arrays: Arrays, folds: Folds, tiles: FoldedTiles) -> None:
    """Make the tables of the windows of one tensor at one level if they are not there."""
    if tiles.filled[t, v] == 1:
        return
    tiles.filled[t, v] = 1
    rest, exponent, stride = tiles.outer[tiles.inside.shape[0]], tiles.exponent, tiles.stride
    words, need = tiles.words[t, v, : tiles.counts[1]], tiles.need[t, v, : tiles.counts[1]]
    scale, n_legs = 1.0, folds.leg_dim.shape[0]
    for d in range(rest.shape[0]):
        g = folds.member[d]
        if folds.mask[g] >> t & 1 == 1 and (folds.window[g] == 0 or folds.simple[t] == 1):
            scale *= tiles.inside[v, d]
    if folds.simple[t] == 1:
        _fill_simple(t, folds, tiles.size, stride, scale, words, need)
        return
    words[:] = INF
    need[:] = INF
    length = np.empty(arrays.coef.shape[1])
    for a in range(length.shape[0]):
        length[a] = axis_length(t, a, tiles.outer[v], arrays)
    at, value, steps = np.zeros(n_legs, np.int64), np.ones(rest.shape[0]), scale
    for e in range(n_legs):
        steps *= folds.prime[folds.leg_axis[e]] ** exponent[e]
    while True:
        w = 0
        for e in range(n_legs):
            w += at[e] * stride[folds.leg_axis[e]]
        box, new = _box(t, v, arrays, folds, tiles, length, value)
        need[w] = min(need[w], box * scale)
        words[w] = min(words[w], box * new * steps)
        e = n_legs - 1
        while e >= 0:
            prime = folds.prime[folds.leg_axis[e]]
            if at[e] < exponent[e]:
                at[e] += 1
                value[folds.leg_dim[e]] *= prime
                steps /= prime
                break
            value[folds.leg_dim[e]] /= prime ** at[e]
            steps *= prime ** at[e]
            at[e] = 0
            e -= 1
        if e < 0:
            return


@njit
def _box(
    t: int, v: int, arrays: Arrays, folds: Folds, tiles: FoldedTiles, length: FloatArray, value: FloatArray
) -> tuple[float, float]:
    """Words of the window part of a tensor's tile, and the share of them that is new at every step at least.

    Along one axis windows slide, first loop and chain together, and bring no less than the axis has (bound B1).
    """
    box, new, coef = 1.0, 1.0, arrays.coef
    rest, inside = tiles.outer[tiles.inside.shape[0]], tiles.inside
    for a in range(coef.shape[1]):
        extent, steps, moves, slides = 1.0, 1.0, False, False
        for d in range(rest.shape[0]):
            if coef[t, a, d] > 0.0 and folds.window[folds.member[d]] == 1:
                moves = True
                extent += coef[t, a, d] * (value[d] * inside[v, d] - 1.0)
                slides = slides or arrays.slides[t, a, d] == 1
                steps *= rest[d] / value[d]
        if moves:
            box *= extent
        if slides:
            new = min(new, length[a] / (extent * steps))
    return box, new
