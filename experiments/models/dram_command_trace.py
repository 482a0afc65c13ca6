"""What a trace of commands makes of the banks and ranks of a DRAM: counts, and cycles by state.

* P7: A bank is open from its activation to its precharge. A precharge of a closed bank counts nothing.
* P8: A rank is active while any of its banks is open. Cycles neither active nor in power-down nor in self-refresh are
  those with all banks closed.
* P9: A bank that refreshes counts as open until the refresh ends, then it is closed.
* P10: Power-down begins when no activation, precharge or refresh is under way: ``tRCD`` after the last activation,
  ``tRP`` after the last precharge. Open banks draw nothing of their own meanwhile.
* P11: A column command with auto-precharge closes its bank ``tRAS`` after the activation, or a fixed distance after
  the command, whichever is later.
* P12: Self-refresh begins with a refresh of all banks; its own cycles count from the end of that. Deep sleep lies
  within self-refresh and counts instead of it.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from codesign.arch.dram_power.power_device import PowerDevice, Standard
from codesign.core.errors import UserError, unknown_name


class Kind(Enum):
    """A command, by its usual short name."""

    ACT = "ACT"
    PRE = "PRE"
    PREA = "PREA"
    PRESB = "PRESB"
    RD = "RD"
    RDA = "RDA"
    WR = "WR"
    WRA = "WRA"
    REFA = "REFA"
    REFB = "REFB"
    REFSB = "REFSB"
    REFP2B = "REFP2B"
    REFDB = "REFDB"
    PDEA = "PDEA"
    PDXA = "PDXA"
    PDEP = "PDEP"
    PDXP = "PDXP"
    SREFEN = "SREFEN"
    SREFEX = "SREFEX"
    DSMEN = "DSMEN"
    DSMEX = "DSMEX"
    END = "END_OF_SIMULATION"


COUNTED = (
    "act",
    "pre",
    "reads",
    "writes",
    "readAuto",
    "writeAuto",
    "refAllBank",
    "refPerBank",
    "refSameBank",
    "refPerTwoBanks",
    "refDualBanks",
)
"""What is counted for each bank: rows opened, closings of open banks, column commands, refreshes by kind."""


@dataclass(frozen=True)
class TimedCommand:
    """A command at a cycle; a rank command's bank is not read."""

    cycle: int
    kind: Kind
    bank: int = 0
    rank: int = 0


@dataclass(frozen=True)
class BankStatistics:
    """One bank up to a cycle: counts by name of `COUNTED`, and cycles."""

    counts: dict[str, int]
    active: int
    closed: int
    power_down_active: int
    power_down_closed: int
    self_refresh: int
    deep_sleep: int


@dataclass(frozen=True)
class RankStatistics:
    """One rank up to a cycle: cycles by state; `active` is any bank open."""

    active: int
    closed: int
    power_down_active: int
    power_down_closed: int
    self_refresh: int
    deep_sleep: int


@dataclass(frozen=True)
class TraceStatistics:
    """A trace up to a cycle.

    Args:
        cycles: How many.
        banks: Bank + rank x banks of a rank.
        ranks: One each.
    """

    cycles: int
    banks: tuple[BankStatistics, ...]
    ranks: tuple[RankStatistics, ...]


@dataclass
class _Span:
    """Cycles in a state: those of spans that ended, and the one that runs."""

    start: int = 0
    end: int = 0
    total: int = 0
    runs: bool = False

    def open(self, cycle: int) -> None:
        """The state begins."""
        self.start, self.runs = cycle, True

    def open_once(self, cycle: int) -> None:
        """The state begins, unless it is on."""
        if not self.runs:
            self.open(cycle)

    def close(self, cycle: int) -> None:
        """The state ends, if it is on."""
        if self.runs:
            self.end, self.runs = cycle, False
            self.total += cycle - self.start

    def until(self, cycle: int) -> int:
        """Cycles in the state so far."""
        return self.total + (cycle - self.start if self.runs else 0)


@dataclass
class _Bank:
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    active: _Span = field(default_factory=_Span)
    is_open: bool = False
    last_close: int = 0
    refresh_end: int = 0


@dataclass
class _Rank:
    banks: list[_Bank]
    active: _Span = field(default_factory=_Span)
    self_refresh: _Span = field(default_factory=_Span)
    power_down_active: _Span = field(default_factory=_Span)
    power_down_closed: _Span = field(default_factory=_Span)
    deep_sleep: _Span = field(default_factory=_Span)

    @property
    def any_open(self) -> bool:
        return any(bank.is_open for bank in self.banks)


class _Due(Enum):
    """What happens later, without a command of its own."""

    CLOSE = "close"
    REFRESHED = "refreshed"
    SELF_REFRESH = "self refresh"
    ENTER_ACTIVE = "enter active power-down"
    LEAVE_ACTIVE = "leave active power-down"
    ENTER_CLOSED = "enter closed power-down"
    LEAVE_CLOSED = "leave closed power-down"


