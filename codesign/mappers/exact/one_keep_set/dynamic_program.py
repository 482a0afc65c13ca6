"""The compiled dynamic program: cheapest completion from every tile and state, outermost level first.

One pass per spatial profile. `table[s, x]` is the least cost still to be paid when the loops inside have
made tile x and left state s (see `codesign.mappers.exact.problem.boundary_states`). Every operation is a minimum over whole
arrays: cross a fan-out (a shift), end a level (a mask for its capacity), loop over dimensions that no open
boundary minds (suffix minima along the prime axes), close a tensor (add its charge).
"""

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.exact.one_keep_set.loop_step import (
    after_loop,
    edge_cost,
    gather,
    may_loop,
    most_after,
    slides_here,
)
from codesign.mappers.exact.problem.grid_steps import (
    after_vectors,
    minima_along,
    next_vectors,
    offer_window_loop,
    offer_window_loops,
    suffix_minima,
)
from codesign.mappers.exact.problem.tables import INF, Chains, Charges, Grid, Machine
from codesign.mapping.nest import FloatArray, IntArray


@njit
def _shift(source: FloatArray, target: FloatArray, grow: IntArray, n: int, inner: int, merge: bool) -> None:
    """target[x] = source[x grown along one dimension], infinite outside; with `merge` the minimum with target."""
    block = n * inner
    for start in range(0, source.shape[0], block):
        for i in range(n):
            here = start + i * inner
            if grow[i] < 0:
                if not merge:
                    target[here : here + inner] = INF
                continue
            there = start + grow[i] * inner
            if merge:
                for x in range(inner):
                    target[here + x] = min(target[here + x], source[there + x])
            else:
                for x in range(inner):
                    target[here + x] = source[there + x]


@njit
def _sweep_free(array: FloatArray, grid: Grid, allowed: IntArray, relevant: IntArray, open_mask: int) -> None:
    """Suffix minima along every dimension that may be looped over and that no open tensor minds."""
    for a in range(grid.axis_dim.shape[0]):
        d = grid.axis_dim[a]
        if allowed[d] == 1 and relevant[d] & open_mask == 0:
            suffix_minima(array, grid.axis_size[a], grid.axis_stride[a])


@njit
def _cross(
    source: FloatArray,
    target: FloatArray,
    m: int,
    grid: Grid,
    group: IntArray,
    vector: IntArray,
    factors: IntArray,
    scratch: FloatArray,
) -> None:
    """target[x] = least source[x * s] over the spatial vectors s of fan-out m."""
    n_dims = factors.shape[1]
    current = source
    for g in range(group[m], group[m + 1]):
        last = g == group[m + 1] - 1
        into = target if last else scratch[(g - group[m]) % 2]
        into[:] = INF
        for v in range(vector[g], vector[g + 1]):
            left = 0
            for d in range(n_dims):
                left += factors[v, d] > 0
            moving = current
            turn = 2
            for d in range(n_dims):
                j = factors[v, d]
                if j == 0:
                    continue
                left -= 1
                if left == 0:
                    _shift(moving, into, grid.grow[d, j], grid.n_divisors[d], grid.stride[d], True)
                else:
                    _shift(moving, scratch[turn], grid.grow[d, j], grid.n_divisors[d], grid.stride[d], False)
                    moving = scratch[turn]
                    turn = 5 - turn
        current = into
    if group[m] == group[m + 1]:
        for x in range(target.shape[0]):
            target[x] = source[x]


@njit
def _add_charge(
    target: FloatArray, base: FloatArray, scale: float, price: float, least: float, most: float, bounded: bool
) -> None:
    """Add the price of a boundary's words, infinite where they are not allowed."""
    weight = scale * price
    if not bounded:
        for x in range(target.shape[0]):
            target[x] += weight * base[x]
        return
    for x in range(target.shape[0]):
        words = scale * base[x]
        if words < least or words > most:
            target[x] = INF
        else:
            target[x] += weight * base[x]


