"""What the off-chip traffic of a schedule takes on an architecture."""

from dataclasses import dataclass

from codesign.arch.architecture import Architecture
from codesign.scheduling.cosma.objective import cycles_per_byte, energy_per_byte_pj
from codesign.scheduling.cosma.result import Schedule


@dataclass(frozen=True)
class TrafficCost:
    """What the off-chip traffic of a schedule takes on an architecture.

    Args:
        energy_pj: Of DRAM and scratchpad.
        cycles: The DRAM interface is busy.
    """

    energy_pj: float
    cycles: float


def traffic_cost(architecture: Architecture, schedule: Schedule) -> TrafficCost:
    """Energy and time of everything that a schedule moves, compulsory traffic included."""
    written = schedule.written_bytes + schedule.graph.stored_bytes
    read = schedule.read_bytes + schedule.graph.loaded_bytes
    energy, cycles = energy_per_byte_pj(architecture), cycles_per_byte(architecture)
    return TrafficCost(written * energy[0] + read * energy[1], written * cycles[0] + read * cycles[1])
