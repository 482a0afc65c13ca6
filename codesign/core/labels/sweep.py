"""Compiled sweeps over the tile lattice of one profile (U10-U12, docs/explanation/exact-mapper.md), whatever the rules.

A *cell* is a tile (one entry of every dimension), a *state* says which of a stage's nodes have been placed. A row of `Labels` is
(bits held at the level, charges so far); charges are energy and the seconds of the ports that are watched.
"""

from typing import Any, NamedTuple

import numpy as np

from codesign.core.jit import njit

Array = np.ndarray[Any, np.dtype[Any]]

ENERGY, LATENCY, EDP = 0, 1, 2
MODES = {"energy": ENERGY, "latency": LATENCY, "edp": EDP}
"""Number of each objective by its name."""

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


class Graph(NamedTuple):
    """A lattice of tiles, and how loops lead from one to another.

    Attributes:
        sizes: Entries of each dimension.
        strides: The step of its index.
        first: Entry e of dimension d has the links ``first[d] + e``.
        link_in: Entries one loop step further in are ``inwards[link_in[i]:link_in[i + 1]]``.
        inwards: See `link_in`.
        link_out: Entries one loop step further out are ``outwards[link_out[i]:link_out[i + 1]]``.
        outwards: See `link_out`.
    """

    sizes: Array
    strides: Array
    first: Array
    link_in: Array
    inwards: Array
    link_out: Array
    outwards: Array


class Stage(NamedTuple):
    """A part of the walk between two fan-outs: what may be done there, and what a rule set says that it takes and costs.

    Attributes:
        mask: ``states x dimensions``: loops allowed in a state.
        by_from: Transitions (from, to, node whose bits are added or -1, node that is charged or -1), ordered by `from`.
        by_to: The same, ordered by `to`.
        words: ``nodes x cells``, bits.
        charge: ``nodes x cells x charges``.
        need: ``cells x states``: bits that the nodes not placed yet will take at least, as tiles only grow outwards.
        capacity: Bits of the stage.
    """

    mask: Array
    by_from: Array
    by_to: Array
    words: Array
    charge: Array
    need: Array
    capacity: float


class Limits(NamedTuple):
    """Which labels matter.

    Attributes:
        timed: Charges that are energy and seconds; the others are shares of further capacities, which stay below 1.
        floor: Seconds no mapping of the profile can beat.
        behind: Seconds that other operators add.
        slowest: Seconds no mapping may exceed.
        mode: Objective.
        leak: Energy that a second costs beside.
        limit: Largest value that matters.
    """

    timed: int
    floor: float
    behind: float
    slowest: float
    mode: int
    leak: float
    limit: float


class Labels(NamedTuple):
    """The labels of a stage; a row is (bits held, charges so far).

    Attributes:
        offsets: ``cells * states + 1``: cell and state n = cell * states + state has the labels from ``offsets[n]`` on.
        rows: ``labels x (1 + charges)``.
        parent: The label each came from, ``-1 - i`` for the i-th one that the stage began with.
        action: Transition taken, -1 for a loop.
    """

    offsets: Array
    rows: Array
    parent: Array
    action: Array


class Begin(NamedTuple):
    """Labels that a stage begins with: offsets by cell and state as in `Labels`, and rows ordered by bits."""

    offsets: Array
    rows: Array


class _Room(NamedTuple):
    """Two lists of labels of one cell and state that are merged in turn: rows, where they came from, how."""

    rows: Array
    origin: Array
    how: Array


class _Edge(NamedTuple):
    """A step to a cell and state: bits and charges it adds, its transition (-1: a loop)."""

    more: float
    add: Array
    code: int


