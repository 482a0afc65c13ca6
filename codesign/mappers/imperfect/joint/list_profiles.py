"""Compiled: the profiles that may be worth a look, from the outermost fan-out inwards (rule IB11)."""

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.imperfect.joint.boundaries import Boundaries
from codesign.mappers.imperfect.joint.least_costs import base_of
from codesign.mapping.nest import FloatArray, IntArray


@njit
def list_profiles(
    data: Boundaries, prices: FloatArray, port_level: IntArray, flat: IntArray, flat_fewest: IntArray, start: IntArray,
    children: IntArray, output_words: float, constant: float, most_steps: float, least_cycles: float, most: float,
    outer: FloatArray, least_outer: float, by_energy: bool, by_cycles: bool, least_units: int, room: int,
) -> tuple[IntArray, FloatArray, FloatArray, bool, int]:  # fmt: skip
    """Profiles whose value may be at most `most`, from the outermost fan-out inwards (rule IB11).

    A fan-out not decided yet asks for nothing twice and shares every word among all its children.

    Args:
        prices: ``1 + ports`` rows of ``K``: energy of a word, then cycles of every port.
        port_level: ``ports`` its level; all of its instances work at a time.
        flat: Vectors of all fan-outs, those of level v from ``start[v]`` on.
        flat_fewest: Tiles each needs.
        start: ``L + 1``.
        children: ``L`` children of a fan-out.
        output_words: Words of the output.
        constant: Energy of the MACs.
        most_steps: Steps of computing that matter.
        least_cycles: No mapping takes fewer cycles.
        most: Value that matters.
        outer: ``K`` the part of the energy of a word that `least_outer` counts (rule IB16).
        least_outer: Least of that part over all profiles.
        by_energy: Whether the value has energy as a factor.
        by_cycles: Whether it has cycles as a factor.
        least_units: Units that must have work.
        room: Profiles listed at most.

    Returns:
        ``n x L`` vectors of each profile, ``n`` least cycles, ``n`` least energy, whether all are listed, bounds computed.
    """
    levels, dims = start.shape[0] - 1, data.bounds.shape[0]
    left = np.ones(levels + 1)
    for v in range(levels - 1, -1, -1):
        widest = 1
        for i in range(start[v], start[v + 1]):
            units = 1
            for d in range(dims):
                units *= flat[i, d]
            widest = max(widest, units)
        left[v] = left[v + 1] * widest
    chosen = np.empty((room, levels), np.int64)
    cycles, energies = np.empty(room), np.empty(room)
    product = np.ones((levels + 1, dims), np.int64)
    factor, fewest = np.ones((levels, dims), np.int64), np.ones((levels, dims), np.int64)
    unknown = children.copy()
    shared_words, sharing = np.ones(levels), np.ones((data.related.shape[0], levels))
    each = np.zeros(data.level.shape[0])
    at = start[:-1].copy()
    v, n, looks = 0, 0, 0
    while v >= 0:
        if at[v] == start[v + 1]:
            at[v] = start[v]
            unknown[v] = children[v]
            factor[v] = 1
            fewest[v] = 1
            v -= 1
            if v >= 0:
                at[v] += 1
            continue
        unknown[v] = 1
        steps, units = 1.0, 1
        for d in range(dims):
            factor[v, d] = flat[at[v], d]
            fewest[v, d] = flat_fewest[at[v], d]
            product[v + 1, d] = product[v, d] * factor[v, d]
            units *= product[v + 1, d]
            steps *= float((data.bounds[d] + product[v + 1, d] - 1) // product[v + 1, d])
        slowest = max(least_cycles, steps / left[v + 1])
        fits = steps <= most_steps * left[v + 1] and (v < levels - 1 or units >= least_units)
        energy = 0.0
        if fits and (v == levels - 1 or (left[v + 1] > 1.0 and start[v + 1] - start[v] > 1)):
            looks += 1
            energy = constant + base_of(
                data, prices[0], factor, fewest, shared_words, sharing, output_words, each, unknown
            )
            fits = (energy if by_energy else 1.0) * (slowest if by_cycles else 1.0) <= most
        if fits and v == levels - 1 and least_outer > 0.0:
            part = base_of(data, outer, factor, fewest, shared_words, sharing, output_words, each, unknown)
            energy += max(0.0, least_outer - part)
            fits = (energy if by_energy else 1.0) * (slowest if by_cycles else 1.0) <= most
        if not fits:
            at[v] += 1
            continue
        if v < levels - 1:
            v += 1
            continue
        if by_cycles:
            for q in range(port_level.shape[0]):
                busy = base_of(data, prices[1 + q], factor, fewest, shared_words, sharing, output_words, each, unknown)
                for m in range(port_level[q]):
                    for d in range(dims):
                        busy /= factor[m, d]
                slowest = max(slowest, np.ceil(busy * (1.0 - 1e-9)))
                if (energy if by_energy else 1.0) * slowest > most:
                    fits = False
                    break
        if fits:
            if n == room:
                return chosen[:n], cycles[:n], energies[:n], False, looks
            for u in range(levels):
                chosen[n, u] = at[u] - start[u]
            cycles[n], energies[n] = slowest, energy
            n += 1
        at[v] += 1
    return chosen[:n], cycles[:n], energies[:n], True, looks
