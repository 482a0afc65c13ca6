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


@njit
def shape_tiles(
    rest: FloatArray, folds: Folds, exponent: IntArray, size: IntArray, stride: IntArray
) -> tuple[int, int]:
    """How many folded tiles a profile has, and how many of its windows alone.

    Args:
        rest: ``D`` bounds over all spatial factors.
        exponent: ``E`` of the prime in each leg's dimension, overwritten.
        size: ``A`` exponents of every axis, overwritten.
        stride: ``A``, overwritten.
    """
    size[:] = 1
    for e in range(folds.leg_dim.shape[0]):
        exponent[e] = _exponent(rest[folds.leg_dim[e]], folds.prime[folds.leg_axis[e]])
        size[folds.leg_axis[e]] += exponent[e]
    for a in range(folds.n_plain):
        for d in range(rest.shape[0]):
            if folds.member[d] == folds.group[a]:
                size[a] += _exponent(rest[d], folds.prime[a])
    n, n_window = 1, 1
    for a in range(size.shape[0] - 1, -1, -1):
        stride[a] = n
        n *= size[a]
        if a >= folds.n_plain:
            n_window = n
    return n, n_window


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
def fill_windows(
    t: int, v: int, rest: FloatArray, inside: FloatArray, arrays: Arrays, folds: Folds, exponent: IntArray, size: IntArray,
    stride: IntArray, words: FloatArray, need: FloatArray,
) -> None:  # fmt: skip
    """Least words and needs of one tensor at one level for the window part of every folded tile, of all tiles it stands for.

    Args:
        inside: ``L x D`` product of the spatial factors from a level inwards.
        words: ``W`` words that enter an instance in all steps of loops over windows, if every step brings at least what is
            new; spatial factors of the other dimensions included; overwritten.
        need: ``W`` words of the tile; overwritten.
    """
    scale, n_legs = 1.0, folds.leg_dim.shape[0]
    for d in range(rest.shape[0]):
        g = folds.member[d]
        if folds.mask[g] >> t & 1 == 1 and (folds.window[g] == 0 or folds.simple[t] == 1):
            scale *= inside[v, d]
    if folds.simple[t] == 1:
        _fill_simple(t, folds, size, stride, scale, words, need)
        return
    words[:] = INF
    need[:] = INF
    at, value, steps = np.zeros(n_legs, np.int64), np.ones(rest.shape[0]), scale
    for e in range(n_legs):
        steps *= folds.prime[folds.leg_axis[e]] ** exponent[e]
    while True:
        w = 0
        for e in range(n_legs):
            w += at[e] * stride[folds.leg_axis[e]]
        box, new = _box(t, v, rest, inside, arrays, folds, value)
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
    t: int, v: int, rest: FloatArray, inside: FloatArray, arrays: Arrays, folds: Folds, value: FloatArray
) -> tuple[float, float]:
    """Words of the window part of a tensor's tile, and the share of them that is new at every step at least.

    Along one axis windows slide, first loop and chain together, and bring no less than the axis has (bound B1).
    """
    box, new, coef, strided, bounds = 1.0, 1.0, arrays.coef, arrays.strided, arrays.bounds
    for a in range(coef.shape[1]):
        extent, steps, moves, slides, length = 1.0, 1.0, False, False, 1.0
        for d in range(rest.shape[0]):
            if coef[t, a, d] > 0.0 and folds.window[folds.member[d]] == 1:
                moves = True
                extent += coef[t, a, d] * (value[d] * inside[v, d] - 1.0)
                slides = slides or arrays.slides[t, a, d] == 1
                steps *= rest[d] / value[d]
                length += rest[d] * inside[v, d] - 1.0
        if moves:
            box *= extent
        if slides:
            p, r, step = strided[t, a, 0], strided[t, a, 1], strided[t, a, 2]
            if p >= 0:
                length = axis_length(length, step, rest[p] * inside[v, p], rest[r] * inside[v, r], bounds[p], bounds[r])
            new = min(new, length / (extent * steps))
    return box, new


@njit
def fill_plain(
    folds: Folds, size: IntArray, stride: IntArray, n_window: int, plain: FloatArray, left: FloatArray
) -> None:
    """What the dimensions without windows make of a tile; the rest is in `fill_windows`.

    Args:
        n_window: Folded tiles of the windows alone, W.
        plain: ``T x N / W`` product of the temporal sizes that index each tensor, overwritten.
        left: ``N / W`` steps of all loops outside over these dimensions, overwritten.
    """
    for i in range(left.shape[0]):
        left[i] = 1.0
        plain[:, i] = 1.0
        for a in range(folds.n_plain):
            e = i * n_window // stride[a] % size[a]
            factor = folds.prime[a] ** e
            left[i] *= folds.prime[a] ** (size[a] - 1 - e)
            for t in range(plain.shape[0]):
                if folds.mask[folds.group[a]] >> t & 1 == 1:
                    plain[t, i] *= factor
