"""The rows of a nest that a search has found, written from the outside in."""

import math

import numpy as np

from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.spatial import lay_out
from codesign.mapping.nest import BYPASSED, SPATIAL_X, TEMPORAL, FloatArray, Nest


class LoopRows:
    """Loops and nodes, outermost first; the outermost level keeps all tensors. `left` is what the loops leave of the bounds."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.rows: list[tuple[int, int, int, int]] = []
        self.position = np.full((instance.n_levels, instance.n_tensors), BYPASSED, np.int64)
        self.position[0] = 0
        self.left = {i: int(instance.problem.bounds[i]) for group in instance.members for i in group}

    def temporal(self, d: int, factor: int) -> None:
        """Write the row of a loop in time."""
        self._place(d, factor, TEMPORAL, -1)

    def fanout(self, m: int, factors: FloatArray) -> None:
        """The spatial loops of one level, of factors for each dimension."""
        spatial = {d: int(f) for d, f in enumerate(factors) if f > 1}
        for d, f, axis in lay_out(spatial, self.instance.fanouts[m]):
            self._place(d, f, SPATIAL_X + axis, m)

    def node(self, level: int, tensor: int) -> None:
        """A tensor is kept from here inwards."""
        self.position[level, tensor] = len(self.rows)

    def nest(self) -> Nest:
        """The nest."""
        return Nest(np.array(self.rows, np.int64).reshape(-1, 4), self.position)

    def _place(self, d: int, factor: int, kind: int, fanout: int) -> None:
        """A loop; where a dimension stands for several, one for each that still has a part of the factor."""
        for i in self.instance.members[d]:
            part = math.gcd(factor, self.left[i])
            factor //= part
            self.left[i] //= part
            if part > 1:
                self.rows.append((i, part, kind, fanout))
