"""The even mappings of a problem as a small combinatorial space: where each prime factor goes, and in what order.

A mapping is (1) a slot for every prime factor of every bound, a slot being the temporal loops of a level
or one axis of its fan-out, (2) an order of the dimensions at every level, (3) a yes or no for every
(level, tensor) whose bypass is free. Every such state is a perfect factorisation by construction.

With imperfect factors (1) is a factor for every loop (`codesign.mapping.imperfect_factors`).
"""

from typing import NamedTuple

import numpy as np

from codesign.core.errors import UserError
from codesign.core.factors import prime_factors
from codesign.core.jit import njit, njit_apart, njit_inline
from codesign.core.rng import RandomState, below, uniform
from codesign.mapping.axes import allowed_axes, fit_axes
from codesign.mapping.constraints import Keep, LevelConstraints, MappingProblem
from codesign.mapping.imperfect_factors import FactorSpace, cut_factors, draw_factor, make_factors, no_factors
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, LEVEL, SPATIAL_X, TEMPORAL, FloatArray, IntArray, Nest

IMPOSSIBLE = 1 << 40
"""Factor of the spatial loop that stands for a state which breaks a constraint."""


class MapSpace(NamedTuple):
    """What may vary. Slot ``v`` is the temporal loops of level v, slot ``L + 2 v`` (``+ 1``) its fan-out along x (y).

    Attributes:
        prime: ``P`` the prime factors of all bounds.
        prime_dim: ``P`` the dimension each belongs to.
        choices: ``P x S`` allowed slots, the first ``n_choices`` entries of each row.
        n_choices: ``P``.
        movable: primes with more than one choice.
        order: ``L x D`` dimensions, outermost first; the first ``n_free`` of a row may be permuted.
        n_free: ``L``.
        keep: ``L x T`` 1 where a tensor is (or, if free, may be) kept.
        free: ``F x 2`` pairs (level, tensor) whose bypass is free.
        least_units: MAC units that must have work.
        imperfect: 1 where factors may multiply to more than a bound: there are no primes then.
        factors: What these may be.
    """

    prime: IntArray
    prime_dim: IntArray
    choices: IntArray
    n_choices: IntArray
    movable: IntArray
    order: IntArray
    n_free: IntArray
    keep: IntArray
    free: IntArray
    least_units: int
    imperfect: int
    factors: FactorSpace


class MapState(NamedTuple):
    """One point of a `MapSpace`: ``slot`` per prime, or the factor per open loop, ``order`` per level, ``keep`` per (level, tensor)."""

    slot: IntArray
    order: IntArray
    keep: IntArray


def make_space(problem: MappingProblem) -> MapSpace:
    """The map space of a problem.

    Raises:
        UserError: The constraints contradict each other or the bounds (a factor that does not divide).
    """
    problem.need_exact_factors()
    computation = problem.computation
    keep, free = kept_and_free(problem)
    primes, prime_dims, choices = [], [], []
    for d, dim in enumerate(computation.dims if not problem.imperfect else ()):
        for prime, slots in _place_dimension(problem, dim, keep):
            primes.append(prime)
            prime_dims.append(d)
            choices.append(slots)
    choices = _lead_with_fitting_axes(problem, choices, primes)
    width = max((len(c) for c in choices), default=1)
    order, n_free = loop_orders(problem)
    return MapSpace(
        prime=np.array(primes, np.int64),
        prime_dim=np.array(prime_dims, np.int64),
        choices=np.array([c + [0] * (width - len(c)) for c in choices], np.int64).reshape(len(primes), width),
        n_choices=np.array([len(c) for c in choices], np.int64),
        movable=np.array([i for i, c in enumerate(choices) if len(c) > 1], np.int64),
        order=order,
        n_free=n_free,
        keep=keep,
        free=free,
        least_units=problem.least_units,
        imperfect=int(problem.imperfect),
        factors=make_factors(problem, keep) if problem.imperfect else no_factors(),
    )


def kept_and_free(problem: MappingProblem) -> tuple[IntArray, IntArray]:
    """``L x T`` 1 where a tensor is or may be kept; ``F x 2`` pairs (level, tensor) whose bypass is free."""
    computation, architecture = problem.computation, problem.architecture
    keep = np.zeros((len(architecture.levels), len(computation.tensors)), np.int64)
    free = []
    for v, level in enumerate(architecture.levels):
        for t, tensor in enumerate(computation.tensors):
            decision = problem.constraints.decision(architecture, level.name, tensor)
            keep[v, t] = decision is not Keep.NO
            if decision is Keep.FREE:
                free.append((v, t))
    return keep, np.array(free, np.int64).reshape(-1, 2)


