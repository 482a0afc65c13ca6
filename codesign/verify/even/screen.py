"""Closed bounds of all profiles, compiled: the arithmetic of `codesign.verify.even.prices` on what every tile may share (rule K5)."""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.cost.arrays import Problem
from codesign.cost.columns import FILL, READ, UPDATE
from codesign.mapping.nest import FloatArray, IntArray
from codesign.verify.even.prices import lowered
from codesign.verify.even.problem import Kept, Space, Vector
from codesign.verify.even.profiles import exact


class Hardware(NamedTuple):
    """What the bounds read. L levels, T tensors, D dimensions above 1, A axes.

    Attributes:
        arrays: The problem as the kernel's arrays.
        bounds: ``D``.
        coef: ``T x A x D``.
        offsets: ``T x A``.
        kept: ``L x T``.
    """

    arrays: Problem
    bounds: IntArray
    coef: IntArray
    offsets: FloatArray
    kept: IntArray


def closed_bounds(
    space: Space, kept: Kept, energy_exponent: float, latency_exponent: float, limit: float
) -> list[tuple[Vector, ...]]:
    """The combinations of vectors whose closed bound is below `limit`."""
    hardware, choices, first, table = encoded(space, kept)
    if not all(choices):  # a fixed factor that divides no bound
        return []
    room = 4096
    while True:
        found = np.zeros((room, space.n_levels), np.int64)
        n = _screen(hardware, first, table, energy_exponent, latency_exponent, limit, found)
        if n <= room:
            break
        room = n
    flat = [v for c in choices for v in c]
    return [tuple(flat[i] for i in row) for row in found[:n]]


def least_of_all(space: Space, kept: Kept) -> tuple[float, float]:
    """Energy in pJ and cycles that no mapping with a keep set is below: the least closed bounds of all profiles, each apart."""
    hardware, _, first, table = encoded(space, kept)
    energy, cycles = _least(hardware, first, table)
    return energy * (1.0 - 1e-9), cycles


def left_open(space: Space, kept: Kept, found: list[tuple[Vector, ...]], limit: float) -> list[tuple[Vector, ...]]:
    """Those combinations of which some profile, with the words that its children share, has a closed bound below `limit`."""
    if not any(space.sliding):
        return found
    hardware, objective = _hardware(space, kept), space.objective
    left = []
    for vectors in found:
        for profile, _ in exact(space, kept, vectors):
            energy, cycles = bound_of(hardware, profile.outside, np.array(profile.distinct))
            if objective.score(max(0.0, lowered(energy)), cycles) < limit:
                left.append(vectors)
                break
    return left


def _hardware(space: Space, kept: Kept) -> Hardware:
    return Hardware(space.arrays, space.bounds, space.coef, space.offsets, np.array(kept, np.int64))


def encoded(space: Space, kept: Kept) -> tuple[Hardware, list[list[Vector]], IntArray, IntArray]:
    """What the compiled loops read: figures, the vectors of every level, where each level's begin in the table, the table."""
    hardware = _hardware(space, kept)
    choices = [space.vectors(v) for v in range(space.n_levels)]
    first = np.concatenate([[0], np.cumsum([len(c) for c in choices])]).astype(np.int64)
    table = np.array([v for c in choices for v in c], np.int64).reshape(first[-1], len(space.dims))
    return hardware, choices, first, table


@njit
def reached_level(
    h: Hardware, table: IntArray, digit: IntArray, m: int, outside: FloatArray, distinct: FloatArray
) -> int:
    """Lay out the levels of a combination from the m-th on; the first level whose factors do not divide, else how many levels there are."""
    for k in range(m, len(digit)):
        fits = True
        for d in range(table.shape[1]):
            outside[k + 1, d] = outside[k, d] * table[digit[k], d]
            fits = fits and h.bounds[d] % int(outside[k + 1, d]) == 0
        if not fits:
            return k
        _shared(h, k, table[digit[k]], distinct)
    return len(digit)


@njit
def next_combination(digit: IntArray, first: IntArray, m: int) -> int:
    """Step to the next combination that differs at the m-th level or outside it; the outermost level that changed, -1 after the last."""
    while m >= 0:
        digit[m] += 1
        if digit[m] < first[m + 1]:
            break
        digit[m] = first[m]
        m -= 1
    return m


