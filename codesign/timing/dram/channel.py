"""One DRAM channel as numbers: the device with its controller, the bursts asked for, what the channel did."""

from typing import NamedTuple

from codesign.mapping.nest import IntArray

READ, WRITE, ACTIVATE, PRECHARGE, REFRESH = 0, 1, 2, 3, 4
SAME_BANK, SAME_GROUP, OTHER_GROUP, OTHER_RANK, WHOLE_RANK = 0, 1, 2, 3, 4
NO_GAP = -1
FINISHED, CUT_SHORT = 0, 1


class Channel(NamedTuple):
    """A channel and its controller as numbers.

    Attributes:
        ranks: Ranks.
        groups: Bank groups of a rank.
        banks: Banks of a group.
        gap: ``5 x 5 x 5`` least cycles from one command to another, by scope (`SAME_BANK` ...), first, second; `NO_GAP`.
        window: ``2 x 2`` activates of a rank in a window and its cycles: tFAW, t32AW; 0 activates is none.
        refresh_interval: Cycles between refreshes, ranks in turn; 0 is never.
        read_delay: Cycles from a read to its last data beat.
        write_delay: Cycles from a write to its last data beat.
        queue: Reads, and writes, that wait at a time.
        bank_queue: Commands each bank's queue holds.
        row_limit: Hits a row serves while another row waits at the head of its queue.
        write_batch: Waiting writes above which an otherwise idle controller starts writing.
        dual: 1 where a row and a column command may issue in one cycle.
        open_page: 1 keeps rows open; 0 closes a row when no queued request wants it.
    """

    ranks: int
    groups: int
    banks: int
    gap: IntArray
    window: IntArray
    refresh_interval: int
    read_delay: int
    write_delay: int
    queue: int
    bank_queue: int
    row_limit: int
    write_batch: int
    dual: int
    open_page: int


class Bursts(NamedTuple):
    """Bursts in the order in which they are asked for.

    Attributes:
        ready: ``N`` cycle before which each is not there.
        write: ``N`` 1 for writes.
        rank: ``N``.
        group: ``N``.
        bank: ``N``.
        row: ``N``.
        same: ``N`` number of the distinct address.
        distinct: Number of distinct addresses.
    """

    ready: IntArray
    write: IntArray
    rank: IntArray
    group: IntArray
    bank: IntArray
    row: IntArray
    same: IntArray
    distinct: int


class Served(NamedTuple):
    """What the channel did.

    Attributes:
        cycles: To the last data beat.
        done: ``N`` cycle in which each burst is complete (a write: its last data beat).
        counts: ``7`` reads, writes, activates, precharges, refreshes, read hits, write hits.
        open_cycles: Cycles in which some row of a rank was open, summed over ranks.
        commands: ``C x 6`` the commands asked for: cycle, command, rank, group, bank, row.
        accepted: ``N`` cycle after which each burst had been taken.
        status: `FINISHED` or `CUT_SHORT`.
    """

    cycles: int
    done: IntArray
    counts: IntArray
    open_cycles: int
    commands: IntArray
    status: int
    accepted: IntArray