def loop_orders(problem: MappingProblem) -> tuple[IntArray, IntArray]:
    """``L x D`` dimensions of every level, outermost first, and how many of each row, the first, may be permuted."""
    computation, levels = problem.computation, problem.architecture.levels
    n_dims = len(computation.dims)
    order = np.zeros((len(levels), n_dims), np.int64)
    n_free = np.full(len(levels), n_dims, np.int64)
    for v, level in enumerate(levels):
        item = problem.constraints.by_level.get(level.name)
        fixed = [computation.dims.index(d) for d in item.order] if item else []
        order[v] = [d for d in range(n_dims) if d not in fixed] + fixed[::-1]
        n_free[v] = n_dims - len(fixed)
    return order, n_free


def _place_dimension(problem: MappingProblem, dim: str, keep: IntArray) -> list[tuple[int, list[int]]]:
    """(prime, allowed slots) of every prime factor of one dimension; exact factors take their primes first."""
    levels = problem.architecture.levels
    constraints = problem.constraints
    remaining = prime_factors(problem.computation.sizes[dim])
    placed: list[tuple[int, list[int]]] = []
    open_slots = []
    for v, level in enumerate(levels):
        item = constraints.by_level.get(level.name, LevelConstraints(level.name))
        temporal = dict(item.temporal).get(dim)
        spatial = dict(item.spatial).get(dim)
        axes = allowed_axes(constraints, level.name, dim, level.fanout.x, level.fanout.y)
        for factor, slots in ((temporal, [v]), (spatial, [len(levels) + 2 * v + a for a in axes])):
            if factor is None:
                continue
            for prime in prime_factors(factor):
                if prime not in remaining or not slots:
                    raise UserError(
                        f"factor {factor} of dimension {dim!r} does not divide what is left of its bound "
                        f"{problem.computation.sizes[dim]} or has no fan-out",
                        where=f"constraints of level {level.name!r}",
                    )
                remaining.remove(prime)
                placed.append((prime, slots))
        if temporal is None and (v == 0 or keep[v].any()):
            open_slots.append(v)
        if spatial is None:
            open_slots.extend(len(levels) + 2 * v + a for a in axes)
    if remaining and not open_slots:
        raise UserError(
            f"the factors fixed for dimension {dim!r} do not multiply to its bound {problem.computation.sizes[dim]}",
            where="constraints",
        )
    limits = {len(levels) + 2 * v + a: n for v, x in enumerate(levels) for a, n in ((0, x.fanout.x), (1, x.fanout.y))}
    for prime in remaining:
        fitting = [s for s in open_slots if s < len(levels) or prime <= limits[s]]
        placed.append((prime, fitting or open_slots))
    return placed


def _lead_with_fitting_axes(problem: MappingProblem, placed: list[list[int]], primes: list[int]) -> list[list[int]]:
    """The slots of every prime, the first of each fixed spatial factor such that all of a level fit its fan-out together."""
    levels = problem.architecture.levels
    placed = list(placed)
    for v, level in enumerate(levels):
        pair = {len(levels) + 2 * v, len(levels) + 2 * v + 1}
        fixed = [i for i, slots in enumerate(placed) if set(slots) <= pair]
        factors = [(primes[i], [s - len(levels) - 2 * v for s in placed[i]]) for i in fixed]
        axes = fit_axes((level.fanout.x, level.fanout.y), factors)
        for i, axis in zip(fixed, axes or (), strict=False):
            first = len(levels) + 2 * v + axis
            placed[i] = [first, *(s for s in placed[i] if s != first)]
    return placed


def outermost_state(space: MapSpace) -> MapState:
    """The state with every prime as far out as it may go and nothing kept that need not be.

    Every tile is as small as it can be: if this state does not fit, none does.
    """
    keep = space.keep.copy()
    keep[space.free[:, 0], space.free[:, 1]] = 0
    slot = space.factors.least if space.imperfect else space.choices[:, 0]
    return MapState(slot.copy(), space.order.copy(), keep)


def empty_nest(space: MapSpace) -> Nest:
    """Room for any nest of the space."""
    most = 3 * space.order.size if space.imperfect else space.prime.shape[0]
    loops = np.zeros((max(1, most), 4), np.int64)
    return Nest(loops, np.full(space.keep.shape, BYPASSED, np.int64))


def factor_table(space: MapSpace) -> IntArray:
    """Room for `build_nest`: ``S x D`` factors by slot and dimension."""
    return np.ones((3 * space.order.shape[0], space.order.shape[1]), np.int64)


@njit
def units_of(table: IntArray, n_levels: int) -> int:
    """MAC units that a table of factors gives work to."""
    used = 1
    for slot in range(n_levels, table.shape[0]):
        for d in range(table.shape[1]):
            used *= table[slot, d]
    return used


