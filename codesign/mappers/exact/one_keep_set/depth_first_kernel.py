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
def _grown(x: int, d: int, j: int, grid: Grid) -> int:
    """Tile x with dimension d grown by its divisor at position j; -1 if there is none."""
    i = x // grid.stride[d] % grid.n_divisors[d]
    k = grid.grow[d, j, i]
    return -1 if k < 0 else x + (k - i) * grid.stride[d]


@njit
def _size(x: int, d: int, grid: Grid) -> int:
    return int(grid.divisor[d, x // grid.stride[d] % grid.n_divisors[d]])


@njit
def _may_win(least: float, mode: int, quickest: float, limit: float) -> bool:
    """Whether a nest of at least this energy may be better."""
    return bool(np.isfinite(least) and figure_of(least, quickest, mode) < limit)


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
    from_chains: IntArray, from_figures: FloatArray, n_live: int, to_chains: IntArray, to_figures: FloatArray, level: int,
    used: int, d: int, factor: float, x: int, y: int, grid: Grid, machine: Machine, rows: Rows,
) -> tuple[int, float]:  # fmt: skip
    """Chains that go on after a loop over d from tile x to y: their number, and the credit all lost by it."""
    going, lost = 0, 0.0
    for c in range(n_live):
        row, wanted = from_chains[c, _ROW], from_chains[c, _WANTED]
        worth, before, credit = from_figures[c, _WORTH], from_figures[c, _SHARE], from_figures[c, _CREDIT]
        on_axis = rows.on_axis[row, d] == 1
        if not on_axis and machine.relevant[d] >> rows.tensor[row] & 1 == 1:
            lost += credit
            continue
        share, saved, most = before / factor, 1.0, 1.0
        if rows.bounded[row] == 0:
            saved = 0.0
            if on_axis:
                travel = rows.coef[row, d] * _size(x, d, grid)
                saved = 1.0 if travel == wanted else 0.0
                wanted += travel * (int(factor) - 1) if rows.walk == 1 else travel
            most = _most(row, level, used | 1 << d, wanted, y, grid, rows)
        left = worth * share * most
        lost += credit - saved * worth * (before - share) - left
        if left > 0.0:
            to_chains[going, _ROW], to_chains[going, _WANTED] = row, wanted
            to_figures[going, _WORTH], to_figures[going, _SHARE], to_figures[going, _CREDIT] = worth, share, left
            going += 1
    return going, lost


@njit
def _begin(
    s: int, x: int, level: int, d: int, j: int, to_chains: IntArray, to_figures: FloatArray, n_live: int, grid: Grid,
    machine: Machine, charges: Charges, chains: Chains, rows: Rows,
) -> int:  # fmt: skip
    """Add the chains that start when a loop over d closes boundaries of state s at tile x; how many are live then."""
    factor = grid.divisor[d, j]
    for t in range(machine.counts.shape[1]):
        number = charges.chain_of[level, t, d]
        if number < 0 or machine.relevant[d] >> t & 1 == 0:
            continue
        row = chains.row_of[t, d]
        travel = rows.coef[row, d] * _size(x, d, grid)
        moved = travel * (int(factor) - 1) if rows.walk == 1 else travel
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
                to_chains[n_live, _ROW] = row
                to_chains[n_live, _WANTED] = moved + travel if untouched else moved
                to_figures[n_live, _WORTH], to_figures[n_live, _SHARE] = worth, 1.0 / factor
                to_figures[n_live, _CREDIT] = worth * saved
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
    stack: Stack, top: int, s: int, x: int, m: int, spent: float, depth: int, live: int, live_chains: IntArray,
    live_figures: FloatArray, table: FloatArray, grid: Grid, charges: Charges, constant: float, mode: int, quickest: float,
    limit: float,
) -> tuple[Stack, int]:  # fmt: skip
    """Push every spatial vector of fan-out m that may win, entering state s of level m."""
    first, past = charges.group[m], charges.group[m + 1]
    digit = charges.vector[first:past].copy()
    n_dims = charges.factors.shape[1]
    begin, keys = top, np.empty(16)
    while True:
        y = x
        for g in range(first, past):
            for d in range(n_dims):
                j = charges.factors[digit[g - first], d]
                if j > 0 and y >= 0:
                    y = _grown(y, d, j, grid)
        if y >= 0 and _may_win(constant + spent + table[s, y], mode, quickest, limit):
            if top == stack.spent.shape[0]:
                stack = _doubled(stack)
            if top - begin == keys.shape[0]:
                keys = np.concatenate((keys, np.empty_like(keys)))
            entry = stack.entries[top]
            entry[:] = 0
            entry[STATE], entry[TILE], entry[LEVEL], entry[LAST], entry[DEPTH] = s, y, m, -1, depth
            entry[LIVE], entry[KIND], entry[PLACE] = live, SPATIAL, m
            for g in range(first, past):
                for d in range(n_dims):
                    entry[VECTOR + d] = max(entry[VECTOR + d], charges.factors[digit[g - first], d])
            stack.spent[top] = spent
            stack.chains[top, :live] = live_chains[:live]
            stack.figures[top, :live] = live_figures[:live]
            keys[top - begin] = table[s, y]
            top += 1
        g = past - first - 1
        while g >= 0:
            digit[g] += 1
            if digit[g] < charges.vector[first + g + 1]:
                break
            digit[g] = charges.vector[first + g]
            g -= 1
        if g < 0:
            break
    _sort_best_last(stack, keys, begin, top)
    return stack, top