@njit
def _least(h: Hardware, first: IntArray, table: IntArray) -> tuple[float, float]:
    """The least energy and the least cycles of the closed bounds of all combinations."""
    levels, dims = len(first) - 1, table.shape[1]
    digit = first[:levels].copy()
    outside = np.ones((levels + 1, dims))
    distinct = np.ones((levels, h.coef.shape[0]))
    energy, cycles, m = np.inf, np.inf, 0
    while True:
        reached = reached_level(h, table, digit, m, outside, distinct)
        m = min(reached, levels - 1)
        if reached == levels:
            spent, busy = bound_of(h, outside, distinct)
            energy, cycles = min(energy, spent), min(cycles, busy)
        m = next_combination(digit, first, m)
        if m < 0:
            return energy, cycles


@njit
def _screen(
    h: Hardware,
    first: IntArray,
    table: IntArray,
    energy_exponent: float,
    latency_exponent: float,
    limit: float,
    found: IntArray,
) -> int:
    """Write the digits of the combinations below `limit`; how many there are."""
    levels, dims = len(first) - 1, table.shape[1]
    digit = first[:levels].copy()
    outside = np.ones((levels + 1, dims))
    distinct = np.ones((levels, h.coef.shape[0]))
    n, m = 0, 0
    while True:
        reached = reached_level(h, table, digit, m, outside, distinct)
        m = min(reached, levels - 1)
        if reached == levels:
            energy, cycles = bound_of(h, outside, distinct)
            if energy * (1.0 - 1e-9) <= 0.0:
                energy = 0.0
            if (energy * (1.0 - 1e-9)) ** energy_exponent * cycles**latency_exponent < limit:
                if n < found.shape[0]:
                    found[n] = digit
                n += 1
        m = next_combination(digit, first, m)
        if m < 0:
            return n


@njit
def _shared(h: Hardware, m: int, vector: IntArray, distinct: FloatArray) -> None:
    """Children of a fan-out that take different words, at least."""
    for t in range(h.coef.shape[0]):
        count = 1.0
        if h.arrays.shares[m] == 0:
            for d in range(len(vector)):
                count *= vector[d]
        else:
            for a in range(h.coef.shape[1]):
                sums = 1.0
                for d in range(len(vector)):
                    if h.coef[t, a, d] > 0:
                        sums += vector[d] - 1.0
                count *= sums
        distinct[m, t] = count


@njit
def bound_of(h: Hardware, outside: FloatArray, distinct: FloatArray) -> tuple[float, float]:
    """Energy and cycles by the fewest words of every boundary."""
    a, (levels, tensors) = h.arrays, h.kept.shape
    instances = np.ones(levels + 1)
    share = np.ones(levels + 1)
    for v in range(levels + 1):
        share[v] = float(a.tensor_words[tensors - 1])
        for d in range(outside.shape[1]):
            instances[v] *= outside[v, d]
            if h.coef[tensors - 1, :, d].any():
                share[v] /= outside[v, d]
    busy = np.zeros((levels, 2))
    energy = a.macs * a.mac_energy
    for t in range(tensors):
        output = t == tensors - 1
        parent = 0
        for v in range(1, levels + 1):
            if v < levels and h.kept[v, t] == 0:
                continue
            words = float(a.macs / instances[levels])
            if v < levels:
                words = 1.0
                for x in range(h.coef.shape[1]):
                    length, part = 1.0, h.offsets[t, x]
                    for d in range(outside.shape[1]):
                        if h.coef[t, x, d] > 0:
                            length += h.bounds[d] / outside[v, d] - 1.0
                            part /= outside[v, d]
                    words *= max(length, part)
            sent = 1.0
            for m in range(v - 1, parent - 1, -1):
                sent *= distinct[m, t]
                hops = a.hops[m, 0] + a.hops[m, 1] * (instances[m + 1] / instances[m]) / distinct[m, t]
                energy += words * instances[m] * sent * hops * a.hop_energy[m, t]
            old = share[parent] if output else 0.0
            reads, updates = words * sent - old, words * sent if output else 0.0
            energy += instances[parent] * (reads * a.energy[parent, t, READ] + updates * a.energy[parent, t, UPDATE])
            busy[parent, 0] += reads * a.words[parent, t]
            busy[parent, 1] += updates * a.words[parent, t]
            if v < levels:
                fills = words - share[v] if output else words
                energy += instances[v] * fills * a.energy[v, t, FILL]
                busy[v, 1] += fills * a.words[v, t]
            parent = v
    cycles = float(a.macs / instances[levels])
    for v in range(levels):
        reads = busy[v, 0] / a.bandwidth[v, 0] if a.bandwidth[v, 0] > 0.0 else 0.0
        writes = busy[v, 1] / a.bandwidth[v, 1] if a.bandwidth[v, 1] > 0.0 else 0.0
        port = reads + writes if a.one_port[v] == 1 else max(reads, writes)
        cycles = max(cycles, float(np.ceil(port * (1.0 - 1e-9))))
    return energy, cycles