@njit
def _close(s: int, t: int, table: FloatArray, machine: Machine, charges: Charges, scratch: FloatArray) -> None:
    """Offer state s the completion that closes tensor t here."""
    level = machine.level[s]
    source = table[machine.close[s, t]]
    target = table[s]
    count = machine.counts[s, t]
    if count == 1:
        b = machine.boundary[level, t, 0]
        base = charges.base[charges.base_of[level, b]]
        scale = charges.scale[level, b]
        weight = scale * charges.price[b]
        if charges.least[b] <= 0.0 and charges.most[b] == INF:
            for x in range(target.shape[0]):
                target[x] = min(target[x], source[x] + weight * base[x])
            return
    for x in range(target.shape[0]):
        scratch[x] = source[x]
    for i in range(count):
        b = machine.boundary[level, t, i]
        _add_charge(
            scratch,
            charges.base[charges.base_of[level, b]],
            charges.scale[level, b],
            charges.price[b],
            charges.least[b],
            charges.most[b],
            charges.least[b] > 0.0 or charges.most[b] < INF,
        )
    for x in range(target.shape[0]):
        target[x] = min(target[x], scratch[x])


@njit
def _offer_chains(
    s: int, d: int, t: int, kind: int, following: int, table: FloatArray, grid: Grid, machine: Machine,
    charges: Charges, chains: Chains, parts: IntArray, figures: FloatArray,
) -> None:  # fmt: skip
    """Offer state s the loops over d after which the chain of tensor t may go on."""
    chain, row = charges.chain_of[machine.level[s], t, d], chains.row_of[t, d]
    n = gather(s, d, machine, charges, chains, parts, figures)
    target, source = table[s], table[following]
    base, saving, axis_index, special = charges.base, chains.table, chains.axis_index, chains.special
    tiles, first, grow = chains.tiles, chains.first, grid.grow
    stride, n_divisors = grid.stride[d], grid.n_divisors[d]
    for p in range(chains.n_special[chain]):
        j, sub = special[chain, p, 0], special[chain, p, 1]
        if saving[chain, kind, j, sub] <= 0.0 or not may_loop(s, d, j, machine):
            continue
        keep_share = 1.0 - 1.0 / grid.divisor[d, j]
        for k in range(first[row, sub], first[row, sub + 1]):
            x = tiles[row, k]
            i = x // stride % n_divisors
            if grow[d, j, i] < 0:
                continue
            later = source[x + (grow[d, j, i] - i) * stride]
            if later < target[x]:
                cost = edge_cost(x, j, keep_share, n, parts, figures, base, saving, axis_index)
                target[x] = min(target[x], later + cost)


@njit
def _chain_edges(
    s: int, kind: int, table: FloatArray, grid: Grid, machine: Machine, charges: Charges, chains: Chains
) -> None:
    """Offer a state the loops along sliding axes after which a chain may go on; kind 1: of untouched boundaries."""
    level = machine.level[s]
    parts, figures = np.empty((charges.price.shape[0], 4), np.int64), np.empty((charges.price.shape[0], 4))
    for t in range(machine.counts.shape[1]):
        if machine.open[s] >> t & 1 == 0:
            continue
        for d in range(grid.n_divisors.shape[0]):
            if charges.chain_of[level, t, d] < 0 or (machine.stage_dim[s] >= 0 and machine.stage_dim[s] != d):
                continue
            following = after_loop(s, d, machine)
            if following >= 0:
                _offer_chains(
                    s, d, t, kind, following, table, grid, machine, charges, chains, parts,
                    figures,
                )  # fmt: skip


@njit
def _loose_chains(s: int, table: FloatArray, machine: Machine, charges: Charges, chains: Chains) -> None:
    """Offer an in-level state to close a tensor at the least its chains could make of it, whatever loop comes next."""
    level = machine.level[s]
    target = table[s]
    parts, figures = np.empty((charges.price.shape[0], 4), np.int64), np.empty((charges.price.shape[0], 4))
    for t in range(machine.counts.shape[1]):
        if machine.open[s] >> t & 1 == 0:
            continue
        source = table[machine.close[s, t]]
        n = 0
        for i in range(machine.counts[s, t]):
            b = machine.boundary[level, t, i]
            parts[n, 0], parts[n, 1], parts[n, 2] = charges.base_of[level, b], -1, -1
            figures[n, 0], figures[n, 1] = charges.scale[level, b], charges.price[b]
            figures[n, 2], figures[n, 3] = charges.least[b], charges.most[b]
            n += 1
        for row in range(chains.tiles.shape[0]):
            best = most_after(level, t, row, charges, chains)
            for sub in range(best.shape[0]):
                if best[sub] > 0.0:
                    share = 1.0 - best[sub]
                    _close_tiles(
                        target,
                        source,
                        chains.tiles[row, chains.first[row, sub] : chains.first[row, sub + 1]],
                        share,
                        n,
                        parts,
                        figures,
                        charges.base,
                    )


