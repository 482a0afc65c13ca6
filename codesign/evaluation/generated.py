"""Spaces whose designs are judged by the cycles of the machines that are generated for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from codesign.arch.architecture import Architecture
from codesign.core.point import PointValue
from codesign.evaluation.design import AlteredSpace
from codesign.hardware.analytical import as_generated, side_of_table
from codesign.hardware.timed import timing_at
from codesign.timing.table import Timing


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
        return as_generated(self.inner.build(point), side_of_table(timing_at(self.timing, point)))
