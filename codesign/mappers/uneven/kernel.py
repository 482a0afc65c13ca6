"""Compiled sweeps over the tile lattice of one profile (U10-U12, docs/explanation/uneven-mapping.md).

A *cell* is a tile (one entry of every dimension), a *state* says which of a level's nodes have been placed. A row of `labels` is
(bits held at the level, charges so far); charges are energy and the seconds of the ports that are watched.
"""

from typing import Any

import numpy as np

from codesign.core.jit import njit

Array = np.ndarray[Any, np.dtype[Any]]

ENERGY, LATENCY, EDP = 0, 1, 2

FULL = 1.0 + 1e-12
"""A share of a memory's capacity, with the rounding of sums."""


@njit
def _first_rows(rows: np.ndarray, column: int, n: int) -> np.ndarray:
    """The first row of each number 0 .. n of a sorted column, the number of rows where there is none."""
    starts = np.empty(n + 1, np.int64)
    row = 0
    for number in range(n + 1):
        while row < rows.shape[0] and rows[row, column] < number:
            row += 1
        starts[number] = row
    return starts


@njit
def value_of(mode: int, energy: float, seconds: float, leak: float) -> float:
    """Objective `mode` of dynamic energy and seconds; grows with both."""
    if mode == ENERGY:
        return energy + leak * seconds
    if mode == LATENCY:
        return seconds
    return (energy + leak * seconds) * seconds


@njit
def least_to_go(
    sizes: Array,
    strides: Array,
    first: Array,
    link: Array,
    successor: Array,
    mask: Array,
    rows: Array,
    words: Array,
    charge: Array,
    need: Array,
    capacity: float,
    after: Array,
) -> Array:
    """The least charge that is still to come at every (cell, state) of one level, each charge for itself (U11).

    Args:
        sizes, strides: Entries of each dimension and the step of its index.
        first, link, successor: Successors of entry e of dimension d are `successor[link[first[d] + e]:link[first[d] + e + 1]]`.
        mask: ``states x dimensions``: loops allowed in a state.
        rows: Transitions (from, to, node whose bits are added or -1, node that is charged or -1), ordered by `from`.
        words: ``nodes x cells``, bits.
        charge: ``nodes x cells x charges``.
        need: ``cells x states``: bits that the nodes not placed yet will take at least, as tiles only grow outwards.
        capacity: Bits of the level.
        after: ``cells x states x charges``: what comes after the level where it may end, infinite elsewhere.

    Returns:
        ``cells x states x charges``.
    """
    n_dims, n_states = sizes.size, mask.shape[0]
    cells, _, kinds = after.shape
    to_go = np.full((cells, n_states, kinds), np.inf)
    entry = sizes - 1
    starts = _first_rows(rows, 0, n_states)
    for cell in range(cells - 1, -1, -1):
        for state in range(n_states - 1, -1, -1):
            if need[cell, state] > capacity:
                continue
            to_go[cell, state] = after[cell, state]
            for d in range(n_dims):
                if mask[state, d]:
                    at = first[d] + entry[d]
                    for i in range(link[at], link[at + 1]):
                        other = cell + (successor[i] - entry[d]) * strides[d]
                        for c in range(kinds):
                            if to_go[other, state, c] < to_go[cell, state, c]:
                                to_go[cell, state, c] = to_go[other, state, c]
            for r in range(starts[state], starts[state + 1]):
                to, w, node = rows[r, 1], rows[r, 2], rows[r, 3]
                if w >= 0 and words[w, cell] > capacity:
                    continue
                for c in range(kinds):
                    here = to_go[cell, to, c]
                    if node >= 0:
                        here += charge[node, cell, c]
                    if here < to_go[cell, state, c]:
                        to_go[cell, state, c] = here
        for d in range(n_dims - 1, -1, -1):
            if entry[d] > 0:
                entry[d] -= 1
                break
            entry[d] = sizes[d] - 1
    return to_go


@njit
def _less(a: Array, i: int, add_words: float, add: Array, b: Array, j: int, kinds: int) -> bool:
    x, y = a[i, 0] + add_words, b[j, 0]
    if x != y:
        return bool(x < y)
    for c in range(kinds):
        x, y = a[i, c + 1] + add[c], b[j, c + 1]
        if x != y:
            return bool(x < y)
    return False


