"""A solution of the program as a point of the map space, and the choices it leaves open made by the cost kernel."""

import itertools

import numpy as np

from codesign.core.jit import njit
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, Kernel
from codesign.mappers.cosa.integer_program import Program
from codesign.mappers.driver import value_of
from codesign.mappers.resident_orders import Chain, chain_order, chain_phase
from codesign.mapping.nest import IntArray, Nest
from codesign.mapping.space import MapSpace, MapState, build_nest, copy_state, outermost_state


def decode(program: Program, values: tuple[float, ...], space: MapSpace) -> MapState | None:
    """The state of a solution, loops ordered by the chain that saves most at every level.

    Args:
        program: Whose solution it is.
        values: Of all its variables.
        space: The map space, axes apart.

    Returns:
        The state; None if its spatial factors fit the children of a level only as one row, not along X and Y.
    """
    state = outermost_state(space)
    n_levels = space.order.shape[0]
    waiting: dict[int, list[int]] = {}
    for p, g in reversed(list(enumerate(program.group_of))):
        waiting.setdefault(g, []).append(p)
    across: dict[int, list[int]] = {v: [] for v in range(n_levels)}
    for i, place in enumerate(program.places):
        for _ in range(round(values[i])):
            p = waiting[place.group].pop()
            if place.axis is None:
                state.slot[p] = place.level
            elif program.settings.by_axis:
                state.slot[p] = n_levels + 2 * place.level + place.axis
            else:
                across[place.level].append(p)
    for v, primes in across.items():
        if not _lay_out(program, space, state, v, primes):
            return None
    order_by_chains(program, space, state, program.chain_of(values))
    return state


def _lay_out(program: Program, space: MapSpace, state: MapState, v: int, primes: list[int]) -> bool:
    """Choose the axis of every spatial prime of a level; False if none fits."""
    if not primes:
        return True
    limits = program.mesh[v]
    first = space.order.shape[0] + 2 * v
    options = [[a for a in (0, 1) if first + a in space.choices[p, : space.n_choices[p]]] for p in primes]
    for axes in itertools.product(*options):
        used = [1, 1]
        for p, a in zip(primes, axes, strict=True):
            used[a] *= int(space.prime[p])
        if used[0] <= limits[0] and used[1] <= limits[1]:
            for p, a in zip(primes, axes, strict=True):
                state.slot[p] = first + a
            return True
    return False


def order_by_chains(program: Program, space: MapSpace, state: MapState, chosen: Chain | None = None) -> None:
    """Order the loops of every level; the program decides only the network level's, the same rule decides the others'.

    The chain with the largest saving is taken (equation 10): dimensions irrelevant to its largest set innermost.
    """
    relevant = program.matrices.relevant
    weights = [program.settings.weights.weight_iterations if w else 1.0 for w in program.is_weight]
    for v in range(space.order.shape[0]):
        bits = np.zeros(len(relevant))
        for p in range(space.prime.shape[0]):
            if state.slot[p] == v:
                bits[space.prime_dim[p]] += np.log2(space.prime[p])

        def saving(chain: Chain, bits: np.ndarray = bits) -> float:
            phases = [chain_phase(chain, row) for row in relevant]
            return sum(
                float(bits[d]) * sum(weights[t] for t in chain[k]) for d, k in enumerate(phases) if k < len(chain)
            )

        chain = chosen if chosen is not None and v == program.network else max(program.chains, key=saving)
        state.order[v] = chain_order(space, v, chain, relevant)


def chain_orders(program: Program, space: MapSpace) -> IntArray:
    """Order rows to try at every level: ``C x L x D``, one per chain."""
    levels = range(space.order.shape[0])
    rows = [[chain_order(space, v, chain, program.matrices.relevant) for v in levels] for chain in program.chains]
    return np.array(rows, np.int64)


@njit
def _active_loops(table: IntArray, v: int) -> int:
    """Dimensions that have a loop at a level."""
    active = 0
    for d in range(table.shape[1]):
        active += table[v, d] > 1
    return active


