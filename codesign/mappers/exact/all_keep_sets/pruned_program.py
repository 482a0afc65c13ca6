"""The program over all keep sets on folded tiles, of many profiles, without what cannot beat the incumbent; compiled.

Goes from the MACs outwards and drops a state at a tile as soon as what it has cost, and the least that the levels further
out can add, reach a cap (section D11 in docs/explanation/exact-mapper.md). Most profiles end after a few hundred cells.
"""

import numpy as np

from codesign.core.jit import njit
from codesign.cost.arrays import UNBOUNDED
from codesign.mappers.exact.all_keep_sets.fill_states import CLOSE, DONE, END, KIND, SOURCE, WHAT, JointProgram
from codesign.mappers.exact.all_keep_sets.folded_tiles import Folds, fill_folded, fill_windows, shape_tiles
from codesign.mappers.exact.all_keep_sets.word_prices import price_profile, weigh
from codesign.mappers.exact.problem.boundary_costs import Hardware
from codesign.mappers.exact.problem.tables import INF
from codesign.mapping.nest import FloatArray, IntArray


@njit
def screen_profiles(
    rows: IntArray,
    factors: FloatArray,
    distinct: FloatArray,
    hardware: Hardware,
    relevant: IntArray,
    folds: Folds,
    program: JointProgram,
    passes: IntArray,
    keeps: IntArray,
    weight: FloatArray,
    cap: FloatArray,
    least: FloatArray,
    live: IntArray,
) -> float:
    """Least weighted sum of energy and port cycles of each profile over all keep sets; infinite from a cap on.

    Args:
        rows: ``P x L`` number of the vector of every fan-out.
        factors: ``V x D`` spatial factors of all vectors.
        distinct: ``V x T`` different words of the children.
        hardware: See `codesign.mappers.exact.all_keep_sets.word_prices.price_pairs`.
        relevant: ``T x D``.
        folds: The tiles.
        program: The operations, without windows that slide.
        passes: ``L x T`` 1 where a level may leave a tensor to others.
        keeps: ``L x T`` 1 where it may keep it.
        weight: ``1 + J``.
        cap: ``P`` what is no better than this is of no interest.
        least: ``P``, overwritten.
        live: ``P x S`` or ``0 x 0`` 1 where a state is on the way to something better than the cap; overwritten.

    Returns:
        Cells looked at.
    """
    n_tensors, n_levels, n_dims = relevant.shape[0], keeps.shape[0], factors.shape[1]
    n_axes, n_states = folds.prime.shape[0], program.first.shape[0] - 1
    most, most_window = 1, 1
    for a in range(n_axes):
        most *= folds.most[a] + 1
        if a >= folds.n_plain:
            most_window *= folds.most[a] + 1
    inside = np.empty((n_levels, n_dims))
    price = np.empty((weight.shape[0], n_tensors, n_levels + 1, n_levels))
    fixed, fewest = np.empty_like(price), np.empty((n_tensors, n_levels + 1))
    total, once = np.empty(price.shape[1:]), np.empty(price.shape[1:])
    exponent, size, stride = np.empty(folds.leg_dim.shape[0], np.int64), np.empty(n_axes, np.int64), np.empty(n_axes, np.int64)
    window_room = np.empty((2, n_tensors * n_levels * most_window))
    room = np.empty((2, n_tensors * n_levels * most))
    table = np.empty((n_states + 1) * most)
    scratch = np.empty(n_states, np.int64)
    rest = np.empty(n_dims)
    cells = 0.0
    for i in range(rows.shape[0]):
        price_profile(rows[i], factors, distinct, hardware, relevant, inside, price, fixed, fewest)
        weigh(weight, price, fixed, total, once)
        for d in range(n_dims):
            rest[d] = hardware.bounds[d] / inside[0, d]
        n, n_window = shape_tiles(rest, folds, exponent, size, stride)
        part = n_tensors * n_levels * n_window
        window_words = window_room[0, :part].reshape(n_tensors, n_levels, n_window)
        window_need = window_room[1, :part].reshape(n_tensors, n_levels, n_window)
        fill_windows(rest, inside, folds, exponent, stride, window_words, window_need)
        part = n_tensors * n_levels * n
        words = room[0, :part].reshape(n_tensors, n_levels, n)
        need = room[1, :part].reshape(n_tensors, n_levels, n)
        fill_folded(rest, inside, folds, size, stride, n_window, window_words, window_need, words, need)
        constant = weight[0] * hardware.macs * hardware.mac_energy
        flags = live[i] if live.shape[0] else scratch
        value, looked = _walk(
            program, folds, size, stride, total, once, fewest, passes, keeps, words, need, cap[i] - constant, table, flags
        )
        least[i] = value + constant
        cells += looked + 4.0 * part
    return cells