class CommandReplay:
    """A DRAM that is handed commands in order of their cycles and can be asked for its statistics at any.

    Args:
        device: Its geometry and timings.
    """

    def __init__(self, device: PowerDevice) -> None:
        self._device = device
        self._ranks = [_Rank([_Bank() for _ in range(device.banks)]) for _ in range(device.ranks)]
        self._due: list[tuple[int, int, _Due, int, int]] = []
        self._order = 0
        self._now = 0

    def issue(self, command: TimedCommand) -> None:
        """One command.

        Raises:
            UserError: It comes before another that was issued, or names a bank, a rank or a state the device has not.
        """
        device, where = self._device, f"command {command.kind.value} at cycle {command.cycle}"
        if command.cycle < self._now:
            raise UserError(f"commands must come in order, got cycle {command.cycle} after {self._now}", where=where)
        if not 0 <= command.rank < device.ranks or not 0 <= command.bank < device.banks:
            raise UserError(
                f"the device has {device.ranks} ranks of {device.banks} banks, got rank {command.rank}, bank {command.bank}",
                where=where,
            )
        self._settle(command.cycle)
        self._now = command.cycle
        self._apply(command, where)

    def statistics(self, cycle: int) -> TraceStatistics:
        """Counts and cycles up to a cycle, which may lie after the last command."""
        self._settle(cycle)
        banks: list[BankStatistics] = []
        ranks: list[RankStatistics] = []
        for rank in self._ranks:
            deep, asleep = rank.deep_sleep.until(cycle), rank.self_refresh.until(cycle)
            down = (rank.power_down_active.until(cycle), rank.power_down_closed.until(cycle))
            shared = (*down, asleep - deep, deep)
            rest = cycle - sum(down) - asleep
            for bank in rank.banks:
                active = bank.active.until(cycle)
                banks.append(BankStatistics(dict(bank.counts), active, rest - active, *shared))
            active = rank.active.until(cycle)
            ranks.append(RankStatistics(active, rest - active, *shared))
        return TraceStatistics(cycle, tuple(banks), tuple(ranks))

    def _later(self, cycle: int, what: _Due, rank: int, bank: int = 0) -> None:
        heapq.heappush(self._due, (cycle, self._order, what, rank, bank))
        self._order += 1

    def _settle(self, cycle: int) -> None:
        while self._due and self._due[0][0] <= cycle:
            at, _, what, rank, bank = heapq.heappop(self._due)
            self._happen(at, what, self._ranks[rank], bank)

    def _happen(self, cycle: int, what: _Due, rank: _Rank, bank_index: int) -> None:
        bank = rank.banks[bank_index]
        match what:
            case _Due.CLOSE:
                _close(rank, bank, cycle)
            case _Due.REFRESHED:
                bank.is_open = False
                bank.active.close(cycle)
                if not rank.any_open:
                    rank.active.close(cycle)
            case _Due.SELF_REFRESH:
                rank.self_refresh.open(cycle)
            case _Due.ENTER_ACTIVE:
                rank.power_down_active.open(cycle)
                _pause(rank, cycle)
            case _Due.LEAVE_ACTIVE:
                rank.power_down_active.close(cycle)
                _resume(rank, cycle)
            case _Due.ENTER_CLOSED:
                rank.power_down_closed.open(cycle)
                _pause(rank, cycle)
            case _Due.LEAVE_CLOSED:
                rank.power_down_closed.close(cycle)
                _resume(rank, cycle)

    def _apply(self, command: TimedCommand, where: str) -> None:
        rank, cycle, kind = self._ranks[command.rank], command.cycle, command.kind
        bank = rank.banks[command.bank]
        match kind:
            case Kind.ACT:
                bank.counts["act"] += 1
                bank.active.open(cycle)
                if not rank.any_open:
                    rank.active.open(cycle)
                bank.is_open = True
            case Kind.PRE:
                _close(rank, bank, cycle)
            case Kind.PREA:
                for each in rank.banks:
                    _close(rank, each, cycle)
            case Kind.PRESB:
                for index in self._same_banks(command.bank):
                    _close(rank, rank.banks[index], cycle)
            case Kind.RD | Kind.WR:
                bank.counts["reads" if kind is Kind.RD else "writes"] += 1
            case Kind.RDA | Kind.WRA:
                self._column_and_close(command, bank)
            case Kind.REFA | Kind.REFB | Kind.REFSB | Kind.REFP2B | Kind.REFDB:
                self._refresh(command, where)
            case _:
                self._change_state(command, rank, where)

    def _column_and_close(self, command: TimedCommand, bank: _Bank) -> None:
        times, read = self._device.times, command.kind is Kind.RDA
        bank.counts["readAuto" if read else "writeAuto"] += 1
        after = times.read_to_close if read else times.write_to_close
        self._later(max(bank.active.start + times.ras, command.cycle + after), _Due.CLOSE, command.rank, command.bank)

    def _refresh(self, command: TimedCommand, where: str) -> None:
        times, device = self._device.times, self._device
        match command.kind:
            case Kind.REFB:
                banks, cycles, name = [command.bank], times.rfc_bank, "refPerBank"
            case Kind.REFSB:
                banks, cycles, name = self._same_banks(command.bank), times.rfc_same, "refSameBank"
            case Kind.REFP2B | Kind.REFDB:
                partner = (command.bank + device.pair_offset) % device.banks
                banks, cycles = [command.bank, partner], times.rfc_bank
                name = "refPerTwoBanks" if command.kind is Kind.REFP2B else "refDualBanks"
            case _:
                banks, cycles, name = list(range(device.banks)), times.rfc, "refAllBank"
        if cycles < 1:
            raise UserError("the device states no time for this refresh", where=where)
        rank = self._ranks[command.rank]
        for index in banks:
            bank = rank.banks[index]
            bank.counts[name] += 1
            if not rank.any_open:
                rank.active.open(command.cycle)
            bank.is_open = True
            bank.refresh_end = command.cycle + cycles
            bank.active.open_once(command.cycle)
            self._later(bank.refresh_end, _Due.REFRESHED, command.rank, index)

    def _change_state(self, command: TimedCommand, rank: _Rank, where: str) -> None:
        cycle, index, kind = command.cycle, command.rank, command.kind
        at = max(cycle, self._quiet(rank))
        match kind:
            case Kind.PDEA:
                self._later(at, _Due.ENTER_ACTIVE, index)
            case Kind.PDXA:
                self._later(at, _Due.LEAVE_ACTIVE, index)
            case Kind.PDEP:
                self._later(at, _Due.ENTER_CLOSED, index)
            case Kind.PDXP:
                self._later(at, _Due.LEAVE_CLOSED, index)
            case Kind.SREFEN:
                self._refresh(TimedCommand(cycle, Kind.REFA, 0, index), where)
                self._later(cycle + self._device.times.rfc, _Due.SELF_REFRESH, index)
            case Kind.SREFEX:
                rank.self_refresh.close(cycle)
            case Kind.DSMEN:
                if not rank.self_refresh.runs:
                    raise UserError("deep sleep is entered from self-refresh only", where=where)
                rank.deep_sleep.open(cycle)
            case Kind.DSMEX:
                rank.deep_sleep.close(cycle)
            case _:
                pass

    def _quiet(self, rank: _Rank) -> int:
        """First cycle at which no activation, precharge or refresh of the rank is under way."""
        times, quiet = self._device.times, 0
        for bank in rank.banks:
            if bank.counts["act"]:
                quiet = max(quiet, bank.active.start + max(times.rcd_read, times.rcd_write))
            if bank.counts["pre"]:
                quiet = max(quiet, bank.last_close + times.rp)
            quiet = max(quiet, bank.refresh_end)
        return quiet

    def _same_banks(self, bank: int) -> list[int]:
        """The bank of that place in every group."""
        device = self._device
        inside = bank % device.banks_per_group
        return [group * device.banks_per_group + inside for group in range(device.bank_groups)]