@njit
def _close_tiles(
    target: FloatArray,
    source: FloatArray,
    tiles: IntArray,
    share: float,
    n: int,
    parts: IntArray,
    figures: FloatArray,
    base: FloatArray,
) -> None:
    """Offer to close the listed boundaries for a share of their words at some tiles."""
    for k in range(tiles.shape[0]):
        x = tiles[k]
        total = source[x]
        for i in range(n):
            words = base[parts[i, 0], x] * figures[i, 0] * share
            if words < figures[i, 2] or words > figures[i, 3]:
                total = INF
            total += words * figures[i, 1]
        target[x] = min(target[x], total)


@njit
def _virgin_state(
    v: int, table: FloatArray, grid: Grid, machine: Machine, charges: Charges, chains: Chains, scratch: FloatArray
) -> None:
    """Fill an untouched state: as if touched, or through the level without a loop, or a sliding loop first."""
    target = table[v]
    body = table[machine.body[v]]
    level = machine.level[v]
    for x in range(target.shape[0]):
        target[x] = body[x]
    if machine.stage_dim[v] >= 0:
        if machine.ordered_fixed[level, machine.stage_dim[v]] <= 0:
            other = table[machine.advance[v]]
            for x in range(target.shape[0]):
                target[x] = min(target[x], other[x])
    elif machine.waiting[v] == 0 and level > 0:
        _cross(
            table[machine.outer[v]],
            scratch[4],
            level - 1,
            grid,
            charges.group,
            charges.vector,
            charges.factors,
            scratch,
        )
        for x in range(target.shape[0]):
            target[x] = min(target[x], scratch[4, x] + charges.penalty[level, x])
    bounded = is_bounded(charges)
    for d in range(grid.n_divisors.shape[0]):
        if not slides_here(v, d, machine, charges):
            continue
        if bounded:
            _slide_bounded(v, d, table, grid, machine, charges, chains)
        else:
            _slide(v, d, table, grid, machine, charges, scratch)
    if not bounded:
        _chain_edges(v, 1, table, grid, machine, charges, chains)


@njit
def is_bounded(charges: Charges) -> bool:
    """Whether some boundary may carry only so many words."""
    return bool(charges.least.max() > 0.0 or charges.most.min() < INF) if charges.most.shape[0] > 0 else False


@njit
def _slide_bounded(
    v: int, d: int, table: FloatArray, grid: Grid, machine: Machine, charges: Charges, chains: Chains
) -> None:
    """Offer an untouched state every first loop over d, tile by tile."""
    target = table[v]
    parts, figures = np.empty((charges.price.shape[0], 4), np.int64), np.empty((charges.price.shape[0], 4))
    count = gather(v, d, machine, charges, chains, parts, figures)
    base, saving, axis_index = charges.base, chains.table, chains.axis_index
    following = -1
    inner, n = grid.stride[d], grid.n_divisors[d]
    for j in range(1, n):
        if not may_loop(v, d, j, machine):
            continue
        if following < 0:
            following = after_loop(v, d, machine)
        keep_share = 1.0 - 1.0 / grid.divisor[d, j]
        for start in range(0, target.shape[0], n * inner):
            for i in range(n):
                if grid.grow[d, j, i] < 0:
                    continue
                move = (grid.grow[d, j, i] - i) * inner
                for x in range(start + i * inner, start + (i + 1) * inner):
                    later = table[following, x + move]
                    if later < target[x]:
                        cost = edge_cost(x, j, keep_share, count, parts, figures, base, saving, axis_index)
                        target[x] = min(target[x], later + cost)


@njit
def _slide(
    v: int, d: int, table: FloatArray, grid: Grid, machine: Machine, charges: Charges, scratch: FloatArray
) -> None:
    """`_slide_bounded` with whole-array operations; what chains save is offered by `_chain_edges`."""
    target, whole, shared = table[v], scratch[0], scratch[1]
    level = machine.level[v]
    whole[:] = 0.0
    shared[:] = 0.0
    steady = True
    for t in range(machine.counts.shape[1]):
        if machine.relevant[d] >> t & 1 == 0:
            continue
        for i in range(machine.counts[v, t]):
            b = machine.boundary[level, t, i]
            weight = charges.scale[level, b] * charges.price[b]
            base = charges.base[charges.base_of[level, b]]
            for x in range(target.shape[0]):
                whole[x] += weight * base[x]
            if i < machine.virgin[v, t] and charges.slide_of[level, b, d] >= 0:
                steady = steady and charges.steady[level, b, d] == 1
                overlap = charges.base[charges.slide_of[level, b, d]]
                for x in range(target.shape[0]):
                    shared[x] += weight * overlap[x]
    ready = machine.loose[level, d] == 1
    if machine.stage_dim[v] >= 0:  # as in `may_loop`: the dimensions in order come first
        ready = machine.stage_dim[v] == d
    if steady and ready and machine.free[level, d] == 1:
        offer_window_loops(target, table[after_loop(v, d, machine)], whole, shared, scratch[2], d, grid)
        return
    for j in range(1, grid.n_divisors[d]):
        if may_loop(v, d, j, machine):
            offer_window_loop(target, table[after_loop(v, d, machine)], whole, shared, d, j, grid)