@njit
def _walk(
    program: JointProgram,
    folds: Folds,
    size: IntArray,
    stride: IntArray,
    price: FloatArray,
    once: FloatArray,
    fewest: FloatArray,
    passes: IntArray,
    keeps: IntArray,
    words: FloatArray,
    need: FloatArray,
    cap: float,
    table: FloatArray,
    live: IntArray,
) -> tuple[float, float]:
    """Least value below the cap (else infinite) and cells looked at; `live` marks the states still in play."""
    n_tensors, n_levels, n = words.shape
    n_states, n_axes, operations = live.shape[0], size.shape[0], program.operations
    beyond, set_beyond = _least_beyond(program, price, once, fewest, passes, keeps)
    place = np.full(n_states, -1, np.int64)
    live[:] = 0
    used = 0
    for k in range(program.starts.shape[0]):
        s, paid = program.starts[k, 0], 0.0
        for t in range(n_tensors):
            p = program.starts[k, 1 + t]
            paid += price[t, n_levels, p] * fewest[t, n_levels] + once[t, n_levels, p]
        if paid + _beyond(program.status[s], beyond, set_beyond) < cap:
            used = _room(s, place, used, table, n)
            table[place[s] * n] = min(table[place[s] * n], paid)
    best, cells = INF, 0.0
    reached = np.empty(n, np.int64)
    for s in range(n_states - 1, -1, -1):
        if place[s] < 0:
            continue
        row, first, last = place[s] * n, program.first[s], program.first[s + 1]
        opened, c = 0, program.level[s]
        for t in range(n_tensors):
            if program.status[s, t] < 0:
                opened |= 1 << t
        for a in range(n_axes):
            if folds.free[c, folds.group[a]] == 1 and folds.mask[folds.group[a]] & opened == 0:
                inner, block = stride[a], stride[a] * size[a]
                for start in range(0, n, block):
                    for x in range(row + start + inner, row + start + block):
                        table[x] = min(table[x], table[x - inner])
        limit = cap - _beyond(program.status[s], beyond, set_beyond)
        count = 0
        for x in range(n):
            if table[row + x] < limit:
                reached[count] = x
                count += 1
        cells += n * (1.0 + n_axes)
        if count == 0:
            continue
        live[s] = 1
        for o in range(first, last):
            kind, source, what = operations[o, KIND], operations[o, SOURCE], operations[o, WHAT]
            if kind == DONE:
                best = min(best, table[row + n - 1])
            elif kind == CLOSE:
                used = _close(program, what, source, row, reached, count, price, once, words, cap, beyond, set_beyond, place, used, table)
                cells += count
            elif kind == END:
                used = _end(program, folds, c, what, source, row, reached, count, need, cap, beyond, set_beyond, place, used, table)
                cells += count
    return (best if best < cap else INF), cells


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
def _least_beyond(
    program: JointProgram, price: FloatArray, once: FloatArray, fewest: FloatArray, passes: IntArray, keeps: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Least cost of everything outside a level that keeps a tensor (``T x L``), and of a set that waits (``T x sets``), by B1."""
    n_tensors, n_levels = fewest.shape[0], price.shape[2]
    beyond = np.full((n_tensors, n_levels), INF)
    for t in range(n_tensors):
        beyond[t, 0] = 0.0
        for v in range(1, n_levels):
            if keeps[v, t] == 0:
                continue
            for p in range(v - 1, -1, -1):
                beyond[t, v] = min(beyond[t, v], beyond[t, p] + price[t, v, p] * fewest[t, v] + once[t, v, p])
                if passes[p, t] == 0:
                    break
    waiting = np.full((n_tensors, program.chain.shape[0]), INF)
    for q in range(program.charges.shape[0]):
        t, row, p = program.charges[q]
        cost = beyond[t, p]
        for i in range(program.chain.shape[1]):
            v = program.chain[row, i]
            if v < 0:
                break
            outer = program.chain[row, i + 1] if i + 1 < program.chain.shape[1] and program.chain[row, i + 1] >= 0 else p
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
def _close(
    program: JointProgram, charge: int, source: int, row: int, reached: IntArray, count: int, price: FloatArray,
    once: FloatArray, words: FloatArray, cap: float, beyond: FloatArray, waiting: FloatArray, place: IntArray, used: int,
    table: FloatArray,
) -> int:  # fmt: skip
    """Close a tensor at the tiles reached; returns the number of rows given."""
    n = words.shape[2]
    limit = cap - _beyond(program.status[source], beyond, waiting)
    t, held, p = program.charges[charge]
    for k in range(count):
        x = reached[k]
        value = table[row + x]
        for i in range(program.chain.shape[1]):
            v = program.chain[held, i]
            if v < 0:
                break
            outer = program.chain[held, i + 1] if i + 1 < program.chain.shape[1] and program.chain[held, i + 1] >= 0 else p
            value += price[t, v, outer] * words[t, v, x] + once[t, v, outer]
        if value < limit:
            used = _room(source, place, used, table, n)
            at = place[source] * n + x
            table[at] = min(table[at], value)
    return used


@njit
def _end(
    program: JointProgram, folds: Folds, c: int, kept: int, source: int, row: int, reached: IntArray, count: int,
    need: FloatArray, cap: float, beyond: FloatArray, waiting: FloatArray, place: IntArray, used: int, table: FloatArray,
) -> int:  # fmt: skip
    """End a level at the tiles reached that fit; returns the number of rows given."""
    n_tensors, _, n = need.shape
    limit = cap - _beyond(program.status[source], beyond, waiting)
    for k in range(count):
        x = reached[k]
        value = table[row + x]
        if not value < limit:
            continue
        if kept and folds.capacity[c] != UNBOUNDED:
            taken = 0.0
            for t in range(n_tensors):
                if kept >> t & 1 == 1:
                    taken += need[t, c, x] * folds.bits[c, t]
            if taken > folds.capacity[c]:
                continue
        used = _room(source, place, used, table, n)
        at = place[source] * n + x
        table[at] = min(table[at], value)
    return used
