"""Pareto dominance, minimising every objective."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def nondominated(values: Floats) -> NDArray[np.bool_]:
    """Which rows no other row dominates: ``n``; of equal rows all are kept. Rows with NaN never are.

    >>> nondominated(np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0]])).tolist()
    [True, True, False]

    Args:
        values: Objectives to minimise: ``n x m``.
    """
    from moocore import is_nondominated

    mask: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=1))
    if mask.any():
        mask[mask] = is_nondominated(values[mask], keep_weakly=True)
    return mask


def front(values: Floats) -> Floats:
    """The distinct non-dominated rows, in lexicographic order: ``k x m``."""
    return np.unique(values[nondominated(values)], axis=0)


def thinned(outer: Floats, most: int) -> Floats:
    """Fewer points that bound the same designs: neighbours by the first objective are replaced by their least: ``k x m``.

    >>> thinned(np.array([[1.0, 4.0], [2.0, 3.0], [3.0, 1.0]]), most=2).tolist()
    [[1.0, 3.0], [3.0, 1.0]]
    """
    if len(outer) <= most:
        return outer
    ordered = outer[np.argsort(outer[:, 0], kind="stable")]
    size = -(-len(ordered) // most)
    return np.array([ordered[k : k + size].min(axis=0) for k in range(0, len(ordered), size)])
