"""From the steps of a walk to a nest."""

import math

import numpy as np

from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.spatial import lay_out
from codesign.mappers.exact.uneven.places import Step
from codesign.mapping.nest import BYPASSED, SPATIAL_X, TEMPORAL, IntArray, Nest


class _Writer:
    """Writes loops and nodes, outermost first; steps over one dimension that follow each other become one loop."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.rows: list[tuple[int, int, int, int]] = []
        self.position = np.full((instance.n_levels, instance.n_tensors), BYPASSED, np.int64)
        self.position[0] = 0
        self.left = {i: int(instance.problem.bounds[i]) for group in instance.members for i in group}
        self.pending = (-1, 1)

    def temporal(self, d: int, factor: int) -> None:
        """A loop in time."""
        if self.pending[0] != d:
            self.flush()
        self.pending = d, self.pending[1] * factor

    def flush(self) -> None:
        """Write the loop that might have grown."""
        d, factor = self.pending
        self.pending = -1, 1
        if d >= 0:
            self._place(d, factor, TEMPORAL, -1)

    def node(self, level: int, tensor: int) -> None:
        """A tensor is kept from here inwards."""
        self.flush()
        self.position[level, tensor] = len(self.rows)

    def fanout(self, m: int, factors: IntArray) -> None:
        """The spatial loops of one level."""
        self.flush()
        used = {d: int(f) for d, f in enumerate(factors) if f > 1}
        for d, f, axis in lay_out(used, self.instance.fanouts[m]):
            self._place(d, f, SPATIAL_X + axis, m)

    def _place(self, d: int, factor: int, kind: int, fanout: int) -> None:
        """A loop; where a dimension stands for several, one for each that still has a part of the factor."""
        for i in self.instance.members[d]:
            part = math.gcd(factor, self.left[i])
            factor //= part
            self.left[i] //= part
            if part > 1:
                self.rows.append((i, part, kind, fanout))


def write_nest(instance: Instance, spatial: IntArray, steps: tuple[Step, ...]) -> tuple[Nest, int]:
    """The nest of a walk and the number of its loops.

    Args:
        instance: The problem.
        spatial: ``L x D`` factors of every fan-out.
        steps: Outermost first.
    """
    writer, next_fanout = _Writer(instance), 0
    for step in steps:
        while not step.segment.outermost and next_fanout < step.segment.first:  # what stands outside the segment
            writer.fanout(next_fanout, spatial[next_fanout])
            next_fanout += 1
        if step.loop is not None:
            writer.temporal(*step.loop)
        if step.action is not None:
            if step.action.slides or step.action.shares or step.action.only:
                writer.flush()  # a run is a loop of its own (P10)
            for level in sorted(step.action.places):
                writer.node(level, step.action.tensor)
    for m in range(next_fanout, instance.n_levels):
        writer.fanout(m, spatial[m])
    return Nest(np.array(writer.rows, np.int64).reshape(-1, 4), writer.position), len(writer.rows)
