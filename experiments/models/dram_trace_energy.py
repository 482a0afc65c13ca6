"""Energy of a trace of DRAM commands: what banks and ranks did, priced by the energies of events (rules P1 to P12)."""

from dataclasses import dataclass, fields

from codesign.arch.dram_power.command_energy import EventEnergies, event_energies
from codesign.arch.dram_power.power_device import PowerDevice
from experiments.models.dram_command_trace import BankStatistics, RankStatistics, TraceStatistics
from experiments.models.dram_states import StateEnergies, state_energies


@dataclass(frozen=True)
class BankEnergy:
    """Energy of one bank of one device, in joule.

    `close_read` and `close_write` are the precharges of column commands with auto-precharge: `precharge` contains them.
    """

    activate: float
    precharge: float
    read: float
    write: float
    read_auto: float
    write_auto: float
    close_read: float
    close_write: float
    refresh_all: float
    refresh_bank: float
    refresh_same: float
    refresh_two: float
    refresh_dual: float
    background_open: float
    background_closed: float


@dataclass(frozen=True)
class TraceEnergy:
    """Energy of a trace, in joule.

    Args:
        banks: One a bank of a device: bank + device x banks + rank x devices x banks.
        open_shared: What open banks share, all devices and ranks.
        power_down_active: All devices and ranks.
        power_down_closed: All devices and ranks.
        self_refresh: All devices and ranks.
        deep_sleep: All devices and ranks.
    """

    banks: tuple[BankEnergy, ...]
    open_shared: float
    power_down_active: float
    power_down_closed: float
    self_refresh: float
    deep_sleep: float

    def of(self, part: str) -> float:
        """A part of `BankEnergy`, all banks together; background of open banks with what they share."""
        shared = self.open_shared if part == "background_open" else 0.0
        return float(sum(getattr(bank, part) for bank in self.banks)) + shared

    @property
    def core(self) -> float:
        """All banks and what they share, without power-down and sleep."""
        counted = (item.name for item in fields(BankEnergy) if not item.name.startswith("close_"))
        return sum(self.of(name) for name in counted)

    @property
    def total(self) -> float:
        """Energy of commands, standby and refresh together."""
        return self.core + self.power_down_active + self.power_down_closed + self.self_refresh + self.deep_sleep


def trace_energy(device: PowerDevice, statistics: TraceStatistics) -> TraceEnergy:
    """Energy of what a trace did, on all devices of all ranks."""
    energies, states = event_energies(device), state_energies(device)
    banks: list[BankEnergy] = []
    for index, rank in enumerate(statistics.ranks):
        first = index * device.banks
        own = [_bank_energy(energies, states, bank, rank) for bank in statistics.banks[first : first + device.banks]]
        banks += own * device.devices
    scale = device.devices

    def over_ranks(energy: float, state: str) -> float:
        return float(sum(scale * energy * getattr(rank, state) for rank in statistics.ranks))

    return TraceEnergy(
        banks=tuple(banks),
        open_shared=over_ranks(energies.open_shared, "active"),
        power_down_active=over_ranks(states.power_down_active, "power_down_active"),
        power_down_closed=over_ranks(states.power_down_closed, "power_down_closed"),
        self_refresh=over_ranks(states.self_refresh, "self_refresh"),
        deep_sleep=over_ranks(states.deep_sleep, "deep_sleep"),
    )


def _bank_energy(
    energies: EventEnergies, states: StateEnergies, bank: BankStatistics, rank: RankStatistics
) -> BankEnergy:
    counts = bank.counts
    return BankEnergy(
        activate=energies.activate * counts["act"],
        precharge=energies.precharge * counts["pre"],
        read=energies.read * counts["reads"],
        write=energies.write * counts["writes"],
        read_auto=energies.read * counts["readAuto"],
        write_auto=energies.write * counts["writeAuto"],
        close_read=energies.precharge * counts["readAuto"],
        close_write=energies.precharge * counts["writeAuto"],
        refresh_all=energies.refresh_all * counts["refAllBank"],
        refresh_bank=states.refresh_bank * counts["refPerBank"],
        refresh_same=states.refresh_same * counts["refSameBank"],
        refresh_two=states.refresh_pair * counts["refPerTwoBanks"],
        refresh_dual=states.refresh_pair * counts["refDualBanks"],
        background_open=energies.open_bank * bank.active,
        background_closed=states.closed_bank * rank.closed,
    )
