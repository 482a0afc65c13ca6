"""The even mappings with imperfect factors as a space: a size for every loop, an order for every level, free bypasses.

A state gives every (slot, dimension) a factor; a slot is the temporal loops of a level or one axis of its fan-out. From the
inside out each factor is cut to the iterations that are still needed, and one temporal slot of every dimension takes what is left. So
every state is a mapping that keeps rule I1, perfect ones among them.
"""

import math
from typing import NamedTuple

import numpy as np

from codesign.core.errors import UserError
from codesign.core.jit import njit, njit_apart
from codesign.core.rng import RandomState, below, uniform
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.imperfect import ImperfectKernel, make_imperfect, refuse_imperfect
from codesign.cost.packed import make_kernel
from codesign.mappers.moves import move_dim, turn_bypass
from codesign.mapping.constraints import LevelConstraints, MappingProblem
from codesign.mapping.mapping import Mapping, Spatial, Storage
from codesign.mapping.nest import BYPASSED, IntArray, Nest
from codesign.mapping.space import allowed_axes, fit_axes, kept_and_free, loop_orders, shuffle, units_of, write_nest

_EVERY_SIZE = 64
"""Bounds up to this have every factor tried."""


class ImperfectSpace(NamedTuple):
    """What may vary. Slot ``v`` is the temporal loops of level v, slot ``L + 2 v`` (``+ 1``) its fan-out along x (y).

    Attributes:
        bounds: ``D``.
        fixed: ``S x D`` factor that a constraint gives, 0 where none does.
        open: ``F x 2`` pairs (slot, dimension) whose factor may vary.
        first_open: ``D + 1`` where the open slots of each dimension start.
        least: ``F`` least factor.
        most: ``F`` largest factor: the fan-out, or the bound of a constraint.
        rest: ``D`` slot that takes what is left; -1 if all are fixed.
        sizes: ``D x V`` factors worth trying, ascending.
        n_sizes: ``D``.
        order: ``L x D`` dimensions, outermost first; the first ``n_free`` of a row may be permuted.
        n_free: ``L``.
        keep: ``L x T`` 1 where a tensor is (or, if free, may be) kept.
        free: ``B x 2`` pairs (level, tensor) whose bypass is free.
        least_units: MAC units that must have work.
    """

    bounds: IntArray
    fixed: IntArray
    open: IntArray
    first_open: IntArray
    least: IntArray
    most: IntArray
    rest: IntArray
    sizes: IntArray
    n_sizes: IntArray
    order: IntArray
    n_free: IntArray
    keep: IntArray
    free: IntArray
    least_units: int


class ImperfectState(NamedTuple):
    """One point: ``factor`` per open slot, ``order`` per level, ``keep`` per (level, tensor)."""

    factor: IntArray
    order: IntArray
    keep: IntArray