@njit
def least_to_go(graph: Graph, stage: Stage, after: Array) -> Array:
    """The least charge that is still to come at every (cell, state) of one stage, each charge for itself (U11).

    Args:
        after: ``cells x states x charges``: what comes after the stage where it may end, infinite elsewhere.

    Returns:
        ``cells x states x charges``.
    """
    sizes, strides, first, link, successor = graph.sizes, graph.strides, graph.first, graph.link_out, graph.outwards
    mask, rows, words, charge = stage.mask, stage.by_from, stage.words, stage.charge
    n_dims, n_states = sizes.size, mask.shape[0]
    cells, _, kinds = after.shape
    to_go = np.full((cells, n_states, kinds), np.inf)
    entry = sizes - 1
    starts = _first_rows(rows, 0, n_states)
    for cell in range(cells - 1, -1, -1):
        for state in range(n_states - 1, -1, -1):
            if stage.need[cell, state] > stage.capacity:
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
                if w >= 0 and words[w, cell] > stage.capacity:
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
def _may_win(row: Array, to_go: Array, limits: Limits) -> bool:
    """Whether a label may lead to a value within the limit (U12)."""
    for c in range(limits.timed, to_go.shape[0]):
        if row[c + 1] + to_go[c] > FULL:
            return False
    energy = row[1] + to_go[0]
    seconds = limits.floor
    for c in range(1, limits.timed):
        seconds = max(seconds, row[c + 1] + to_go[c])
    if seconds > limits.slowest:
        return False
    return value_of(limits.mode, energy, seconds + limits.behind, limits.leak) <= limits.limit


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
def _room(space: int, width: int) -> _Room:
    return _Room(np.empty((2, space, width)), np.empty((2, space), np.int64), np.empty((2, space), np.int32))


@njit
def _grown(room: _Room, kept: int, least: int) -> _Room:
    """Room for `least` labels, the first `kept` of both lists taken along."""
    space = room.origin.shape[1]
    while least > space:
        space *= 2
    larger = _room(space, room.rows.shape[2])
    larger.rows[:, :kept], larger.origin[:, :kept] = room.rows[:, :kept], room.origin[:, :kept]
    larger.how[:, :kept] = room.how[:, :kept]
    return larger


@njit
def _begin(room: _Room, begin: Begin, at: int, to_go: Array, limits: Limits) -> int:
    """Put the labels that the stage begins with here in the first list; returns how many may win."""
    k = 0
    for i in range(begin.offsets[at], begin.offsets[at + 1]):
        if _may_win(begin.rows[i], to_go, limits):
            room.rows[0, k], room.origin[0, k], room.how[0, k] = begin.rows[i], -1 - i, -1
            k += 1
    return k


@njit
def _merge(
    room: _Room, now: int, k: int, labels: Array, i: int, end: int, edge: _Edge, need: float, capacity: float, to_go: Array,
    limits: Limits, row: Array,
) -> int:  # fmt: skip
    """Merge k labels with those from i to `end` after a step into the other list, undominated; returns how many it has."""
    kinds = to_go.shape[0]
    j, m, new = 0, 0, 1 - now
    while i < end or j < k:
        taken = i < end and (j >= k or _less(labels, i, edge.more, edge.add, room.rows[now], j, kinds))
        if taken:
            row[0] = labels[i, 0] + edge.more
            for c in range(kinds):
                row[c + 1] = labels[i, c + 1] + edge.add[c]
        else:
            for c in range(kinds + 1):
                row[c] = room.rows[now, j, c]
        if row[0] + need > capacity:
            break
        good = not _dominated(room.rows[new], m, row, kinds)
        if good and taken:
            good = _may_win(row, to_go, limits)
        if good:
            room.rows[new, m] = row
            if taken:
                room.origin[new, m], room.how[new, m] = i, edge.code
            else:
                room.origin[new, m], room.how[new, m] = room.origin[now, j], room.how[now, j]
            m += 1
        if taken:
            i += 1
        else:
            j += 1
    return m


@njit
def _enlarged(labels: Labels, n: int, least: int) -> Labels:
    """Labels with space for `least`, the first n taken along."""
    space = labels.parent.shape[0]
    while least > space:
        space *= 2
    rows, parent = np.empty((space, labels.rows.shape[1])), np.empty(space, np.int64)
    action = np.empty(space, np.int32)
    rows[:n], parent[:n], action[:n] = labels.rows[:n], labels.parent[:n], labels.action[:n]
    return Labels(labels.offsets, rows, parent, action)


