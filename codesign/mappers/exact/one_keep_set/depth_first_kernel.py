"""The compiled part of `codesign.mappers.exact.one_keep_set.depth_first`: a depth-first walk over nests with a stack of its own.

An entry of the stack is a nest built from the inside up to some point: a state and tile of the dynamic program, what its
words cost so far, the chains that may still go on, and the step that led to it. The walk can be taken up again. Complete nests are scored; the walk stops at those that are better than what is known.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import stable_order
from codesign.cost.packed import Kernel
from codesign.mappers.exact.one_keep_set.loop_step import after_loop, edge_cost, gather, may_loop
from codesign.mappers.exact.one_keep_set.score_nest import Plan, figure_of, score_nest, write_nest
from codesign.mappers.exact.problem.grid_steps import after_vectors, grown, next_vectors
from codesign.mappers.exact.problem.sliding_windows import most_saved
from codesign.mappers.exact.problem.tables import Chains, Charges, Grid, Machine
from codesign.mapping.nest import FloatArray, IntArray, Nest

EXHAUSTED, COMPLETE, PAUSED = 0, 1, 2

# columns of an entry; then one position among the divisors per dimension: the spatial factors of fan-out PLACE
STATE, TILE, LEVEL, USED, LAST, DEPTH, LIVE, KIND, PLACE, DIM, FACTOR, VECTOR = range(12)
NOTHING, TEMPORAL, SPATIAL = 0, 1, 2
COLUMNS = np.array([KIND, PLACE, DIM, FACTOR, VECTOR], np.int64)

# columns of a chain: the row of its axis, the travel a later loop must have; then figures, see `Rows`
_ROW, _WANTED = 0, 1
_WORTH, _SHARE, _CREDIT = 0, 1, 2


class Rows(NamedTuple):
    """The sliding axes, R of them, one row per (tensor, axis).

    Attributes:
        tensor: ``R``.
        coef: ``R x D`` coefficients of the dimensions on the axis, 0 for others.
        on_axis: ``R x D`` 1 for dimensions on the axis.
        bounded: ``R`` 1 where reuse is only bounded.
        spatial: ``L x D`` factors of the fan-outs.
        bounds: ``D``.
        walk: 1 where inner loops are walked truly (rule R2 with `Reuse.WALK`).
    """

    tensor: IntArray
    coef: IntArray
    on_axis: IntArray
    bounded: IntArray
    spatial: IntArray
    bounds: IntArray
    walk: int


class Stack(NamedTuple):
    """Entries waiting, and the steps that led to the entry looked at last.

    Attributes:
        entries: ``E x (12 + D)``.
        spent: ``E`` priced words so far, less what live chains may still save.
        chains: ``E x K x 2`` row of the axis, wanted travel.
        figures: ``E x K x 3`` worth: cost of all words not fetched if every further step repeats the first; share of iterations
            left; credit: what the bound still takes off.
        path: ``P x (12 + D)`` steps, innermost first.
    """

    entries: IntArray
    spent: FloatArray
    chains: IntArray
    figures: FloatArray
    path: IntArray


class Search(NamedTuple):
    """What a walk looks things up in, and what it has to beat.

    Attributes:
        table: Of the dynamic program: least completions.
        grid: The lattice.
        machine: State tables.
        charges: The profile's charges.
        chains: Chain tables.
        rows: Sliding axes.
        outer: State at the start of the next level out when a state ends its level, -1 if it may not, -2 outermost.
        parts: Room for `gather`, as is `figures`.
        constant: Energy beside the priced words.
        mode: Of the objective, `codesign.mappers.driver.OBJECTIVE_CODE`.
        quickest: Least cycles of the profile.
        limit: Value below which a nest is better.
        latency_limit: Most cycles allowed.
    """

    table: FloatArray
    grid: Grid
    machine: Machine
    charges: Charges
    chains: Chains
    rows: Rows
    outer: IntArray
    parts: IntArray
    figures: FloatArray
    constant: float
    mode: int
    quickest: float
    limit: float
    latency_limit: float


class Live(NamedTuple):
    """Chains that may still go on: see `Stack`; ``K x 2`` and ``K x 3``."""

    chains: IntArray
    figures: FloatArray


def make_stack(n_dims: int, most_chains: int, deepest: int, room: int = 256) -> Stack:
    """An empty stack, for nests of up to `deepest` steps with up to `most_chains` live chains."""
    width = VECTOR + n_dims
    return Stack(
        np.zeros((room, width), np.int64),
        np.zeros(room),
        np.zeros((room, most_chains, 2), np.int64),
        np.zeros((room, most_chains, 3)),
        np.zeros((deepest, width), np.int64),
    )


@njit
def _doubled(stack: Stack) -> Stack:
    return Stack(
        np.concatenate((stack.entries, np.zeros_like(stack.entries))),
        np.concatenate((stack.spent, np.zeros_like(stack.spent))),
        np.concatenate((stack.chains, np.zeros_like(stack.chains))),
        np.concatenate((stack.figures, np.zeros_like(stack.figures))),
        stack.path,
    )


@njit
def _size(x: int, d: int, grid: Grid) -> int:
    return int(grid.divisor[d, x // grid.stride[d] % grid.n_divisors[d]])


@njit
def _may_win(search: Search, least: float) -> bool:
    """Whether a nest of at least this energy may be better."""
    return bool(np.isfinite(least) and figure_of(least, search.quickest, search.mode) < search.limit)


@njit
def _room_for_one(stack: Stack, top: int) -> Stack:
    """The stack, doubled if it is full."""
    return _doubled(stack) if top == stack.spent.shape[0] else stack


@njit
def _most(row: int, level: int, used: int, wanted: int, x: int, grid: Grid, rows: Rows) -> float:
    """The most a chain may still save from tile x outwards, as a share of its worth then."""
    n = rows.on_axis[row].sum()
    sizes, bounds, coef = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    spatial = np.empty((level, n), np.int64)
    mask, i = 0, 0
    for d in range(rows.on_axis.shape[1]):
        if rows.on_axis[row, d] == 0:
            continue
        sizes[i], bounds[i], coef[i] = _size(x, d, grid), rows.bounds[d], rows.coef[row, d]
        for m in range(level):
            spatial[m, i] = rows.spatial[m, d]
        mask |= (used >> d & 1) << i
        i += 1
    return most_saved(level, mask, wanted, sizes, bounds, coef, spatial, rows.walk == 1)


@njit
def _advance(
    search: Search, live: Live, n_live: int, to: Live, level: int, used: int, d: int, factor: float, x: int, y: int
) -> tuple[int, float]:
    """Chains that go on after a loop over d from tile x to y, written to `to`: their number, and the credit all lost by it."""
    rows = search.rows
    going, lost = 0, 0.0
    for c in range(n_live):
        row, wanted = live.chains[c, _ROW], live.chains[c, _WANTED]
        worth, before, credit = live.figures[c, _WORTH], live.figures[c, _SHARE], live.figures[c, _CREDIT]
        on_axis = rows.on_axis[row, d] == 1
        if not on_axis and search.machine.relevant[d] >> rows.tensor[row] & 1 == 1:
            lost += credit
            continue
        share, saved, most = before / factor, 1.0, 1.0
        if rows.bounded[row] == 0:
            saved = 0.0
            if on_axis:
                travel = rows.coef[row, d] * _size(x, d, search.grid)
                saved = 1.0 if travel == wanted else 0.0
                wanted += travel * (int(factor) - 1) if rows.walk == 1 else travel
            most = _most(row, level, used | 1 << d, wanted, y, search.grid, rows)
        left = worth * share * most
        lost += credit - saved * worth * (before - share) - left
        if left > 0.0:
            to.chains[going, _ROW], to.chains[going, _WANTED] = row, wanted
            to.figures[going, _WORTH], to.figures[going, _SHARE], to.figures[going, _CREDIT] = worth, share, left
            going += 1
    return going, lost


@njit
def _begin(search: Search, s: int, x: int, level: int, d: int, j: int, to: Live, n_live: int) -> int:
    """Add the chains that start when a loop over d closes boundaries of state s at tile x; how many are live then."""
    grid, machine, charges, chains = search.grid, search.machine, search.charges, search.chains
    factor = grid.divisor[d, j]
    for t in range(machine.counts.shape[1]):
        number = charges.chain_of[level, t, d]
        if number < 0 or machine.relevant[d] >> t & 1 == 0:
            continue
        row = chains.row_of[t, d]
        travel = search.rows.coef[row, d] * _size(x, d, grid)
        moved = travel * (int(factor) - 1) if search.rows.walk == 1 else travel
        sub = chains.axis_index[row, x]
        for i in range(machine.counts[s, t]):
            b = machine.boundary[level, t, i]
            untouched = i < machine.virgin[s, t] and charges.slide_of[level, b, d] >= 0
            saved = chains.table[number, 1 if untouched else 0, j, sub]
            if saved <= 0.0:
                continue
            base = charges.base[charges.slide_of[level, b, d] if untouched else charges.base_of[level, b], x]
            worth = base * charges.scale[level, b] * charges.price[b]
            if worth * saved > 0.0:
                to.chains[n_live, _ROW] = row
                to.chains[n_live, _WANTED] = moved + travel if untouched else moved
                to.figures[n_live, _WORTH], to.figures[n_live, _SHARE] = worth, 1.0 / factor
                to.figures[n_live, _CREDIT] = worth * saved
                n_live += 1
    return n_live


@njit
def _sort_best_last(stack: Stack, keys: FloatArray, first: int, top: int) -> None:
    """Order new entries so that the least key is taken next; among equal keys the one made first."""
    n = top - first
    turned = np.empty(n)
    for i in range(n):
        turned[i] = -keys[n - 1 - i]
    order = stable_order(turned)
    entries, spent = stack.entries[first:top].copy(), stack.spent[first:top].copy()
    chains, figures = stack.chains[first:top].copy(), stack.figures[first:top].copy()
    for i in range(n):
        picked = n - 1 - order[i]
        stack.entries[first + i] = entries[picked]
        stack.spent[first + i] = spent[picked]
        stack.chains[first + i] = chains[picked]
        stack.figures[first + i] = figures[picked]


@njit
def push_vectors(
    stack: Stack, top: int, search: Search, s: int, x: int, m: int, spent: float, depth: int, live: Live, n_live: int
) -> tuple[Stack, int]:
    """Push every spatial vector of fan-out m that may win, entering state s of level m."""
    charges, table = search.charges, search.table
    first, past = charges.group[m], charges.group[m + 1]
    digit = charges.vector[first:past].copy()
    n_dims = charges.factors.shape[1]
    begin, keys = top, np.empty(16)
    more = True
    while more:
        y = after_vectors(x, digit, charges.factors, search.grid)
        if y >= 0 and _may_win(search, search.constant + spent + table[s, y]):
            stack = _room_for_one(stack, top)
            if top - begin == keys.shape[0]:
                keys = np.concatenate((keys, np.empty_like(keys)))
            entry = stack.entries[top]
            entry[:] = 0
            entry[STATE], entry[TILE], entry[LEVEL], entry[LAST], entry[DEPTH] = s, y, m, -1, depth
            entry[LIVE], entry[KIND], entry[PLACE] = n_live, SPATIAL, m
            for g in range(past - first):
                for d in range(n_dims):
                    entry[VECTOR + d] = max(entry[VECTOR + d], charges.factors[digit[g], d])
            stack.spent[top] = spent
            stack.chains[top, :n_live] = live.chains[:n_live]
            stack.figures[top, :n_live] = live.figures[:n_live]
            keys[top - begin] = table[s, y]
            top += 1
        more = next_vectors(charges.vector, first, digit)
    _sort_best_last(stack, keys, begin, top)
    return stack, top


@njit
def _push_loops(
    stack: Stack, top: int, search: Search, here: IntArray, spent: float, live: Live, depth: int
) -> tuple[Stack, int]:
    """Push every temporal loop that may come next and may win."""
    grid, machine, table = search.grid, search.machine, search.table
    s, x, level, used, last, n_live = here[STATE], here[TILE], here[LEVEL], here[USED], here[LAST], here[LIVE]
    begin, keys = top, np.empty(16)
    for d in range(grid.n_divisors.shape[0]):
        closes = machine.relevant[d] & machine.open[s] != 0
        if used >> d & 1 == 1 or (not closes and n_live == 0 and last > d):
            continue
        after, n = -1, 0
        for j in range(1, grid.n_divisors[d]):
            y = grown(x, d, j, grid)
            if y < 0 or not may_loop(s, d, j, machine):
                continue
            if after < 0:
                after = after_loop(s, d, machine)
                n = gather(s, d, machine, search.charges, search.chains, search.parts, search.figures)
            factor = grid.divisor[d, j]
            cost = edge_cost(
                x, j, 1.0 - 1.0 / factor, n, search.parts, search.figures, search.charges.base, search.chains.table,
                search.chains.axis_index,
            )  # fmt: skip
            least = search.constant + spent + cost + table[after, y]
            if not _may_win(search, least):
                continue
            stack = _room_for_one(stack, top)
            if top - begin == keys.shape[0]:
                keys = np.concatenate((keys, np.empty_like(keys)))
            to = Live(stack.chains[top], stack.figures[top])
            going, lost = _advance(search, live, n_live, to, level, used, d, factor, x, y)
            if not _may_win(search, least + lost):
                continue
            if closes:
                going = _begin(search, s, x, level, d, j, to, going)
            entry = stack.entries[top]
            entry[:] = 0
            entry[STATE], entry[TILE], entry[LEVEL], entry[USED] = after, y, level, used | 1 << d
            entry[LAST], entry[DEPTH], entry[LIVE] = -1 if closes else d, depth, going
            entry[KIND], entry[PLACE], entry[DIM], entry[FACTOR] = TEMPORAL, level, d, j
            stack.spent[top] = spent + cost + lost
            keys[top - begin] = cost + lost + table[after, y]
            top += 1
    _sort_best_last(stack, keys, begin, top)
    return stack, top


@njit
def _push_following(
    stack: Stack, top: int, search: Search, here: IntArray, spent: float, live: Live, depth: int
) -> tuple[Stack, int]:
    """Push all that may stand directly outside an entry: loops, the fan-out of the next level out, the next fixed loop."""
    machine, s, x, level, n_live = search.machine, here[STATE], here[TILE], here[LEVEL], here[LIVE]
    stack, top = _push_loops(stack, top, search, here, spent, live, depth)
    outer = search.outer[s]
    if level > 0 and outer != -1 and search.charges.penalty[level, x] <= 0.0:
        stack, top = push_vectors(stack, top, search, outer, x, level - 1, spent, depth, live, n_live)
    stage = machine.stage_dim[s]
    if stage >= 0 and machine.ordered_fixed[level, stage] <= 0:
        stack = _room_for_one(stack, top)
        stack.entries[top] = here
        stack.entries[top, STATE], stack.entries[top, DEPTH] = machine.advance[s], depth
        stack.entries[top, KIND] = NOTHING
        stack.spent[top] = spent
        stack.chains[top, :n_live] = live.chains[:n_live]
        stack.figures[top, :n_live] = live.figures[:n_live]
        top += 1
    return stack, top


@njit
def walk(
    stack: Stack, top: int, steps: int, most: int, search: Search, kernel: Kernel, nest: Nest, plan: Plan
) -> tuple[Stack, int, int, int, int, int]:
    """Go on until the next complete nest that is better.

    Args:
        stack: Entries; may be replaced by a larger one.
        top: How many wait.
        steps: Entries to look at before pausing.
        most: Nests to score before pausing.
        search: What to look up, and what to beat.
        kernel: Scores nests.
        nest: Where they are written; at the end the better one.
        plan: How they are written.

    Returns:
        The stack, how many wait, loops of the nest, entries looked at, nests scored, and why it stopped: `EXHAUSTED`,
        `COMPLETE` (a better nest, or one that the kernel refuses) or `PAUSED`.
    """
    table = search.table
    here = np.empty(stack.entries.shape[1], np.int64)
    live = Live(np.empty_like(stack.chains[0]), np.empty_like(stack.figures[0]))
    done, scored = 0, 0
    while top > 0:
        if done == steps or scored >= most:
            return stack, top, 0, done, scored, PAUSED
        top -= 1
        here[:] = stack.entries[top]
        spent, n_live, depth = stack.spent[top], here[LIVE], here[DEPTH]
        live.chains[:n_live] = stack.chains[top, :n_live]
        live.figures[:n_live] = stack.figures[top, :n_live]
        if here[KIND] != NOTHING:
            stack.path[depth] = here
            depth += 1
        if not _may_win(search, search.constant + spent + table[here[STATE], here[TILE]]):
            continue
        done += 1
        stack, top = _push_following(stack, top, search, here, spent, live, depth)
        ends = search.outer[here[STATE]] != -1 and search.charges.penalty[here[LEVEL], here[TILE]] <= 0.0
        if ends and here[LEVEL] == 0 and here[TILE] == table.shape[1] - 1:
            count = write_nest(stack.path, depth, TEMPORAL, COLUMNS, search.grid, plan, nest)
            valid, value = score_nest(kernel, nest, count, search.mode, search.latency_limit)
            scored += 1
            if not valid or value < search.limit:
                return stack, top, count, done, scored, COMPLETE
    return stack, top, 0, done, scored, EXHAUSTED
