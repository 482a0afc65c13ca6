"""Energy of DRAM commands and states from the currents of a data sheet.

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
* P5: A cycle: `V Is` with any bank open, and `V (I1 - Is)` for each open bank; `V I2N` with all banks closed; `V
  I3P`, `V I2P`, `V I6` in power-down and self-refresh.
* P6: Refresh of all banks: `V (I5 - IB) tRFC`, of one: `V (I5pb - I1) tRFCpb`, of two: `V (I5pb - I2) tRFCpb`, of one
  in each of G groups: `V (I5c - IG) tRFCsb`. `IB`, `I2`, `IG` are standbys by P1. LPDDR states `I5pb` as a mean over
  an eighth of the refresh interval, which is undone first.
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
        refresh_bank: A refresh of one bank.
        refresh_same: A bank's part of a refresh of one bank of every group.
        refresh_pair: A bank's part of a refresh of two banks.
        open_bank: A cycle of an open bank, above what open banks share.
        open_shared: A cycle with any bank open, what they share.
        closed_bank: A bank's part of a cycle with all banks closed.
        power_down_active: A cycle of power-down with banks open.
        power_down_closed: A cycle of power-down with all banks closed.
        self_refresh: A cycle.
        deep_sleep: A cycle.
    """

    activate: float
    precharge: float
    read: float
    write: float
    refresh_all: float
    refresh_bank: float
    refresh_same: float
    refresh_pair: float
    open_bank: float
    open_shared: float
    closed_bank: float
    power_down_active: float
    power_down_closed: float
    self_refresh: float
    deep_sleep: float


@dataclass(frozen=True)
class StandbyCurrents:
    """Standby of one supply in ampere (P1): what open banks share, one open bank, two, one of each group, all banks."""

    shared: float
    one: float
    two: float
    groups: float
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
    step = one - shared
    return StandbyCurrents(shared, one, one + step, shared + device.bank_groups * step, all_banks)


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
    one_bank, pair = _bank_refresh_current(device, supply), 0.5 * volt * times.rfc_bank * cycle
    return EventEnergies(
        activate=volt * (opening - standby.one) * ras,
        precharge=volt * (supply.closing - supply.i2n) * rp,
        read=volt * (supply.i4r - base) * read_cycles * times.burst_clock_s,
        write=volt * (supply.i4w - base) * whole * times.burst_clock_s,
        refresh_all=volt * (supply.i5 - standby.all_banks) * times.rfc * cycle / device.banks,
        refresh_bank=volt * (one_bank - standby.one) * times.rfc_bank * cycle,
        refresh_same=volt * (supply.i5_same - standby.groups) * times.rfc_same * cycle / device.bank_groups,
        refresh_pair=pair * (one_bank - standby.two),
        open_bank=volt * (standby.one - standby.shared) * cycle,
        open_shared=volt * standby.shared * cycle,
        closed_bank=volt * supply.i2n * cycle / device.banks,
        power_down_active=volt * supply.i3p * cycle,
        power_down_closed=volt * supply.i2p * cycle,
        self_refresh=volt * supply.i6 * cycle,
        deep_sleep=volt * supply.i6_deep * cycle,
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


def _bank_refresh_current(device: PowerDevice, supply: Supply) -> float:
    """Current while one bank (LPDDR6: two) refreshes (P6).

    Low-power data sheets state the mean over the eighth of the refresh interval after which such a refresh comes.
    """
    times = device.times
    if device.standard is Standard.HBM2 or times.rfc_bank < 1:
        return supply.i5_bank
    interval = times.refi / 8
    return (supply.i5_bank * interval - supply.i2n * (interval - times.rfc_bank)) / times.rfc_bank