@njit
def _may_win(
    row: Array,
    to_go: Array,
    kinds: int,
    timed: int,
    floor: float,
    behind: float,
    slowest: float,
    mode: int,
    leak: float,
    limit: float,
) -> bool:
    for c in range(timed, kinds):
        if row[c + 1] + to_go[c] > FULL:
            return False
    energy = row[1] + to_go[0]
    seconds = floor
    for c in range(1, timed):
        seconds = max(seconds, row[c + 1] + to_go[c])
    return seconds <= slowest and value_of(mode, energy, seconds + behind, leak) <= limit


@njit
def _dominated(kept: Array, n: int, row: Array, kinds: int) -> bool:
    for i in range(n - 1, -1, -1):
        worse = False
        for c in range(kinds):
            if kept[i, c + 1] > row[c + 1]:
                worse = True
                break
        if not worse:
            return True
        if kinds == 1:
            return False
    return False


@njit
def sweep(
    sizes: Array,
    strides: Array,
    first: Array,
    link: Array,
    predecessor: Array,
    mask: Array,
    rows: Array,
    words: Array,
    charge: Array,
    need: Array,
    capacity: float,
    start: Array,
    begin: Array,
    to_go: Array,
    timed: int,
    floor: float,
    behind: float,
    slowest: float,
    mode: int,
    leak: float,
    limit: float,
) -> tuple[Array, Array, Array, Array]:
    """All labels of one level that may still lead to a value of at most `limit` (U10, U12).

    Args:
        start: ``cells * states + 1``: cell and state n = cell * states + state start with ``begin[start[n]:start[n + 1]]``, ordered by bits.
        begin: ``labels x (1 + charges)``.
        to_go: From `least_to_go`.
        timed: Charges that are energy and seconds; the others are shares of further capacities, which stay below 1.
        floor: Seconds no mapping of the profile can beat.
        behind: Seconds that other operators add.
        slowest: Seconds no mapping may exceed.
        mode, leak: Objective.
        rows: Transitions, ordered by `to`; the other arguments as in `least_to_go`, `predecessor` for `successor`.

    Returns:
        ``cells * states + 1`` offsets; labels; the label each came from, ``-1 - i`` for ``begin[i]``; transition taken or -1 for a loop.
    """
    n_dims, n_states = sizes.size, mask.shape[0]
    cells, kinds = to_go.shape[0], to_go.shape[2]
    width = kinds + 1
    room = 1 << 14
    labels, parent, action = np.empty((room, width)), np.empty(room, np.int64), np.empty(room, np.int32)
    space = 1 << 10
    temp, origin, how = np.empty((2, space, width)), np.empty((2, space), np.int64), np.empty((2, space), np.int32)
    offsets = np.zeros(cells * n_states + 1, np.int64)
    nothing = np.zeros(kinds)
    row = np.empty(width)
    entry = np.zeros(n_dims, np.int64)
    starts = _first_rows(rows, 1, n_states)
    n = 0
    for cell in range(cells):
        for state in range(n_states):
            now, k = 0, 0
            if to_go[cell, state, 0] < np.inf:
                at = cell * n_states + state
                while start[at + 1] - start[at] > space:
                    space *= 2
                    temp, origin, how = (
                        np.empty((2, space, width)),
                        np.empty((2, space), np.int64),
                        np.empty((2, space), np.int32),
                    )
                for i in range(start[at], start[at + 1]):
                    if not _may_win(
                        begin[i], to_go[cell, state], kinds, timed, floor, behind, slowest, mode, leak, limit
                    ):
                        continue
                    temp[0, k], origin[0, k], how[0, k] = begin[i], -1 - i, -1
                    k += 1
                for q in range(n_dims + starts[state + 1] - starts[state]):
                    if q < n_dims:
                        if not mask[state, q]:
                            continue
                        at = first[q] + entry[q]
                        low, high = link[at], link[at + 1]
                    else:
                        low, high = 0, 1
                    for z in range(low, high):
                        more, add, code = 0.0, nothing, -1
                        if q < n_dims:
                            source = (cell + (predecessor[z] - entry[q]) * strides[q]) * n_states + state
                        else:
                            code = starts[state] + q - n_dims
                            source = cell * n_states + rows[code, 0]
                            if rows[code, 2] >= 0:
                                more = words[rows[code, 2], cell]
                            if rows[code, 3] >= 0:
                                add = charge[rows[code, 3], cell]
                        i, end = offsets[source], offsets[source + 1]
                        if end == i:
                            continue
                        if end - i + k > space:
                            while end - i + k > space:
                                space *= 2
                            temp2, origin2, how2 = (
                                np.empty((2, space, width)),
                                np.empty((2, space), np.int64),
                                np.empty((2, space), np.int32),
                            )
                            temp2[:, :k], origin2[:, :k], how2[:, :k] = temp[:, :k], origin[:, :k], how[:, :k]
                            temp, origin, how = temp2, origin2, how2
                        j, m, new = 0, 0, 1 - now
                        while i < end or j < k:
                            taken = i < end and (j >= k or _less(labels, i, more, add, temp[now], j, kinds))
                            if taken:
                                row[0] = labels[i, 0] + more
                                for c in range(kinds):
                                    row[c + 1] = labels[i, c + 1] + add[c]
                            else:
                                for c in range(width):
                                    row[c] = temp[now, j, c]
                            if row[0] + need[cell, state] > capacity:
                                break
                            good = not _dominated(temp[new], m, row, kinds)
                            if good and taken:
                                good = _may_win(
                                    row, to_go[cell, state], kinds, timed, floor, behind, slowest, mode, leak, limit
                                )
                            if good:
                                temp[new, m] = row
                                if taken:
                                    origin[new, m], how[new, m] = i, code
                                else:
                                    origin[new, m], how[new, m] = origin[now, j], how[now, j]
                                m += 1
                            if taken:
                                i += 1
                            else:
                                j += 1
                        now, k = new, m
            if n + k > room:
                while n + k > room:
                    room *= 2
                labels2, parent2, action2 = np.empty((room, width)), np.empty(room, np.int64), np.empty(room, np.int32)
                labels2[:n], parent2[:n], action2[:n] = labels[:n], parent[:n], action[:n]
                labels, parent, action = labels2, parent2, action2
            for j in range(k):
                labels[n], parent[n], action[n] = temp[now, j], origin[now, j], how[now, j]
                n += 1
            offsets[cell * n_states + state + 1] = n
        for d in range(n_dims - 1, -1, -1):
            if entry[d] < sizes[d] - 1:
                entry[d] += 1
                break
            entry[d] = 0
    return offsets, labels[:n], parent[:n], action[:n]


