"""One DRAM channel, command by command: banks, row buffers, command gaps, refresh, first-ready scheduling.

The rules (D1-D10 in docs/explanation/timing.md) describe a controller as S. Rixner et al., "Memory access scheduling", ISCA 2000, and the
JEDEC gaps between commands; queues, batches of writes and the order of refreshes are parameters of the device table.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
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
        last_accept: Cycle after which the last burst had been taken.
        accepted: ``N`` the same of each burst.
        status: `FINISHED` or `CUT_SHORT`.
    """

    cycles: int
    done: IntArray
    counts: IntArray
    open_cycles: int
    commands: IntArray
    last_accept: int
    status: int
    accepted: IntArray


@njit
def _apply(
    command: int, rank: int, group: int, bank: int, t: int, gap: IntArray, ranks: int, groups: int, banks: int,
    earliest: IntArray,
) -> None:  # fmt: skip
    """Set the earliest cycles of what may follow a command."""
    for r in range(ranks):
        for g in range(groups):
            for b in range(banks):
                if command == REFRESH:
                    if r != rank:
                        continue
                    scope = WHOLE_RANK
                elif r != rank:
                    scope = OTHER_RANK
                elif g != group:
                    scope = OTHER_GROUP
                elif b != bank:
                    scope = SAME_GROUP
                else:
                    scope = SAME_BANK
                for after in range(5):
                    least = gap[scope, command, after]
                    if least != NO_GAP and t + least > earliest[r, g, b, after]:
                        earliest[r, g, b, after] = t + least


