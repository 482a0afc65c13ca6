"""DRAM: energy per bit as a function of burst length, and the bandwidth bursts leave of a bus (D1-D3)."""

import math
from dataclasses import dataclass

from codesign.core.checks import check_least, check_numbers, check_positive
from codesign.core.errors import UserError
from codesign.core.specs import at_least

REFERENCE_BURST_BYTES = 64
"""The cache line the published energies per bit are for."""


@dataclass(frozen=True)
class DramType:
    """A kind of DRAM.

    Args:
        name: E.g. ``lpddr4``.
        energy_pj_per_bit: Published energy per bit, for bursts of `REFERENCE_BURST_BYTES`.
        row_pj: Energy to open and close one row, all devices of the channel together.
        row_bytes: Bytes one open row holds.
        atom_bytes: Bytes the shortest transfer moves; a shorter burst pays for the whole of it.
        source: Of the figures.
    """

    name: str
    energy_pj_per_bit: float
    row_pj: float = 0.0
    row_bytes: int = at_least(1, 1024)
    atom_bytes: int = at_least(1, 1)
    source: str = ""

    def __post_init__(self) -> None:
        check_numbers(self, f"dram {self.name!r}")
        if self.transfer_pj_per_bit < 0:
            raise UserError(
                f"`row_pj` {self.row_pj:g} exceeds the whole energy of a {REFERENCE_BURST_BYTES}-byte burst",
                where=f"dram {self.name!r}",
            )

    @property
    def transfer_pj_per_bit(self) -> float:
        """Column access and input/output, without the row (formula D1)."""
        return self.energy_pj_per_bit - self.row_pj / (8 * REFERENCE_BURST_BYTES)


def dram_energy_pj_per_bit(dram: DramType, burst_bytes: int) -> float:
    """Energy per useful bit when every burst opens its rows anew (formula D2).

    ``transfer * ceil(burst / atom) * atom / burst + row * ceil(burst / row_bytes) / (8 burst)``.

    Args:
        dram: The kind of DRAM.
        burst_bytes: Bytes one burst moves.

    Raises:
        UserError: The burst is empty.
    """
    check_least(1, burst_bytes=burst_bytes)
    moved = math.ceil(burst_bytes / dram.atom_bytes) * dram.atom_bytes
    rows = math.ceil(burst_bytes / dram.row_bytes)
    return dram.transfer_pj_per_bit * moved / burst_bytes + dram.row_pj * rows / (8 * burst_bytes)


def effective_bandwidth(bus_bytes_per_cycle: float, burst_length: int, overhead_cycles: float) -> float:
    """Bytes per cycle a bus delivers when each burst of beats is preceded by idle cycles (formula D3).

    ``bus * beats / (beats + overhead)``.

    Args:
        bus_bytes_per_cycle: Width of the bus, bytes per beat.
        burst_length: Beats of one burst.
        overhead_cycles: Cycles per burst in which nothing is transferred (command, row, turn-around).

    Raises:
        UserError: A value is out of range.

    >>> effective_bandwidth(8, 8, 8)
    4.0
    """
    check_positive(bus_bytes_per_cycle=bus_bytes_per_cycle)
    check_least(1, burst_length=burst_length)
    check_least(0, overhead_cycles=overhead_cycles)
    return bus_bytes_per_cycle * burst_length / (burst_length + overhead_cycles)