@njit
def _ordered_state(s: int, table: FloatArray, grid: Grid, machine: Machine) -> None:
    """An in-level state whose next loop, if any, is over the stage's dimension."""
    target, source = table[s], table[machine.advance[s]]
    d = machine.stage_dim[s]
    level = machine.level[s]
    untouched = machine.relevant[d] & machine.open[s] == 0
    fixed = machine.ordered_fixed[level, d]
    if fixed > 0:
        target[:] = INF
        if untouched:
            _shift(source, target, grid.grow[d, fixed], grid.n_divisors[d], grid.stride[d], True)
        return
    for x in range(target.shape[0]):
        target[x] = source[x]
    if untouched and machine.free[level, d] == 1:
        minima_along(target, d, grid)


@njit
def _free_state_seed(
    s: int, table: FloatArray, grid: Grid, machine: Machine, charges: Charges, scratch: FloatArray
) -> None:
    """An in-level state of free order before closings: what it costs to end the level here."""
    target = table[s]
    level = machine.level[s]
    target[:] = INF
    if machine.waiting[s] != 0:
        return
    if level == 0:
        if machine.open[s] == 0:
            target[target.shape[0] - 1] = charges.penalty[0, target.shape[0] - 1]
        return
    _cross(table[machine.outer[s]], target, level - 1, grid, charges.group, charges.vector, charges.factors, scratch)
    for x in range(target.shape[0]):
        target[x] += charges.penalty[level, x]


@njit
def run_profile(
    table: FloatArray,
    grid: Grid,
    machine: Machine,
    charges: Charges,
    chains: Chains,
    scratch: FloatArray,
    tight: bool,
) -> None:
    """Fill `table` for one profile.

    Args:
        table: ``(S + V) x N``, overwritten.
        grid: The lattice.
        machine: The states.
        charges: The profile.
        chains: Its chain tables.
        scratch: ``5 x N``.
        tight: Whether what chains save after other loops is tied to the loop that starts them; else it is a bound.
    """
    n_levels, n_tensors = machine.free.shape[0], machine.counts.shape[1]
    n_inner = machine.first[n_levels]
    for level in range(n_levels):
        for s in range(machine.first[level], machine.first[level + 1]):
            in_order = machine.stage_dim[s] >= 0
            if in_order:
                _ordered_state(s, table, grid, machine)
            else:
                _free_state_seed(s, table, grid, machine, charges, scratch)
            for t in range(n_tensors):
                if machine.open[s] >> t & 1 == 1:
                    _close(s, t, table, machine, charges, scratch[4])
            if tight:
                _chain_edges(s, 0, table, grid, machine, charges, chains)
            else:
                _loose_chains(s, table, machine, charges, chains)
            if in_order:
                continue
            for f in range(machine.fixed_dim.shape[1]):
                after = machine.place[s, f]
                if after >= 0:
                    d = machine.fixed_dim[level, f]
                    if machine.relevant[d] & machine.open[s] == 0:
                        j = machine.fixed_place[level, f]
                        _shift(table[after], table[s], grid.grow[d, j], grid.n_divisors[d], grid.stride[d], True)
            _sweep_free(table[s], grid, machine.loose[level], machine.relevant, machine.open[s])
        for v in range(n_inner + machine.first_virgin[level], n_inner + machine.first_virgin[level + 1]):
            _virgin_state(v, table, grid, machine, charges, chains, scratch)


@njit
def cross_point(
    row: FloatArray, x: int, m: int, grid: Grid, group: IntArray, vector: IntArray, factors: IntArray
) -> float:
    """Least entry of a row at tile x grown by any spatial vectors of fan-out m."""
    first = group[m]
    digit = vector[first : group[m + 1]].copy()
    best, more = INF, True
    while more:
        y = after_vectors(x, digit, factors, grid)
        if y >= 0:
            best = min(best, row[y])
        more = next_vectors(vector, first, digit)
    return best
