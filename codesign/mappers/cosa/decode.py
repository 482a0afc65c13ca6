"""A solution of the program as a point of the map space, and the choices it leaves open made by the cost kernel."""

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.cosa.integer_program import Program
from codesign.mappers.driver import Scorer, value_of_state
from codesign.mappers.moves import shift
from codesign.mappers.resident_orders import Chain, active_loops, chain_order, chain_phase
from codesign.mapping.axes import fit_axes
from codesign.mapping.nest import IntArray
from codesign.mapping.space import MapSpace, MapState, copy_state, outermost_state
from codesign.workloads.computation import Role


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
    first = space.order.shape[0] + 2 * v
    allowed = [[a for a in (0, 1) if first + a in space.choices[p, : space.n_choices[p]]] for p in primes]
    factors = [(int(space.prime[p]), axes) for p, axes in zip(primes, allowed, strict=True)]
    fanout = program.problem.architecture.levels[v].fanout
    chosen = fit_axes((fanout.x, fanout.y), factors)
    if chosen is not None:
        state.slot[primes] = first + np.array(chosen, np.int64)
    return chosen is not None


def order_by_chains(program: Program, space: MapSpace, state: MapState, chosen: Chain | None = None) -> None:
    """Order the loops of every level; the program decides only the network level's, the same rule decides the others'.

    The chain with the largest saving is taken (equation 10): dimensions irrelevant to its largest set innermost.
    """
    relevant = program.matrices.relevant
    heavy, tensors = program.settings.weights.weight_iterations, program.problem.computation.tensors
    weights = [heavy if t.role is Role.WEIGHT else 1.0 for t in tensors]
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


@njit
def _try_shifts(scorer: Scorer, state: MapState, trial: MapState, v: int, best: float, limit: int) -> tuple[float, int]:
    """Move single loops of level v to other places; the state becomes the best seen. Returns its value and how many were scored."""
    scored, space, table = 0, scorer.space, scorer.table
    for source in range(space.n_free[v]):
        if table[v, state.order[v, source]] == 1:
            continue
        for target in range(space.n_free[v]):
            if target == source or table[v, state.order[v, target]] == 1:
                continue
            if scored >= limit:
                return best, scored
            trial.order[v] = state.order[v]
            shift(trial.order[v], source, target)
            value = value_of_state(scorer, trial)
            scored += 1
            if value < best:
                best = value
                copy_state(trial, state)
    return best, scored


@njit
def _try_bypasses(scorer: Scorer, state: MapState, trial: MapState, best: float, limit: int) -> tuple[float, int]:
    """Keep or bypass each tensor that is free to be; the state becomes the best seen. Returns its value and how many were scored."""
    scored, space = 0, scorer.space
    for i in range(space.free.shape[0]):
        if scored >= limit:
            return best, scored
        v, t = space.free[i, 0], space.free[i, 1]
        trial.keep[v, t] = 1 - state.keep[v, t]
        value = value_of_state(scorer, trial)
        scored += 1
        if value < best:
            best = value
            copy_state(trial, state)
        trial.keep[v, t] = state.keep[v, t]
    return best, scored


@njit
def choose_orders(scorer: Scorer, state: MapState, trial: MapState, orders: IntArray, limit: int) -> tuple[float, int]:
    """Improve the loop orders and free bypasses of a state under the cost kernel, its tiling untouched.

    Descent: per level the orders of all chains, then single loops moved to other places, until nothing improves.

    Args:
        state: Overwritten by the best state found.
        orders: ``C x L x D`` of the chains.
        limit: Mappings to score at most.

    Returns:
        The best value (infinite if no valid mapping) and the number of mappings scored.
    """
    copy_state(state, trial)
    best = value_of_state(scorer, trial)
    scored = 1
    improved = True
    n_levels = scorer.space.order.shape[0]
    while improved:
        improved = False
        for v in range(n_levels):
            if active_loops(scorer.table, v) < 2:
                continue
            for c in range(orders.shape[0]):
                if scored >= limit:
                    return best, scored
                trial.order[v] = orders[c, v]
                value = value_of_state(scorer, trial)
                scored += 1
                if value < best:
                    best, improved = value, True
                    copy_state(trial, state)
            trial.order[v] = state.order[v]
            value, more = _try_shifts(scorer, state, trial, v, best, limit - scored)
            scored += more
            if value < best:
                best, improved = value, True
            trial.order[v] = state.order[v]
        value, more = _try_bypasses(scorer, state, trial, best, limit - scored)
        scored += more
        if value < best:
            best, improved = value, True
        improved = improved and scored < limit
    return best, scored
