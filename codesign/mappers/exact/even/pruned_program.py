"""The program over all keep sets on folded tiles, of many profiles, without what cannot beat the incumbent; compiled.

Goes from the MACs outwards and drops a state at a tile as soon as what it has cost, and the least that the levels further
out can add, reach a cap (section D11 in docs/explanation/exact-mapper.md). Most profiles end after a few hundred cells.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.cost.arrays import UNBOUNDED
from codesign.mappers.exact.even.fill_states import CLOSE, DONE, END, KIND, SOURCE, WHAT, Program
from codesign.mappers.exact.even.folded_tiles import FoldedTiles, Folds, fill_windows, room_for_tiles, shape_tiles
from codesign.mappers.exact.even.joint_program import parent_of
from codesign.mappers.exact.even.word_prices import Arrays, least_beyond, price_profile, room_for_pairs, weigh
from codesign.mappers.exact.problem.lattice import INF
from codesign.mapping.nest import FloatArray, IntArray


class Walk(NamedTuple):
    """What a walk through the program of one profile looks up and fills.

    Attributes:
        arrays: The problem.
        program: The operations, without windows that slide.
        folds: What the tiles of all profiles share.
        tiles: Those of the profile.
        price: ``T x (L + 1) x L`` weighted cost of a word.
        once: What is paid once, likewise.
        fewest: ``T x (L + 1)`` fewest words.
        beyond: ``T x (L + 1)`` least cost of everything outside a level that keeps a tensor.
        waiting: ``T x sets`` the same of a set of levels that waits.
        place: ``S`` row of each state, -1 none yet.
        table: Rows of N costs.
        cap: What is no better than this is of no interest.
    """

    arrays: Arrays
    program: Program
    folds: Folds
    tiles: FoldedTiles
    price: FloatArray
    once: FloatArray
    fewest: FloatArray
    beyond: FloatArray
    waiting: FloatArray
    place: IntArray
    table: FloatArray
    cap: float


@njit
def screen_profiles(
    rows: IntArray, arrays: Arrays, folds: Folds, program: Program, weight: FloatArray, cap: FloatArray, least: FloatArray,
    live: IntArray,
) -> float:  # fmt: skip
    """Least weighted sum of energy and port cycles of each profile over all keep sets; infinite from a cap on.

    Args:
        rows: ``P x L`` number of the vector of every fan-out.
        program: The operations, without windows that slide.
        weight: ``P x (1 + J)``.
        cap: ``P`` what is no better than this is of no interest.
        least: ``P``, overwritten.
        live: ``P x S`` or ``0 x 0`` 1 where a state is on the way to something better than the cap; overwritten.

    Returns:
        Cells looked at.
    """
    (fans, pairs), n_states = room_for_pairs(weight.shape[1], arrays), program.first.shape[0] - 1
    total, once = np.empty_like(pairs.price[0]), np.empty_like(pairs.price[0])
    tiles, table = room_for_tiles(fans.rest, arrays, folds), np.empty((n_states + 1) * folds.most[0])
    place, scratch, cells = np.empty(n_states, np.int64), np.empty(n_states, np.int64), 0.0
    for i in range(rows.shape[0]):
        price_profile(rows[i], arrays, fans, pairs)
        weigh(weight[i], pairs, total, once)
        shape_tiles(tiles, folds)
        constant = weight[i, 0] * arrays.macs * arrays.mac_energy
        beyond, waiting = _least_outside(program, total, once, pairs.fewest, arrays)
        walk = Walk(
            arrays, program, folds, tiles, total, once, pairs.fewest, beyond, waiting, place, table, cap[i] - constant
        )  # fmt: skip
        value, looked = _walk(walk, live[i] if live.shape[0] else scratch)
        least[i] = value + constant
        cells += looked
    return cells


@njit
def _start(walk: Walk) -> int:
    """Enter the states at the MACs that may win; returns the number of rows given."""
    program, macs, used = walk.program, walk.price.shape[2], 0
    for k in range(program.starts.shape[0]):
        s, paid = program.starts[k, 0], 0.0
        for t in range(walk.fewest.shape[0]):
            p = program.starts[k, 1 + t]
            paid += walk.price[t, macs, p] * walk.fewest[t, macs] + walk.once[t, macs, p]
        if paid + _beyond(program.status[s], walk.beyond, walk.waiting) < walk.cap:
            used = _room(s, walk.place, used, walk.table, walk.tiles.counts[0])
            at = walk.place[s] * walk.tiles.counts[0]
            walk.table[at] = min(walk.table[at], paid)
    return used


@njit
def _free_loops(walk: Walk, s: int, row: int) -> None:
    """Loops over dimensions that index no open tensor cost nothing: prefix minima."""
    program, folds, table, n = walk.program, walk.folds, walk.table, walk.tiles.counts[0]
    size, stride = walk.tiles.size, walk.tiles.stride
    opened, c = 0, program.level[s]
    for t in range(program.status.shape[1]):
        if program.status[s, t] < 0:
            opened |= 1 << t
    for a in range(size.shape[0]):
        if folds.free[c, folds.group[a]] == 1 and folds.mask[folds.group[a]] & opened == 0:
            inner, block = stride[a], stride[a] * size[a]
            for start in range(0, n, block):
                for x in range(row + start + inner, row + start + block):
                    table[x] = min(table[x], table[x - inner])


@njit
def _walk(walk: Walk, live: IntArray) -> tuple[float, float]:
    """Least value below the cap (else infinite) and cells looked at; `live` marks the states still in play."""
    program, table, n = walk.program, walk.table, walk.tiles.counts[0]
    operations, n_axes = program.operations, walk.tiles.size.shape[0]
    walk.place[:] = -1
    live[:] = 0
    used = _start(walk)
    best, cells = INF, 0.0
    reached = np.empty(n, np.int64)
    for s in range(live.shape[0] - 1, -1, -1):
        if walk.place[s] < 0:
            continue
        row = walk.place[s] * n
        _free_loops(walk, s, row)
        limit = walk.cap - _beyond(program.status[s], walk.beyond, walk.waiting)
        count = 0
        for x in range(n):
            if table[row + x] < limit:
                reached[count] = x
                count += 1
        cells += n * (1.0 + n_axes)
        if count == 0:
            continue
        live[s] = 1
        for o in range(program.first[s], program.first[s + 1]):
            kind, source, what = operations[o, KIND], operations[o, SOURCE], operations[o, WHAT]
            if kind == DONE:
                best = min(best, table[row + n - 1])
            elif kind == CLOSE:
                used = _close(walk, what, source, row, reached[:count], used)
                cells += count
            elif kind == END:
                used = _end(walk, program.level[s], what, source, row, reached[:count], used)
                cells += count
    return (best if best < walk.cap else INF), cells


@njit
def _room(s: int, place: IntArray, used: int, table: FloatArray, n: int) -> int:
    """Give a state a row of the table if it has none; returns the number of rows given."""
    if place[s] >= 0:
        return used
    place[s] = used
    for x in range(used * n, used * n + n):
        table[x] = INF
    return used + 1


@njit
def _least_outside(
    program: Program, price: FloatArray, once: FloatArray, fewest: FloatArray, arrays: Arrays
) -> tuple[FloatArray, FloatArray]:
    """Least cost of everything outside a level that keeps a tensor (``T x (L + 1)``), and of a set that waits (``T x sets``), by B1."""
    beyond, waiting = np.empty_like(fewest), np.full((fewest.shape[0], program.chain.shape[0]), INF)
    for t in range(fewest.shape[0]):
        least_beyond(t, price, once, fewest, arrays, beyond[t])
    for q in range(program.charges.shape[0]):
        t, row, p = program.charges[q]
        cost = beyond[t, p]
        for i in range(program.chain.shape[1]):
            v = program.chain[row, i]
            if v < 0:
                break
            outer = parent_of(program, row, i, p)
            cost += price[t, v, outer] * fewest[t, v] + once[t, v, outer]
        waiting[t, row] = min(waiting[t, row], cost)
    return beyond, waiting


@njit
def _beyond(status: IntArray, beyond: FloatArray, waiting: FloatArray) -> float:
    """Least cost of what a state has not paid yet."""
    total = 0.0
    for t in range(status.shape[0]):
        total += beyond[t, status[t]] if status[t] >= 0 else waiting[t, -1 - status[t]]
    return total


@njit
def _close(walk: Walk, charge: int, source: int, row: int, reached: IntArray, used: int) -> int:
    """Close a tensor at the tiles reached; returns the number of rows given."""
    program, tiles, table = walk.program, walk.tiles, walk.table
    price, n, n_window = walk.price, tiles.counts[0], tiles.counts[1]
    limit = walk.cap - _beyond(program.status[source], walk.beyond, walk.waiting)
    t, held, p = program.charges[charge]
    levels, fixed = 0, 0.0
    for i in range(program.chain.shape[1]):
        v = program.chain[held, i]
        if v < 0:
            break
        levels = i + 1
        fixed += walk.once[t, v, parent_of(program, held, i, p)]
        fill_windows(t, v, walk.arrays, walk.folds, tiles)
    for k in range(reached.shape[0]):
        x = reached[k]
        value, w, outer = table[row + x] + fixed, x % n_window, x // n_window
        steps = tiles.plain[t, outer] * tiles.left[outer]
        for i in range(levels):
            v = program.chain[held, i]
            value += price[t, v, parent_of(program, held, i, p)] * steps * tiles.words[t, v, w]
        if value < limit:
            used = _room(source, walk.place, used, table, n)
            at = walk.place[source] * n + x
            table[at] = min(table[at], value)
    return used


@njit
def _end(walk: Walk, c: int, kept: int, source: int, row: int, reached: IntArray, used: int) -> int:
    """End a level at the tiles reached that fit; returns the number of rows given."""
    arrays, tiles, table = walk.arrays, walk.tiles, walk.table
    n_tensors, n, n_window = tiles.filled.shape[0], tiles.counts[0], tiles.counts[1]
    limit = walk.cap - _beyond(walk.program.status[source], walk.beyond, walk.waiting)
    limited = kept > 0 and arrays.capacity[c] != UNBOUNDED
    for t in range(n_tensors):
        if limited and kept >> t & 1 == 1:
            fill_windows(t, c, arrays, walk.folds, tiles)
    for k in range(reached.shape[0]):
        x = reached[k]
        value = table[row + x]
        if not value < limit:
            continue
        if limited:
            taken = 0.0
            for t in range(n_tensors):
                if kept >> t & 1 == 1:
                    taken += tiles.plain[t, x // n_window] * tiles.need[t, c, x % n_window] * arrays.bits[c, t]
            if taken > arrays.capacity[c]:
                continue
        used = _room(source, walk.place, used, table, n)
        at = walk.place[source] * n + x
        table[at] = min(table[at], value)
    return used
