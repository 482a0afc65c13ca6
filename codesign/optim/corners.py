"""The corners of the part of objective space that a set of points leaves undominated."""

import numpy as np

from codesign.optim.protocols import Floats


def corners(points: Floats) -> Floats:
    """Local upper bounds: some point is at or below p, or p lies strictly below a corner: ``n x m`` to ``k x m``.

    K. Klamroth, R. Lacour and D. Vanderpooten, On the representation of the search region in multi-objective optimization,
    European J. Oper. Res. 245(3), 2015; their redundancy elimination, by comparison.

    >>> corners(np.array([[1.0, 2.0], [2.0, 1.0]])).tolist()
    [[1.0, inf], [2.0, 2.0], [inf, 1.0]]

    Args:
        points: Objectives to minimise.
    """
    found = np.full((1, points.shape[1]), np.inf)
    for point in points:
        found = with_point(found, point)
    return found[np.lexsort(found.T[::-1])]


def with_point(found: Floats, point: Floats) -> Floats:
    """The corners after one more point: ``k x m`` and ``m`` to ``k' x m``."""
    above = (point < found).all(axis=1)
    if not above.any():
        return found
    cut = np.repeat(found[above], len(point), axis=0)
    column = np.tile(np.arange(len(point)), int(above.sum()))
    cut[np.arange(len(cut)), column] = point[column]
    cut = np.unique(cut, axis=0)
    rest = found[~above]
    everything = np.concatenate([rest, cut])
    redundant = np.array(
        [bool(((everything >= c).all(axis=1) & (everything != c).any(axis=1)).any()) for c in cut], dtype=np.bool_
    )
    return np.concatenate([rest, cut[~redundant]])
