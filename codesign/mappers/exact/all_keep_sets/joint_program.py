"""The compiled program over all keep sets of one profile whose spatial factors are all known.

Tiles are temporal here: `x` counts what the temporal loops so far have made, so that crossing a fan-out changes nothing, and
all levels share one small lattice (the divisors of the bounds over the spatial factors). The words that enter level v
for tile x depend on v and x only, and their price on v and the parent; see `codesign.mappers.exact.all_keep_sets.fill_states`.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_inline
from codesign.mappers.exact.all_keep_sets.fill_states import (
    CHAIN,
    CLOSE,
    DONE,
    END,
    KIND,
    LEVEL,
    SHARED,
    SOURCE,
    SWEEP,
    TARGET,
    TOUCH,
    WHAT,
    JointProgram,
)
from codesign.mappers.exact.problem.grid_steps import offer_window_loop, offer_window_loops, suffix_minima
from codesign.mappers.exact.problem.tables import INF, Grid
from codesign.mapping.nest import FloatArray, IntArray


class Windows(NamedTuple):
    """The tensor whose windows slide; -1 and empty arrays if there is none.

    Attributes:
        tensor: Its number.
        shared: ``L x L x D x N`` words that two neighbours along a dimension share, times the steps, when the loop stands
            at a level (first index) and a level inside holds the tile (second index); 0 where they share none.
        steady: ``L x L x D`` 1 where the shared words of a step do not depend on the size of the dimension.
        chains: ``C x 5`` what loops after the first may still save (C1): level, dimension and position of the factor of the
            first loop, tile before it, tile after it.
        saved: ``C x 3`` as a share of the words if the levels had met a loop before; of the shared words if not; and the share
            of these that the first loop saves itself.
        first: ``L x D + 1`` where the chains of each level and dimension begin.
    """

    tensor: int
    shared: FloatArray
    steady: IntArray
    chains: IntArray
    saved: FloatArray
    first: IntArray


NO_WINDOWS = Windows(
    -1,
    np.zeros((0, 0, 0, 0)),
    np.zeros((0, 0, 0), np.int64),
    np.zeros((0, 5), np.int64),
    np.zeros((0, 3)),
    np.zeros(1, np.int64),
)


class Closings(NamedTuple):
    """What closing costs, tile by tile.

    Attributes:
        charge: ``Q x N``.
        once: ``Q`` the part of it that does not depend on words.
        shared: ``R x N`` what a first loop may save.
        steady: ``R`` 1 where suffix minima find the best factor, 0 where factors are tried, -1 where nothing is shared.
    """

    charge: FloatArray
    once: FloatArray
    shared: FloatArray
    steady: IntArray


def room_for_closings(program: JointProgram, n: int) -> Closings:
    """Room for the charges of a program on n tiles."""
    n_charges, n_shared = len(program.charges), len(program.shared)
    return Closings(
        np.empty((n_charges, n)), np.empty(n_charges), np.empty((n_shared, n)), np.empty(n_shared, np.int64)
    )


@njit
def fill_charges(
    program: JointProgram, words: FloatArray, windows: Windows, price: FloatArray, fixed: FloatArray, result: Closings
) -> None:
    """What closing costs, tile by tile.

    Args:
        program: Which charges there are.
        words: ``T x L x N`` words that enter an instance of a level when the tensor is closed at a tile.
        windows: What slides.
        price: ``T x (L + 1) x L`` of a word, see `price_pairs`.
        fixed: What is paid once.
        result: Overwritten.
    """
    n, chain, charge, once = words.shape[2], program.chain, result.charge, result.once
    for q in range(program.charges.shape[0]):
        t, row, p = program.charges[q]
        charge[q] = 0.0
        once[q] = 0.0
        for i in range(chain.shape[1]):
            v = chain[row, i]
            if v < 0:
                break
            outer = chain[row, i + 1] if i + 1 < chain.shape[1] and chain[row, i + 1] >= 0 else p
            once[q] += fixed[t, v, outer]
            cost, moved = price[t, v, outer], words[t, v]
            for x in range(n):
                charge[q, x] += cost * moved[x]
        for x in range(n):
            charge[q, x] += once[q]
    _fill_shared(program, windows, price, result)


@njit
def _fill_shared(program: JointProgram, windows: Windows, price: FloatArray, result: Closings) -> None:
    """What first loops may save."""
    chain, shared, steady, n = program.chain, result.shared, result.steady, result.charge.shape[1]
    for r in range(program.shared.shape[0]):
        c, row, fresh, p, d = (
            program.shared[r, 0],
            program.shared[r, 1],
            program.shared[r, 2],
            program.shared[r, 3],
            program.shared[r, 4],
        )
        length, t = 0, windows.tensor
        while length < chain.shape[1] and chain[row, length] >= 0:
            length += 1
        shared[r] = 0.0
        steady[r] = 1
        for i in range(length - fresh, length):
            v = chain[row, i]
            outer = chain[row, i + 1] if i + 1 < length else p
            steady[r] = min(steady[r], windows.steady[c, v, d])
            cost, common = price[t, v, outer], windows.shared[c, v, d]
            for x in range(n):
                shared[r, x] += cost * common[x]
        if shared[r].max() <= 0.0:
            steady[r] = -1


@njit
def run_program(
    table: FloatArray, program: JointProgram, grid: Grid, free: IntArray, relevant: IntArray, windows: Windows,
    closings: Closings, penalty: FloatArray, scratch: FloatArray, live: IntArray,
) -> None:  # fmt: skip
    """Fill the table: least cost still to be paid from every state and tile.

    Args:
        table: ``S x N``, overwritten.
        program: The operations.
        grid: The lattice of temporal tiles.
        free: ``L x D`` 1 where a level may loop over a dimension.
        relevant: ``D`` bit mask of the tensors a dimension indexes.
        windows: What slides.
        closings: See `fill_charges`.
        penalty: ``L x 2**T x N`` infinite where the tiles of the kept tensors do not fit.
        scratch: ``1 x N``.
        live: ``S`` 0 where a state is left out; its costs are infinite.
    """
    n, operations = table.shape[1], program.operations
    for o in range(operations.shape[0]):
        kind, s, source = operations[o, KIND], operations[o, TARGET], operations[o, SOURCE]
        c, what = operations[o, LEVEL], operations[o, WHAT]
        if o == 0 or operations[o - 1, TARGET] != s:
            for x in range(n):
                table[s, x] = INF
        if live[s] == 0 or (source >= 0 and live[source] == 0):
            continue
        if kind == CLOSE:
            for x in range(n):
                table[s, x] = min(table[s, x], table[source, x] + closings.charge[what, x])
        elif kind == END:
            for x in range(n):
                table[s, x] = min(table[s, x], table[source, x] + penalty[c, what, x])
        elif kind == SWEEP:
            for a in range(grid.axis_dim.shape[0]):
                d = grid.axis_dim[a]
                if free[c, d] == 1 and relevant[d] & what == 0:
                    suffix_minima(table[s], grid.axis_size[a], grid.axis_stride[a])
        elif kind == TOUCH:
            for x in range(n):
                table[s, x] = min(table[s, x], table[source, x])
        elif kind == DONE:
            table[s, n - 1] = penalty[0, what, n - 1]
        elif kind == CHAIN:
            _chain(table, s, source, c, program, operations[o, SHARED], what, windows, free, closings)
        else:
            r = operations[o, SHARED]
            d = program.shared[r, 4]
            if closings.steady[r] >= 0 and free[c, d] == 1 and grid.n_divisors[d] > 1:
                _slide(table, s, source, grid, d, r, what, closings, scratch)


@njit
def _slide(
    table: FloatArray, s: int, source: int, grid: Grid, d: int, r: int, q: int, closings: Closings, scratch: FloatArray
) -> None:
    """Offer the first loops over d: charge q less what windows share (r)."""
    charge, shared = closings.charge[q], closings.shared[r]
    if closings.steady[r] == 1:
        offer_window_loops(table[s], table[source], charge, shared, scratch[0], d, grid)
        return
    for j in range(1, grid.n_divisors[d]):
        offer_window_loop(table[s], table[source], charge, shared, d, j, grid)


@njit_inline
def _chain(
    table: FloatArray, s: int, source: int, c: int, program: JointProgram, r: int, q: int, windows: Windows,
    free: IntArray, closings: Closings,
) -> None:  # fmt: skip
    """Offer the first loops after which a chain may go on; r is the row of `JointProgram.shared`."""
    fresh, d, touched = program.shared[r, 2], program.shared[r, 4], program.shared[r, 5]
    if free[c, d] == 0:
        return
    charge, shared = closings.charge, closings.shared
    group = c * free.shape[1] + d
    for k in range(windows.first[group], windows.first[group + 1]):
        x, y = windows.chains[k, 3], windows.chains[k, 4]
        saved = (charge[q, x] - closings.once[q]) * windows.saved[k, 0] if touched > 0 else 0.0
        if fresh > 0:
            saved += shared[r, x] * (windows.saved[k, 2] + windows.saved[k, 1])
        table[s, x] = min(table[s, x], table[source, y] + charge[q, x] - saved)


@njit
def least_start(
    table: FloatArray, starts: IntArray, price: FloatArray, fixed: FloatArray, fewest: FloatArray
) -> tuple[int, float]:
    """The best state at the MACs, and its value with what crosses into the MACs."""
    macs = fewest.shape[1] - 1
    best, least = starts[0, 0], INF
    for k in range(starts.shape[0]):
        value = table[starts[k, 0], 0]
        for t in range(fewest.shape[0]):
            p = starts[k, 1 + t]
            value += price[t, macs, p] * fewest[t, macs] + fixed[t, macs, p]
        if value < least:
            best, least = starts[k, 0], value
    return best, least
