"""Which command a DRAM channel issues next, and what follows from it (D2, D5-D8, D10 of `codesign.timing.dram.controller`)."""

from codesign.core.jit import njit_inline
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
from codesign.timing.dram.channel_state import (
    COMPLETE,
    DEPTH,
    DUE,
    HITS,
    LAST,
    LOGGED,
    OPEN_ROW,
    QUEUED,
    READS,
    REFRESHING,
    TURN,
    WAKE,
    WRITES,
    ChannelState,
)

_NONE = -1
_NEVER = 1 << 60
_NOTHING, _ROW_COMMAND, _COLUMN_COMMAND = 0, 1, 2


@njit_inline
def issue_commands(channel: Channel, bursts: Bursts, state: ChannelState, t: int) -> None:
    """A refresh first, then the first ready command, queues in turn (D5, D7); a row and a column command with `dual` (D10)."""
    number = state.number
    issued = _NOTHING
    for attempt in range(2 if channel.dual == 1 else 1):
        command, q, place = _NONE, _NONE, _NONE
        if attempt == 0 and number[DUE] > 0:
            command, q = _refresh_command(channel, state, t)
        if attempt == 1 and issued == _NOTHING:
            break
        if command == _NONE and t >= number[WAKE]:
            command, q, place = _first_ready(channel, bursts, state, t)
        if command == _NONE:
            break
        number[WAKE] = 0
        kind = _COLUMN_COMMAND if command in (READ, WRITE) else _ROW_COMMAND
        if attempt == 1 and kind == issued:
            break
        issued = kind
        _issue(channel, bursts, state, command, q, place, t)


