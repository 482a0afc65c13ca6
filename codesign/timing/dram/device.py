"""DRAM devices as tables: geometry, timings, currents, controller; the command gaps and energies they imply."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields
from codesign.core.files import read_structured
from codesign.mapping.nest import IntArray
from codesign.timing.dram.channel import (
    ACTIVATE,
    NO_GAP,
    OTHER_GROUP,
    OTHER_RANK,
    PRECHARGE,
    READ,
    REFRESH,
    SAME_BANK,
    SAME_GROUP,
    WHOLE_RANK,
    WRITE,
    Bursts,
    Channel,
)

_TABLE = Path(__file__).parent / "devices.yaml"
_FIELDS = ("ro", "ch", "ra", "ba", "bg", "co")


@dataclass(frozen=True)
class DramTiming:
    """Timings in clock cycles, named as in JEDEC's standards.

    Args:
        AL: Additive latency.
        CL: Read latency.
        CWL: Write latency.
        tCCD_L: Column to column, one bank group.
        tCCD_S: Column to column, other bank groups.
        tRTRS: Turn of the bus from rank to rank.
        tRTP: Read to precharge.
        tWTR_L: End of write to read, one bank group.
        tWTR_S: End of write to read, other bank groups.
        tWR: End of write to precharge.
        tRP: Precharge to activate.
        tRRD_L: Activate to activate, one bank group.
        tRRD_S: Activate to activate, other bank groups.
        tRAS: Activate to precharge.
        tRC: Activate to activate, one bank.
        tRFC: Refresh to anything.
        tREFI: Refresh to refresh of a rank; 0 is never.
        tFAW: Window of four activates; 0 is none.
        tRCDRD: Activate to read.
        tRCDWR: Activate to write.
        burst_cycle: Cycles a burst takes the bus.
        tPPD: Precharge to precharge of a rank.
        t32AW: Window of 32 activates (GDDR); 0 is none.
    """

    AL: int
    CL: int
    CWL: int
    tCCD_L: int  # noqa: N815 - the standard's names
    tCCD_S: int  # noqa: N815
    tRTRS: int  # noqa: N815
    tRTP: int  # noqa: N815
    tWTR_L: int  # noqa: N815
    tWTR_S: int  # noqa: N815
    tWR: int  # noqa: N815
    tRP: int  # noqa: N815
    tRRD_L: int  # noqa: N815
    tRRD_S: int  # noqa: N815
    tRAS: int  # noqa: N815
    tRC: int  # noqa: N815
    tRFC: int  # noqa: N815
    tREFI: int  # noqa: N815
    tFAW: int  # noqa: N815
    tRCDRD: int  # noqa: N815
    tRCDWR: int  # noqa: N815
    burst_cycle: int
    tPPD: int = 0  # noqa: N815
    t32AW: int = 0  # noqa: N815

    def __post_init__(self) -> None:
        check_least(0, **vars(self))
        contradictions = (
            ("tRAS", self.tRAS, "tRCDRD", self.tRCDRD),
            ("tRC", self.tRC, "tRAS", self.tRAS),
            ("tCCD_L", self.tCCD_L, "tCCD_S", self.tCCD_S),
            ("tRRD_L", self.tRRD_L, "tRRD_S", self.tRRD_S),
        )
        for larger, high, smaller, low in contradictions:
            if high < low:
                raise UserError(f"`{larger}` must be >= `{smaller}`, got {high} < {low}", hint="check the data sheet")
        check_least(1, burst_cycle=self.burst_cycle)
        if self.tREFI and self.tREFI <= self.tRFC:
            raise UserError(f"`tREFI` must be > `tRFC`, got {self.tREFI} <= {self.tRFC}", hint="0 is never")

    @property
    def read_delay(self) -> int:
        """Cycles from a read command to the end of its data."""
        return self.AL + self.CL + self.burst_cycle

    @property
    def write_delay(self) -> int:
        """Cycles from a write command to the end of its data."""
        return self.AL + self.CWL + self.burst_cycle


@dataclass(frozen=True)
class DramDevice:
    """One channel of a kind of DRAM, and its controller.

    Args:
        name: Of the table.
        ranks: Ranks of the channel.
        bank_groups: Bank groups of a rank.
        banks_per_group: Banks of a group.
        rows: Rows of a bank.
        bursts_per_row: Bursts of a row.
        burst_bytes: Bytes of a burst.
        devices_per_rank: Devices that work together.
        address_mapping: Fields of an address, most significant first: ``ro`` row, ``ch`` channel, ``ra`` rank, ``ba`` bank,
            ``bg`` bank group, ``co`` column.
        clock_ns: Length of a cycle.
        timing: Command timings.
        vdd_v: Supply.
        currents_ma: IDD currents of a device by name.
        queue: Reads, and writes, that may wait.
        bank_queue: Commands each bank's queue holds.
        row_limit: Hits an open row serves while another row is wanted.
        write_batch: Waiting writes above which an idle controller starts writing.
        dual_command: Whether a row and a column command may issue in one cycle.
        open_page: Whether rows stay open.
        channels: Channels of the memory, chosen by the address's ``ch`` bits.
    """

    name: str
    ranks: int
    bank_groups: int
    banks_per_group: int
    rows: int
    bursts_per_row: int
    burst_bytes: int
    devices_per_rank: int
    address_mapping: str
    clock_ns: float
    timing: DramTiming
    vdd_v: float
    currents_ma: tuple[tuple[str, float], ...]
    queue: int = 32
    bank_queue: int = 8
    row_limit: int = 4
    write_batch: int = 8
    dual_command: bool = False
    open_page: bool = True
    channels: int = 1

    def __post_init__(self) -> None:
        for name in ("ranks", "bank_groups", "banks_per_group", "rows", "bursts_per_row", "burst_bytes", "channels"):
            value = getattr(self, name)
            if value < 1 or value & (value - 1):
                raise UserError(f"`{name}` must be a power of two, got {value}", where=f"DRAM device {self.name!r}")
        fields = [self.address_mapping[i : i + 2] for i in range(0, len(self.address_mapping), 2)]
        if sorted(fields) != sorted(_FIELDS):
            raise UserError(
                f"`address_mapping` must order {', '.join(_FIELDS)}, got {self.address_mapping!r}",
                where=f"DRAM device {self.name!r}",
            )

    @property
    def column_cycles(self) -> int:
        """Least cycles from burst to burst."""
        return max(self.timing.burst_cycle, self.timing.tCCD_S)

    def refreshes(self, cycles: int) -> int:
        """Refreshes of a channel's ranks that fall due in so many cycles (D7 of `codesign.timing.dram.controller`)."""
        interval = self.timing.tREFI // self.ranks
        return cycles // interval if interval > 0 else 0

    def energy_pj(self) -> dict[str, float]:
        """Energy by command (of a whole rank) and of a rank's standby cycle, from the IDD currents (D9 of `codesign.timing.dram.controller`)."""
        t, ma = self.timing, dict(self.currents_ma)
        scale = self.vdd_v * self.devices_per_rank * self.clock_ns
        return {
            "activate": scale * (ma["IDD0"] * t.tRC - ma["IDD3N"] * t.tRAS - ma["IDD2N"] * t.tRP),
            "read": scale * (ma["IDD4R"] - ma["IDD3N"]) * t.burst_cycle,
            "write": scale * (ma["IDD4W"] - ma["IDD3N"]) * t.burst_cycle,
            "refresh": scale * (ma["IDD5AB"] - ma["IDD3N"]) * t.tRFC,
            "standby_open": scale * ma["IDD3N"],
            "standby_closed": scale * ma["IDD2N"],
        }

    def gaps(self) -> IntArray:
        """Least cycles between commands, ``5 x 5 x 5`` by scope, first and second command (D2 of `codesign.timing.dram.controller`)."""
        t = self.timing
        gap = np.full((5, 5, 5), NO_GAP, np.int64)
        far = self.bank_groups > 1  # one bank group: the short distances hold
        column_near = max(t.burst_cycle, t.tCCD_L if far else t.tCCD_S)
        column = max(t.burst_cycle, t.tCCD_S)
        to_write = t.CL + t.burst_cycle - t.CWL + t.tRTRS
        to_read_near = t.write_delay + (t.tWTR_L if far else t.tWTR_S)
        to_read = t.write_delay + t.tWTR_S
        for scope, near in ((SAME_BANK, True), (SAME_GROUP, True), (OTHER_GROUP, False)):
            gap[scope, READ, READ] = gap[scope, WRITE, WRITE] = column_near if near else column
            gap[scope, READ, WRITE] = to_write
            gap[scope, WRITE, READ] = to_read_near if near else to_read
            if scope != SAME_BANK:
                gap[scope, ACTIVATE, ACTIVATE] = t.tRRD_L if near and far else t.tRRD_S
                gap[scope, PRECHARGE, PRECHARGE] = t.tPPD
        gap[OTHER_RANK, READ, READ] = t.burst_cycle + t.tRTRS
        gap[OTHER_RANK, READ, WRITE] = t.read_delay + t.burst_cycle + t.tRTRS - t.write_delay
        gap[OTHER_RANK, WRITE, READ] = t.write_delay + t.burst_cycle + t.tRTRS - t.read_delay
        gap[OTHER_RANK, WRITE, WRITE] = t.burst_cycle
        gap[SAME_BANK, READ, PRECHARGE] = t.AL + t.tRTP
        gap[SAME_BANK, WRITE, PRECHARGE] = t.write_delay + t.tWR
        gap[SAME_BANK, ACTIVATE, ACTIVATE] = t.tRC
        gap[SAME_BANK, ACTIVATE, READ] = t.tRCDRD - t.AL
        gap[SAME_BANK, ACTIVATE, WRITE] = t.tRCDWR - t.AL
        gap[SAME_BANK, ACTIVATE, PRECHARGE] = t.tRAS
        gap[SAME_BANK, PRECHARGE, ACTIVATE] = gap[SAME_BANK, PRECHARGE, REFRESH] = t.tRP
        gap[WHOLE_RANK, REFRESH, ACTIVATE] = gap[WHOLE_RANK, REFRESH, REFRESH] = t.tRFC
        return gap

    def channel(self) -> Channel:
        """The form the controller works on."""
        t = self.timing
        return Channel(
            ranks=self.ranks,
            groups=self.bank_groups,
            banks=self.banks_per_group,
            gap=self.gaps(),
            window=np.array([[4 if t.tFAW else 0, t.tFAW], [32 if t.t32AW else 0, t.t32AW]], np.int64),
            refresh_interval=t.tREFI // self.ranks,
            read_delay=t.read_delay,
            write_delay=t.write_delay,
            queue=self.queue,
            bank_queue=self.bank_queue,
            row_limit=self.row_limit,
            write_batch=self.write_batch,
            dual=int(self.dual_command),
            open_page=int(self.open_page),
        )

    def bursts(self, address: IntArray, write: IntArray, ready: IntArray | None = None) -> tuple[Bursts, IntArray]:
        """Addresses taken apart; returns the bursts and the channel of each.

        Args:
            address: ``N`` bytes.
            write: ``N`` 1 for writes.
            ready: ``N`` cycle before which each is not there; by default 0.
        """
        size = {
            "ro": self.rows,
            "ch": self.channels,
            "ra": self.ranks,
            "ba": self.banks_per_group,
            "bg": self.bank_groups,
            "co": self.bursts_per_row,
        }
        left = address // self.burst_bytes
        part: dict[str, IntArray] = {}
        names = [self.address_mapping[i : i + 2] for i in range(0, len(self.address_mapping), 2)]
        for name in reversed(names):
            part[name] = left % size[name]
            left = left // size[name]
        distinct, same = np.unique(address // self.burst_bytes, return_inverse=True)
        found = Bursts(
            ready=np.zeros(len(address), np.int64) if ready is None else ready,
            write=write,
            rank=part["ra"],
            group=part["bg"],
            bank=part["ba"],
            row=part["ro"],
            same=same.astype(np.int64).ravel(),
            distinct=len(distinct),
        )
        return found, part["ch"]


def device_from_json(value: Any, where: str) -> DramDevice:
    """A device of a table.

    Raises:
        UserError: A key is unknown or missing, a figure is out of range, or timings contradict each other.
    """
    fields = Fields(value, where)
    name = fields.text("id")
    fields.where = f"{where}: DRAM device {name!r}"
    geometry, controller = fields.child("geometry"), fields.child("controller")
    timing = fields.child("timing")
    currents = fields.child("currents_ma")
    same = timing.integer("tRCD", None, least=0)
    delays = {} if same is None else {key: timing.integer(key, same, least=0) for key in ("tRCDRD", "tRCDWR")}
    try:
        device = DramDevice(
            name=name,
            **{
                key: geometry.integer(key, least=1)
                for key in ("ranks", "bank_groups", "banks_per_group", "rows", "bursts_per_row", "burst_bytes")
            },
            devices_per_rank=geometry.integer("devices_per_rank", 1, least=1),
            address_mapping=fields.text("address_mapping"),
            clock_ns=fields.number("clock_ns", above=0),
            timing=timing.record(DramTiming, 0, **delays),
            vdd_v=fields.number("vdd_v", above=0),
            currents_ma=tuple(
                (key, currents.number(key, least=0)) for key in ("IDD0", "IDD2N", "IDD3N", "IDD4W", "IDD4R", "IDD5AB")
            ),
            queue=controller.integer("queue", 32, least=1),
            bank_queue=controller.integer("bank_queue", 8, least=1),
            row_limit=controller.integer("row_limit", 4, least=1),
            write_batch=controller.integer("write_batch", 8, least=0),
            dual_command=controller.flag("dual_command", False),
            open_page=controller.flag("open_page", True),
            channels=geometry.integer("channels", 1, least=1),
        )
    except UserError as error:
        raise error.within(fields.where) if error.where is None else error from None
    for part in (fields, geometry, controller, currents):
        part.finish()
    return device


def read_devices(path: str | Path) -> dict[str, DramDevice]:
    """The devices of a YAML file with `devices:` at its top."""
    entries = Fields(read_structured(path), str(path)).items("devices")
    found = [device_from_json(item, f"{path}: device {i + 1}") for i, item in enumerate(entries)]
    return {device.name: device for device in found}


@cache
def known_devices() -> dict[str, DramDevice]:
    """The devices that come with the project."""
    return read_devices(_TABLE)


def load_device(name: str) -> DramDevice:
    """A device of the project by name.

    Raises:
        UserError: There is none.
    """
    devices = known_devices()
    if name not in devices:
        raise unknown_name("DRAM device", name, devices)
    return devices[name]
