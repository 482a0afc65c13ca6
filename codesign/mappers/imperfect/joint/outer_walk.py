"""The walk over the levels outside the first fan-out, once for all profiles (rule IB16).

* IB16, Outer levels by themselves: IB12 runs once for all profiles, inwards, over the level of the outermost fan-out
  and those outside it. It counts only words asked for there. A tensor kept further in is open with at least its
  distinct words, or paid with the number of tiles there. A profile costs at least the greater of this and its own sum
  of the same words, besides the rest. Used for more than 8 profiles; from 128 on, up to 32 of all bounds are opened
  first.
"""

import math

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.imperfect.joint.boundaries import Boundaries
from codesign.mappers.imperfect.joint.cells import Cells
from codesign.mappers.imperfect.joint.joint_problem import JointProblem, OuterCosts
from codesign.mappers.imperfect.joint.least_costs import Spread, base_of
from codesign.mappers.imperfect.joint.walk_kernel import (
    States,
    fill_known,
    fill_times,
    is_free,
    room_for_times,
    slides_alone,
)
from codesign.mapping.nest import FloatArray, IntArray

MOST_VALUES = 12_000_000
"""Values of a table that are computed at most."""


def outer_prices(data: Boundaries, price: FloatArray, level: int, levels: int) -> FloatArray:
    """``K`` prices of the words counted at the fan-out of `level` or outside, those of the MACs left out."""
    kept = np.zeros(len(price), bool)
    for b, inner in enumerate(data.level):
        if inner < levels:
            span = slice(data.start[b], data.start[b + 1])
            kept[span] = data.cut[span] <= level
    return np.where(kept, price, 0.0)


@njit
def fill_outer_known(
    cells: Cells, data: Boundaries, price: FloatArray, level: int, spread: Spread, known: FloatArray
) -> None:
    """``B x N`` what closing each boundary costs at every cell, whatever the fan-outs do from `level` on inwards."""
    times, along = room_for_times(cells, data)
    fill_times(cells, data, level, spread.factor, spread.fewest, times, along)
    for b in range(data.level.shape[0]):
        for d in range(data.bounds.shape[0] if data.level[b] > level else 0):
            for i in range(cells.size[d]):
                along[b, d, 2 * i + 1] = data.bounds[d]
    known[:] = np.nan
    fill_known(cells, data, price, 0, data.level.shape[0], times, along, spread, known)


@njit
def walk_inwards(cells: Cells, value: FloatArray, states: States, data: Boundaries, known: FloatArray) -> None:
    """From the least costs after the loops of a level to those before them: ``S x N``, changed in place.

    A free loop may leave any number of tiles of the lattice, not only those of one loop.
    """
    n = value.shape[1]
    dims, tensors = data.related.shape[1], data.related.shape[0]
    slid, open_of = np.empty(n), states.open_of
    for i in range(states.order.shape[0] - 1, -1, -1):
        s = states.order[i]
        for t in range(tensors):
            o = open_of[s, t]
            if o == 0:
                continue
            into, past = s - o * states.digit[t], data.first[t] + states.ended[t] + 1
            for c in range(n):
                slid[c] = value[into, c]
                for b in range(past - o, past):
                    slid[c] += known[b, c]
                value[s, c] = min(value[s, c], slid[c])
            for d in range(dims):
                if cells.size[d] > 1 and slides_alone(data, open_of[s], t, d):
                    _least_further(cells, d, slid, value[s])
        for d in range(dims):
            if cells.size[d] > 1 and is_free(data, open_of[s], d):
                _least_further(cells, d, value[s], value[s])


@njit
def _least_further(cells: Cells, d: int, given: FloatArray, value: FloatArray) -> None:
    """Lower each value to the least of `given` with fewer tiles along a dimension."""
    n = value.shape[0]
    running = given.copy()
    for c in range(n - 1, -1, -1):
        at = cells.place[c, d] + 1
        if at < cells.size[d]:
            target = cells.cell[cells.grid[c] + cells.stride[d]]
            if target >= 0:
                running[c] = min(running[c], running[target])
                value[c] = min(value[c], running[c])