@njit_inline
def _refresh_command(channel: Channel, state: ChannelState, t: int) -> tuple[int, int]:
    """What the rank that needs a refresh is ready for: a precharge of an open bank, or the refresh; and the bank (D7)."""
    rank, size = state.due[0], channel.groups * channel.banks
    state.number[REFRESHING] = rank
    ready = 0
    for b in range(size):
        wants = REFRESH if state.bank[rank * size + b, OPEN_ROW] < 0 else PRECHARGE
        if t >= state.earliest[rank, b // channel.banks, b % channel.banks, wants]:
            if wants == PRECHARGE:
                return PRECHARGE, rank * size + b
            ready += 1
    if ready < size:
        return _NONE, _NONE
    state.number[REFRESHING] = -1
    return REFRESH, rank * size


@njit_inline
def _first_ready(channel: Channel, bursts: Bursts, state: ChannelState, t: int) -> tuple[int, int, int]:
    """The first queue after the last one that has a ready command: command, bank, place of its burst in the queue (D5).

    Where none has, `WAKE` becomes the first cycle in which one may have.
    """
    number, queues = state.number, state.bank.shape[0]
    wake = _NEVER
    for _ in range(queues):
        q = number[TURN] + 1 if number[TURN] + 1 < queues else 0
        number[TURN] = q
        command, place, later = _ready_command(channel, bursts, state, q, t)
        if command != _NONE:
            return command, q, place
        wake = min(wake, later)
    number[WAKE] = wake
    return _NONE, _NONE, _NONE


@njit_inline
def _ready_command(channel: Channel, bursts: Bursts, state: ChannelState, q: int, t: int) -> tuple[int, int, int]:
    """The ready command of one bank, the place of its burst, and else the first cycle in which there may be one."""
    row, depth = state.bank[q, OPEN_ROW], state.bank[q, DEPTH]
    if depth == 0 and (channel.open_page == 1 or row < 0):
        return _NONE, _NONE, _NEVER
    r, g, b = q // (channel.groups * channel.banks), q // channel.banks % channel.groups, q % channel.banks
    if r == state.number[REFRESHING]:
        return _NONE, _NONE, _NEVER
    if depth == 0:
        later = state.earliest[r, g, b, PRECHARGE]
        return (PRECHARGE if t >= later else _NONE), _NONE, later
    if row < 0:
        later = max(state.earliest[r, g, b, ACTIVATE], _window_opens(channel, state, r))
        return (ACTIVATE if t >= later else _NONE), 0, later
    later = _NEVER
    for i in range(depth):
        burst = state.waiting[q, i]
        if bursts.row[burst] == row:
            kind = WRITE if bursts.write[burst] == 1 else READ
            if t < state.earliest[r, g, b, kind]:
                later = min(later, state.earliest[r, g, b, kind])
            elif kind == READ or not _read_before(bursts, state, q, i):
                return kind, i, later
        elif i == 0 and t < state.earliest[r, g, b, PRECHARGE]:
            later = min(later, state.earliest[r, g, b, PRECHARGE])
        elif i == 0 and (state.bank[q, HITS] >= channel.row_limit or not _row_wanted(bursts, state, q)):
            return PRECHARGE, 0, later
    return _NONE, _NONE, later


@njit_inline
def _window_opens(channel: Channel, state: ChannelState, r: int) -> int:
    """The first cycle in which a rank may have one more activate in its windows (D2)."""
    opens = 0
    for w in range(2):
        size = channel.window[w, 0]
        if size > 0 and state.activates[r, w] >= size:
            opens = max(opens, state.activated[r, w, state.activates[r, w] % size] + channel.window[w, 1])
    return opens


@njit_inline
def _read_before(bursts: Bursts, state: ChannelState, q: int, place: int) -> bool:
    """Whether an older read of the same burst waits in the queue."""
    address = bursts.same[state.waiting[q, place]]
    for j in range(place):
        if bursts.write[state.waiting[q, j]] == 0 and bursts.same[state.waiting[q, j]] == address:
            return True
    return False


@njit_inline
def _row_wanted(bursts: Bursts, state: ChannelState, q: int) -> bool:
    """Whether a burst in the queue wants the open row (D6)."""
    for j in range(state.bank[q, DEPTH]):
        if bursts.row[state.waiting[q, j]] == state.bank[q, OPEN_ROW]:
            return True
    return False


@njit_inline
def _issue(channel: Channel, bursts: Bursts, state: ChannelState, command: int, q: int, place: int, t: int) -> None:
    """Note a command and do what it does."""
    r = q // (channel.groups * channel.banks)
    _log(channel, bursts, state, command, q, place, t)
    state.counts[command] += 1
    if command in (READ, WRITE):
        _serve_burst(channel, bursts, state, command, q, place, t)
    elif command == ACTIVATE:
        state.bank[q, OPEN_ROW], state.bank[q, HITS] = bursts.row[state.waiting[q, 0]], 0
        state.open_banks[r] += 1
        for w in range(2):
            if channel.window[w, 0] > 0:
                state.activated[r, w, state.activates[r, w] % channel.window[w, 0]] = t
                state.activates[r, w] += 1
    elif command == PRECHARGE:
        state.bank[q, OPEN_ROW], state.bank[q, HITS] = -1, 0
        state.open_banks[r] -= 1
    else:
        for i in range(state.number[DUE] - 1):
            state.due[i] = state.due[i + 1]
        state.number[DUE] -= 1
    _hold_back(channel, state, command, q, t)


@njit_inline
def _log(channel: Channel, bursts: Bursts, state: ChannelState, command: int, q: int, place: int, t: int) -> None:
    """Keep a command while there is room."""
    row = state.number[LOGGED]
    if row >= state.commands.shape[0]:
        return
    state.commands[row, 0], state.commands[row, 1] = t, command
    state.commands[row, 2] = q // (channel.groups * channel.banks)
    state.commands[row, 3] = -1 if command == REFRESH else q // channel.banks % channel.groups
    state.commands[row, 4] = -1 if command == REFRESH else q % channel.banks
    state.commands[row, 5] = bursts.row[state.waiting[q, place]] if place >= 0 else -1
    state.number[LOGGED] = row + 1


@njit_inline
def _serve_burst(
    channel: Channel, bursts: Bursts, state: ChannelState, command: int, q: int, place: int, t: int
) -> None:
    """A read or write: its burst leaves the queue; a read serves all that wait for its address (D8)."""
    number, burst = state.number, state.waiting[q, place]
    for j in range(place, state.bank[q, DEPTH] - 1):
        state.waiting[q, j] = state.waiting[q, j + 1]
    state.bank[q, DEPTH] -= 1
    number[QUEUED] -= 1
    state.searched[READS] = state.searched[WRITES] = 0
    if state.bank[q, HITS] != 0:
        state.counts[5 + command] += 1
    state.bank[q, HITS] += 1
    address = bursts.same[burst]
    beat = t + (channel.read_delay if command == READ else channel.write_delay)
    number[LAST] = max(number[LAST], beat)
    if command == WRITE:
        state.pending[address, WRITES] = 0
        state.done[burst] = beat
        number[COMPLETE] += 1
        return
    reader = state.first_reader[address]
    while reader >= 0:
        state.done[reader] = beat
        number[COMPLETE] += 1
        reader = state.next_reader[reader]
    state.first_reader[address] = -1
    state.pending[address, READS] = 0


@njit_inline
def _hold_back(channel: Channel, state: ChannelState, command: int, q: int, t: int) -> None:
    """Set the earliest cycles of what may follow a command (D2)."""
    rank, group, bank = (
        q // (channel.groups * channel.banks),
        q // channel.banks % channel.groups,
        q % channel.banks,
    )
    for r in range(channel.ranks):
        if command == REFRESH and r != rank:
            continue
        for g in range(channel.groups):
            for b in range(channel.banks):
                if command == REFRESH:
                    scope = WHOLE_RANK
                elif r != rank:
                    scope = OTHER_RANK
                elif g != group:
                    scope = OTHER_GROUP
                else:
                    scope = SAME_BANK if b == bank else SAME_GROUP
                for after in range(5):
                    least = channel.gap[scope, command, after]
                    if least != NO_GAP and t + least > state.earliest[r, g, b, after]:
                        state.earliest[r, g, b, after] = t + least
