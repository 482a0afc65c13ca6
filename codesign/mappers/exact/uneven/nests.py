"""From the steps of a walk to a nest."""

from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.loop_rows import LoopRows
from codesign.mappers.exact.uneven.places import Step
from codesign.mapping.nest import IntArray, Nest


class _Writer(LoopRows):
    """Steps over one dimension that follow each other become one loop."""

    pending = (-1, 1)

    def step(self, d: int, factor: int) -> None:
        """A part of a loop in time."""
        if self.pending[0] != d:
            self.flush()
        self.pending = d, self.pending[1] * factor

    def flush(self) -> None:
        """Write the loop that might have grown."""
        (d, factor), self.pending = self.pending, (-1, 1)
        if d >= 0:
            self.temporal(d, factor)


def write_nest(instance: Instance, spatial: IntArray, steps: tuple[Step, ...]) -> tuple[Nest, int]:
    """The nest of a walk, its steps outermost first, and the number of its loops; `spatial` is ``L x D`` factors of every fan-out."""
    writer, next_fanout = _Writer(instance), 0

    def cross(m: int) -> None:
        """Write the spatial loops of a level."""
        writer.flush()
        writer.fanout(m, {d: int(f) for d, f in enumerate(spatial[m]) if f > 1})

    for step in steps:
        while not step.segment.outermost and next_fanout < step.segment.first:  # what stands outside the segment
            cross(next_fanout)
            next_fanout += 1
        if step.loop is not None:
            writer.step(*step.loop)
        if step.action is not None:
            if step.action.places or step.action.slides or step.action.shares or step.action.only:
                writer.flush()  # a run is a loop of its own (P10)
            for level in sorted(step.action.places):
                writer.node(level, step.action.tensor)
    for m in range(next_fanout, instance.n_levels):
        cross(m)
    return writer.nest()