@njit
def _try_shifts(
    kernel: Kernel,
    space: MapSpace,
    state: MapState,
    trial: MapState,
    nest: Nest,
    table: IntArray,
    v: int,
    objective: int,
    best: float,
    limit: int,
) -> tuple[float, int]:
    """Move single loops of level v to other places; the state becomes the best seen. Returns its value and how many were scored."""
    scored = 0
    for source in range(space.n_free[v]):
        if table[v, state.order[v, source]] == 1:
            continue
        for target in range(space.n_free[v]):
            if target == source or table[v, state.order[v, target]] == 1:
                continue
            if scored >= limit:
                return best, scored
            trial.order[v] = state.order[v]
            _shift(trial.order[v], source, target)
            value = state_value(kernel, space, trial, nest, table, objective)
            scored += 1
            if value < best:
                best = value
                copy_state(trial, state)
    return best, scored


@njit
def _try_bypasses(
    kernel: Kernel,
    space: MapSpace,
    state: MapState,
    trial: MapState,
    nest: Nest,
    table: IntArray,
    objective: int,
    best: float,
    limit: int,
) -> tuple[float, int]:
    """Keep or bypass each tensor that is free to be; the state becomes the best seen. Returns its value and how many were scored."""
    scored = 0
    for i in range(space.free.shape[0]):
        if scored >= limit:
            return best, scored
        v, t = space.free[i, 0], space.free[i, 1]
        trial.keep[v, t] = 1 - state.keep[v, t]
        value = state_value(kernel, space, trial, nest, table, objective)
        scored += 1
        if value < best:
            best = value
            copy_state(trial, state)
        trial.keep[v, t] = state.keep[v, t]
    return best, scored


@njit
def choose_orders(
    kernel: Kernel,
    space: MapSpace,
    state: MapState,
    trial: MapState,
    nest: Nest,
    table: IntArray,
    orders: IntArray,
    objective: int,
    limit: int,
) -> tuple[float, int]:
    """Improve the loop orders and free bypasses of a state under the cost kernel, its tiling untouched.

    Descent: per level the orders of all chains, then single loops moved to other places, until nothing improves.

    Args:
        kernel: The packed problem.
        space: The map space.
        state: Overwritten by the best state found.
        trial: Scratch.
        nest: Scratch.
        table: Scratch of `factor_table`.
        orders: ``C x L x D`` from `chain_orders`.
        objective: See `value_of`.
        limit: Mappings to score at most.

    Returns:
        The best value (infinite if no valid mapping) and the number of mappings scored.
    """
    copy_state(state, trial)
    best = state_value(kernel, space, trial, nest, table, objective)
    scored = 1
    improved = True
    n_levels = space.order.shape[0]
    while improved:
        improved = False
        for v in range(n_levels):
            if _active_loops(table, v) < 2:
                continue
            for c in range(orders.shape[0]):
                if scored >= limit:
                    return best, scored
                trial.order[v] = orders[c, v]
                value = state_value(kernel, space, trial, nest, table, objective)
                scored += 1
                if value < best:
                    best, improved = value, True
                    copy_state(trial, state)
            trial.order[v] = state.order[v]
            value, more = _try_shifts(kernel, space, state, trial, nest, table, v, objective, best, limit - scored)
            scored += more
            if value < best:
                best, improved = value, True
            trial.order[v] = state.order[v]
        value, more = _try_bypasses(kernel, space, state, trial, nest, table, objective, best, limit - scored)
        scored += more
        if value < best:
            best, improved = value, True
        improved = improved and scored < limit
    return best, scored


@njit
def state_value(kernel: Kernel, space: MapSpace, state: MapState, nest: Nest, table: IntArray, objective: int) -> float:
    """The objective of a state; infinite if it is not valid."""
    count = build_nest(space, state, table, nest)
    status, energy, cycles = score(kernel, nest, count)
    return value_of(objective, energy, cycles) if status == VALID else np.inf


@njit
def _shift(row: IntArray, source: int, target: int) -> None:
    """Move one entry of a row, the ones between making room."""
    entry = row[source]
    step = 1 if target > source else -1
    i = source
    while i != target:
        row[i] = row[i + step]
        i += step
    row[target] = entry