def least_of_starts(value: FloatArray, states: States, data: Boundaries, known: FloatArray, fits: IntArray) -> float:
    """The least cost over all cells and states at the start of a level; tensors that closed further in pay where they start."""
    least = math.inf
    for s, row in enumerate(states.open_of):
        total = value[s].copy()
        for t, o in enumerate(row):
            for b in range(data.first[t] + 1, data.first[t] + 1 + int(states.ended[t] - o)):
                total = total + known[b]
        total[fits[s] == 0] = math.inf
        least = min(least, float(total.min(initial=math.inf)))
    return least


def outer_costs(joint: JointProblem, price: FloatArray) -> OuterCosts | None:
    """What the levels outside the first fan-out cost at least under prices of every term; None where there are too many tiles."""
    levels, data, children = len(joint.keep), joint.data, joint.arrays.fanout.prod(axis=1)
    wide = np.flatnonzero(children > 1)
    if not len(wide) or int(wide[0]) == levels - 1:
        return None
    level = int(wide[0])
    prices = outer_prices(data, price, level, levels)
    ones = np.ones(len(data.bounds), np.int64)
    spread = joint.undecided()
    base_of(data, prices, spread, joint.output_words, np.zeros(len(data.level)))  # what diagonals leave at least
    spread = spread._replace(shared_words=np.full(levels, joint.output_words), unknown=np.ones(levels, np.int64))
    value, cells, known = np.zeros((0, 0)), None, np.zeros((0, 0))
    for v in range(level + 1):
        inner = joint.cells(v, ones)
        states = joint.states[v]
        if inner is None or len(states.order) * len(inner.place) > MOST_VALUES:
            return None
        table = np.full((len(states.order), len(inner.place)), math.inf)
        if cells is None:
            last = int(inner.cell[-1])
            if last >= 0:
                table[0, last] = 0.0
        else:
            here = cells.cell[inner.place @ cells.stride] if len(inner.place) else np.zeros(0, np.int64)
            table[:, here >= 0] = value[joint.arriving(v - 1)][:, here[here >= 0]]
        known = np.zeros((len(data.level), len(inner.place)))
        fill_outer_known(inner, data, prices, level, spread, known)
        walk_inwards(inner, table, states, data, known)
        joint.work += table.size
        value, cells = table, inner
    assert cells is not None
    states = joint.states[level]
    fits = _fit_together(joint, cells, level)
    return OuterCosts(level, cells, value, least_of_starts(value, states, data, known, fits), prices)


def _fit_together(joint: JointProblem, cells: Cells, level: int) -> IntArray:
    """``S x N`` 1 where the tiles of all open tensors fit the instances of the levels further in, taken together."""
    data, states = joint.data, joint.states[level]
    tile = -(-data.bounds[None, :] // cells.numbers())
    fits = np.ones((len(states.open_of), len(tile)), np.int64)
    children = joint.arrays.fanout.prod(axis=1)
    for v in range(level + 1, len(joint.keep)):
        held = [
            t
            for t in range(len(joint.keep[0]))
            if int(data.level[data.first[t] + states.ended[t]]) == v and states.ended[t]
        ]
        room = float(joint.arrays.capacity_bits[v]) * float(children[:v].prod())
        for s, row in enumerate(states.open_of):
            bits = np.zeros(len(tile))
            for t in held:
                if row[t]:
                    bits += _distinct(data, t, tile) * float(joint.arrays.element_bits[v, t])
            fits[s] &= bits <= room
    return fits


def _distinct(data: Boundaries, t: int, tile: IntArray) -> FloatArray:
    """Words of a tensor that tiles use at least: along an axis as many as along its longest dimension."""
    words = np.ones(len(tile))
    for a in range(int(data.axes[t])):
        dims = data.terms[data.first_term[t, a] : data.first_term[t, a + 1], 0]
        if len(dims):
            words *= tile[:, dims].max(axis=1)
    return words