@njit
def serve(channel: Channel, bursts: Bursts, log: int, max_cycles: int) -> Served:
    """Serve bursts in order of arrival, at most one taken a cycle, as fast as the queues accept.

    Args:
        channel: The device and its controller.
        bursts: What is asked for.
        log: Commands to keep.
        max_cycles: Cycle at which to give up.
    """
    ranks, groups, banks, gap = channel.ranks, channel.groups, channel.banks, channel.gap
    n = bursts.ready.shape[0]
    n_queues = ranks * groups * banks
    earliest = np.zeros((ranks, groups, banks, 5), np.int64)
    open_row = np.full(n_queues, -1, np.int64)
    hits = np.zeros(n_queues, np.int64)
    open_banks = np.zeros(ranks, np.int64)
    # activate windows: a ring of times a rank and window
    widest = max(1, max(channel.window[0, 0], channel.window[1, 0]))
    activated = np.full((ranks, 2, widest), -(1 << 40), np.int64)
    turn = np.zeros((ranks, 2), np.int64)
    # queues of burst numbers, oldest first
    lists = np.zeros((2, channel.queue), np.int64)
    held = np.zeros(2, np.int64)
    waiting = np.zeros((n_queues, channel.bank_queue), np.int64)
    depth = np.zeros(n_queues, np.int64)
    queued = 0
    due = np.zeros(64, np.int64)  # ranks that need a refresh, oldest first
    n_due = 0
    next_rank = 0
    refreshing = -1
    bank_of = np.zeros(n, np.int64)
    for i in range(n):
        bank_of[i] = (bursts.rank[i] * groups + bursts.group[i]) * banks + bursts.bank[i]
    # No scan is made that would find what the last one found: `wake` is the first cycle in which a queue may have a command,
    # `searched` how many of the waiting reads, and writes, have a full queue ahead.
    wake = 0
    searched = np.zeros(2, np.int64)
    reads_pending = np.zeros(bursts.distinct, np.int64)
    first_reader = np.full(bursts.distinct, -1, np.int64)
    next_reader = np.full(n, -1, np.int64)
    writes_pending = np.zeros(bursts.distinct, np.int64)
    done = np.full(n, -1, np.int64)
    accepted = np.full(n, -1, np.int64)
    counts = np.zeros(7, np.int64)
    commands = np.zeros((log, 6), np.int64)
    logged = 0
    open_cycles = 0
    draining = 0
    taken = 0
    finished = 0
    last = 0
    last_accept = 0
    index = 0
    status = FINISHED
    t = 0
    while True:
        if finished == n and t >= last:
            break
        if t >= max_cycles:
            status = CUT_SHORT
            break
        if taken == n and draining == 0 and held[0] == 0 and held[1] > 0:
            draining = held[1]
        if channel.refresh_interval > 0 and t > 0 and t % channel.refresh_interval == 0:
            due[n_due] = next_rank
            n_due = min(n_due + 1, 63)
            next_rank = (next_rank + 1) % ranks
        # ---- issue: a refresh first, then the first ready command, queues in turn ------------------------------------------
        issued_kind = -1  # 0 row command, 1 column command
        for attempt in range(2 if channel.dual == 1 else 1):
            command, q, place = -1, -1, -1
            rank = 0
            if attempt == 0 and n_due > 0:
                rank = due[0]
                refreshing = rank
                ready_banks = 0
                for b in range(groups * banks):
                    bank_queue = rank * groups * banks + b
                    wants = REFRESH if open_row[bank_queue] < 0 else PRECHARGE
                    if t >= earliest[rank, b // banks, b % banks, wants]:
                        if wants == PRECHARGE:
                            command, q = PRECHARGE, bank_queue
                            break
                        ready_banks += 1
                if command < 0 and ready_banks == groups * banks:
                    command, q = REFRESH, rank * groups * banks
                    refreshing = -1
            if attempt == 1 and issued_kind < 0:
                break
            if command < 0 and t >= wake:
                later = max_cycles
                for _ in range(n_queues):
                    index += 1
                    if index == n_queues:
                        index = 0
                    row = open_row[index]
                    if depth[index] == 0 and (channel.open_page == 1 or row < 0):
                        continue
                    r = index // (groups * banks)
                    if r == refreshing:
                        continue
                    g, b = index // banks % groups, index % banks
                    if depth[index] == 0:
                        if t >= earliest[r, g, b, PRECHARGE]:
                            command, q = PRECHARGE, index
                            break
                        later = min(later, earliest[r, g, b, PRECHARGE])
                        continue
                    if row < 0:
                        opens = max(earliest[r, g, b, ACTIVATE], _window_opens(channel.window, activated, turn, r))
                        if t >= opens:
                            command, q, place = ACTIVATE, index, 0
                        later = min(later, opens)
                    else:
                        for i in range(depth[index]):
                            burst = waiting[index, i]
                            if bursts.row[burst] == row:
                                kind = WRITE if bursts.write[burst] == 1 else READ
                                if t < earliest[r, g, b, kind]:
                                    later = min(later, earliest[r, g, b, kind])
                                    continue
                                if kind == WRITE and _read_before(waiting, index, i, bursts.write, bursts.same):
                                    continue
                                command, q, place = kind, index, i
                                break
                            if i == 0 and t < earliest[r, g, b, PRECHARGE]:
                                later = min(later, earliest[r, g, b, PRECHARGE])
                            elif i == 0:
                                wanted = False
                                for j in range(depth[index]):
                                    wanted = wanted or bursts.row[waiting[index, j]] == row
                                if not wanted or hits[index] >= channel.row_limit:
                                    command, q, place = PRECHARGE, index, 0
                                    break
                    if command >= 0:
                        break
                if command < 0:
                    wake = later
            if command < 0:
                break
            wake = 0
            column = command in (READ, WRITE)
            if attempt == 1 and column == (issued_kind == 1):
                break
            issued_kind = 1 if column else 0
            r, g, b = q // (groups * banks), q // banks % groups, q % banks
            if logged < log:
                commands[logged, 0] = t
                commands[logged, 1] = command
                commands[logged, 2] = r
                commands[logged, 3] = -1 if command == REFRESH else g
                commands[logged, 4] = -1 if command == REFRESH else b
                commands[logged, 5] = bursts.row[waiting[q, place]] if place >= 0 else -1
                logged += 1
            counts[command] += 1
            if column:
                burst = waiting[q, place]
                for j in range(place, depth[q] - 1):
                    waiting[q, j] = waiting[q, j + 1]
                depth[q] -= 1
                queued -= 1
                searched[:] = 0
                if hits[q] != 0:
                    counts[5 + command] += 1
                hits[q] += 1
                address = bursts.same[burst]
                if command == READ:
                    reader = first_reader[address]
                    while reader >= 0:
                        done[reader] = t + channel.read_delay
                        finished += 1
                        reader = next_reader[reader]
                    first_reader[address] = -1
                    reads_pending[address] = 0
                    last = max(last, t + channel.read_delay)
                else:
                    writes_pending[address] = 0
                    done[burst] = t + channel.write_delay
                    finished += 1
                    last = max(last, t + channel.write_delay)
            elif command == ACTIVATE:
                open_row[q] = bursts.row[waiting[q, 0]]
                hits[q] = 0
                open_banks[r] += 1
                for w in range(2):
                    if channel.window[w, 0] > 0:
                        activated[r, w, turn[r, w] % channel.window[w, 0]] = t
                        turn[r, w] += 1
            elif command == PRECHARGE:
                open_row[q] = -1
                hits[q] = 0
                open_banks[r] -= 1
            else:
                for i in range(n_due - 1):
                    due[i] = due[i + 1]
                n_due -= 1
            _apply(command, r, g, b, t, gap, ranks, groups, banks, earliest)
        for r in range(ranks):
            if open_banks[r] > 0:
                open_cycles += 1
        # ---- from the waiting reads or writes into the queues of the banks -----------------------------------------------------
        if draining == 0 and (held[1] >= channel.queue or (held[1] > channel.write_batch and queued == 0)):
            draining = held[1]
        side = 1 if draining > 0 else 0
        for i in range(searched[side], held[side]):
            burst = lists[side, i]
            q = bank_of[burst]
            if depth[q] < channel.bank_queue:
                if side == 1:
                    if reads_pending[bursts.same[burst]] > 0:
                        draining = 0
                        break
                    draining -= 1
                waiting[q, depth[q]] = burst
                depth[q] += 1
                queued += 1
                wake = 0
                for j in range(i, held[side] - 1):
                    lists[side, j] = lists[side, j + 1]
                held[side] -= 1
                break
            searched[side] = i + 1
        # ---- one burst in ------------------------------------------------------------------------------------------------------
        if taken < n and bursts.ready[taken] <= t:
            side = bursts.write[taken]
            if held[side] < channel.queue:
                address = bursts.same[taken]
                last_accept = t + 1
                accepted[taken] = t + 1
                if side == 1:
                    if writes_pending[address] == 0:
                        writes_pending[address] = 1
                        lists[1, held[1]] = taken
                        held[1] += 1
                    else:
                        done[taken] = t + 2
                        finished += 1
                elif writes_pending[address] > 0:
                    done[taken] = t + 2
                    finished += 1
                    last = max(last, t + 2)
                else:
                    next_reader[taken] = first_reader[address]
                    first_reader[address] = taken
                    reads_pending[address] += 1
                    if reads_pending[address] == 1:
                        lists[0, held[0]] = taken
                        held[0] += 1
                taken += 1
        # ---- the next cycle in which anything can happen -----------------------------------------------------------------------
        t += 1
        if n_due > 0 or t >= wake:
            continue
        side = 1 if draining > 0 else 0
        drains = held[1] >= channel.queue or (held[1] > channel.write_batch and queued == 0)
        drains = drains or (taken == n and held[0] == 0 and held[1] > 0)
        if searched[side] < held[side] or (draining == 0 and drains):
            continue
        until = min(wake, max_cycles)
        if taken < n and held[bursts.write[taken]] < channel.queue:
            until = min(until, bursts.ready[taken])
        if finished == n:
            until = min(until, last)
        if channel.refresh_interval > 0:
            until = min(until, -(-t // channel.refresh_interval) * channel.refresh_interval)
        if until > t:
            for r in range(ranks):
                if open_banks[r] > 0:
                    open_cycles += until - t
            t = until
    return Served(last, done, counts, open_cycles, commands[:logged], last_accept, status, accepted)


@njit
def _window_opens(window: IntArray, activated: IntArray, turn: IntArray, r: int) -> int:
    """The first cycle in which a rank may have one more activate in its windows."""
    opens = 0
    for w in range(2):
        size = window[w, 0]
        if size > 0 and turn[r, w] >= size:
            opens = max(opens, activated[r, w, turn[r, w] % size] + window[w, 1])
    return opens


@njit
def _read_before(waiting: IntArray, q: int, place: int, write: IntArray, same: IntArray) -> bool:
    """Whether an older read of the same burst waits in the queue."""
    for j in range(place):
        if write[waiting[q, j]] == 0 and same[waiting[q, j]] == same[waiting[q, place]]:
            return True
    return False
