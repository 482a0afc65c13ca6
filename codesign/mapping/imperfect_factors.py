"""Factors that may multiply to more than a bound: a size for every loop, one temporal loop of each dimension taking what is left.

From the inside out each factor is cut to the iterations that are still needed. So every choice is a mapping that keeps rule I1 of
docs/reference/cost-model.md, perfect ones among them.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.errors import UserError
from codesign.core.factors import divisors, tile_counts
from codesign.core.jit import njit
from codesign.core.rng import RandomState, below, uniform
from codesign.mapping.axes import allowed_axes, fit_axes
from codesign.mapping.constraints import LevelConstraints, MappingProblem
from codesign.mapping.nest import IntArray

_EVERY_SIZE = 64
"""Bounds up to this have every factor tried."""


class FactorSpace(NamedTuple):
    """What factors may vary, of a space with imperfect ones. Slots are those of `codesign.mapping.space.MapSpace`.

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


def no_factors() -> FactorSpace:
    """That of a space of perfect factors."""
    none, nothing = np.zeros(0, np.int64), np.zeros((0, 0), np.int64)
    return FactorSpace(none, nothing, np.zeros((0, 2), np.int64), none, none, none, none, nothing, none)


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
    powers = {2**i for i in range(bound.bit_length()) if 2**i <= bound}
    return sorted({*tile_counts(bound), *divisors(bound), *powers, *range(1, 17)})


def make_factors(problem: MappingProblem, keep: IntArray) -> FactorSpace:
    """The factors of a problem; ``L x T`` what is or may be kept.

    Raises:
        UserError: Constraints leave no fan-out for a factor.
    """
    computation = problem.computation
    n_levels, n_dims = len(keep), len(computation.dims)
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
    table = np.array(open_slots, np.int64).reshape(-1, 4)
    return FactorSpace(
        bounds=np.array(computation.bounds, np.int64),
        fixed=fixed,
        open=np.ascontiguousarray(table[:, :2]),
        first_open=np.searchsorted(table[:, 1], np.arange(n_dims + 1)).astype(np.int64),
        least=np.ascontiguousarray(table[:, 2]),
        most=np.ascontiguousarray(table[:, 3]),
        rest=rest,
        sizes=sizes,
        n_sizes=np.array([len(c) for c in candidates], np.int64),
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


@njit
def cut_factors(space: FactorSpace, factor: IntArray, n_levels: int, table: IntArray) -> bool:
    """Fill the table of factors by slot and dimension with those of a state (``F``) as cut; whether fixed ones fit the bounds."""
    table[:] = space.fixed
    for i in range(space.open.shape[0]):
        table[space.open[i, 0], space.open[i, 1]] = factor[i]
    fits = True
    for d in range(space.bounds.shape[0]):
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
    return fits


@njit
def useful_sizes(space: FactorSpace, i: int) -> int:
    """How many of the factors worth trying one open slot may have."""
    d = space.open[i, 1]
    number = space.n_sizes[d]
    while number > 1 and space.sizes[d, number - 1] > space.most[i]:
        number -= 1
    return number  # type: ignore[no-any-return]


@njit
def draw_factor(space: FactorSpace, i: int, random: RandomState) -> int:
    """A factor worth trying for one open slot, small ones more often."""
    number = useful_sizes(space, i)
    k = below(random, number) if uniform(random) < 0.5 else int(float(number) ** uniform(random)) - 1
    return max(space.least[i], space.sizes[space.open[i, 1], min(k, number - 1)])  # type: ignore[no-any-return]
