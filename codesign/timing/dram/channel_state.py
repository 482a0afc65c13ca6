"""What a DRAM channel and its controller remember from cycle to cycle.

Shapes: ``Q`` banks, each with a queue, rank by rank and group by group; ``N`` bursts; ``A`` distinct addresses.
"""

from typing import NamedTuple

import numpy as np

from codesign.mapping.nest import IntArray
from codesign.timing.dram.channel import Bursts, Channel

OPEN_ROW, HITS, DEPTH = 0, 1, 2
"""Banks: the open row (-1: none), hits it has served, bursts in the queue."""

READS, WRITES = 0, 1
"""Sides: waiting reads, waiting writes."""

CYCLE, QUEUED, DUE, NEXT_RANK, REFRESHING, WAKE, TURN = 0, 1, 2, 3, 4, 5, 6
DRAINING, TAKEN, COMPLETE, LAST, LOGGED, OPEN_CYCLES, BLOCKED = 7, 8, 9, 10, 11, 12, 13
_NUMBERS = 14
"""Numbers: the cycle; bursts in the banks' queues; ranks that need a refresh, the one whose turn is next, the one that is
stopped for it (-1: none); first cycle in which a queue may have a command, the queue asked last; writes left of the batch; bursts
taken and complete; last data beat; commands kept; cycles in which a rank had an open row; one more than the address whose read must
move before a batch of writes can (0: none)."""

_MOST_DUE = 64
_LONG_AGO = -(1 << 40)


class ChannelState(NamedTuple):
    """The channel between two cycles.

    Attributes:
        earliest: ``ranks x groups x banks x 5`` cycle from which each bank may have each command.
        bank: ``Q x 3`` columns `OPEN_ROW`, `HITS`, `DEPTH`.
        waiting: ``Q x bank_queue`` bursts in the queue of each bank, oldest first.
        open_banks: ``ranks`` banks with an open row.
        activated: ``ranks x 2 x widest`` the last activates in each window, a ring.
        activates: ``ranks x 2`` how many there were.
        lists: ``2 x queue`` waiting reads and writes, oldest first.
        held: ``2`` their numbers.
        searched: ``2`` how many of them are known to have a full queue ahead.
        due: ``64`` ranks that need a refresh, oldest first.
        bank_of: ``N`` bank of each burst.
        pending: ``A x 2`` reads and writes of an address that wait.
        first_reader: ``A`` the youngest read of an address that waits; -1 is none.
        next_reader: ``N`` the read before it.
        done: ``N`` cycle in which each burst is complete.
        accepted: ``N`` cycle after which it had been taken.
        counts: ``7`` as in `codesign.timing.dram.channel.Served`.
        commands: ``C x 6`` the same.
        number: ``14`` columns `CYCLE` to `BLOCKED`.
    """

    earliest: IntArray
    bank: IntArray
    waiting: IntArray
    open_banks: IntArray
    activated: IntArray
    activates: IntArray
    lists: IntArray
    held: IntArray
    searched: IntArray
    due: IntArray
    bank_of: IntArray
    pending: IntArray
    first_reader: IntArray
    next_reader: IntArray
    done: IntArray
    accepted: IntArray
    counts: IntArray
    commands: IntArray
    number: IntArray


def idle_channel(channel: Channel, bursts: Bursts, log: int) -> ChannelState:
    """The channel before its first cycle, with room for `log` commands."""
    ranks, groups, banks, n = channel.ranks, channel.groups, channel.banks, len(bursts.ready)
    bank = np.zeros((ranks * groups * banks, 3), np.int64)
    bank[:, OPEN_ROW] = -1
    number = np.zeros(_NUMBERS, np.int64)
    number[REFRESHING] = -1
    return ChannelState(
        earliest=np.zeros((ranks, groups, banks, 5), np.int64),
        bank=bank,
        waiting=np.zeros((ranks * groups * banks, channel.bank_queue), np.int64),
        open_banks=np.zeros(ranks, np.int64),
        activated=np.full((ranks, 2, max(1, int(channel.window[:, 0].max()))), _LONG_AGO, np.int64),
        activates=np.zeros((ranks, 2), np.int64),
        lists=np.zeros((2, channel.queue), np.int64),
        held=np.zeros(2, np.int64),
        searched=np.zeros(2, np.int64),
        due=np.zeros(_MOST_DUE, np.int64),
        bank_of=(bursts.rank * groups + bursts.group) * banks + bursts.bank,
        pending=np.zeros((bursts.distinct, 2), np.int64),
        first_reader=np.full(bursts.distinct, -1, np.int64),
        next_reader=np.full(n, -1, np.int64),
        done=np.full(n, -1, np.int64),
        accepted=np.full(n, -1, np.int64),
        counts=np.zeros(7, np.int64),
        commands=np.zeros((log, 6), np.int64),
        number=number,
    )
