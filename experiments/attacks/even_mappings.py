"""Blind enumeration of every even mapping of a small problem: all factorisations, spatial choices and loop orders.

Shares nothing with the exact mapper but the cost kernel.
"""

from itertools import permutations, product

import numpy as np
import numpy.typing as npt

from codesign.core.jit import njit
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.kernel import score
from codesign.cost.packed import Kernel, make_kernel
from codesign.mapping.constraints import Keep, LevelConstraints, MappingProblem
from codesign.mapping.nest import BYPASSED, IntArray, Nest


def enumerate_all(
    source: MappingProblem, reuse: Reuse, limit: int = 3_000_000, cycle_limit: float = np.inf
) -> tuple[npt.NDArray[np.float64], int]:
    """Least energy, latency and energy-delay product over all mappings and keep sets, and how many mappings fit.

    Args:
        source: The problem.
        reuse: Rule of reuse.
        limit: Most factorisations to enumerate.
        cycle_limit: Slower mappings do not count.

    Raises:
        OverflowError: There are more than `limit` factorisations.
    """
    computation, architecture = source.computation, source.architecture
    problem = encode_problem(computation, architecture, reuse)
    kernel = make_kernel(problem, 64)
    tables = [_placements(source, dim) for dim in computation.dims]
    if np.prod([float(len(t)) for t in tables]) > limit:
        raise OverflowError("too many factorisations")
    width = max(len(t) for t in tables)
    placements = np.zeros((len(tables), width, tables[0].shape[1]), np.int64)
    for d, table in enumerate(tables):
        placements[d, : len(table)] = table
    orders, first = _orders(source)
    best = np.full(3, np.inf)
    valid = 0
    for keep in _keep_sets(source):
        valid += _search(kernel, placements, np.array([len(t) for t in tables]), orders, first, keep, best, cycle_limit)
    return best, valid


def least_energy_within(source: MappingProblem, reuse: Reuse, limits: list[float]) -> list[float]:
    """Least energy over all mappings that take at most so many cycles, for each limit."""
    found = []
    for limit in limits:
        best, _ = enumerate_all(source, reuse, cycle_limit=limit)
        found.append(float(best[0]))
    return found


def _keep_sets(source: MappingProblem) -> list[IntArray]:
    choices = []
    for level in source.architecture.levels:
        for tensor in source.computation.tensors:
            decision = source.constraints.decision(source.architecture, level.name, tensor)
            choices.append({Keep.YES: (1,), Keep.NO: (0,), Keep.FREE: (0, 1)}[decision])
    shape = (len(source.architecture.levels), len(source.computation.tensors))
    return [np.array(row, np.int64).reshape(shape) for row in product(*choices)]


def _placements(source: MappingProblem, dim: str) -> IntArray:
    """Factors of one dimension in every slot: temporal per level, then x and y per fan-out."""
    levels = source.architecture.levels
    bound = source.computation.sizes[dim]
    allowed: list[list[int]] = []
    divisors = [f for f in range(1, bound + 1) if bound % f == 0]
    for v, level in enumerate(levels):
        item = source.constraints.by_level.get(level.name, LevelConstraints(level.name))
        usable = v == 0 or any(
            source.constraints.decision(source.architecture, level.name, t) is not Keep.NO
            for t in source.computation.tensors
        )
        fixed = dict(item.temporal).get(dim)
        allowed.append([fixed] if fixed is not None else divisors if usable else [1])
    for level in levels:
        item = source.constraints.by_level.get(level.name, LevelConstraints(level.name))
        for axis, n in enumerate((level.fanout.x, level.fanout.y)):
            along = item.along_x is None or (dim in item.along_x) == (axis == 0)
            allowed.append([f for f in divisors if f <= n] if along else [1])
    rows = []
    for row in _products(allowed, bound):
        fits = True
        for v, level in enumerate(levels):
            item = source.constraints.by_level.get(level.name, LevelConstraints(level.name))
            fixed = dict(item.spatial).get(dim)
            at = len(levels) + 2 * v
            fits = fits and (fixed is None or row[at] * row[at + 1] == fixed)
        if fits:
            rows.append(row)
    return np.array(rows, np.int64).reshape(len(rows), 3 * len(levels))