@njit
def carry_over(
    offsets: Array, labels: Array, n_states: int, timed: int, source: Array, allowed: Array
) -> tuple[Array, Array, Array]:
    """The labels of the states where a level may end, as the start of the next level out: no bits yet, undominated, ordered.

    Args:
        offsets, labels: From `sweep`.
        n_states: Of that sweep.
        timed: Charges that go on; shares of the level's capacities end with it.
        source: For each state of the next level the state of that sweep it goes on from, -1 none.
        allowed: Cells from which the next level can be reached.

    Returns:
        ``cells * next states + 1`` offsets; the labels; the label of `sweep` that each was.
    """
    cells, n_next = allowed.shape[0], source.shape[0]
    total = 0
    for cell in range(cells):
        for to in range(n_next):
            if allowed[cell] and source[to] >= 0:
                at = cell * n_states + source[to]
                total += offsets[at + 1] - offsets[at]
    start = np.zeros(cells * n_next + 1, np.int64)
    begin, index = np.empty((total, timed + 1)), np.empty(total, np.int64)
    n = 0
    for cell in range(cells):
        for to in range(n_next):
            base = n
            if allowed[cell] and source[to] >= 0:
                at = cell * n_states + source[to]
                order = np.arange(offsets[at], offsets[at + 1])
                if timed == 1 and order.size > 0:
                    least = offsets[at]
                    for i in range(offsets[at] + 1, offsets[at + 1]):
                        if labels[i, 1] < labels[least, 1]:
                            least = i
                    order[0] = least
                    order = order[:1]
                for i in range(1, order.size):
                    j = i
                    while j > 0:
                        a, b, less = order[j], order[j - 1], False
                        for c in range(1, timed + 1):
                            if labels[a, c] != labels[b, c]:
                                less = labels[a, c] < labels[b, c]
                                break
                        if not less:
                            break
                        order[j], order[j - 1] = b, a
                        j -= 1
                for i in order:
                    if n == base or not _dominated(begin[base:], n - base, labels[i], timed):
                        begin[n] = labels[i, : timed + 1]
                        begin[n, 0] = 0.0
                        index[n] = i
                        n += 1
            start[cell * n_next + to + 1] = n
    return start, begin[:n].copy(), index[:n].copy()
