"""Undominated rows."""

import numpy as np

from codesign.core.jit import njit
from codesign.core.labels.sweep import Array


@njit
def _undominated(rows: Array, order: Array) -> Array:
    kept = np.empty(order.size, np.int64)
    n = 0
    width = rows.shape[1]
    for position in range(order.size):
        i = order[position]
        good = True
        for j in range(n - 1, -1, -1):
            worse = False
            for c in range(width):
                if rows[kept[j], c] > rows[i, c]:
                    worse = True
                    break
            if not worse:
                good = False
                break
        if good:
            kept[n] = i
            n += 1
    return kept[:n].copy()


def undominated(rows: Array) -> Array:
    """Indices of the rows that no other is at most as large as in every column; of equal rows the first.

    Args:
        rows: ``n x columns``.
    """
    if len(rows) < 2:
        return np.arange(len(rows))
    order = np.lexsort(rows.T[::-1])
    return _undominated(rows, order.astype(np.int64))