def _close(rank: _Rank, bank: _Bank, cycle: int) -> None:
    """A precharge; one of a closed bank does nothing."""
    if not bank.is_open:
        return
    bank.counts["pre"] += 1
    bank.active.close(cycle)
    bank.last_close = cycle
    bank.is_open = False
    if not rank.any_open:
        rank.active.close(cycle)


def _pause(rank: _Rank, cycle: int) -> None:
    """Open banks stay open in power-down, but draw its current instead of their own."""
    rank.active.close(cycle)
    for bank in rank.banks:
        bank.active.close(cycle)


def _resume(rank: _Rank, cycle: int) -> None:
    """The banks that were open draw their own current again."""
    for bank in rank.banks:
        if bank.is_open:
            bank.active.open(cycle)
    if rank.any_open:
        rank.active.open(cycle)


def replay(device: PowerDevice, commands: Sequence[TimedCommand], until: int | None = None) -> TraceStatistics:
    """Counts and cycles of a trace.

    Args:
        device: The DRAM.
        commands: In order of their cycles.
        until: Only what happens up to this cycle; by default up to the last command.

    Raises:
        UserError: The commands do not fit the device.
    """
    memory = CommandReplay(device)
    last = 0
    for command in commands:
        if until is not None and command.cycle > until:
            break
        memory.issue(command)
        last = command.cycle
    return memory.statistics(last if until is None else until)


_ONLY = {
    Kind.PRESB: (Standard.DDR5,),
    Kind.REFSB: (Standard.DDR5,),
    Kind.REFB: (Standard.LPDDR4, Standard.LPDDR5, Standard.HBM2),
    Kind.REFP2B: (Standard.LPDDR5,),
    Kind.REFDB: (Standard.LPDDR6,),
    Kind.DSMEN: (Standard.LPDDR5,),
    Kind.DSMEX: (Standard.LPDDR5,),
}


def parse_kind(name: str, standard: Standard, where: str) -> Kind:
    """A command by its name.

    Raises:
        UserError: There is none, or the standard does not have it.
    """
    for kind in Kind:
        if kind.value == name:
            if standard not in _ONLY.get(kind, (standard,)):
                raise UserError(f"{standard.value} has no command {name}", where=where)
            return kind
    raise unknown_name("command", name, [kind.value for kind in Kind], where=where)
