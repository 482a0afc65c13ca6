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


def ranks(values: Floats) -> NDArray[np.int64]:
    """The number of the front each row belongs to, 0 the best (non-dominated sorting): ``n``."""
    from moocore import pareto_rank

    if len(values) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(pareto_rank(values), dtype=np.int64)


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
