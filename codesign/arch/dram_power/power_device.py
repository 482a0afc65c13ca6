"""A DRAM device as its data sheet states it: geometry, command timings, and currents of each supply."""

from dataclasses import dataclass, field
from enum import Enum

from codesign.core.checks import check_numbers, check_positive, check_share
from codesign.core.errors import UserError
from codesign.core.specs import at_least


class Standard(Enum):
    """A family of JEDEC standards; it decides what the currents mean (P1 to P6 of `codesign.arch.dram_power.command_energy`)."""

    DDR4 = "DDR4"
    DDR5 = "DDR5"
    LPDDR4 = "LPDDR4"
    LPDDR5 = "LPDDR5"
    LPDDR6 = "LPDDR6"
    HBM2 = "HBM2"

    @property
    def all_banks_in_i3n(self) -> bool:
        """Whether the active standby current is measured with every bank open (DDR) or with one (low power, HBM)."""
        return self in (Standard.DDR4, Standard.DDR5)


@dataclass(frozen=True)
class Supply:
    """Currents of a device from one supply, in ampere, by what the device does.

    Args:
        volt: The supply.
        i0: Opening and closing one bank, again and again (IDD0).
        i2n: Standby, all banks closed.
        i3n: Standby, banks open.
        i4r: Reading without a gap.
        i4w: Writing without a gap.
        i5: Refreshing all banks without a gap.
        i6: Self-refresh.
        i2p: Power-down, all banks closed.
        i3p: Power-down, banks open.
        i5_bank: Refreshing one bank (LPDDR6: two banks) every eighth of the refresh interval; HBM2: without a gap.
        i5_same: Refreshing one bank of every group without a gap (DDR5).
        i6_deep: Deep sleep (LPDDR5).
        i_beta: While a bank closes; by default `i0`.
    """

    volt: float = field(metadata={"above": 0})
    i0: float
    i2n: float
    i3n: float
    i4r: float
    i4w: float
    i5: float
    i6: float = 0.0
    i2p: float = 0.0
    i3p: float = 0.0
    i5_bank: float = 0.0
    i5_same: float = 0.0
    i6_deep: float = 0.0
    i_beta: float | None = None

    @property
    def closing(self) -> float:
        """Current while a bank closes."""
        return self.i0 if self.i_beta is None else self.i_beta


@dataclass(frozen=True)
class CommandTimes:
    """Command timings in clock cycles, and the clocks in seconds.

    Args:
        clock_s: A cycle of the command clock.
        ras: Activate to precharge.
        rp: Precharge to activate.
        rcd_read: Activate to read.
        rcd_write: Activate to write.
        rfc: A refresh of all banks.
        refi: From refresh to refresh.
        rfc_bank: A refresh of one bank (LPDDR6: of two).
        rfc_same: A refresh of one bank of every group (DDR5).
        read_to_close: From a read with auto-precharge to its precharge.
        write_to_close: From a write with auto-precharge to its precharge.
        data_clock_s: A cycle of the clock that bursts are counted in, such as WCK of LPDDR5; None is the command clock.
    """

    clock_s: float
    ras: int = field(metadata={"minimum": 1})
    rp: int = field(metadata={"minimum": 1})
    rcd_read: int
    rcd_write: int
    rfc: int = field(metadata={"minimum": 1})
    refi: int = 0
    rfc_bank: int = 0
    rfc_same: int = 0
    read_to_close: int = 0
    write_to_close: int = 0
    data_clock_s: float | None = None

    @property
    def burst_clock_s(self) -> float:
        """A cycle of the clock that bursts are counted in."""
        return self.clock_s if self.data_clock_s is None else self.data_clock_s


@dataclass(frozen=True)
class PowerDevice:
    """A kind of DRAM device, and how many of them work together.

    Args:
        name: A label.
        standard: Decides what the currents mean.
        supplies: One a voltage.
        times: Command timings.
        banks: Banks of a rank.
        bank_groups: Groups of banks.
        banks_per_group: Banks of a group.
        burst_length: Beats of a burst.
        data_rate: Beats a cycle of the data clock.
        width_bits: Data pins of a device.
        row_bytes: Bytes of an open row of a device.
        rho: What share of the standby current of open banks is drawn once, however many are open (K. Chandrasekar's bank-wise model).
        ranks: Ranks of the channel.
        devices: Devices of a rank.
        grouped: Whether LPDDR5 runs its banks in groups.
        pair_offset: Banks from one bank to the other of a pair that is refreshed together.
        io_pj_per_bit: Output drivers and termination, where the source of the device states them; not part of the core.
        source: Of the figures.
    """

    name: str
    standard: Standard
    supplies: tuple[Supply, ...]
    times: CommandTimes
    banks: int = field(metadata={"minimum": 1})
    bank_groups: int = field(metadata={"minimum": 1})
    banks_per_group: int = field(metadata={"minimum": 1})
    burst_length: int = field(metadata={"minimum": 1})
    data_rate: int = field(metadata={"minimum": 1})
    width_bits: int = field(metadata={"minimum": 1})
    row_bytes: int = at_least(1, 1024)
    rho: float = 1.0
    ranks: int = at_least(1, 1)
    devices: int = at_least(1, 1)
    grouped: bool = False
    pair_offset: int = 0
    io_pj_per_bit: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        check_numbers(self, self.where)
        if not self.supplies:
            raise UserError("`supplies` must hold at least one", where=self.where)
        check_share(where=self.where, rho=self.rho)

    @property
    def where(self) -> str:
        """The device's name as messages give it."""
        return f"DRAM device {self.name!r}"

    @property
    def burst_bits(self) -> int:
        """Bits a device moves in a burst."""
        return self.burst_length * self.width_bits

    def checked(self) -> "PowerDevice":
        """The device, if its currents do not contradict each other.

        Raises:
            UserError: A current is negative, or a state that does more draws less.
        """
        for number, supply in enumerate(self.supplies):
            where = f"{self.where}, supply {number + 1}"
            check_numbers(supply, where)
            _refuse_contradictions(supply, where)
        t = self.times
        check_positive(where=self.where, clock_s=t.clock_s, burst_clock_s=t.burst_clock_s, ras=t.ras, rp=t.rp)
        return self


_ORDER = (
    ("i2p", "i2n"),
    ("i3p", "i3n"),
    ("i2n", "i3n"),
    ("i2n", "i0"),
    ("i3n", "i4r"),
    ("i3n", "i4w"),
    ("i2n", "i5"),
    ("i6_deep", "i6"),
)
"""Pairs of currents of which the first cannot exceed the second: the second state does what the first does, and more."""


def _refuse_contradictions(supply: Supply, where: str) -> None:
    for low, high in _ORDER:
        less, more = getattr(supply, low), getattr(supply, high)
        if less > more:
            raise UserError(
                f"the currents contradict each other: `{low}` is {1e3 * less:g} mA, above `{high}` with {1e3 * more:g} mA",
                where=where,
                hint="check the data sheet; currents are in ampere",
            )
