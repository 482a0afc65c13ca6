"""Energy of DRAM commands, standby and refresh from the currents of a data sheet.

The bank-wise model of K. Chandrasekar et al. ("Towards variation-aware system-level power estimation of DRAMs", DAC 2013) and of
DRAMPower 5 (L. Steiner, M. Jung et al.): a current that several open banks share, and one that each of them draws.

`V` is a supply, `B` the banks, `I0`, `I2N`, `I3N`, `I4R`, `I4W`, `I5` its currents, `Ib` the current while a bank
closes (`I0` unless stated). All supplies are added up.

* P1: Standby with `n` open banks is `Is + n (I1 - Is)`. DDR4 and DDR5 state `I3N` with all banks open: `Is = I2N +
  rho (I3N - I2N)`, `I1 = (I3N + (B - 1) Is) / B`. LPDDR and HBM2 state it with one: `I1 = I3N`, `Is = (B rho I1 + (1
  - rho) I2N) / (B rho + 1 - rho)`.
* P2: Opening a row: `V (Ith - I1) tRAS`, with `Ith = (I0 (tRP + tRAS) - Ib tRP) / tRAS`.
* P3: Closing it: `V (Ib - I2N) tRP`.
* P4: A burst: `V (I4 - Ix) (beats / rate) tCK`. `Ix` is the standby with all banks open (DDR, HBM2), one (LPDDR4,
  LPDDR5 without groups), or two (LPDDR5 in groups, LPDDR6). LPDDR5 and LPDDR6 count in cycles of WCK. Cycles are
  whole, except in a read of DDR4 and DDR5.
* P5: A cycle: `V Is` with any bank open, and `V (I1 - Is)` for each open bank.
* P6: Refresh of all banks: `V (I5 - IB) tRFC`, `IB` being the standby of all banks by P1.
"""

from dataclasses import dataclass, fields

from codesign.arch.dram_power.power_device import PowerDevice, Standard, Supply


@dataclass(frozen=True)
class EventEnergies:
    """Energy in joule that one event, or one cycle in a state, of one device takes.

    Args:
        activate: Opening a row, above the standby of an open bank.
        precharge: Closing it, above the standby of closed banks.
        read: A burst.
        write: A burst.
        refresh_all: A bank's part of a refresh of all banks.
        open_bank: A cycle of an open bank, above what open banks share.
        open_shared: A cycle with any bank open, what they share.
    """

    activate: float
    precharge: float
    read: float
    write: float
    refresh_all: float
    open_bank: float
    open_shared: float


@dataclass(frozen=True)
class StandbyCurrents:
    """Standby of one supply in ampere (P1): what open banks share, one open bank, two, all banks."""

    shared: float
    one: float
    two: float
    all_banks: float


def standby_currents(device: PowerDevice, supply: Supply) -> StandbyCurrents:
    """Standby current by number of open banks: ``shared + n (one - shared)`` (P1)."""
    banks, rho = device.banks, device.rho
    if device.standard.all_banks_in_i3n:
        shared = supply.i2n + rho * (supply.i3n - supply.i2n)
        one = (supply.i3n + (banks - 1) * shared) / banks
        all_banks = supply.i3n
    else:
        one = supply.i3n
        shared = (banks * rho * one + (1 - rho) * supply.i2n) / (banks * rho + 1 - rho)
        all_banks = shared + banks * (one - shared)
    return StandbyCurrents(shared, one, one + (one - shared), all_banks)


def event_energies(device: PowerDevice) -> EventEnergies:
    """Energies of one device, all supplies together."""
    parts = [_supply_energies(device, supply) for supply in device.supplies]
    return EventEnergies(*(sum(getattr(p, item.name) for p in parts) for item in fields(EventEnergies)))


def _supply_energies(device: PowerDevice, supply: Supply) -> EventEnergies:
    times, standard, volt = device.times, device.standard, supply.volt
    standby = standby_currents(device, supply)
    cycle = times.clock_s
    ras, rp = times.ras * cycle, times.rp * cycle
    opening = (supply.i0 * (rp + ras) - supply.closing * rp) / ras
    exact = device.burst_length / device.data_rate
    whole = device.burst_length // device.data_rate
    read_cycles = exact if standard.all_banks_in_i3n else whole
    base = _column_base(device, standby)
    return EventEnergies(
        activate=volt * (opening - standby.one) * ras,
        precharge=volt * (supply.closing - supply.i2n) * rp,
        read=volt * (supply.i4r - base) * read_cycles * times.burst_clock_s,
        write=volt * (supply.i4w - base) * whole * times.burst_clock_s,
        refresh_all=volt * (supply.i5 - standby.all_banks) * times.rfc * cycle / device.banks,
        open_bank=volt * (standby.one - standby.shared) * cycle,
        open_shared=volt * standby.shared * cycle,
    )


def _column_base(device: PowerDevice, standby: StandbyCurrents) -> float:
    """Standby that the current of gapless bursts contains (P4): of the banks that were open when it was measured."""
    match device.standard:
        case Standard.DDR4 | Standard.DDR5 | Standard.HBM2:
            return standby.all_banks
        case Standard.LPDDR6:
            return standby.two
        case Standard.LPDDR5:
            return standby.two if device.grouped else standby.one
        case _:
            return standby.one
