"""Compiled: the tiles that loops of a level may leave, and the way across a fan-out (rule IB12)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codesign.core.jit import njit
from codesign.mappers.imperfect.joint.boundaries import Boundaries
from codesign.mapping.nest import FloatArray, IntArray

SmallArray = NDArray[np.int32]
SMALL = np.int32
"""Type of what is held for every cell: most of the memory of a search."""


class Cells(NamedTuple):
    """The tiles that loops of one level may leave, as numbers of tiles.

    Attributes:
        place: ``n x D`` place of every cell on the lattice of each dimension; small tiles first.
        number: ``n x D`` numbers of tiles.
        stride: ``D``.
        cell: Cell of a place in the grid, -1 where the tile fits no level.
        place_of: Places of numbers, dimension by dimension.
        index_start: ``D``.
        first: Where the followers of each place start, dimension by dimension.
        first_start: ``D``.
        next: Followers of each place, dimension by dimension.
        next_start: ``D``.
        size: ``D`` places of each dimension in the grid.
        axis_count: Numbers of tiles by place, dimension by dimension.
        axis_start: ``D``.
    """

    place: SmallArray
    number: SmallArray
    stride: IntArray
    cell: SmallArray
    place_of: IntArray
    index_start: IntArray
    first: IntArray
    first_start: IntArray
    next: IntArray
    next_start: IntArray
    size: IntArray
    axis_count: IntArray
    axis_start: IntArray


@njit
def list_cells(
    size: IntArray, tile: IntArray, tile_start: IntArray, count: IntArray, kept: IntArray, bits: IntArray,
    capacity: IntArray, outermost: int, data: Boundaries, cell: IntArray,
) -> tuple[IntArray, IntArray]:  # fmt: skip
    """The places of a grid whose tile fits every level from 0 to `outermost`; `cell` is filled."""
    dims, tensors = size.shape[0], data.related.shape[0]
    number = 1
    for d in range(dims):
        number *= size[d]
    place, found = np.empty((number, dims), np.int64), np.empty((number, dims), np.int64)
    at = np.zeros(dims, np.int64)
    n = 0
    for i in range(number):
        fits = True
        for v in range(outermost, 0, -1):
            total = 0
            for t in range(tensors):
                if kept[v, t] == 0:
                    continue
                words = 1
                for a in range(data.axes[t]):
                    extent = 1
                    for k in range(data.first_term[t, a], data.first_term[t, a + 1]):
                        d = data.terms[k, 0]
                        extent += data.terms[k, 1] * (min(data.bounds[d], tile[tile_start[d] + at[d]]) - 1)
                    words *= extent
                total += words * bits[v, t]
            if total > capacity[v]:
                fits = False
                break
        cell[i] = -1
        if fits:
            cell[i] = n
            for d in range(dims):
                place[n, d] = at[d]
                found[n, d] = count[tile_start[d] + at[d]]
            n += 1
        for d in range(dims - 1, -1, -1):
            at[d] += 1
            if at[d] < size[d]:
                break
            at[d] = 0
    return place[:n].copy(), found[:n].copy()


@njit
def cross(
    inner: Cells, outer: Cells, live: IntArray, value: FloatArray, table: FloatArray, entry: IntArray, factor: IntArray,
    fewest: IntArray, become: IntArray, most: FloatArray, steps: IntArray, most_steps: float,
) -> int:  # fmt: skip
    """Cross a fan-out outwards; states turn into others. Returns how many values arrive.

    Args:
        inner: Cells of the level inside.
        outer: Cells of this level.
        live: ``n x 2`` (state, cell) inside.
        value: ``n`` their least costs.
        entry: ``S x N`` cell inside it came from, or ``S x 0`` if nobody asks.
        factor: ``D`` spatial factors.
        fewest: ``D`` tiles that the fan-out needs.
        become: The state that each state inside becomes: the boundaries of the level inside open.
        most: ``S`` costs that matter.
        steps: ``D x places`` fewest steps of computing, or empty.
        most_steps: Steps that matter.
    """
    dims, arrived = factor.shape[0], 0
    before, to = -1, -1
    for i in range(live.shape[0]):
        s, c = become[live[i, 0]], live[i, 1]
        if value[i] > most[s]:
            continue
        if c != before:
            target, inside = 0, True
            for d in range(dims):
                n = inner.number[c, d]
                inside = inside and n >= fewest[d]
                place = outer.place_of[outer.index_start[d] + (n + factor[d] - 1) // factor[d]]
                inside = inside and 0 <= place < outer.size[d]
                target += place * outer.stride[d]
            if steps.shape[0] > 0:
                taken = 1.0
                for d in range(dims):
                    taken *= steps[d, inner.place[c, d]]
                inside = inside and taken <= most_steps
            to = outer.cell[target] if inside else -1
            before = c
        if to >= 0 and value[i] < table[s, to]:
            table[s, to] = value[i]
            arrived += 1
            if entry.shape[1] > 0:
                entry[s, to] = c
    return arrived


@njit
def list_live(table: FloatArray, most: FloatArray) -> tuple[IntArray, FloatArray]:
    """(state, cell) and cost of all values that matter, cell by cell."""
    n_states, n = table.shape
    many = 0
    for s in range(n_states):
        for c in range(n):
            if table[s, c] <= most[s]:
                many += 1
    live, value = np.empty((many, 2), np.int64), np.empty(many)
    i = 0
    for s in range(n_states):
        for c in range(n):
            if table[s, c] <= most[s]:
                live[i, 0], live[i, 1] = s, c
                value[i] = table[s, c]
                i += 1
    return live, value