def _products(allowed: list[list[int]], bound: int) -> list[tuple[int, ...]]:
    if not allowed:
        return [()] if bound == 1 else []
    return [(f, *rest) for f in allowed[0] if bound % f == 0 for rest in _products(allowed[1:], bound // f)]


def _orders(source: MappingProblem) -> tuple[IntArray, IntArray]:
    """Orders of every set of dimensions at every level, outermost first, -1 padded; and where each set begins."""
    dims = source.computation.dims
    rows: list[list[int]] = []
    first: list[int] = []
    for level in source.architecture.levels:
        item = source.constraints.by_level.get(level.name, LevelConstraints(level.name))
        fixed = [dims.index(d) for d in item.order]
        for mask in range(1 << len(dims)):
            first.append(len(rows))
            inside = [d for d in reversed(fixed) if mask >> d & 1]
            free = [d for d in range(len(dims)) if mask >> d & 1 and d not in fixed]
            for order in permutations(free):
                full = [*order, *inside]
                rows.append(full + [-1] * (len(dims) - len(full)))
    first.append(len(rows))
    return np.array(rows, np.int64), np.array(first, np.int64)


@njit
def _search(
    kernel: Kernel,
    placements: IntArray,
    n_placements: IntArray,
    orders: IntArray,
    first: IntArray,
    keep: IntArray,
    best: npt.NDArray[np.float64],
    cycle_limit: float,
) -> int:
    n_dims, n_levels = placements.shape[0], keep.shape[0]
    digit = np.zeros(n_dims, np.int64)
    rank = np.zeros(n_levels, np.int64)
    masks = np.zeros(n_levels, np.int64)
    loops = np.zeros((64, 4), np.int64)
    position = np.full(keep.shape, BYPASSED, np.int64)
    valid = 0
    if n_placements.min() == 0:
        return 0
    while True:
        for v in range(n_levels):
            masks[v] = 0
            rank[v] = 0
            for d in range(n_dims):
                if placements[d, digit[d], v] > 1:
                    masks[v] |= 1 << d
        going = True
        while going:
            count = 0
            for v in range(n_levels):
                for t in range(keep.shape[1]):
                    position[v, t] = count if keep[v, t] == 1 else BYPASSED
                row = first[v * (1 << n_dims) + masks[v]] + rank[v]
                for i in range(n_dims):
                    d = orders[row, i]
                    if d >= 0:
                        loops[count, 0], loops[count, 1] = d, placements[d, digit[d], v]
                        loops[count, 2], loops[count, 3] = 0, -1
                        count += 1
                for axis in range(2):
                    for d in range(n_dims):
                        factor = placements[d, digit[d], n_levels + 2 * v + axis]
                        if factor > 1:
                            loops[count, 0], loops[count, 1] = d, factor
                            loops[count, 2], loops[count, 3] = 1 + axis, v
                            count += 1
            status, energy, cycles = score(kernel, Nest(loops, position), count)
            if status != 0:
                break  # neither mesh nor capacity depends on the order
            valid += 1
            if cycles > cycle_limit:
                energy = np.inf
            best[0] = min(best[0], energy)
            best[1] = min(best[1], cycles)
            best[2] = min(best[2], energy * cycles)
            going = False
            for v in range(n_levels):
                at = v * (1 << n_dims) + masks[v]
                rank[v] += 1
                if rank[v] < first[at + 1] - first[at]:
                    going = True
                    break
                rank[v] = 0
        d = 0
        while d < n_dims:
            digit[d] += 1
            if digit[d] < n_placements[d]:
                break
            digit[d] = 0
            d += 1
        if d == n_dims:
            return valid
