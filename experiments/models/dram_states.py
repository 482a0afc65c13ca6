"""Energy of refreshes of single banks, closed banks, power-down and sleep of a DRAM device, which traces are priced by.

Letters as in `codesign.arch.dram_power.command_energy`.

* P5: A cycle: `V I2N` with all banks closed; `V I3P`, `V I2P`, `V I6` in power-down and self-refresh.
* P6: Refresh of one bank: `V (I5pb - I1) tRFCpb`, of two: `V (I5pb - I2) tRFCpb`, of one in each of G groups: `V (I5c -
  IG) tRFCsb`. `I2`, `IG` are standbys by P1. LPDDR states `I5pb` as a mean over an eighth of the refresh interval,
  which is undone first.
"""

from dataclasses import dataclass, fields

from codesign.arch.dram_power.command_energy import standby_currents
from codesign.arch.dram_power.power_device import PowerDevice, Standard, Supply


@dataclass(frozen=True)
class StateEnergies:
    """Energy in joule that one event, or one cycle in a state, of one device takes.

    Args:
        refresh_bank: A refresh of one bank.
        refresh_same: A bank's part of a refresh of one bank of every group.
        refresh_pair: A bank's part of a refresh of two banks.
        closed_bank: A bank's part of a cycle with all banks closed.
        power_down_active: A cycle of power-down with banks open.
        power_down_closed: A cycle of power-down with all banks closed.
        self_refresh: A cycle.
        deep_sleep: A cycle.
    """

    refresh_bank: float
    refresh_same: float
    refresh_pair: float
    closed_bank: float
    power_down_active: float
    power_down_closed: float
    self_refresh: float
    deep_sleep: float


def state_energies(device: PowerDevice) -> StateEnergies:
    """Energies of one device, all supplies together."""
    parts = [_of_supply(device, supply) for supply in device.supplies]
    return StateEnergies(*(sum(getattr(p, item.name) for p in parts) for item in fields(StateEnergies)))


def _of_supply(device: PowerDevice, supply: Supply) -> StateEnergies:
    times, volt, cycle = device.times, supply.volt, device.times.clock_s
    standby = standby_currents(device, supply)
    groups = standby.shared + device.bank_groups * (standby.one - standby.shared)
    one_bank, pair = _bank_refresh_current(device, supply), 0.5 * volt * times.rfc_bank * cycle
    return StateEnergies(
        refresh_bank=volt * (one_bank - standby.one) * times.rfc_bank * cycle,
        refresh_same=volt * (supply.i5_same - groups) * times.rfc_same * cycle / device.bank_groups,
        refresh_pair=pair * (one_bank - standby.two),
        closed_bank=volt * supply.i2n * cycle / device.banks,
        power_down_active=volt * supply.i3p * cycle,
        power_down_closed=volt * supply.i2p * cycle,
        self_refresh=volt * supply.i6 * cycle,
        deep_sleep=volt * supply.i6_deep * cycle,
    )


def _bank_refresh_current(device: PowerDevice, supply: Supply) -> float:
    """Current while one bank (LPDDR6: two) refreshes (P6).

    Low-power data sheets state the mean over the eighth of the refresh interval after which such a refresh comes.
    """
    times = device.times
    if device.standard is Standard.HBM2 or times.rfc_bank < 1:
        return supply.i5_bank
    interval = times.refi / 8
    return (supply.i5_bank * interval - supply.i2n * (interval - times.rfc_bank)) / times.rfc_bank
