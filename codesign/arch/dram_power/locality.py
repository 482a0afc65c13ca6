"""Energy of a bit from a device and the locality of its accesses (docs/reference/dram-energy.md, P13 and P14)."""

from dataclasses import dataclass

from codesign.arch.dram import REFERENCE_BURST_BYTES, DramType
from codesign.arch.dram_power.command_energy import event_energies
from codesign.arch.dram_power.known_devices import power_device
from codesign.arch.dram_power.power_device import PowerDevice
from codesign.core.checks import check_share
from codesign.core.errors import UserError


@dataclass(frozen=True)
class Locality:
    """How a memory is used.

    Args:
        row_hits: Share of bursts whose row is open already.
        reads: Share of bursts that read.
        busy: Share of time in which the data bus moves bits.
    """

    row_hits: float = 0.0
    reads: float = 0.5
    busy: float = 1.0

    def __post_init__(self) -> None:
        check_share(where="locality of a DRAM", **vars(self))
        if self.busy == 0.0:
            raise UserError("`busy` must be > 0: a bit that never moves has no energy", where="locality of a DRAM")


@dataclass(frozen=True)
class BitEnergy:
    """What a bit costs, in pJ, by what it pays for.

    Args:
        column: The column access.
        row: Its share of opening and closing a row.
        standby: The standby of open banks while it moves, and while the bus rests.
        refresh: Its share of refreshes.
        drivers: Output drivers and termination, where the device states them.
    """

    column: float
    row: float
    standby: float
    refresh: float
    drivers: float

    @property
    def total(self) -> float:
        """Energy of a bit, all parts together."""
        return self.column + self.row + self.standby + self.refresh + self.drivers


def bit_energy(device: PowerDevice, locality: Locality) -> BitEnergy:
    """Energy of a bit of a device's own bursts, one bank open (P13).

    Args:
        device: With currents.
        locality: Of the accesses.
    """
    energies, times, bits = event_energies(device), device.times, device.burst_bits
    seconds = device.burst_length / device.data_rate * times.burst_clock_s / locality.busy
    cycles = seconds / times.clock_s
    column = locality.reads * energies.read + (1.0 - locality.reads) * energies.write
    row = (1.0 - locality.row_hits) * (energies.activate + energies.precharge)
    refresh = energies.refresh_all * device.banks * cycles / times.refi if times.refi else 0.0
    standby = (energies.open_shared + energies.open_bank) * cycles
    scale = 1e12 / bits
    return BitEnergy(column * scale, row * scale, standby * scale, refresh * scale, device.io_pj_per_bit)


def dram_type_of(device: PowerDevice, locality: Locality) -> DramType:
    """The device as a DRAM type of a technology table (P14): rules D1 and D2 take it from there.

    A burst of `REFERENCE_BURST_BYTES` finds its row open in the share `row_hits`; the others open it on all devices of the channel.
    """
    bit = bit_energy(device, locality)
    energies = event_energies(device)
    row_pj = 1e12 * device.devices * (1.0 - locality.row_hits) * (energies.activate + energies.precharge)
    return DramType(
        name=f"{device.name}@{locality.row_hits:g}",
        energy_pj_per_bit=bit.total - bit.row + row_pj / (8 * REFERENCE_BURST_BYTES),
        row_pj=row_pj,
        row_bytes=device.row_bytes * device.devices,
        atom_bytes=max(1, device.burst_bits * device.devices // 8),
        source=f"currents of {device.name} at a row hit share of {locality.row_hits:g}: {device.source}",
    )


def dram_type_named(text: str) -> DramType:
    """The DRAM type of ``DEVICE`` or ``DEVICE@SHARE``, SHARE being that of bursts whose row is open (0 if not given).

    Raises:
        UserError: There is no such device, or the share is not between 0 and 1.
    """
    name, at, share = text.partition("@")
    try:
        hits = float(share) if at else 0.0
    except ValueError:
        raise UserError(f"expected DEVICE@SHARE with a share of row hits, got {text!r}", hint=f"{name}@0.75") from None
    return dram_type_of(power_device(name), Locality(row_hits=hits))
