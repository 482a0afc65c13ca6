"""One DRAM channel, command by command: banks, row buffers, command gaps, refresh, first-ready scheduling.

The rules below describe a controller as S. Rixner et al., "Memory access scheduling", ISCA 2000, and the JEDEC gaps
between commands; queues, batches of writes and the order of refreshes are parameters of the device table.

* D1: An address falls into row, channel, rank, bank group, bank, column by the order of ``address_mapping``.
* D2: Commands keep JEDEC's least distances by scope. At most four activates of a rank fall into tFAW (GDDR: 32 into
  t32AW).
* D3: One burst is taken each cycle, in order. A full queue holds up what comes behind.
* D4: Each cycle one burst moves to its bank's queue. Reads go first. Writes go in batches: when their queue is full,
  or more than ``write_batch`` wait and no bank has work. A batch ends before a write whose address a waiting read
  has; where nothing else could move, reads then go until that one has.
* D5: Bank queues are asked in turn; the first command that keeps its distances is issued, a hit before a miss.
* D6: A row stays open until another is wanted and no queued burst wants it, or after ``row_limit`` hits.
* D7: Every tREFI / ranks cycles one rank, in turn, closes its rows and refreshes for tRFC.
* D8: Two waiting reads of one burst are one command. A read takes a burst from a waiting write.
* D9: Energy is VDD x current x time: activate ``IDD0 tRC - IDD3N tRAS - IDD2N tRP``, read ``(IDD4R - IDD3N) burst``,
  refresh ``(IDD5AB - IDD3N) tRFC``, and standby.
* D10: HBM issues a row and a column command in one cycle. With ``open_page: false`` a row closes when its queue is
  empty.
"""

from codesign.core.jit import njit, njit_inline
from codesign.timing.dram.channel import CUT_SHORT, FINISHED, Bursts, Channel, Served
from codesign.timing.dram.channel_state import (
    BLOCKED,
    COMPLETE,
    CYCLE,
    DEPTH,
    DRAINING,
    DUE,
    LAST,
    LOGGED,
    NEXT_RANK,
    OPEN_CYCLES,
    QUEUED,
    READS,
    TAKEN,
    WAKE,
    WRITES,
    ChannelState,
    idle_channel,
)
from codesign.timing.dram.commands import issue_commands


def serve(channel: Channel, bursts: Bursts, log: int, max_cycles: int) -> Served:
    """Serve bursts in order of arrival, at most one taken a cycle, as fast as the queues accept.

    Args:
        channel: The device and its controller.
        bursts: What is asked for.
        log: Commands to keep.
        max_cycles: Cycle at which to give up.
    """
    state = idle_channel(channel, bursts, log)
    status = _run(channel, bursts, state, max_cycles)
    number = state.number
    return Served(
        cycles=int(number[LAST]),
        done=state.done,
        counts=state.counts,
        open_cycles=int(number[OPEN_CYCLES]),
        commands=state.commands[: number[LOGGED]],
        status=status,
        accepted=state.accepted,
    )


@njit
def _run(channel: Channel, bursts: Bursts, state: ChannelState, max_cycles: int) -> int:
    """Cycle after cycle, until every burst is complete; returns how it ended."""
    number, n = state.number, bursts.ready.shape[0]
    while number[COMPLETE] < n or number[CYCLE] < number[LAST]:
        t = number[CYCLE]
        if t >= max_cycles:
            return CUT_SHORT
        if number[DRAINING] == 0 and number[TAKEN] == n and state.held[READS] == 0:
            number[DRAINING] = state.held[WRITES]
        _note_refresh(channel, state, t)
        issue_commands(channel, bursts, state, t)
        _count_open(state, 1)
        _fill_bank_queues(channel, bursts, state)
        _take_burst(channel, bursts, state, t)
        number[CYCLE] = _next_cycle(channel, bursts, state, t + 1, max_cycles)
    return FINISHED


@njit_inline
def _note_refresh(channel: Channel, state: ChannelState, t: int) -> None:
    """Every interval the next rank needs a refresh (D7)."""
    number = state.number
    if channel.refresh_interval > 0 and t > 0 and t % channel.refresh_interval == 0:
        state.due[number[DUE]] = number[NEXT_RANK]
        number[DUE] = min(number[DUE] + 1, state.due.shape[0] - 1)
        number[NEXT_RANK] = (number[NEXT_RANK] + 1) % channel.ranks


