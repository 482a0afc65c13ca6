"""Compiled: the tiles that loops of a level may leave, and the way across a fan-out (rule IB12)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codesign.core.jit import njit
from codesign.cost.walk import box_words
from codesign.mappers.imperfect.joint.boundaries import Boundaries
from codesign.mapping.nest import FloatArray, IntArray

SmallArray = NDArray[np.int32]
SMALL = np.int32
"""Type of what is held for every cell: most of the memory of a search."""


class Cells(NamedTuple):
    """The tiles that loops of one level may leave, as numbers of tiles. Rows of dimensions are as long as the longest.

    Attributes:
        place: ``n x D`` place of every cell on the lattice of each dimension; small tiles first.
        stride: ``D``.
        cell: Cell of a place in the grid, -1 where the tile fits no level.
        grid: ``n`` place in the grid of every cell.
        size: ``D`` places of each dimension in the grid.
        tiles: ``D x places`` numbers of tiles.
        first: ``D x (places + 1)`` where the followers of each place start.
        next: ``D x followers`` places that one loop leads to.
        place_of: Places of numbers, dimension by dimension.
        place_start: ``D`` where those of a dimension start.
    """

    place: SmallArray
    stride: IntArray
    cell: SmallArray
    grid: SmallArray
    size: IntArray
    tiles: IntArray
    first: IntArray
    next: IntArray
    place_of: IntArray
    place_start: IntArray

    def numbers(self, cells: slice | int = slice(None)) -> IntArray:
        """Numbers of tiles along every dimension: of one cell, or ``n x D`` of all."""
        found: IntArray = self.tiles[np.arange(len(self.tiles)), self.place[cells]]
        return found


def padded(rows: Sequence[IntArray]) -> IntArray:
    """Rows below each other, filled up with ones."""
    found = np.ones((len(rows), max(1, max(len(row) for row in rows))), np.int64)
    for line, row in zip(found, rows, strict=True):
        line[: len(row)] = row
    return found


@njit
def list_cells(
    size: IntArray, tile: IntArray, kept: IntArray, bits: IntArray, capacity: IntArray, outermost: int, data: Boundaries,
    cell: IntArray,
) -> int:  # fmt: skip
    """Number the places of a grid whose tile (``D x places``) fits every level from 0 to `outermost`, in `cell`; returns how many."""
    dims, tensors = size.shape[0], data.related.shape[0]
    at, inside = np.zeros(dims, np.int64), np.zeros(dims, np.int64)
    n = 0
    for i in range(cell.shape[0]):
        fits = True
        for d in range(dims):
            inside[d] = min(data.bounds[d], tile[d, at[d]])
        for v in range(outermost, 0, -1):
            total = 0
            for t in range(tensors):
                if kept[v, t] == 0:
                    continue
                total += box_words(data.terms, data.first_term, data.axes[t], t, inside) * bits[v, t]
            if total > capacity[v]:
                fits = False
                break
        cell[i] = -1
        if fits:
            cell[i] = n
            n += 1
        for d in range(dims - 1, -1, -1):
            at[d] += 1
            if at[d] < size[d]:
                break
            at[d] = 0
    return n


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
                n = inner.tiles[d, inner.place[c, d]]
                inside = inside and n >= fewest[d]
                place = outer.place_of[outer.place_start[d] + (n + factor[d] - 1) // factor[d]]
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
