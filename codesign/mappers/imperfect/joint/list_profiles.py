"""Compiled: the profiles that may be worth a look, from the outermost fan-out inwards (rule IB11)."""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.imperfect.joint.boundaries import Boundaries
from codesign.mappers.imperfect.joint.least_costs import Spread, base_of
from codesign.mapping.nest import FloatArray, IntArray


class Vectors(NamedTuple):
    """What every fan-out may do.

    Attributes:
        flat: ``V x D`` spatial factors of all fan-outs, those of level v from ``start[v]`` on, each product once.
        fewest: ``V x D`` children that work at least where the group is not split (rule IB9).
        start: ``L + 1``.
        children: ``L`` children of a fan-out.
    """

    flat: IntArray
    fewest: IntArray
    start: IntArray
    children: IntArray


class Limits(NamedTuple):
    """Which profiles matter.

    Attributes:
        constant: Energy of the MACs.
        most_steps: Steps of computing that matter.
        least_cycles: No mapping takes fewer cycles.
        most: Value that matters.
        least_outer: Least of the outer part of the energy over all profiles (rule IB16).
        by_energy: Whether the value has energy as a factor.
        by_cycles: Whether it has cycles as a factor.
        least_units: Units that must have work.
        room: Profiles listed at most.
    """

    constant: float
    most_steps: float
    least_cycles: float
    most: float
    least_outer: float
    by_energy: bool
    by_cycles: bool
    least_units: int
    room: int


@njit
def _value(limits: Limits, energy: float, cycles: float) -> float:
    """The value, as far as the objective knows."""
    return (energy if limits.by_energy else 1.0) * (cycles if limits.by_cycles else 1.0)


@njit
def _units_inside(vectors: Vectors) -> FloatArray:
    """``L + 1`` most units that the fan-outs from a level inwards use."""
    levels = vectors.start.shape[0] - 1
    left = np.ones(levels + 1)
    for v in range(levels - 1, -1, -1):
        widest = 1
        for i in range(vectors.start[v], vectors.start[v + 1]):
            units = 1
            for d in range(vectors.flat.shape[1]):
                units *= vectors.flat[i, d]
            widest = max(widest, units)
        left[v] = left[v + 1] * widest
    return left


@njit
def _busiest(
    data: Boundaries, prices: FloatArray, port_level: IntArray, spread: Spread, output_words: float, each: FloatArray,
    limits: Limits, energy: float, slowest: float,
) -> float:  # fmt: skip
    """Least cycles of a profile, its ports looked at one by one until the value is too much."""
    for q in range(port_level.shape[0]):
        busy = base_of(data, prices[1 + q], spread, output_words, each)
        for m in range(port_level[q]):
            for d in range(data.bounds.shape[0]):
                busy /= spread.factor[m, d]
        slowest = max(slowest, np.ceil(busy * (1.0 - 1e-9)))
        if (energy if limits.by_energy else 1.0) * slowest > limits.most:
            break
    return slowest


@njit
def _take(vectors: Vectors, data: Boundaries, spread: Spread, product: IntArray, v: int, i: int) -> tuple[float, int]:
    """Let fan-out v do what vector i says; steps of computing and units of the fan-outs decided so far."""
    spread.unknown[v] = 1
    steps, units = 1.0, 1
    for d in range(data.bounds.shape[0]):
        spread.factor[v, d] = vectors.flat[i, d]
        spread.fewest[v, d] = vectors.fewest[i, d]
        product[v + 1, d] = product[v, d] * spread.factor[v, d]
        units *= product[v + 1, d]
        steps *= float((data.bounds[d] + product[v + 1, d] - 1) // product[v + 1, d])
    return steps, units


@njit
def list_profiles(
    data: Boundaries, prices: FloatArray, port_level: IntArray, vectors: Vectors, spread: Spread, output_words: float,
    outer: FloatArray, limits: Limits,
) -> tuple[IntArray, FloatArray, FloatArray, bool, int]:  # fmt: skip
    """Profiles whose value may be at most `most`, from the outermost fan-out inwards (rule IB11).

    A fan-out not decided yet asks for nothing twice and shares every word among all its children.

    Args:
        prices: ``1 + ports`` rows of ``K``: energy of a word, then cycles of every port.
        port_level: ``ports`` its level; all of its instances work at a time.
        spread: With no fan-out decided; overwritten.
        outer: ``K`` the part of the energy of a word that `Limits.least_outer` counts (rule IB16).

    Returns:
        ``n x L`` vectors of each profile, ``n`` least cycles, ``n`` least energy, whether all are listed, bounds computed.
    """
    start, levels, dims = vectors.start, vectors.start.shape[0] - 1, data.bounds.shape[0]
    left = _units_inside(vectors)
    chosen = np.empty((limits.room, levels), np.int64)
    cycles, energies = np.empty(limits.room), np.empty(limits.room)
    product, each, at = np.ones((levels + 1, dims), np.int64), np.zeros(data.level.shape[0]), start[:-1].copy()
    v, n, looks = 0, 0, 0
    while v >= 0:
        if at[v] == start[v + 1]:
            at[v] = start[v]
            spread.unknown[v], spread.factor[v], spread.fewest[v] = vectors.children[v], 1, 1
            v -= 1
            if v >= 0:
                at[v] += 1
            continue
        steps, units = _take(vectors, data, spread, product, v, at[v])
        slowest = max(limits.least_cycles, steps / left[v + 1])
        fits = steps <= limits.most_steps * left[v + 1] and (v < levels - 1 or units >= limits.least_units)
        energy = 0.0
        if fits and (v == levels - 1 or (left[v + 1] > 1.0 and start[v + 1] - start[v] > 1)):
            looks += 1
            energy = limits.constant + base_of(data, prices[0], spread, output_words, each)
            fits = _value(limits, energy, slowest) <= limits.most
        if fits and v == levels - 1 and limits.least_outer > 0.0:
            energy += max(0.0, limits.least_outer - base_of(data, outer, spread, output_words, each))
            fits = _value(limits, energy, slowest) <= limits.most
        if fits and v < levels - 1:
            v += 1
            continue
        if fits and limits.by_cycles:
            slowest = _busiest(data, prices, port_level, spread, output_words, each, limits, energy, slowest)
            fits = port_level.shape[0] == 0 or _value(limits, energy, slowest) <= limits.most
        if fits:
            if n == limits.room:
                return chosen[:n], cycles[:n], energies[:n], False, looks
            chosen[n] = at - start[:levels]
            cycles[n], energies[n] = slowest, energy
            n += 1
        at[v] += 1
    return chosen[:n], cycles[:n], energies[:n], True, looks
