"""Spaces whose designs are judged by the cycles of the machines that are generated for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from numpy.random import default_rng

from codesign.arch.architecture import Architecture, Ports
from codesign.core.point import PointValue
from codesign.evaluation.design import AS_BUILT, AlteredSpace, DesignSpace, WithDramPorts
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


def with_ports(space: DesignSpace, table: str | None, dram_ports: str | None) -> DesignSpace:
    """The space as its designs are judged: with the ports of generated machines, or DRAM read as is said.

    Args:
        space: The space as it is.
        table: Timing table by name or path.
        dram_ports: A value of `Ports`; None and `AS_BUILT`: as the space says.
    """
    if table is not None and is_generated(table):
        return WithMachinePorts(space, load_timing(table))
    return space if dram_ports in (None, AS_BUILT) else WithDramPorts(space, Ports(dram_ports))


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
