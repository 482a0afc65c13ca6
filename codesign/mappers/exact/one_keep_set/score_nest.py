"""From the steps of a walk to a scored nest, compiled."""

from typing import NamedTuple

from codesign.core.jit import njit
from codesign.core.kernel_library import gcd
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, Kernel
from codesign.mappers.exact.problem.tables import INF, Grid
from codesign.mapping.nest import BYPASSED, IntArray, Nest

EITHER = -1


class Plan(NamedTuple):
    """What turns factors into loops.

    Attributes:
        keep: ``L x T`` 1 where a level keeps a tensor.
        fan: ``L x 2`` children along X and Y.
        along_x: ``L x D`` 1 for dimensions that lie along X, 0 along Y, `EITHER`.
        members: ``D x M`` the problem's dimensions that each of the lattice's stands for, -1 padded.
        bounds: ``D x M`` their bounds.
    """

    keep: IntArray
    fan: IntArray
    along_x: IntArray
    members: IntArray
    bounds: IntArray


@njit
def _part_along_x(total: int, x: int, y: int) -> int:
    """The largest divisor of `total` up to x that leaves at most y for Y."""
    for part in range(min(x, total), 0, -1):
        if total % part == 0 and total // part <= y:
            return part
    return 1


@njit
def _place(loops: IntArray, count: int, d: int, factor: int, kind: int, fanout: int, left: IntArray, plan: Plan) -> int:
    """Add a loop; where a dimension stands for several, one for each that still has a part of the factor."""
    for i in range(left.shape[1]):
        part = gcd(factor, left[d, i])
        factor //= part
        left[d, i] //= part
        if part > 1:
            loops[count, 0], loops[count, 1], loops[count, 2], loops[count, 3] = plan.members[d, i], part, kind, fanout
            count += 1
    return count


@njit
def _add_spatial(
    loops: IntArray, count: int, v: int, vector: IntArray, grid: Grid, plan: Plan, unplaced: IntArray
) -> int:
    """The loops of fan-out v, X loops first; see `codesign.mappers.exact.problem.spatial.lay_out`."""
    n_dims = vector.shape[0]
    total = 1
    for d in range(n_dims):
        total *= int(grid.divisor[d, vector[d]])
    free = _part_along_x(total, plan.fan[v, 0], plan.fan[v, 1])
    left = free
    for axis in range(2):
        left = free
        for d in range(n_dims):
            factor = int(grid.divisor[d, vector[d]])
            along = plan.along_x[v, d]
            if along == EITHER:
                part = gcd(factor, left)
                left //= part
                factor = part if axis == 0 else factor // part
            elif (along == 1) != (axis == 0):
                factor = 1
            count = _place(loops, count, d, factor, 1 + axis, v, unplaced, plan)
    return count


@njit
def write_nest(path: IntArray, depth: int, temporal: int, columns: IntArray, grid: Grid, plan: Plan, nest: Nest) -> int:
    """Write the nest of a complete path; returns its number of loops.

    Args:
        path: Steps, innermost first.
        depth: How many.
        temporal: Kind of a step that places a temporal loop; others are spatial.
        columns: Where a step has its kind, level, dimension, factor, and the first of its spatial factors.
        grid: The lattice.
        plan: What turns factors into loops.
        nest: Overwritten.
    """
    kind, place, dim, factor, vector = columns[0], columns[1], columns[2], columns[3], columns[4]
    n_levels, n_tensors = plan.keep.shape
    unplaced = plan.bounds.copy()
    count = 0
    for v in range(n_levels):
        for t in range(n_tensors):
            nest.position[v, t] = count if plan.keep[v, t] == 1 else BYPASSED
        for k in range(depth - 1, -1, -1):
            if path[k, kind] == temporal and path[k, place] == v:
                size = int(grid.divisor[path[k, dim], path[k, factor]])
                count = _place(nest.loops, count, path[k, dim], size, 0, -1, unplaced, plan)
        for k in range(depth):
            if path[k, kind] != temporal and path[k, kind] != 0 and path[k, place] == v:
                count = _add_spatial(nest.loops, count, v, path[k, vector:], grid, plan, unplaced)
    return count


@njit
def figure_of(energy: float, cycles: float, mode: int) -> float:
    """What is minimised; modes are `codesign.mappers.driver.OBJECTIVE_CODE`."""
    if mode == 0:
        return energy
    return cycles if mode == 1 else energy * cycles


@njit
def score_nest(kernel: Kernel, nest: Nest, count: int, mode: int, latency_limit: float) -> tuple[bool, float]:
    """Whether the nest is valid, and what is minimised; infinite beyond the latency limit."""
    status, energy, cycles = score(kernel, nest, count)
    if status != VALID:
        return False, 0.0
    return True, figure_of(energy, cycles, mode) if cycles <= latency_limit else INF
