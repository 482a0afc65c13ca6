"""Exact expected hypervolume improvement for independent normal predictions.

The region no observed point dominates, below the reference point, is cut into boxes with sides at the front's
coordinates. For minimisation

    EHVI = integral over that region of prod_j P(Y_j <= y_j) dy = sum over boxes prod_j (G_j(u_j) - G_j(l_j)),

with G_j(t) = (t - mu_j) Phi(z) + sigma_j phi(z), z = (t - mu_j) / sigma_j, the expected improvement below t
(Emmerich, Deutz and Klinkenberg, Hypervolume-based expected improvement, CEC 2011; the product form by boxes follows
Yang, Emmerich, Deutz and Back, Efficient computation of expected hypervolume improvement using box decomposition
algorithms, J. Global Optimization 75, 2019). The G_j are tabulated once per design and coordinate, so a box costs m
multiplications.
"""

import math

import numpy as np
from numpy.typing import NDArray

from codesign.core.jit import njit

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def boxes(front: Floats, reference: Floats) -> tuple[Floats, Indices]:
    """Disjoint boxes that cover the region below the reference point which the front does not dominate.

    Sweeps the first objectives slab by slab and merges equal neighbours; two objectives are left as a staircase.

    Args:
        front: Mutually non-dominated points, all below the reference: ``k x m``.
        reference: ``m``.

    Returns:
        The sorted coordinates of each objective, minus infinity first and the reference last: ``m x (k + 2)``; and the boxes
        as positions in them, lower and upper: ``b x m x 2``.
    """
    k, m = front.shape
    grid = np.empty((m, k + 2))
    grid[:, 0], grid[:, -1] = -np.inf, reference
    grid[:, 1:-1] = np.sort(front, axis=0).T
    positions = np.empty((k, m), dtype=np.int64)
    for j in range(m):
        positions[np.argsort(front[:, j], kind="stable"), j] = np.arange(1, k + 1)
    return grid, np.array(_cut(positions, k, 0), dtype=np.int64).reshape(-1, m, 2)


Box = tuple[tuple[int, int], ...]


def _cut(points: Indices, top: int, first: int) -> list[Box]:
    """Boxes over objectives `first`.. that no point dominates, in grid positions up to ``top + 1``."""
    m = points.shape[1]
    if len(points) == 0:
        return [((0, top + 1),) * (m - first)]
    if first == m - 1:
        return [((0, int(points[:, first].min())),)]
    order = points[np.argsort(points[:, first], kind="stable")]
    result: list[Box] = []
    open_slabs: dict[Box, int] = {}
    start = 0
    for count in range(len(order) + 1):
        end = int(order[count, first]) if count < len(order) else top + 1
        current = set(_cut(_minimal(order[:count], first + 1), top, first + 1))
        # A slab whose cross-section did not change is extended instead of cut.
        for box in [b for b in open_slabs if b not in current]:
            result.append(((open_slabs.pop(box), start), *box))
        for box in sorted(current):
            open_slabs.setdefault(box, start)
        start = end
    result += [((begin, top + 1), *box) for box, begin in open_slabs.items()]
    return [box for box in result if all(low < high for low, high in box)]


def _minimal(points: Indices, first: int) -> Indices:
    """The points that no other dominates in objectives `first`.. ."""
    if len(points) < 2:
        return points
    tail = points[:, first:]
    better = (tail[:, None, :] <= tail[None, :, :]).all(axis=2) & (tail[:, None, :] < tail[None, :, :]).any(axis=2)
    return points[~better.any(axis=0)]


@njit
def improvement(mean: Floats, deviation: Floats, grid: Floats, cells: Indices, expected: bool) -> Floats:
    """EHVI of each design, or the probability that it enlarges the hypervolume: ``n``.

    The probability is the acquisition of HASCO (Xiao et al., ISCA 2021): the mass of the prediction in the non-dominated region.

    Args:
        mean: Predicted objectives: ``n x m``.
        deviation: Their standard deviations, positive: ``n x m``.
        grid: From `boxes`: ``m x (k + 2)``.
        cells: From `boxes`: ``b x m x 2``.
        expected: EHVI, not the probability.
    """
    n, m = mean.shape
    width = grid.shape[1]
    result = np.zeros(n)
    table = np.zeros((m, width))
    for i in range(n):
        for j in range(m):
            for t in range(1, width):
                z = (grid[j, t] - mean[i, j]) / deviation[i, j]
                below = 0.5 * math.erfc(-z * 0.7071067811865476)
                if expected:
                    density = 0.3989422804014327 * math.exp(-0.5 * z * z)
                    table[j, t] = deviation[i, j] * (z * below + density)
                else:
                    table[j, t] = below
        total = 0.0
        for b in range(cells.shape[0]):
            volume = 1.0
            for j in range(m):
                volume *= table[j, cells[b, j, 1]] - table[j, cells[b, j, 0]]
            total += volume
        result[i] = total
    return result
