"""MAESTRO's closed forms for area, power and energy, with the constants of two of its versions.

The program is H. Kwon et al., "Understanding reuse, performance, and hardware cost of DNN dataflows", MICRO 2019; the
constants are those of its source at the commits named below, and the forms were checked against 3,141 layers it
evaluated. Three things differ from the rest of this package: area and power depend on the buffers a mapping
*requires*, not on those a design has; power is a sum of constants per module, not energy over time; the constants
of head equal Horowitz's 45 nm table (8-bit multiply and add), whatever node is claimed.
"""

import math
from dataclasses import dataclass

from codesign.core.checks import check_least, check_positive


@dataclass(frozen=True)
class MemoryConstants:
    """One level of memory: constants per block.

    Args:
        block_bytes: Memory comes in blocks of this size.
        block_area_um2: Area of a block.
        block_power_mw: Power of a block.
        access_macs: Energy of one access in MAC energies.
    """

    block_bytes: int
    block_area_um2: float
    block_power_mw: float
    access_macs: float

    def blocks(self, required_bytes: float) -> int:
        """Blocks that hold so many bytes."""
        return math.ceil(required_bytes / self.block_bytes)


@dataclass(frozen=True)
class MaestroConstants:
    """Constants of one version.

    Args:
        version: Commit and date.
        lanes: MACs of one processing element by default.
        mac_area_um2: Area of a MAC.
        mac_power_mw: Power of a MAC.
        mac_energy_nj: Energy of a MAC.
        l1: Private memory of a processing element.
        l2: Shared memory.
        bus_area_um2: Per unit of bus and element per cycle.
        bus_power_uw: Per unit of bus and element per cycle.
        arbiter_area_um2: Per unit of arbiter.
        arbiter_power_uw: Per unit of arbiter.
    """

    version: str
    lanes: int
    mac_area_um2: float
    mac_power_mw: float
    mac_energy_nj: float
    l1: MemoryConstants
    l2: MemoryConstants
    bus_area_um2: float = 101.7938
    bus_power_uw: float = 0.8
    arbiter_area_um2: float = 395.473
    arbiter_power_uw: float = 0.34


HEAD = MaestroConstants(
    version="4eb08d1 (2022-08-27)",
    lanes=1,
    mac_area_um2=283.0,
    mac_power_mw=1.2223,
    mac_energy_nj=0.00023,
    l1=MemoryConstants(1, 0.104, 0.00345, 1.68),
    l2=MemoryConstants(1, 0.104, 0.00345, 18.61),
)

PINNED = MaestroConstants(
    version="7723091 (2020-10-15), the one HASCO uses",
    lanes=9,
    mac_area_um2=4470.9014,
    mac_power_mw=1.2223,
    mac_energy_nj=0.904,
    l1=MemoryConstants(64, 4505.1889, 0.2208, 1.68),
    l2=MemoryConstants(32768, 4161.536, 4.0, 18.61),
)


@dataclass(frozen=True)
class MaestroDesign:
    """What area and power are a function of.

    Args:
        pes: Processing elements.
        noc_bandwidth: Elements per cycle of the network on chip.
        l1_required_bytes: Private memory the mapping requires per element, double buffering included.
        l2_required_bytes: Shared memory the mapping requires, double buffering included.
        lanes: MACs of one processing element; the version's default if None.
    """

    pes: int
    noc_bandwidth: float
    l1_required_bytes: float
    l2_required_bytes: float
    lanes: int | None = None

    def __post_init__(self) -> None:
        where = "MAESTRO design"
        check_positive(where=where, pes=self.pes, noc_bandwidth=self.noc_bandwidth, lanes=self.lanes)
        check_least(0, where=where, l1_required_bytes=self.l1_required_bytes, l2_required_bytes=self.l2_required_bytes)


@dataclass(frozen=True)
class MaestroParts:
    """A quantity by module, all in one unit."""

    pes: float
    l1: float
    l2: float
    noc: float

    @property
    def total(self) -> float:
        """Sum over the modules."""
        return self.pes + self.l1 + self.l2 + self.noc


def _bus_units(pes: int) -> float:
    return 14.662 * pes + 28.895


def _arbiter_units(pes: int) -> float:
    return 1.2886 * pes**2 + 5.5814 * pes - 23.711


def maestro_area_um2(design: MaestroDesign, constants: MaestroConstants = HEAD) -> MaestroParts:
    """Area (formula M1).

    ``PE mac_area lanes + PE l1_area blocks(l1) + l2_area blocks(l2) + bus_area s NoC + arbiter_area a`` with
    ``s = 14.662 PE + 28.895`` and ``a = 1.2886 PE^2 + 5.5814 PE - 23.711``.
    """
    c, lanes = constants, constants.lanes if design.lanes is None else design.lanes
    bus = c.bus_area_um2 * _bus_units(design.pes) * design.noc_bandwidth
    return MaestroParts(
        pes=design.pes * c.mac_area_um2 * lanes,
        l1=design.pes * c.l1.block_area_um2 * c.l1.blocks(design.l1_required_bytes),
        l2=c.l2.block_area_um2 * c.l2.blocks(design.l2_required_bytes),
        noc=bus + c.arbiter_area_um2 * _arbiter_units(design.pes),
    )


def maestro_power_mw(design: MaestroDesign, constants: MaestroConstants = HEAD) -> MaestroParts:
    """Power (formula M2): as M1 with the power constants; bus and arbiter are in microwatts there."""
    c, lanes = constants, constants.lanes if design.lanes is None else design.lanes
    bus = c.bus_power_uw * _bus_units(design.pes) * design.noc_bandwidth
    return MaestroParts(
        pes=design.pes * c.mac_power_mw * lanes,
        l1=design.pes * c.l1.block_power_mw * c.l1.blocks(design.l1_required_bytes),
        l2=c.l2.block_power_mw * c.l2.blocks(design.l2_required_bytes),
        noc=(bus + c.arbiter_power_uw * _arbiter_units(design.pes)) * 1e-3,
    )


def maestro_energy_macs(
    macs: float, l2_accesses: float, l1_accesses: float, constants: MaestroConstants = HEAD
) -> float:
    """Energy in MAC energies (formula M3), as the program prints it.

    Args:
        macs: Multiply-accumulates.
        l2_accesses: Reads and writes of the shared memory, all tensors.
        l1_accesses: Reads and writes of the private memories, all tensors.
        constants: Version.
    """
    return macs + constants.l2.access_macs * l2_accesses + constants.l1.access_macs * l1_accesses


def maestro_table_energy_nj(l2_accesses: float, l1_accesses: float, constants: MaestroConstants = HEAD) -> float:
    """Energy as the program's table lists it (formula M4): without the MACs and without the reads of outputs from L2.

    Args:
        l2_accesses: Reads and writes of inputs and weights, writes of outputs.
        l1_accesses: Reads and writes of the private memories. The program takes the *previous* layer's on mappings with
            a cluster level (none for the first layer); use `maestro_energy_macs` for figures to rely on.
        constants: Version.
    """
    return constants.mac_energy_nj * maestro_energy_macs(0.0, l2_accesses, l1_accesses, constants)
