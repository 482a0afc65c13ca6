"""Words of a tensor that a computation uses."""

import math

import numpy as np

from codesign.workloads.computation import AffineIndex, Computation, Tensor


def touched_words(computation: Computation, tensor: Tensor) -> int:
    """Words of a tensor that are used at all; holes that strides leave are not."""
    return math.prod(_touched(axis, computation) for axis in tensor.axes)


def _touched(axis: AffineIndex, computation: Computation) -> int:
    reached = np.zeros(1, dtype=np.int64)
    for dim, coefficient in axis.terms:
        steps = coefficient * np.arange(computation.sizes[dim], dtype=np.int64)
        reached = np.unique(reached[:, None] + steps)
    return len(reached)
