"""A second bound: the tensors of one level cannot all be moved as little as possible at once.

Whatever loop stands directly outside a level, every tensor it indexes is fetched anew for each of its steps. So at
least those tensors move (tile words) x (iterations left), for a tile that fits the level, and only the others can
be left at their fewest words. Minimised over the dimension of that loop and over the tiles that fit (bound B2 in
docs/exact-mapper.md).
"""

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.exact.instance import Instance
from codesign.mapping.nest import FloatArray, IntArray


@njit
def pareto_points(rows: FloatArray) -> FloatArray:
    """The rows (sorted lexicographically) that no other row is at most equal to in every column."""
    n, width = rows.shape
    front = np.empty_like(rows)
    size = 0
    for i in range(n):
        covered = False
        for k in range(size):
            covered = True
            for t in range(width):
                if front[k, t] > rows[i, t]:
                    covered = False
                    break
            if covered:
                break
        if not covered:
            front[size] = rows[i]
            size += 1
    return front[:size].copy()


def moved_together(instance: Instance) -> IntArray:
    """``C x T`` the different sets of tensors that a loop over some dimension surely moves whole.

    A tensor whose windows slide along the dimension may move less and is left out.
    """
    sets = set()
    for d in range(len(instance.active)):
        row = []
        for t in range(instance.n_tensors):
            slides = any(d in axis for axis in instance.sliding_axes[t])
            row.append(int(instance.relevant[t, d] and not slides))
        sets.add(tuple(row))
    return np.array(sorted(sets), np.int64).reshape(-1, instance.n_tensors)


def tile_points(instance: Instance, penalty: FloatArray) -> FloatArray:
    """``P x T`` the undominated (tile words / tile volume) of all tensors over the tiles that fit."""
    fits = np.isfinite(penalty)
    rows = (instance.tile_words[:, fits] / instance.lattice.volume[fits]).T
    return pareto_points(np.unique(rows, axis=0)) if len(rows) else rows


@njit
def tension(
    points: FloatArray, together: IntArray, iterations: float, boundary: IntArray, price: FloatArray, fewest: FloatArray
) -> float:
    """Least cost beyond the fewest words at one level.

    Args:
        points: ``P x T``, see `tile_points`.
        together: ``C x T``, see `moved_together`.
        iterations: Iterations of one instance of the level.
        boundary: ``T`` the level's boundaries, -1 where a tensor is not kept.
        price: ``B`` cost per word.
        fewest: ``B`` fewest words.
    """
    best = np.inf
    for c in range(together.shape[0]):
        for k in range(points.shape[0]):
            total = 0.0
            for t in range(points.shape[1]):
                b = boundary[t]
                if b >= 0 and together[c, t] == 1:
                    total += price[b] * max(0.0, iterations * points[k, t] - fewest[b])
            best = min(best, total)
    return best