@njit_inline
def _count_open(state: ChannelState, cycles: int) -> None:
    """Count cycles of the ranks that have an open row."""
    for r in range(state.open_banks.shape[0]):
        if state.open_banks[r] > 0:
            state.number[OPEN_CYCLES] += cycles


@njit_inline
def _still_blocked(bursts: Bursts, state: ChannelState) -> bool:
    """Whether the read that a batch of writes was given up for still waits to move."""
    for i in range(state.held[READS]):
        if bursts.same[state.lists[READS, i]] == state.number[BLOCKED] - 1:
            return True
    state.number[BLOCKED] = 0
    return False


@njit_inline
def _batch_is_due(channel: Channel, bursts: Bursts, state: ChannelState) -> bool:
    """Whether writes go first from now on: their queue is full, or enough wait and no bank has work (D4)."""
    if state.number[BLOCKED] > 0 and _still_blocked(bursts, state):
        return False
    writes = state.held[WRITES]
    return bool(writes >= channel.queue or (writes > channel.write_batch and state.number[QUEUED] == 0))


@njit_inline
def _fill_bank_queues(channel: Channel, bursts: Bursts, state: ChannelState) -> None:
    """One of the waiting reads, or of a batch of writes, goes into the queue of its bank (D4)."""
    number = state.number
    if number[DRAINING] == 0 and _batch_is_due(channel, bursts, state):
        number[DRAINING] = state.held[WRITES]
    side = WRITES if number[DRAINING] > 0 else READS
    for i in range(state.searched[side], state.held[side]):
        burst = state.lists[side, i]
        q = state.bank_of[burst]
        if state.bank[q, DEPTH] >= channel.bank_queue:
            state.searched[side] = i + 1  # what is searched once is not searched again before a queue gets room
            continue
        if side == WRITES:
            if state.pending[bursts.same[burst], READS] > 0:
                number[DRAINING] = 0
                if number[QUEUED] == 0:  # nothing else would ever move
                    number[BLOCKED] = bursts.same[burst] + 1
                return
            number[DRAINING] -= 1
        state.waiting[q, state.bank[q, DEPTH]] = burst
        state.bank[q, DEPTH] += 1
        number[QUEUED] += 1
        number[WAKE] = 0
        for j in range(i, state.held[side] - 1):
            state.lists[side, j] = state.lists[side, j + 1]
        state.held[side] -= 1
        return


@njit_inline
def _take_burst(channel: Channel, bursts: Bursts, state: ChannelState, t: int) -> None:
    """One burst in, if it is there and its queue has room (D3); one whose address waits already makes no command (D8)."""
    number, burst = state.number, state.number[TAKEN]
    if burst >= bursts.ready.shape[0] or bursts.ready[burst] > t or state.held[bursts.write[burst]] >= channel.queue:
        return
    address, side = bursts.same[burst], bursts.write[burst]
    number[TAKEN] += 1
    state.accepted[burst] = t + 1
    if state.pending[address, WRITES] > 0:  # merged with the write that waits, or read from it
        state.done[burst] = t + 2
        number[COMPLETE] += 1
        if side == READS:
            number[LAST] = max(number[LAST], t + 2)
        return
    state.pending[address, side] += 1
    if side == READS:
        state.next_reader[burst] = state.first_reader[address]
        state.first_reader[address] = burst
    if state.pending[address, side] == 1:
        state.lists[side, state.held[side]] = burst
        state.held[side] += 1


@njit_inline
def _next_cycle(channel: Channel, bursts: Bursts, state: ChannelState, t: int, max_cycles: int) -> int:
    """The first cycle from t on in which anything can happen."""
    number, n = state.number, bursts.ready.shape[0]
    if number[DUE] > 0 or t >= number[WAKE]:
        return t
    side = WRITES if number[DRAINING] > 0 else READS
    drains = _batch_is_due(channel, bursts, state)
    drains = drains or (number[TAKEN] == n and state.held[READS] == 0 and state.held[WRITES] > 0)
    if state.searched[side] < state.held[side] or (number[DRAINING] == 0 and drains):
        return t
    until = min(number[WAKE], max_cycles)
    if number[TAKEN] < n and state.held[bursts.write[number[TAKEN]]] < channel.queue:
        until = min(until, bursts.ready[number[TAKEN]])
    if number[COMPLETE] == n:
        until = min(until, number[LAST])
    if channel.refresh_interval > 0:
        until = min(until, -(-t // channel.refresh_interval) * channel.refresh_interval)
    if until <= t:
        return t
    _count_open(state, until - t)
    return until  # type: ignore[no-any-return]
