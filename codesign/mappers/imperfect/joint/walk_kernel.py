"""Compiled: the loops in time of one level over the numbers of tiles (rule IB12)."""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_inline
from codesign.mappers.imperfect.joint.boundaries import Boundaries
from codesign.mappers.imperfect.joint.cells import Cells, SmallArray
from codesign.mappers.imperfect.joint.counts import at_least, next_ceiling
from codesign.mappers.imperfect.joint.least_costs import Spread, paid_words
from codesign.mapping.nest import FloatArray, IntArray


@njit
def fill_times(
    cells: Cells, data: Boundaries, v: int, factor: IntArray, fewest: IntArray, times: IntArray, along: IntArray
) -> None:
    """How many tiles are asked for along each dimension (rule IB9), by the place on its lattice.

    Args:
        times: ``K x D x places`` of every term, dimensions that do not index its tensor.
        along: ``B x D x 2 places`` of every boundary, dimensions that do: at least and at most.
    """
    dims = factor.shape[1]
    for b in range(data.level.shape[0]):
        inner = min(data.level[b], factor.shape[0])
        for d in range(dims):
            for i in range(cells.size[d]):
                number = cells.tiles[d, i]
                split = number
                for m in range(v, inner):
                    split = next_ceiling(at_least(split, factor[m, d], fewest[m, d]), data.bounds[d])
                along[b, d, 2 * i] = min(split, data.bounds[d])
                for m in range(v, inner):
                    number *= factor[m, d]
                along[b, d, 2 * i + 1] = min(number, data.bounds[d])
                number = cells.tiles[d, i]
                for k in range(data.start[b], data.start[b + 1]):
                    together = 1  # children further out that are served at once
                    for m in range(data.cut[k], v):
                        if data.shares[m] == 1:
                            together *= factor[m, d]
                    asked = (number + together - 1) // together
                    every = together == 1  # whether these are all tiles there are
                    for m in range(v, inner):
                        if m < data.cut[k] or data.shares[m] == 0:
                            asked = at_least(asked, factor[m, d], fewest[m, d])
                            if every:
                                asked = next_ceiling(asked, data.bounds[d])
                        elif factor[m, d] > 1:
                            every = False
                    times[k, d, i] = asked


class States(NamedTuple):
    """The states of one level: how many boundaries of every tensor are open.

    Attributes:
        ended: ``T`` boundaries further in than the level's node, that at the MACs not included.
        digit: ``T`` weight of a tensor's count in a state.
        open_of: ``S x T`` open boundaries.
        order: ``S`` states, more open tensors first.
        opens: ``T`` 1 where the next level in keeps the tensor.
    """

    ended: IntArray
    digit: IntArray
    open_of: IntArray
    order: IntArray
    opens: IntArray


class Closing(NamedTuple):
    """A tensor that closes in a state: the state it leads to, and the first and past-the-last boundary that closes."""

    s: int
    t: int
    into: int
    first: int
    past: int


@njit
def walk_level(
    cells: Cells, table: FloatArray, source: IntArray, states: States, data: Boundaries, price: FloatArray, v: int,
    spread: Spread, most: FloatArray,
) -> int:  # fmt: skip
    """All loops in time of one level: free loops, closings, windows that slide (rule IB12). Returns steps taken.

    Args:
        source: ``S x N`` where the value came from: cell * S + state, or -1 at the fan-out; ``S x 0`` if nobody asks.
        most: ``S`` costs that matter.
    """
    n_states, n = table.shape
    times, along = room_for_times(cells, data)
    fill_times(cells, data, v, spread.factor, spread.fewest, times, along)
    known = np.full((data.level.shape[0], n), np.nan)
    live = np.empty(n, np.int64)
    work = 0
    for i in range(n_states):
        s = states.order[i]
        if list_row(table, s, most[s], live) == 0:
            continue
        work += _free_loops(cells, table, source, s, most[s], states.open_of[s], data)
        many = list_row(table, s, most[s], live)
        for t in range(data.related.shape[0]):
            o = states.open_of[s, t]
            if o > 0:
                past = data.first[t] + states.ended[t] + 1
                closing = Closing(s, t, s - o * states.digit[t], past - o, past)
                fill_known(cells, data, price, past - o, past, times, along, spread, known)
                work += _closings(
                    cells, table, source, states.open_of[s], data, closing, most[closing.into], known, live[:many]
                )
    return work


@njit
def room_for_times(cells: Cells, data: Boundaries) -> tuple[IntArray, IntArray]:
    """Room for `fill_times`."""
    dims, widest = data.bounds.shape[0], 1
    for d in range(dims):
        widest = max(widest, cells.size[d])
    times = np.ones((data.weight.shape[0], dims, widest), np.int64)
    return times, np.ones((data.level.shape[0], dims, 2 * widest), np.int64)


@njit_inline
def is_free(data: Boundaries, open_of: IntArray, d: int) -> bool:
    """Whether a dimension indexes no open tensor."""
    free = True
    for t in range(data.related.shape[0]):
        free = free and (open_of[t] == 0 or data.related[t, d] == 0)
    return free


@njit_inline
def slides_alone(data: Boundaries, open_of: IntArray, t: int, d: int) -> bool:
    """Whether a loop over d slides the window of tensor t and whatever else is open: another window may close after it."""
    alone = data.slides[t, d] == 1
    for other in range(data.related.shape[0]):
        alone = alone and (open_of[other] == 0 or data.related[other, d] == 0 or data.slides[other, d] == 1)
    return alone  # type: ignore[no-any-return]