@njit
def refused_nest(nest: Nest) -> int:
    """Write a nest that no fan-out holds, for a state that breaks a constraint; returns its number of loops."""
    nest.position[:] = 0
    nest.loops[0, DIM] = 0
    nest.loops[0, FACTOR] = IMPOSSIBLE
    nest.loops[0, KIND] = SPATIAL_X
    nest.loops[0, LEVEL] = 0
    return 1


@njit_inline
def write_nest(order: IntArray, keep: IntArray, table: IntArray, nest: Nest) -> int:
    """Write the loops of a table of factors in the orders of its levels, and where tensors are kept; returns how many loops."""
    n_levels, n_dims = order.shape
    count = 0
    for v in range(n_levels):
        for t in range(keep.shape[1]):
            nest.position[v, t] = count if keep[v, t] == 1 else BYPASSED
        for i in range(n_dims):
            d = order[v, i]
            if table[v, d] > 1:
                nest.loops[count, DIM] = d
                nest.loops[count, FACTOR] = table[v, d]
                nest.loops[count, KIND] = TEMPORAL
                nest.loops[count, LEVEL] = -1
                count += 1
        for axis in range(2):
            slot = n_levels + 2 * v + axis
            for d in range(n_dims):
                if table[slot, d] > 1:
                    nest.loops[count, DIM] = d
                    nest.loops[count, FACTOR] = table[slot, d]
                    nest.loops[count, KIND] = 1 + axis
                    nest.loops[count, LEVEL] = v
                    count += 1
    return count


@njit_apart
def build_nest(space: MapSpace, state: MapState, table: IntArray, nest: Nest) -> int:
    """Write the nest of a state, whose imperfect factors are cut; returns its number of loops.

    `table` is scratch space of `factor_table`.
    """
    n_levels, fits = space.order.shape[0], True
    if space.imperfect == 1:
        fits = cut_factors(space.factors, state.slot, n_levels, table)
    else:
        table[:] = 1
        for p in range(space.prime.shape[0]):
            table[state.slot[p], space.prime_dim[p]] *= space.prime[p]
    if not fits or (space.least_units > 1 and units_of(table, n_levels) < space.least_units):
        return refused_nest(nest)
    for i in range(space.factors.open.shape[0]):
        state.slot[i] = table[space.factors.open[i, 0], space.factors.open[i, 1]]
    return write_nest(state.order, state.keep, table, nest)


@njit
def decode_keys(
    keys: FloatArray, base: IntArray, n_free: IntArray, free: IntArray, order: IntArray, keep: IntArray
) -> None:
    """Write loop orders and bypasses of a genome.

    Args:
        keys: In [0, 1): one for each level and dimension, by which the free loops of a level are ordered, then one for each bypass.
        base: ``L x D``: orders with the free loops first.
        n_free: ``L``: how many of them there are.
        free: Level and tensor of every bypass that is open.
        order: ``L x D``, written.
        keep: ``L x T``; where a bypass is open, written.
    """
    n_levels, n_dims = base.shape
    for v in range(n_levels):
        first = v * n_dims
        order[v] = base[v]
        for i in range(1, n_free[v]):  # insertion sort by key
            dim = order[v, i]
            j = i
            while j > 0 and keys[first + order[v, j - 1]] > keys[first + dim]:
                order[v, j] = order[v, j - 1]
                j -= 1
            order[v, j] = dim
    first = n_levels * n_dims
    for i in range(free.shape[0]):
        keep[free[i, 0], free[i, 1]] = 1 if keys[first + i] < 0.5 else 0


@njit
def shuffle(values: IntArray, count: int, random: RandomState) -> None:
    """Permute the first `count` values in place (Fisher-Yates)."""
    for i in range(count - 1, 0, -1):
        j = below(random, i + 1)
        values[i], values[j] = values[j], values[i]


@njit
def draw_state(space: MapSpace, state: MapState, random: RandomState) -> None:
    """Overwrite `state` with a random point: every choice of a prime uniform; validity is not considered."""
    for p in range(space.prime.shape[0]):
        state.slot[p] = space.choices[p, below(random, space.n_choices[p])]
    for i in range(space.factors.open.shape[0]):
        state.slot[i] = 1 if uniform(random) < 0.4 else draw_factor(space.factors, i, random)
    for v in range(space.order.shape[0]):
        shuffle(state.order[v], space.n_free[v], random)
    for i in range(space.free.shape[0]):
        state.keep[space.free[i, 0], space.free[i, 1]] = below(random, 2)


@njit
def copy_state(source: MapState, target: MapState) -> None:
    """Overwrite `target`."""
    for p in range(source.slot.shape[0]):
        target.slot[p] = source.slot[p]
    for v in range(source.order.shape[0]):
        for i in range(source.order.shape[1]):
            target.order[v, i] = source.order[v, i]
        for t in range(source.keep.shape[1]):
            target.keep[v, t] = source.keep[v, t]
