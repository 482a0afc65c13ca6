"""Boxes as arrays of the least and the largest choice of every parameter: how many designs they hold, which, and how far off they are."""

import math

import numpy as np

from codesign.optim.protocols import Bools, Floats, Indices

_PAIRS = 1 << 16
"""Designs times boxes that are compared in one array operation."""


def factors_of(values: Floats, bound: Floats) -> Floats:
    """How much better than the nearest evaluated design a box may be: ``n``; infinite before the first."""
    if not len(values):
        return np.full(len(bound), np.inf)
    factor = np.full(len(bound), np.inf)
    step = max(1, _PAIRS // max(1, len(bound)))
    for start in range(0, len(values), step):
        part = values[start : start + step, None]
        worst = part[..., 0] / bound[:, 0]
        for k in range(1, bound.shape[1]):
            np.maximum(worst, part[..., k] / bound[:, k], out=worst)
        np.minimum(factor, worst.min(axis=0), out=factor)
    return factor


def volume_of(low: Indices, high: Indices) -> int:
    """Designs in a box, by combinations of choices."""
    return math.prod((high - low + 1).tolist())


def designs_in(low: Indices, high: Indices) -> Indices:
    """All combinations inside a box: ``n x d``."""
    spans = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
    return np.stack([g.ravel() for g in np.meshgrid(*spans, indexing="ij")], axis=1).astype(np.int64)


def existing(space: object, low: Indices, high: Indices) -> Bools:
    """Which parameters exist in some design of a box: ``n x d``; all where the space does not say."""
    asked = getattr(space, "exists_in", None)
    return np.ones(low.shape, dtype=np.bool_) if asked is None else np.asarray(asked(low, high))