@njit
def _push_loops(
    stack: Stack, top: int, here: IntArray, spent: float, live_chains: IntArray, live_figures: FloatArray, depth: int,
    table: FloatArray, grid: Grid, machine: Machine, charges: Charges, chains: Chains, rows: Rows, constant: float, mode: int,
    quickest: float, limit: float, parts: IntArray, figures: FloatArray,
) -> tuple[Stack, int]:  # fmt: skip
    """Push every temporal loop that may come next and may win."""
    s, x, level, used, last, live = here[STATE], here[TILE], here[LEVEL], here[USED], here[LAST], here[LIVE]
    begin, keys = top, np.empty(16)
    for d in range(grid.n_divisors.shape[0]):
        closes = machine.relevant[d] & machine.open[s] != 0
        if used >> d & 1 == 1 or (not closes and live == 0 and last > d):
            continue
        after, n = -1, 0
        for j in range(1, grid.n_divisors[d]):
            y = _grown(x, d, j, grid)
            if y < 0 or not may_loop(s, d, j, machine):
                continue
            if after < 0:
                after = after_loop(s, d, machine)
                n = gather(s, d, machine, charges, chains, parts, figures)
            factor = grid.divisor[d, j]
            cost = edge_cost(x, j, 1.0 - 1.0 / factor, n, parts, figures, charges.base, chains.table, chains.axis_index)
            least = constant + spent + cost + table[after, y]
            if not _may_win(least, mode, quickest, limit):
                continue
            if top == stack.spent.shape[0]:
                stack = _doubled(stack)
            if top - begin == keys.shape[0]:
                keys = np.concatenate((keys, np.empty_like(keys)))
            going, lost = _advance(
                live_chains, live_figures, live, stack.chains[top], stack.figures[top], level, used, d, factor, x, y, grid,
                machine, rows,
            )  # fmt: skip
            if not _may_win(least + lost, mode, quickest, limit):
                continue
            if closes:
                going = _begin(
                    s,
                    x,
                    level,
                    d,
                    j,
                    stack.chains[top],
                    stack.figures[top],
                    going,
                    grid,
                    machine,
                    charges,
                    chains,
                    rows,
                )
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
def walk(
    stack: Stack, top: int, steps: int, most: int, table: FloatArray, grid: Grid, machine: Machine, charges: Charges, chains: Chains,
    rows: Rows, outer: IntArray, constant: float, mode: int, quickest: float, limit: float, kernel: Kernel, nest: Nest,
    plan: Plan, latency_limit: float,
) -> tuple[Stack, int, int, int, int, int]:  # fmt: skip
    """Go on until the next complete nest that is better.

    Args:
        stack: Entries; may be replaced by a larger one.
        top: How many wait.
        steps: Entries to look at before pausing.
        most: Nests to score before pausing.
        table: Of the dynamic program: least completions.
        grid: The lattice.
        machine: State tables.
        charges: The profile's charges.
        chains: Chain tables.
        rows: Sliding axes.
        outer: State at the start of the next level out when a state ends its level, -1 if it may not, -2 outermost.
        constant: Energy beside the priced words.
        mode: Of the objective, `codesign.mappers.driver.OBJECTIVE_CODE`.
        quickest: Least cycles of the profile.
        limit: Value below which a nest is better.
        kernel: Scores nests.
        nest: Where they are written; at the end the better one.
        plan: How they are written.
        latency_limit: Most cycles allowed.

    Returns:
        The stack, how many wait, loops of the nest, entries looked at, nests scored, and why it stopped: `EXHAUSTED`,
        `COMPLETE` (a better nest, or one that the kernel refuses) or `PAUSED`.
    """
    parts, figures = np.empty((charges.price.shape[0], 4), np.int64), np.empty((charges.price.shape[0], 4))
    here = np.empty(stack.entries.shape[1], np.int64)
    live_chains, live_figures = np.empty_like(stack.chains[0]), np.empty_like(stack.figures[0])
    done, scored = 0, 0
    while top > 0:
        if done == steps or scored >= most:
            return stack, top, 0, done, scored, PAUSED
        top -= 1
        here[:] = stack.entries[top]
        spent, live = stack.spent[top], here[LIVE]
        live_chains[:live] = stack.chains[top, :live]
        live_figures[:live] = stack.figures[top, :live]
        s, x, level, depth = here[STATE], here[TILE], here[LEVEL], here[DEPTH]
        if here[KIND] != NOTHING:
            stack.path[depth] = here
            depth += 1
        if not _may_win(constant + spent + table[s, x], mode, quickest, limit):
            continue
        done += 1
        stack, top = _push_loops(
            stack, top, here, spent, live_chains, live_figures, depth, table, grid, machine, charges, chains, rows, constant,
            mode, quickest, limit, parts, figures,
        )  # fmt: skip
        complete = False
        if outer[s] != -1 and charges.penalty[level, x] <= 0.0:
            if level > 0:
                stack, top = push_vectors(
                    stack, top, outer[s], x, level - 1, spent, depth, live, live_chains, live_figures, table, grid, charges,
                    constant, mode, quickest, limit,
                )  # fmt: skip
            else:
                complete = x == table.shape[1] - 1
        stage = machine.stage_dim[s]
        if stage >= 0 and machine.ordered_fixed[level, stage] <= 0:
            if top == stack.spent.shape[0]:
                stack = _doubled(stack)
            stack.entries[top] = here
            stack.entries[top, STATE], stack.entries[top, DEPTH] = machine.advance[s], depth
            stack.entries[top, KIND] = NOTHING
            stack.spent[top] = spent
            stack.chains[top, :live] = live_chains[:live]
            stack.figures[top, :live] = live_figures[:live]
            top += 1
        if complete:
            count = write_nest(stack.path, depth, TEMPORAL, COLUMNS, grid, plan, nest)
            valid, value = score_nest(kernel, nest, count, mode, latency_limit)
            scored += 1
            if not valid or value < limit:
                return stack, top, count, done, scored, COMPLETE
    return stack, top, 0, done, scored, EXHAUSTED
