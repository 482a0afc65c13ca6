"""A whole DRAM: streams served by its channels, with counts and energy by command."""

from dataclasses import dataclass

import numpy as np

from codesign.mapping.nest import IntArray
from codesign.timing.dram.channel import CUT_SHORT, Served
from codesign.timing.dram.controller import serve
from codesign.timing.dram.device import DramDevice

CYCLE_LIMIT = 200_000_000
"""Cycles after which a run is stopped and reported as partial."""


@dataclass(frozen=True)
class DramRun:
    """What a memory did with a stream.

    Args:
        cycles: DRAM clocks to the last data beat.
        reads: Read commands.
        writes: Write commands.
        activates: Rows opened.
        precharges: Rows closed one by one.
        refreshes: Of ranks.
        row_hits: Reads and writes of a row that had served one since it was opened.
        energy_pj: By command and standby.
        complete: False where the cycle limit cut it short.
    """

    cycles: int
    reads: int
    writes: int
    activates: int
    precharges: int
    refreshes: int
    row_hits: int
    energy_pj: dict[str, float]
    complete: bool

    @property
    def total_energy_pj(self) -> float:
        """Sum over commands and standby."""
        return sum(self.energy_pj.values())


def serve_stream(
    device: DramDevice,
    address: IntArray,
    write: IntArray,
    ready: IntArray | None = None,
    *,
    log: int = 0,
    cycle_limit: int = CYCLE_LIMIT,
) -> tuple[DramRun, Served]:
    """Serve bursts in their order on one channel.

    Args:
        device: A device with one channel, or one whose `ch` bits are all equal in the addresses.
        address: ``N`` bytes, multiples of the burst.
        write: ``N`` 1 for writes.
        ready: Cycle before which each is not there; by default 0.
        log: Commands to keep.
        cycle_limit: Cycle at which to give up.
    """
    bursts, _ = device.bursts(address, write, ready)
    served = serve(device.channel(), bursts, log, cycle_limit)
    return account(device, [served]), served


def account(device: DramDevice, served: list[Served], least_cycles: int = 0) -> DramRun:
    """Counts and energy of what the channels did.

    Args:
        device: Whose channels.
        served: What each did.
        least_cycles: Clocks for which the ranks stand by, where that is longer than serving took.
    """
    each = device.energy_pj()
    cycles = max((s.cycles for s in served), default=0)
    refreshes = 0
    if least_cycles > cycles:  # idle to the end: the refreshes that fall due are made
        refreshes = device.refreshes(least_cycles) * max(1, len(served)) - sum(
            device.refreshes(s.cycles) for s in served
        )
        cycles = least_cycles
    counts = np.sum([s.counts for s in served], axis=0) if served else np.zeros(7, np.int64)
    open_cycles = sum(s.open_cycles for s in served)
    rank_cycles = cycles * device.ranks * max(1, len(served))
    energy = {
        "activate": each["activate"] * int(counts[2]),
        "read": each["read"] * int(counts[0]),
        "write": each["write"] * int(counts[1]),
        "refresh": each["refresh"] * (int(counts[4]) + refreshes),
        "standby_open": each["standby_open"] * open_cycles,
        "standby_closed": each["standby_closed"] * (rank_cycles - open_cycles),
    }
    return DramRun(
        cycles=cycles,
        reads=int(counts[0]),
        writes=int(counts[1]),
        activates=int(counts[2]),
        precharges=int(counts[3]),
        refreshes=int(counts[4]) + refreshes,
        row_hits=int(counts[5] + counts[6]),
        energy_pj=energy,
        complete=all(s.status != CUT_SHORT for s in served),
    )
