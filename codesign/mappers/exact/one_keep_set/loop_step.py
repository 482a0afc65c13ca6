"""One loop of the dynamic program: whether it may be placed, what it closes and costs, and the state after it; compiled."""

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.exact.problem.tables import INF, Chains, Charges, Grid, Machine
from codesign.mapping.nest import FloatArray, IntArray


@njit
def gather(
    v: int, d: int, machine: Machine, charges: Charges, chains: Chains, parts: IntArray, figures: FloatArray
) -> int:
    """List the boundaries a loop over d closes in state v; returns how many.

    Writes per boundary ``parts``: base array, overlap array (-1 none), chain table (-1 none), row of the axis; and
    ``figures``: scale, price, fewest and most words.
    """
    level, n = machine.level[v], 0
    for t in range(machine.counts.shape[1]):
        if machine.relevant[d] >> t & 1 == 0:
            continue
        for i in range(machine.counts[v, t]):
            b = machine.boundary[level, t, i]
            parts[n, 0] = charges.base_of[level, b]
            parts[n, 1] = charges.slide_of[level, b, d] if i < machine.virgin[v, t] else -1
            parts[n, 2] = charges.chain_of[level, t, d]
            parts[n, 3] = chains.row_of[t, d]
            figures[n, 0], figures[n, 1] = charges.scale[level, b], charges.price[b]
            figures[n, 2], figures[n, 3] = charges.least[b], charges.most[b]
            n += 1
    return n


@njit
def edge_cost(
    x: int,
    j: int,
    keep_share: float,
    n: int,
    parts: IntArray,
    figures: FloatArray,
    base: FloatArray,
    table: FloatArray,
    axis_index: IntArray,
) -> float:
    """Least charge of the gathered boundaries when they close at tile x by a loop whose factor is at position j."""
    total = 0.0
    for i in range(n):
        words = base[parts[i, 0], x]
        chain = parts[i, 2]
        if parts[i, 1] >= 0:
            more = table[chain, 1, j, axis_index[parts[i, 3], x]] if chain >= 0 else 0.0
            words -= base[parts[i, 1], x] * (keep_share + more)
        elif chain >= 0:
            words *= 1.0 - table[chain, 0, j, axis_index[parts[i, 3], x]]
        words *= figures[i, 0]
        if words < figures[i, 2] or words > figures[i, 3]:
            return INF
        total += words * figures[i, 1]
    return total


@njit
def slide_cost(v: int, d: int, j: int, x: int, grid: Grid, machine: Machine, charges: Charges, chains: Chains) -> float:
    """Least charge of placing a loop next: what it closes, windows sliding, chains going on as well as they can.

    Args:
        v: The state, untouched or in-level.
        d: Dimension of the loop.
        j: Position of its factor.
        x: The tile before the loop.
        grid: The lattice.
        machine: State tables.
        charges: The profile's charges.
        chains: Chain tables.
    """
    parts, figures = np.empty((charges.price.shape[0], 4), np.int64), np.empty((charges.price.shape[0], 4))
    n = gather(v, d, machine, charges, chains, parts, figures)
    keep_share = 1.0 - 1.0 / grid.divisor[d, j]
    return edge_cost(x, j, keep_share, n, parts, figures, charges.base, chains.table, chains.axis_index)


@njit
def after_loop(v: int, d: int, machine: Machine) -> int:
    """In-level state after a loop over d is placed in (untouched or in-level) state v: its tensors are closed."""
    s = machine.body[v]
    for t in range(machine.counts.shape[1]):
        if machine.relevant[d] >> t & 1 == 1 and machine.open[s] >> t & 1 == 1:
            s = machine.close[s, t]
    if machine.stage_dim[s] >= 0:
        return machine.advance[s]  # type: ignore[no-any-return]
    level = machine.level[s]
    for f in range(machine.fixed_dim.shape[1]):
        if machine.fixed_dim[level, f] == d:
            return machine.place[s, f]  # type: ignore[no-any-return]
    return s  # type: ignore[no-any-return]


@njit
def may_loop(v: int, d: int, j: int, machine: Machine) -> bool:
    """Whether state v may place a loop over d with the factor at position j > 0 next."""
    level = machine.level[v]
    if machine.stage_dim[v] >= 0:
        if machine.stage_dim[v] != d:
            return False
        fixed = machine.ordered_fixed[level, d]
        return bool(machine.free[level, d] == 1 if fixed < 0 else fixed == j)
    for f in range(machine.fixed_dim.shape[1]):
        if machine.fixed_dim[level, f] == d:
            return bool(machine.fixed_place[level, f] == j and machine.waiting[v] >> f & 1 == 1)
    return bool(machine.loose[level, d] == 1)


@njit
def slides_here(v: int, d: int, machine: Machine, charges: Charges) -> bool:
    """Whether some untouched boundary of state v has an overlap along d."""
    level = machine.level[v]
    for t in range(machine.counts.shape[1]):
        if machine.relevant[d] >> t & 1 == 1:
            for i in range(machine.virgin[v, t]):
                if charges.slide_of[level, machine.boundary[level, t, i], d] >= 0:
                    return True
    return False


@njit
def most_after(level: int, t: int, row: int, charges: Charges, chains: Chains) -> FloatArray:
    """``S`` the most that any loop along an axis may still save at each tile of the axis, after other loops."""
    best = np.zeros(chains.first.shape[1] - 1)
    for d in range(chains.row_of.shape[1]):
        chain = charges.chain_of[level, t, d]
        if chains.row_of[t, d] == row and chain >= 0:
            for p in range(chains.n_special[chain]):
                sub = chains.special[chain, p, 1]
                best[sub] = max(best[sub], chains.table[chain, 0, chains.special[chain, p, 0], sub])
    return best
