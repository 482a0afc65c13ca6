"""Spaces whose designs are judged by the cycles of the machines that are generated for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from numpy.random import default_rng

from codesign.arch.architecture import Architecture
from codesign.core.point import PointValue
from codesign.evaluation.design import AlteredSpace, DesignSpace
from codesign.hardware.analytical import as_generated, side_of_table
from codesign.hardware.nest_loops import check_family
from codesign.hardware.timed import timing_at
from codesign.timing.table import Overlap, Timing, load_timing


def is_generated(table: str | None) -> bool:
    """Whether a timing table, by name or path, is one of generated machines."""
    return table is not None and load_timing(table).overlap is Overlap.GENERATED


def check_machines(space: DesignSpace) -> None:
    """Refuse a space whose machines are not generated, by the first of its designs.

    Raises:
        UserError: They are of another family, with the rule.
    """
    points = [*getattr(space.space, "presets", ()), *space.space.to_points(space.space.sample(1, default_rng(0)))]
    check_family(space.build(points[0]))


@final
@dataclass(frozen=True)
class WithMachinePorts(AlteredSpace):
    """A space whose designs are judged by generated cycles: their architectures have the machines' ports.

    Args:
        inner: The space as it is.
        timing: A table of generated machines.
    """

    timing: Timing

    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        """See `DesignSpace`."""
        return as_generated(self.inner.build(point), side_of_table(timing_at(self.timing, dict(point))))
