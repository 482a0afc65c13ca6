"""What the fan-outs may do: every vector of spatial factors of each, and the profiles of all of them together (rule IB8).

* IB8, Profiles: One factor for each dimension at every fan-out; factors that no child would use up belong to another
  profile. A factor i x j, j along y, is cut with more than j (i - 1) tiles, or the next number counts.
"""

import numpy as np

from codesign.arch.architecture import StorageLevel
from codesign.mappers.imperfect.joint.counts import next_ceiling
from codesign.mappers.imperfect.joint.list_profiles import Vectors
from codesign.mapping.axes import allowed_axes
from codesign.mapping.constraints import LevelConstraints, MappingProblem
from codesign.mapping.nest import IntArray

MOST_VECTORS = 20_000
"""Vectors of one fan-out that are listed at most."""


def list_fan_outs(problem: MappingProblem, dims: list[int]) -> Vectors | None:
    """The spatial factors that each fan-out may have over the dimensions given; None where they are too many."""
    vectors, fewest = [], []
    for level in problem.architecture.levels:
        found = _of_level(problem, level, dims)
        if found is None:
            return None
        vectors.append(found)
        least = found.copy()
        for i, d in enumerate(dims):
            bound = problem.computation.bounds[d]
            for n in np.unique(found[:, i]):
                least[found[:, i] == n, i] = _fewest(int(n), bound, level.fanout.x, level.fanout.y)
        fewest.append(least)
    start = np.cumsum([0, *(len(v) for v in vectors)]).astype(np.int64)
    children = np.array([level.fanout.size for level in problem.architecture.levels], np.int64)
    return Vectors(np.concatenate(vectors), np.concatenate(fewest), start, children)


def _fewest(factor: int, bound: int, x: int, y: int) -> int:
    """Fewest tiles with which a factor along both axes is not cut: all groups along x but the last are full (rule IB9)."""
    pairs = [(factor // j, j) for j in range(1, min(factor, y) + 1) if factor % j == 0 and factor // j <= x]
    few = [j * (i - 1) + 1 if i > 1 else factor for i, j in pairs]
    return next_ceiling(min(few, default=factor), bound)


def _of_level(problem: MappingProblem, level: StorageLevel, dims: list[int]) -> IntArray | None:
    """Vectors of one fan-out: a product of one along x and one along y, fixed factors kept."""
    item = problem.constraints.by_level.get(level.name, LevelConstraints(level.name))
    computation, fixed = problem.computation, dict(item.spatial)
    sides = []
    for axis, children in enumerate((level.fanout.x, level.fanout.y)):
        rows: list[tuple[tuple[int, ...], int]] = [((), 1)]
        for d in dims:
            dim, bound = computation.dims[d], computation.bounds[d]
            allowed = axis in allowed_axes(problem.constraints, level.name, dim, level.fanout.x, level.fanout.y)
            if dim in fixed:
                allowed, bound = True, fixed[dim]
            rows = [
                ((*row, n), used * n)
                for row, used in rows
                for n in range(1, (min(bound, children // used) if allowed else 1) + 1)
            ]
            if len(rows) > MOST_VECTORS:
                return None
        sides.append(np.array([row for row, _ in rows], np.int64).reshape(-1, len(dims)))
    if len(sides[0]) * len(sides[1]) > MOST_VECTORS * 20:
        return None
    joint = (sides[0][:, None, :] * sides[1][None, :, :]).reshape(-1, len(dims))
    bounds = np.array([computation.bounds[d] for d in dims], np.int64)
    joint = np.unique(np.minimum(joint, bounds), axis=0)
    for i, d in enumerate(dims):
        if computation.dims[d] in fixed:
            joint = joint[joint[:, i] == fixed[computation.dims[d]]]
    return joint if len(joint) <= MOST_VECTORS else None
