"""The compiled program of one profile whose spatial factors are all known: cheapest completion from every tile and state.

Tiles are temporal here: `x` counts what the temporal loops so far have made, so that crossing a fan-out changes nothing, and
all levels share one small lattice (the divisors of the bounds over the spatial factors). Every operation is a minimum over
whole arrays; see `codesign.mappers.exact.even.fill_states`.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_inline
from codesign.cost.arrays import UNBOUNDED
from codesign.mappers.exact.even.fill_states import (
    CHAIN,
    CLOSE,
    DIM,
    DONE,
    END,
    KIND,
    LEVEL,
    SLIDE,
    SOURCE,
    SWEEP,
    TARGET,
    TOUCH,
    WHAT,
    Program,
)
from codesign.mappers.exact.even.word_prices import Arrays, Pairs, weigh
from codesign.mappers.exact.problem.lattice import INF, Grid, grown, minima_along, offer_window_loop
from codesign.mapping.nest import FloatArray, IntArray


class Moved(NamedTuple):
    """What crosses into every level when a tensor is closed, and what windows save of it. F tensors are followed.

    Attributes:
        words: ``T x L x N`` words that enter an instance of a level if every step brings a whole tile.
        slot: ``T`` number of a followed tensor, -1.
        shared: ``F x L x L x D x N`` words that two neighbours along a dimension share, times the steps, when the loop
            stands at a level (first index) and a level inside holds the tile (second index); 0 where they share none.
        number: ``T x L x D`` chain table of a first loop at a level, -1 none (C1).
        saving: ``K x 2 x J x tiles of the axis`` shares saved; touched or untouched before, factor, tile of the axis.
        row: ``T x D`` axis that a dimension stands on, -1 none.
        axis_tile: ``R x L x N`` tile of an axis at a level.
        place: ``D x J`` position of the lattice's divisors among those of the whole bound.
    """

    words: FloatArray
    slot: IntArray
    shared: FloatArray
    number: IntArray
    saving: FloatArray
    row: IntArray
    axis_tile: IntArray
    place: IntArray


class Prices(NamedTuple):
    """What words cost, and how many may cross.

    Attributes:
        price: ``T x (L + 1) x L`` of a word into an inner level (L: the MACs) from an outer one.
        once: What is paid beside the words, likewise.
        least: ``T x L`` fewest words allowed into a level.
        most: ``T x L`` most words allowed.
        bounded: Whether `least` and `most` say anything.
    """

    price: FloatArray
    once: FloatArray
    least: FloatArray
    most: FloatArray
    bounded: int


class Parts(NamedTuple):
    """Room for the boundaries that a loop closes.

    Attributes:
        boundary: ``B x 5`` tensor, level, slot where its window slides along the loop (-1), chain table (-1), axis.
        figure: ``B x 2`` price of a word, what is paid beside.
    """

    boundary: IntArray
    figure: FloatArray


class Filled(NamedTuple):
    """A table of the program, and what it was filled with.

    Attributes:
        table: ``S x N`` least cost still to be paid from every state and tile.
        program: The operations.
        grid: The tiles.
        moved: What crosses into every level.
        prices: What words cost.
        charge: ``Q x N`` what closing a tensor costs.
        penalty: ``L x 2**T x N`` infinite where the tiles of the kept tensors do not fit.
        live: ``S`` 0 where a state is left out; its costs are infinite.
        parts: Room.
    """

    table: FloatArray
    program: Program
    grid: Grid
    moved: Moved
    prices: Prices
    charge: FloatArray
    penalty: FloatArray
    live: IntArray
    parts: Parts


@njit
def fill_tiles(value: FloatArray, inside: FloatArray, arrays: Arrays, words: FloatArray, penalty: FloatArray) -> None:
    """Words of every tensor's tile at every level, and where they fit.

    Args:
        value: ``D x N`` temporal sizes.
        inside: ``L x D`` product of the spatial factors from a level inwards.
        words: ``T x L x N`` tile words times iterations left: what enters if every step of the loops outside brings a tile.
        penalty: ``L x 2**T x N`` infinite where the tiles of a set of tensors do not fit.
    """
    coef, bits, capacity = arrays.coef, arrays.bits, arrays.capacity
    n_tensors, n_axes, n_dims = coef.shape
    n_levels, n = inside.shape[0], value.shape[1]
    left, box, extent = np.ones(n), np.empty((n_tensors, n)), np.empty(n)
    for d in range(n_dims):
        for x in range(n):
            left[x] *= value[d, n - 1] / value[d, x]
    for v in range(n_levels):
        for t in range(n_tensors):
            box[t] = 1.0
            for a in range(n_axes):
                moves = False
                for d in range(n_dims):
                    moves = moves or coef[t, a, d] > 0.0
                if not moves:
                    continue
                extent[:] = 1.0
                for d in range(n_dims):
                    if coef[t, a, d] > 0.0:
                        for x in range(n):
                            extent[x] += coef[t, a, d] * (value[d, x] * inside[v, d] - 1.0)
                for x in range(n):
                    box[t, x] *= extent[x]
            for x in range(n):
                words[t, v, x] = box[t, x] * left[x]
        for kept in range(1 << n_tensors):
            penalty[v, kept] = 0.0
            if kept == 0 or capacity[v] == UNBOUNDED:
                continue
            for x in range(n):
                used = 0.0
                for t in range(n_tensors):
                    if kept >> t & 1 == 1:
                        used += box[t, x] * bits[v, t]
                if used > capacity[v]:
                    penalty[v, kept, x] = INF


@njit_inline
def parent_of(program: Program, held: int, i: int, p: int) -> int:
    """The level that feeds the i-th level of a set that waits for parent p."""
    if i + 1 < program.chain.shape[1] and program.chain[held, i + 1] >= 0:
        return program.chain[held, i + 1]  # type: ignore[no-any-return]
    return p


@njit
def _fill_charges(filled: Filled) -> None:
    """What closing a tensor costs, tile by tile; infinite where too few or too many words cross."""
    program, moved, prices, charge = filled.program, filled.moved, filled.prices, filled.charge
    n = charge.shape[1]
    for q in range(program.charges.shape[0]):
        t, held, p = program.charges[q]
        charge[q] = 0.0
        for i in range(program.chain.shape[1]):
            v = program.chain[held, i]
            if v < 0:
                break
            outer = parent_of(program, held, i, p)
            cost, once, words = prices.price[t, v, outer], prices.once[t, v, outer], moved.words[t, v]
            for x in range(n):
                charge[q, x] += cost * words[x] + once
            if prices.bounded == 1:
                for x in range(n):
                    if words[x] < prices.least[t, v] or words[x] > prices.most[t, v]:
                        charge[q, x] = INF


@njit
def gather(s: int, source: int, c: int, d: int, filled: Filled) -> int:
    """List the boundaries that a loop over d at level c closes on the way from state s to `source`; returns how many."""
    program, moved, prices, parts, n = filled.program, filled.moved, filled.prices, filled.parts, 0
    for t in range(program.status.shape[1]):
        held, p = -1 - program.status[s, t], program.status[source, t]
        if held < 0 or p < 0:
            continue
        length = 0
        while length < program.chain.shape[1] and program.chain[held, length] >= 0:
            length += 1
        for i in range(length):
            v, outer = program.chain[held, i], parent_of(program, held, i, p)
            parts.boundary[n, 0], parts.boundary[n, 1] = t, v
            parts.boundary[n, 2] = moved.slot[t] if i >= length - program.fresh[s, t] and moved.row[t, d] >= 0 else -1
            parts.boundary[n, 3], parts.boundary[n, 4] = moved.number[t, c, d], moved.row[t, d]
            parts.figure[n, 0], parts.figure[n, 1] = prices.price[t, v, outer], prices.once[t, v, outer]
            n += 1
    return n


@njit
def _words_of_part(i: int, c: int, d: int, j: int, x: int, kept: float, chained: bool, filled: Filled) -> float:
    """Least words of the i-th boundary when it closes at tile x by a loop over d.

    Args:
        i: Which of the boundaries gathered.
        j: Position of its factor.
        x: The tile before it.
        kept: The share of its steps in which a window keeps what it shares.
        chained: Whether later loops save words too.
    """
    parts, moved = filled.parts, filled.moved
    words, k, more = moved.words[parts.boundary[i, 0], parts.boundary[i, 1], x], parts.boundary[i, 3], 0.0
    slides = parts.boundary[i, 2] >= 0
    if chained and k >= 0:
        more = moved.saving[k, 1 if slides else 0, moved.place[d, j], moved.axis_tile[parts.boundary[i, 4], c, x]]
    if slides:
        return words - moved.shared[parts.boundary[i, 2], c, parts.boundary[i, 1], d, x] * (kept + more)  # type: ignore[no-any-return]
    return words * (1.0 - more)  # type: ignore[no-any-return]


@njit
def loop_cost(n: int, c: int, d: int, j: int, x: int, factor: float, chained: bool, filled: Filled) -> float:
    """Least charge of the n boundaries gathered when they close at tile x by a loop over d; see `_words_of_part`."""
    parts, prices, total = filled.parts, filled.prices, 0.0
    for i in range(n):
        words = _words_of_part(i, c, d, j, x, 1.0 - 1.0 / factor, chained, filled)
        t, v = parts.boundary[i, 0], parts.boundary[i, 1]
        if prices.bounded == 1 and (words < prices.least[t, v] or words > prices.most[t, v]):
            return INF
        total += words * parts.figure[i, 0] + parts.figure[i, 1]
    return total


@njit
def run_program(weight: FloatArray, pairs: Pairs, filled: Filled) -> tuple[int, float]:
    """Fill the table; returns the best state at the MACs and its value.

    One call in place of one for each step: between calls two threads wait for each other.

    Args:
        weight: ``1 + J`` of energy and of every port's cycles.
        filled: Table, charges and prices are overwritten, but for the limits on words.
    """
    weigh(weight, pairs, filled.prices.price, filled.prices.once)
    _fill_charges(filled)
    _fill_table(filled)
    return _least_start(filled, pairs.fewest)


@njit
def _fill_table(filled: Filled) -> None:
    """Go through the operations."""
    table, program, grid, live = filled.table, filled.program, filled.grid, filled.live
    charge, penalty, scratch = filled.charge, filled.penalty, np.empty((2, table.shape[1]))
    n, operations = table.shape[1], program.operations
    for o in range(operations.shape[0]):
        kind, s, source = operations[o, KIND], operations[o, TARGET], operations[o, SOURCE]
        c, what, d = operations[o, LEVEL], operations[o, WHAT], operations[o, DIM]
        if o == 0 or operations[o - 1, TARGET] != s:
            for x in range(n):
                table[s, x] = INF
        if live[s] == 0 or (source >= 0 and live[source] == 0):
            continue
        if kind == CLOSE:
            for x in range(n):
                table[s, x] = min(table[s, x], table[source, x] + charge[what, x])
        elif kind == END:
            for x in range(n):
                table[s, x] = min(table[s, x], table[source, x] + penalty[c, what, x])
        elif kind == SWEEP:
            minima_along(table[s], what, grid)
        elif kind == TOUCH:
            for x in range(n):
                table[s, x] = min(table[s, x], table[source, x])
        elif kind == DONE:
            table[s, n - 1] = penalty[0, what, n - 1]
        elif kind == CHAIN:
            _tile_by_tile(s, source, c, d, what, True, filled)
        elif kind == SLIDE:
            if filled.prices.bounded == 1:
                _tile_by_tile(s, source, c, d, what, False, filled)
            else:
                _slide(s, source, c, d, what, filled, scratch)
        else:
            _place(table, s, source, d, what, grid, scratch[0])


@njit
def _place(table: FloatArray, s: int, source: int, d: int, factor: int, grid: Grid, scratch: FloatArray) -> None:
    """Offer a loop over d that nobody minds: of a given factor, of any and none (0), or none (no dimension)."""
    n = table.shape[1]
    if factor > 1:
        for x in range(n):
            for j in range(1, grid.n_divisors[d]):
                y = grown(x, d, j, grid) if grid.divisor[d, j] == factor else -1
                if y >= 0:
                    table[s, x] = min(table[s, x], table[source, y])
        return
    for x in range(n):
        scratch[x] = table[source, x]
    if d >= 0:
        minima_along(scratch, 1 << d, grid)
    for x in range(n):
        table[s, x] = min(table[s, x], scratch[x])


@njit
def _slide(s: int, source: int, c: int, d: int, factor: int, filled: Filled, scratch: FloatArray) -> None:
    """Offer the first loops over d along which windows slide; what chains save is offered by `_tile_by_tile`."""
    table, grid, moved, parts = filled.table, filled.grid, filled.moved, filled.parts
    n, overlap = table.shape[1], 0.0
    whole, shared = scratch[0], scratch[1]
    whole[:] = 0.0
    shared[:] = 0.0
    for i in range(gather(s, source, c, d, filled)):
        t, v, slot = parts.boundary[i, 0], parts.boundary[i, 1], parts.boundary[i, 2]
        cost, once, words = parts.figure[i, 0], parts.figure[i, 1], moved.words[t, v]
        for x in range(n):
            whole[x] += cost * words[x] + once
        if slot >= 0:
            common = moved.shared[slot, c, v, d]
            for x in range(n):
                shared[x] += cost * common[x]
                overlap = max(overlap, common[x])
    if overlap <= 0.0:
        return
    for j in range(1, grid.n_divisors[d]):
        if factor == 0 or grid.divisor[d, j] == factor:
            offer_window_loop(table[s], table[source], whole, shared, d, j, grid)


@njit
def _may_go_on(n: int, d: int, j: int, parts: Parts, moved: Moved) -> bool:
    """Whether later loops may save words of one of the n boundaries gathered after a loop with the factor at position j."""
    for i in range(n):
        k, kind = parts.boundary[i, 3], 1 if parts.boundary[i, 2] >= 0 else 0
        if k >= 0 and moved.saving[k, kind, moved.place[d, j]].max() > 0.0:
            return True
    return False


@njit
def _tile_by_tile(s: int, source: int, c: int, d: int, factor: int, chained: bool, filled: Filled) -> None:
    """Offer first loops over d where only so many words may cross, or, `chained`, those after which a chain may go on."""
    table, grid, moved, parts = filled.table, filled.grid, filled.moved, filled.parts
    n, once = gather(s, source, c, d, filled), 0.0
    inner, count = grid.stride[d], grid.n_divisors[d]
    for i in range(n):
        once += parts.figure[i, 1]
    for j in range(1, count):
        size = grid.divisor[d, j]
        if (factor > 0 and size != factor) or (chained and not _may_go_on(n, d, j, parts, moved)):
            continue
        for first in range(0, table.shape[1], inner):  # tiles of one size of d
            i = first // inner % count
            move = (grid.grow[d, j, i] - i) * inner
            for x in range(first, first + inner if grid.grow[d, j, i] >= 0 else first):
                if table[source, x + move] + once < table[s, x]:
                    cost = loop_cost(n, c, d, j, x, size, chained, filled)
                    table[s, x] = min(table[s, x], table[source, x + move] + cost)


@njit
def _least_start(filled: Filled, fewest: FloatArray) -> tuple[int, float]:
    """The best state at the MACs, and its value with what crosses into the MACs."""
    table, starts, prices, macs = filled.table, filled.program.starts, filled.prices, fewest.shape[1] - 1
    best, least = starts[0, 0], INF
    for k in range(starts.shape[0]):
        value = table[starts[k, 0], 0]
        for t in range(fewest.shape[0]):
            p = starts[k, 1 + t]
            value += prices.price[t, macs, p] * fewest[t, macs] + prices.once[t, macs, p]
        if value < least:
            best, least = starts[k, 0], value
    return best, least


@njit
def trace_program(filled: Filled, start: int, slack: float, path: IntArray, words: FloatArray) -> tuple[int, bool]:
    """Follow equal values from the MACs outwards.

    Args:
        filled: As `run_program` has left it.
        start: The state at the MACs.
        slack: Values that differ by no more are equal.
        path: ``P x 3`` operation, tile before and after it; overwritten.
        words: ``T x L`` counted into every level; overwritten.

    Returns:
        How many steps there are, -1 if the values do not add up; whether they count on a chain going on.
    """
    program, s, x, steps, optimistic = filled.program, start, 0, 0, False
    words[:] = 0.0
    while steps < path.shape[0]:
        found, tile = -1, -1
        for o in range(program.first[s], program.first[s + 1]):
            if program.operations[o, KIND] == DONE and x == filled.table.shape[1] - 1:
                return steps, optimistic
            j, tile = _undone(o, x, filled, slack)
            if tile >= 0:
                optimistic = _count(o, x, j, filled, words) or optimistic
                found = o
                break
        if found < 0:
            return -1, False
        path[steps, 0], path[steps, 1], path[steps, 2] = found, x, tile
        steps += 1
        x = tile
        if program.operations[found, SOURCE] >= 0:
            s = program.operations[found, SOURCE]
    return -1, False


@njit
def _undone(o: int, x: int, filled: Filled, slack: float) -> tuple[int, int]:
    """Position of the factor and tile after an operation, if it keeps the value; else the tile is -1."""
    table, grid, operation = filled.table, filled.grid, filled.program.operations[o]
    kind, s, source, c = operation[KIND], operation[TARGET], operation[SOURCE], operation[LEVEL]
    what, d, wanted = operation[WHAT], operation[DIM], table[s, x]
    if kind == SWEEP:
        for a in range(grid.axis_dim.shape[0]):
            size, stride = grid.axis_size[a], grid.axis_stride[a]
            if what >> grid.axis_dim[a] & 1 == 1 and x // stride % size < size - 1 and table[s, x + stride] == wanted:
                return 0, x + stride
        return 0, -1
    if source < 0:
        return 0, -1
    if d < 0:
        more = 0.0
        if kind == END:
            more = filled.penalty[c, what, x]
        elif kind == CLOSE:
            more = filled.charge[what, x]
        return 0, x if abs(table[source, x] + more - wanted) <= slack else -1
    n = gather(s, source, c, d, filled) if kind in (SLIDE, CHAIN) else 0
    # suffix minima also try the factor 1: a tensor closes without a loop, which only overestimates (D4)
    for j in range(1 if kind == CHAIN else 0, grid.n_divisors[d]):
        y = grown(x, d, j, grid) if what == 0 or grid.divisor[d, j] == what else -1
        if y >= 0:
            cost = loop_cost(n, c, d, j, x, grid.divisor[d, j], kind == CHAIN, filled)
            if abs(table[source, y] + cost - wanted) <= slack:
                return j, y
    return 0, -1


@njit
def _count(o: int, x: int, j: int, filled: Filled, words: FloatArray) -> bool:
    """Note the words that an operation at tile x moves, with its factor at position j; whether it counts on later loops."""
    program, parts, optimistic = filled.program, filled.parts, False
    operation = program.operations[o]
    kind, c, what, d = operation[KIND], operation[LEVEL], operation[WHAT], operation[DIM]
    if kind == CLOSE:
        t, held, _ = program.charges[what]
        for v in program.chain[held]:
            if v >= 0:
                words[t, v] = filled.moved.words[t, v, x]
    elif kind in (SLIDE, CHAIN):
        kept = 1.0 - 1.0 / filled.grid.divisor[d, j]
        for i in range(gather(operation[TARGET], operation[SOURCE], c, d, filled)):
            t, v = parts.boundary[i, 0], parts.boundary[i, 1]
            words[t, v] = _words_of_part(i, c, d, j, x, kept, kind == CHAIN, filled)
            optimistic = optimistic or words[t, v] < _words_of_part(i, c, d, j, x, kept, False, filled)
    return optimistic
