"""What fan-outs further out change in the tables of inner levels (rule IB12 of docs/explanation/exact-mapper.md)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codesign.mappers.imperfect.joint.boundaries import Boundaries
from codesign.mapping.nest import IntArray


class Entering(NamedTuple):
    """Numbers of a profile that the tables of a level hold besides the fan-outs from that level inwards.

    Args:
        together: ``G x L x D`` factors whose product is one number: children further out that are served at once (rule IB9).
        share: Levels whose output words are taken off.
        diagonal: ``T x L`` where children on a diagonal share.
    """

    together: NDArray[np.bool_]
    share: IntArray
    diagonal: NDArray[np.bool_]


def entering_of(data: Boundaries, v: int, levels: int) -> Entering:
    """What the boundaries that close at level `v` or further in depend on."""
    tensors, dims = data.related.shape
    together: set[tuple[int, tuple[int, ...]]] = set()
    share: set[int] = set()
    diagonal = np.zeros((tensors, levels), bool)
    for b, inner in enumerate(data.level):
        if not v < inner < levels:
            continue
        t = int(data.tensor[b])
        for k in range(data.start[b], data.start[b + 1]):
            diagonal[t, :inner] |= data.diagonal[k, :inner] == 1
            if data.share[k] >= 0:
                share.add(int(data.share[k]))
            outside = tuple(np.flatnonzero(data.walked[k, :v] == 0).tolist())
            if outside:
                together |= {(d, outside) for d in range(dims) if data.related[t, d] == 0}
    masks = np.zeros((len(together), levels, dims), bool)
    for mask, (d, outside) in zip(masks, sorted(together), strict=True):
        mask[list(outside), d] = True
    return Entering(masks, np.array(sorted(share), np.int64), diagonal)
