"""The lattice for compiled code."""

from typing import NamedTuple

import numpy as np

from codesign.mapping.nest import FloatArray, IntArray

INF = np.inf


class Grid(NamedTuple):
    """The lattice for compiled code; see `codesign.mappers.exact.problem.lattice.Lattice`."""

    n_divisors: IntArray
    stride: IntArray
    grow: IntArray
    axis_dim: IntArray
    axis_size: IntArray
    axis_stride: IntArray
    divisor: FloatArray