def factors_worth_trying(bound: int) -> list[int]:
    """Factors that may be best: all of a small bound; of a large one the tile counts, their tiles, divisors and powers of two.

    Of all tiles that need the same number of steps only the least matters, so 2 sqrt(bound) of them do.

    >>> factors_worth_trying(7)
    [1, 2, 3, 4, 5, 6, 7]
    >>> len(factors_worth_trying(1500)) < 100
    True
    """
    if bound <= _EVERY_SIZE:
        return list(range(1, bound + 1))
    tiles = {-(-bound // steps) for steps in range(1, math.isqrt(bound) + 2)}
    counts = {-(-bound // tile) for tile in tiles}
    divisors = {d for d in range(1, bound + 1) if bound % d == 0}
    powers = {2**i for i in range(bound.bit_length()) if 2**i <= bound}
    return sorted({*tiles, *counts, *divisors, *powers, *range(1, 17)})


def make_imperfect_space(problem: MappingProblem) -> ImperfectSpace:
    """The space of a problem.

    Raises:
        UserError: Constraints leave no loop for the rest of a dimension.
    """
    problem.need_exact_factors()
    computation, architecture = problem.computation, problem.architecture
    n_levels, n_dims = len(architecture.levels), len(computation.dims)
    keep, free = kept_and_free(problem)
    fixed = np.zeros((3 * n_levels, n_dims), np.int64)
    open_slots: list[tuple[int, int, int, int]] = []
    rest = np.full(n_dims, -1, np.int64)
    for d, dim in enumerate(computation.dims):
        _place(problem, d, dim, keep, fixed, open_slots, rest)
    _place_spatial(problem, fixed)
    candidates = [factors_worth_trying(bound) for bound in computation.bounds]
    sizes = np.ones((n_dims, max(len(c) for c in candidates)), np.int64)
    for d, found in enumerate(candidates):
        sizes[d, : len(found)] = found
    order, n_free = loop_orders(problem)
    table = np.array(open_slots, np.int64).reshape(-1, 4)
    return ImperfectSpace(
        bounds=np.array(computation.bounds, np.int64),
        fixed=fixed,
        open=np.ascontiguousarray(table[:, :2]),
        first_open=np.searchsorted(table[:, 1], np.arange(n_dims + 1)).astype(np.int64),
        least=np.ascontiguousarray(table[:, 2]),
        most=np.ascontiguousarray(table[:, 3]),
        rest=rest,
        sizes=sizes,
        n_sizes=np.array([len(c) for c in candidates], np.int64),
        order=order,
        n_free=n_free,
        keep=keep,
        free=free,
        least_units=problem.least_units,
    )


def _place(
    problem: MappingProblem,
    d: int,
    dim: str,
    keep: IntArray,
    fixed: IntArray,
    open_slots: list[tuple[int, int, int, int]],
    rest: IntArray,
) -> None:
    """Fill in where one dimension may go."""
    levels, constraints = problem.architecture.levels, problem.constraints
    bound = problem.computation.sizes[dim]
    for v, level in enumerate(levels):
        item = constraints.by_level.get(level.name, LevelConstraints(level.name))
        axes = allowed_axes(constraints, level.name, dim, level.fanout.x, level.fanout.y)
        temporal, spatial = dict(item.temporal).get(dim), dict(item.spatial).get(dim)
        if temporal is not None:
            fixed[v, d] = temporal
        elif v == 0 or keep[v].any():
            if rest[d] < 0:
                rest[d] = v
            else:
                open_slots.append((v, d, 1, bound))
        for a in axes:
            slot, limit = len(levels) + 2 * v + a, (level.fanout.x, level.fanout.y)[a]
            if spatial is None:
                open_slots.append((slot, d, 1, min(limit, bound)))


def _place_spatial(problem: MappingProblem, fixed: IntArray) -> None:
    """Give every fixed spatial factor an axis, all of a level together."""
    levels, dims = problem.architecture.levels, problem.computation.dims
    for v, level in enumerate(levels):
        item = problem.constraints.by_level.get(level.name, LevelConstraints(level.name))
        across = sorted((dims.index(dim), dim, n) for dim, n in dict(item.spatial).items() if n > 1)
        x, y = level.fanout.x, level.fanout.y
        factors = [(n, allowed_axes(problem.constraints, level.name, dim, x, y)) for _, dim, n in across]
        axes = fit_axes((x, y), factors)
        if axes is None:
            asked = " and ".join(f"{n} of dimension {dim!r}" for _, dim, n in across)
            raise UserError(
                f"factor {asked} has no fan-out that takes it: there are {x} children along x and {y} along y",
                where=f"constraints of level {level.name!r}",
            )
        for (d, _, n), axis in zip(across, axes, strict=True):
            fixed[len(levels) + 2 * v + axis, d] = n


def outermost(space: ImperfectSpace) -> ImperfectState:
    """The state with all loops as far out as they may be and nothing kept that need not be: its tiles are the smallest."""
    keep = space.keep.copy()
    keep[space.free[:, 0], space.free[:, 1]] = 0
    return ImperfectState(space.least.copy(), space.order.copy(), keep)


def room_for_nest(space: ImperfectSpace) -> tuple[Nest, IntArray]:
    """Room for any nest of the space, and for the table of factors that `build_imperfect` fills."""
    n_levels, n_dims = space.order.shape
    nest = Nest(np.zeros((3 * n_levels * n_dims, 4), np.int64), np.full(space.keep.shape, BYPASSED, np.int64))
    return nest, np.ones((3 * n_levels, n_dims), np.int64)


def encode_imperfect(problem: MappingProblem, reuse: Reuse) -> tuple[ImperfectKernel, ImperfectSpace]:
    """The kernel and the space of a problem.

    Raises:
        UserError: The rules for imperfect factors do not cover the problem.
    """
    refuse_imperfect(problem.computation, problem.architecture, reuse)
    space = make_imperfect_space(problem)
    n_levels, n_dims = space.order.shape
    packed = encode_problem(problem.computation, problem.architecture, reuse)
    return make_imperfect(make_kernel(packed, 3 * n_levels * n_dims)), space


def state_of(space: ImperfectSpace, problem: MappingProblem, mapping: Mapping) -> ImperfectState:
    """The state of an even mapping that obeys the constraints."""
    levels, computation = problem.architecture.level_index, problem.computation
    state = outermost(space)
    table = np.ones(space.fixed.shape, np.int64)
    order: dict[int, list[int]] = {v: [] for v in levels.values()}
    level = 0
    state.keep[:] = 0
    for node in mapping.nodes:
        if isinstance(node, Storage):
            level = levels[node.level]
            state.keep[level, [t.name for t in computation.tensors].index(node.tensor)] = 1
            continue
        d = computation.dims.index(node.dim)
        if isinstance(node, Spatial):
            level = levels[node.level]
            table[len(levels) + 2 * level + (node.axis == "y"), d] *= node.factor
        else:
            table[level, d] *= node.factor
            order[level] = [e for e in order[level] if e != d] + [d]
    for i, (slot, d) in enumerate(space.open):
        state.factor[i] = table[slot, d]
    for v, row in order.items():
        pinned = list(space.order[v, space.n_free[v] :])
        used = [d for d in row if d not in pinned]
        state.order[v] = [d for d in space.order[v] if d not in (*used, *pinned)] + used + pinned
    return state


@njit_apart
def build_imperfect(space: ImperfectSpace, state: ImperfectState, table: IntArray, nest: Nest) -> int:
    """Write the nest of a state and its factors as cut; returns the number of loops, -1 where fixed factors do not fit the bounds."""
    n_levels, n_dims = space.order.shape
    table[:] = space.fixed
    for i in range(space.open.shape[0]):
        table[space.open[i, 0], space.open[i, 1]] = state.factor[i]
    fits = True
    for d in range(n_dims):
        outer = 1
        for v in range(n_levels):
            if v == space.rest[d]:
                break
            for slot in (v, n_levels + 2 * v, n_levels + 2 * v + 1):
                outer *= max(1, space.fixed[slot, d])
        size = 1
        for v in range(n_levels - 1, -1, -1):
            for slot in (n_levels + 2 * v + 1, n_levels + 2 * v, v):
                need = (space.bounds[d] + size - 1) // size
                if slot == space.rest[d]:
                    table[slot, d] = max(1, (need + outer - 1) // outer)
                elif space.fixed[slot, d] > 0:
                    fits = fits and space.fixed[slot, d] <= need
                else:
                    table[slot, d] = max(1, min(table[slot, d], need))
                size *= table[slot, d]
        fits = fits and size >= space.bounds[d]
    if not fits or (space.least_units > 1 and units_of(table, n_levels) < space.least_units):
        return -1
    for i in range(space.open.shape[0]):
        state.factor[i] = table[space.open[i, 0], space.open[i, 1]]
    return write_nest(state.order, state.keep, table, nest)


@njit
def copy_imperfect(source: ImperfectState, target: ImperfectState) -> None:
    """Overwrite `target`."""
    target.factor[:] = source.factor
    target.order[:] = source.order
    target.keep[:] = source.keep


@njit
def draw_factor(space: ImperfectSpace, i: int, random: RandomState) -> int:
    """A factor worth trying for one open slot, small ones more often."""
    d = space.open[i, 1]
    number = space.n_sizes[d]
    while number > 1 and space.sizes[d, number - 1] > space.most[i]:
        number -= 1
    k = below(random, number) if uniform(random) < 0.5 else int(float(number) ** uniform(random)) - 1
    return max(space.least[i], space.sizes[d, min(k, number - 1)])  # type: ignore[no-any-return]


@njit
def draw_imperfect(space: ImperfectSpace, state: ImperfectState, random: RandomState) -> None:
    """Overwrite `state` with a random point; validity is not considered."""
    for i in range(space.open.shape[0]):
        state.factor[i] = 1 if uniform(random) < 0.4 else draw_factor(space, i, random)
    for v in range(space.order.shape[0]):
        shuffle(state.order[v], space.n_free[v], random)
    for i in range(space.free.shape[0]):
        state.keep[space.free[i, 0], space.free[i, 1]] = below(random, 2)


@njit
def _transfer(space: ImperfectSpace, state: ImperfectState, i: int, random: RandomState) -> None:
    """Another factor for one slot; another slot of the dimension makes up for it, if `uniform` says so."""
    d = space.open[i, 1]
    before = state.factor[i]
    if uniform(random) < 0.4:
        wanted = before + (1 if uniform(random) < 0.5 else -1)
        state.factor[i] = min(space.most[i], max(space.least[i], wanted))
    else:
        state.factor[i] = draw_factor(space, i, random)
    others = space.first_open[d + 1] - space.first_open[d]
    if others < 2 or uniform(random) < 0.4:
        return
    j = space.first_open[d] + below(random, others)
    if j != i:
        product = before * state.factor[j]
        state.factor[j] = min(space.most[j], max(space.least[j], (product + state.factor[i] - 1) // state.factor[i]))


@njit
def move_imperfect(space: ImperfectSpace, state: ImperfectState, random: RandomState) -> None:
    """Change one thing: a factor, two factors of a dimension, two slots exchanged, a place in an order, a bypass."""
    kind = uniform(random)
    n_open = space.open.shape[0]
    if space.free.shape[0] > 0 and kind < 0.1:
        turn_bypass(space.free, state.keep, random)
        return
    if n_open > 0 and kind < 0.65:
        _transfer(space, state, below(random, n_open), random)
        if kind < 0.25:
            _transfer(space, state, below(random, n_open), random)
        return
    if n_open > 1 and kind < 0.75:
        i = below(random, n_open)
        d = space.open[i, 1]
        j = space.first_open[d] + below(random, space.first_open[d + 1] - space.first_open[d])
        a, b = state.factor[i], state.factor[j]
        if space.least[i] <= b <= space.most[i] and space.least[j] <= a <= space.most[j]:
            state.factor[i], state.factor[j] = b, a
        return
    move_dim(state.order, space.n_free, random)
