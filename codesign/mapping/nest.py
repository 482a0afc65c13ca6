"""A mapping as small integer arrays, the form compiled code reads and writes.

Shapes use the project's letters: N loops, L levels (0 outermost), T tensors (inputs in order, the output last).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from codesign.arch.architecture import Architecture
from codesign.mapping.mapping import Axis, Mapping, Spatial, Storage, Temporal
from codesign.workloads.computation import Computation

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

BYPASSED = -1
DIM, FACTOR, KIND, LEVEL = 0, 1, 2, 3
TEMPORAL, SPATIAL_X, SPATIAL_Y = 0, 1, 2


class Nest(NamedTuple):
    """A mapping. Loops outermost first, factors > 1.

    Attributes:
        loops: ``N x 4``, columns `DIM`, `FACTOR`, `KIND` (`TEMPORAL`, `SPATIAL_X`, `SPATIAL_Y`), `LEVEL` (whose
            fan-out a spatial loop uses; -1 for temporal loops).
        position: ``L x T`` number of loops outside the storage node; `BYPASSED` where there is none.
    """

    loops: IntArray
    position: IntArray


def encode_nest(computation: Computation, architecture: Architecture, mapping: Mapping) -> Nest:
    """The arrays of a mapping that `codesign.mapping.validate.check_mapping` has passed."""
    loops = mapping.loops
    dims = {d: i for i, d in enumerate(computation.dims)}
    tensors = {t.name: i for i, t in enumerate(computation.tensors)}
    position = np.full((len(architecture.levels), len(computation.tensors)), BYPASSED, np.int64)
    seen = 0
    for node in mapping.nodes:
        if isinstance(node, Storage):
            position[architecture.level_index[node.level], tensors[node.tensor]] = seen
        else:
            seen += 1
    rows = []
    for node in loops:
        if isinstance(node, Temporal):
            rows.append((dims[node.dim], node.factor, TEMPORAL, -1))
        else:
            kind = SPATIAL_X if node.axis == "x" else SPATIAL_Y
            rows.append((dims[node.dim], node.factor, kind, architecture.level_index[node.level]))
    return Nest(np.array(rows, np.int64).reshape(-1, 4), position)


def decode_nest(computation: Computation, architecture: Architecture, nest: Nest, count: int) -> Mapping:
    """The mapping of the first `count` loops of a nest; the inverse of `encode_nest`."""
    nodes: list[Temporal | Spatial | Storage] = []
    for i in range(count + 1):
        for v, level in enumerate(architecture.levels):
            for t, tensor in enumerate(computation.tensors):
                if nest.position[v, t] == i:
                    nodes.append(Storage(tensor.name, level.name))
        if i == count:
            break
        dim, factor, kind, v = (int(x) for x in nest.loops[i])
        if kind == TEMPORAL:
            nodes.append(Temporal(computation.dims[dim], factor))
        else:
            axis: Axis = "x" if kind == SPATIAL_X else "y"
            nodes.append(Spatial(computation.dims[dim], factor, axis, architecture.levels[v].name))
    return Mapping(tuple(nodes))