@njit
def _stored(labels: Labels, n: int, room: _Room, now: int, k: int) -> Labels:
    """The labels with the first k of a list after the first n, enlarged where that needs space."""
    if n + k > labels.parent.shape[0]:
        labels = _enlarged(labels, n, n + k)
    for j in range(k):
        labels.rows[n + j], labels.parent[n + j] = room.rows[now, j], room.origin[now, j]
        labels.action[n + j] = room.how[now, j]
    return labels


@njit
def _next_cell(entry: Array, sizes: Array) -> None:
    """The entries of the next cell."""
    for d in range(sizes.size - 1, -1, -1):
        if entry[d] < sizes[d] - 1:
            entry[d] += 1
            break
        entry[d] = 0


@njit
def sweep(graph: Graph, stage: Stage, begin: Begin, to_go: Array, limits: Limits) -> Labels:
    """All labels of one stage that may still lead to a value within the limit (U10, U12); `to_go` is from `least_to_go`."""
    mask, rows = stage.mask, stage.by_to
    n_dims, n_states = graph.sizes.size, mask.shape[0]
    cells, kinds = to_go.shape[0], to_go.shape[2]
    labels = Labels(
        np.zeros(cells * n_states + 1, np.int64), np.empty((1 << 14, kinds + 1)), np.empty(1 << 14, np.int64),
        np.empty(1 << 14, np.int32),
    )  # fmt: skip
    room, nothing, row = _room(1 << 10, kinds + 1), np.zeros(kinds), np.empty(kinds + 1)
    starts = _first_rows(rows, 1, n_states)
    entry, n = np.zeros(n_dims, np.int64), 0
    for cell in range(cells):
        for state in range(n_states):
            now, k, at = 0, 0, cell * n_states + state
            if to_go[cell, state, 0] < np.inf:
                ahead = to_go[cell, state]
                if begin.offsets[at + 1] - begin.offsets[at] > room.origin.shape[1]:
                    room = _grown(room, 0, begin.offsets[at + 1] - begin.offsets[at])
                k = _begin(room, begin, at, ahead, limits)
                for q in range(n_dims + starts[state + 1] - starts[state]):
                    low, high = 0, 1
                    if q < n_dims:
                        if not mask[state, q]:
                            continue
                        link = graph.first[q] + entry[q]
                        low, high = graph.link_in[link], graph.link_in[link + 1]
                    for z in range(low, high):
                        more, add, code = 0.0, nothing, -1
                        if q < n_dims:
                            source = (cell + (graph.inwards[z] - entry[q]) * graph.strides[q]) * n_states + state
                        else:
                            code = starts[state] + q - n_dims
                            source = cell * n_states + rows[code, 0]
                            if rows[code, 2] >= 0:
                                more = stage.words[rows[code, 2], cell]
                            if rows[code, 3] >= 0:
                                add = stage.charge[rows[code, 3], cell]
                        i, end = labels.offsets[source], labels.offsets[source + 1]
                        if end > i:
                            if end - i + k > room.origin.shape[1]:
                                room = _grown(room, k, end - i + k)
                            edge, need = _Edge(more, add, code), stage.need[cell, state]
                            k = _merge(
                                room, now, k, labels.rows, i, end, edge, need, stage.capacity, ahead, limits, row
                            )
                            now = 1 - now
            labels = _stored(labels, n, room, now, k)
            n += k
            labels.offsets[at + 1] = n
        _next_cell(entry, graph.sizes)
    return Labels(labels.offsets, labels.rows[:n], labels.parent[:n], labels.action[:n])


@njit
def carry_over(found: Labels, n_states: int, timed: int, source: Array, allowed: Array) -> tuple[Begin, Array]:
    """The labels of the states where a stage may end, as the start of the next one out: no bits yet, undominated, ordered.

    Args:
        found: From `sweep`.
        n_states: Of that sweep.
        timed: Charges that go on; shares of the stage's capacities end with it.
        source: For each state of the next stage the state of that sweep it goes on from, -1 none.
        allowed: Cells from which the next stage can be reached.

    Returns:
        What the next stage begins with; the label of `sweep` that each was.
    """
    offsets, labels = found.offsets, found.rows
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
    return Begin(start, begin[:n].copy()), index[:n].copy()