@njit
def list_row(table: FloatArray, s: int, most: float, live: IntArray) -> int:
    """Cells of one state whose cost matters."""
    many = 0
    for c in range(table.shape[1]):
        if table[s, c] <= most:
            live[many] = c
            many += 1
    return many


@njit
def _free_loops(
    cells: Cells, table: FloatArray, source: IntArray, s: int, most: float, open_now: IntArray, data: Boundaries
) -> int:
    """Loops over dimensions that index no open tensor cost nothing."""
    work, nothing = 0, np.zeros((0, 0))
    for d in range(cells.size.shape[0]):
        free = cells.size[d] > 1 and is_free(data, open_now, d)
        for c in range(table.shape[1] if free else 0):
            if table[s, c] <= most:
                work += _offer_loops(cells, table, source, d, c, s, s, 0, 0, most, nothing)
    return work


@njit_inline
def _offer_loops(
    cells: Cells, table: FloatArray, source: IntArray, d: int, c: int, s: int, into: int, first: int, past: int, most: float,
    known: FloatArray,
) -> int:  # fmt: skip
    """Offer state `into` what every loop over d leaves of cell c in state s, the boundaries from `first` on closed after it."""
    n_states, at, work = table.shape[0], cells.place[c, d], 0
    value, base = table[s, c], cells.grid[c] - at * cells.stride[d]
    for f in range(cells.first[d, at], cells.first[d, at + 1]):
        to = cells.next[d, f]
        if to >= cells.size[d]:
            break
        work += 1
        target = cells.cell[base + to * cells.stride[d]]
        if target < 0:
            break
        more = value
        for b in range(first, past):
            more += known[b, target]
        if more <= most and more < table[into, target]:
            table[into, target] = more
            if source.shape[1] > 0:
                source[into, target] = c * n_states + s
    return work


@njit
def _closings(
    cells: Cells, table: FloatArray, source: IntArray, open_now: IntArray, data: Boundaries, closing: Closing, most: float,
    known: FloatArray, live: IntArray,
) -> int:  # fmt: skip
    """Close a tensor where it is, or after one loop along which its window slides; `known` holds what closing costs."""
    n_states, s, t, into = table.shape[0], closing.s, closing.t, closing.into
    first, past = closing.first, closing.past
    work = int(live.shape[0])
    for i in range(live.shape[0]):
        c = live[i]
        more = table[s, c]
        for b in range(first, past):
            more += known[b, c]
        if more <= most and more < table[into, c]:
            table[into, c] = more
            if source.shape[1] > 0:
                source[into, c] = c * n_states + s
    for d in range(cells.size.shape[0]):
        for i in range(live.shape[0] if slides_alone(data, open_now, t, d) else 0):
            work += _offer_loops(cells, table, source, d, live[i], s, into, first, past, most, known)
    return work


@njit
def fill_known(
    cells: Cells, data: Boundaries, price: FloatArray, first: int, past: int, times: IntArray, along: IntArray,
    spread: Spread, known: FloatArray,
) -> None:  # fmt: skip
    """What closing the boundaries from `first` on costs at every cell, where not known yet (rule IB9)."""
    n = known.shape[1]
    words = np.empty(n)
    for b in range(first, past):
        if n == 0 or not np.isnan(known[b, 0]):
            continue
        fill_words(b, cells.place, along, data, words)
        known[b] = 0.0
        for k in range(data.start[b], data.start[b + 1]):
            if price[k] != 0.0:
                add_term(k, b, cells.place, times, data, spread, words, price[k], known)


@njit
def fill_words(b: int, place: SmallArray, along: IntArray, data: Boundaries, words: FloatArray) -> None:
    """Words of all tiles of a boundary's tensor, side by side, at every cell."""
    bounds, terms, first_term, t = data.bounds, data.terms, data.first_term, data.tensor[b]
    words[:] = 1.0
    for a in range(data.axes[t]):
        first, past = first_term[t, a], first_term[t, a + 1]
        if past - first == 1 and terms[first, 1] == 1:
            for c in range(words.shape[0]):
                words[c] *= bounds[terms[first, 0]]
            continue
        for c in range(words.shape[0]):
            least = np.inf
            for corner in range(1 << (past - first)):  # linear in each number, so least where each is fewest or most
                number, total = 1.0, 0.0
                for k in range(first, past):
                    d, coefficient = terms[k, 0], terms[k, 1]
                    n = float(along[b, d, 2 * place[c, d] + ((corner >> (k - first)) & 1)])
                    total = total * n + coefficient * (bounds[d] - n) * number
                    number *= n
                least = min(least, number + total)
            words[c] *= least


@njit
def add_term(
    k: int, b: int, place: SmallArray, times: IntArray, data: Boundaries, spread: Spread, words: FloatArray, price: float,
    known: FloatArray,
) -> None:  # fmt: skip
    """Add the cost of one term at every cell."""
    t, related = data.tensor[b], data.related
    for c in range(words.shape[0]):
        number = words[c]
        for d in range(related.shape[1]):
            if related[t, d] == 0:
                number *= times[k, d, place[c, d]]
        known[b, c] += price * paid_words(k, b, number, 0.0, data, spread)
