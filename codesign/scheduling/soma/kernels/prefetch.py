"""Compiled: timing of a fusion scheme without search over the DRAM attributes.

`double_buffer` is the published rule: every load one position ahead, every store one position late. `prefetch` builds
DRAM attributes greedily: the channel always takes the transfer with the earliest deadline that the buffer can hold, loads as
early as the buffer allows, stores as late as they may. Both read a `kernels.records.Channel`.
"""

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.core.kernel_library import IntArray
from codesign.scheduling.soma.kernels.records import Channel, Extent

T_NEVER = 1 << 62
MOST_AHEAD, LEAST_AHEAD, AHEAD_WORK = 2048, 64, 1 << 19
"""Positions a load may start ahead of its use: fewer when there are many loads, which bounds the work on very long schedules."""


@njit
def double_buffer(extent: Extent, channel: Channel) -> int:
    """Latency under the default DRAM order and living durations."""
    tile_time, loads, stores, ready = channel.tile_time, channel.loads, channel.stores, channel.ready
    T = extent.tiles
    ready[: T + 1] = 0
    before, now, dram, load, store = 0, 0, 0, 0, 0
    for p in range(-1, T):
        # `now` is the end of tile p, `before` the end of tile p - 1; bucket p of the DRAM order is issued here.
        while load < extent.loads and loads.use[load] == p + 1 and loads.weight[load]:
            dram = max(dram, before) + loads.cycles[load]
            ready[p + 1] = max(ready[p + 1], dram)
            load += 1
        own = store < extent.stores and stores.at[store] == p
        if own and stores.end[store] == p + 1:
            dram = max(dram, now) + stores.cycles[store]
            ready[p + 1] = max(ready[p + 1], dram)
            store += 1
            own = False
        while load < extent.loads and loads.use[load] == p + 1:
            dram = max(dram, before) + loads.cycles[load]
            ready[p + 1] = max(ready[p + 1], dram)
            load += 1
        if own:
            dram = max(dram, now) + stores.cycles[store]
            e = stores.end[store]
            ready[e] = max(ready[e], dram)
            store += 1
        before = now
        if p + 1 < T:
            now = max(now, ready[p + 1]) + tile_time[p + 1]
    return max(now, dram)


@njit
def last_conflict(usage: IntArray, lo: int, hi: int, room: int) -> int:
    """Last position in ``lo..hi`` where more than `room` bytes are held; lo - 1 when there is none."""
    for p in range(hi, lo - 1, -1):
        if usage[p + 1] > room:
            return p
    return lo - 1


# Entries of the walk's state: transfers issued, end of the last, the next load without and with a store to wait for, the next
# store, and the positions from which the two loads may fit.
_COUNT, _DRAM, _FREE, _BOUND, _STORE, _FREE_FROM, _BOUND_FROM, N_STATE = range(8)


@njit
def skip_to(dep: IntArray, k: int, n_loads: int, dependent: bool) -> int:
    """First load from `k` on that waits for a store (or, with `dependent` false, that does not)."""
    while k < n_loads and (dep[k] >= 0) != dependent:
        k += 1
    return k


@njit
def issue_store(state: IntArray, channel: Channel, before: int, own_end: int, p: int) -> None:
    """Put the next store on the channel; `before`, `own_end` are the ends of tiles p - 1 and p."""
    stores, ready = channel.stores, channel.ready
    j = state[_STORE]
    release = own_end if stores.at[j] == p else before
    state[_DRAM] = max(state[_DRAM], release) + stores.cycles[j]
    ready[stores.end[j]] = max(ready[stores.end[j]], state[_DRAM])
    channel.sequence[state[_COUNT]] = -1 - j
    state[_COUNT] += 1
    state[_STORE] += 1


@njit
def issue_load(state: IntArray, channel: Channel, n_loads: int, k: int, start: int, release: int) -> None:
    """Put load `k` on the channel with living duration from `start`."""
    loads, usage, ready = channel.loads, channel.usage, channel.ready
    use, size = loads.use[k], loads.size[k]
    channel.start[k] = start
    for x in range(start, use):
        usage[x + 1] += size
    state[_DRAM] = max(state[_DRAM], release) + loads.cycles[k]
    ready[use] = max(ready[use], state[_DRAM])
    channel.sequence[state[_COUNT]] = k
    state[_COUNT] += 1
    if loads.dep[k] < 0:
        state[_FREE] = skip_to(loads.dep, k + 1, n_loads, False)
        state[_FREE_FROM] = 0
    else:
        state[_BOUND] = skip_to(loads.dep, k + 1, n_loads, True)
        state[_BOUND_FROM] = 0


@njit
def choose(state: IntArray, extent: Extent, channel: Channel, look: int, p: int) -> int:
    """The transfer to start while tile p runs: 0 none, 1 load without, 2 with a store to wait for, 3 store."""
    loads, stores, usage, limit = channel.loads, channel.stores, channel.usage, extent.limit
    choice, deadline = 0, T_NEVER
    k = state[_FREE]
    if k < extent.loads and state[_FREE_FROM] <= p and loads.use[k] - p <= look:
        conflict = last_conflict(usage, p, loads.use[k] - 1, limit - loads.size[k])
        if conflict < p:
            choice, deadline = 1, loads.use[k]
        else:
            state[_FREE_FROM] = conflict + 1
    k = state[_BOUND]
    if (
        k < extent.loads
        and state[_BOUND_FROM] <= p
        and loads.dep[k] < state[_STORE]
        and loads.use[k] < min(deadline, p + look)
    ):
        conflict = last_conflict(usage, p, loads.use[k] - 1, limit - loads.size[k])
        if conflict < p:
            choice, deadline = 2, loads.use[k]
        else:
            state[_BOUND_FROM] = conflict + 1
    j = state[_STORE]
    if j < extent.stores and stores.at[j] < p and stores.end[j] < deadline:
        choice = 3
    return choice


@njit
def settle_stores(state: IntArray, extent: Extent, channel: Channel, q: int, before: int, own_end: int) -> None:
    """Stores due before tile q: one position later when the buffer has room, else now. Those that a load waits for cannot wait."""
    stores, loads, usage, must = channel.stores, channel.loads, channel.usage, channel.must
    due = -1
    k = state[_BOUND]
    while k < extent.loads and loads.use[k] == q:
        due = max(due, loads.dep[k])
        k = skip_to(loads.dep, k + 1, extent.loads, True)
    while state[_STORE] <= max(must[q], due):
        j = state[_STORE]
        last = j == must[q] and j > due
        if last and stores.end[j] == q and q < extent.tiles and usage[q + 1] + stores.size[j] <= extent.limit:
            usage[q + 1] += stores.size[j]
            stores.end[j] = q + 1
            must[q + 1] = max(must[q + 1], j)
            return
        issue_store(state, channel, before, own_end, q - 1)


@njit
def settle_loads(state: IntArray, extent: Extent, channel: Channel, q: int, live: bool, release: int) -> None:
    """Loads that tile q needs now: with `live` those that the buffer can hold from the tile before, else the others."""
    loads, usage = channel.loads, channel.usage
    for kind in range(2):
        while True:
            k = state[_FREE] if kind == 0 else state[_BOUND]
            if k >= extent.loads or loads.use[k] != q or loads.dep[k] >= state[_STORE]:
                break
            if live and usage[q] + loads.size[k] > extent.limit:
                break
            issue_load(state, channel, extent.loads, k, q - 1 if live else q, release)


@njit_apart
def prefetch(extent: Extent, channel: Channel) -> int:
    """Build DRAM attributes greedily and return their latency.

    Args:
        extent: How much there is of everything.
        channel: Its usage is that of loads held from their first use only, and is updated, as are the stores' ends; starts of loads and
            the sequence are results.

    Returns:
        Cycles, or -1 when what the first tile needs does not fit the buffer.
    """
    loads, ready, must, n_loads, T = channel.loads, channel.ready, channel.must, extent.loads, extent.tiles
    ready[: T + 1] = 0
    must[: T + 1] = -1
    for j in range(extent.stores):
        must[channel.stores.end[j]] = j
    look = min(MOST_AHEAD, max(LEAST_AHEAD, AHEAD_WORK // max(n_loads, 1)))
    state = np.zeros(N_STATE, np.int64)
    state[_FREE] = skip_to(loads.dep, 0, n_loads, False)
    state[_BOUND] = skip_to(loads.dep, 0, n_loads, True)
    while state[_FREE] < n_loads and loads.use[state[_FREE]] == 0:
        k = state[_FREE]
        channel.usage[0] += loads.size[k]
        issue_load(state, channel, n_loads, k, 0, 0)
        channel.start[k] = -1
    if channel.usage[0] > extent.limit:
        return -1
    now = state[_DRAM]
    before = now
    for p in range(T):
        end_p = now + channel.tile_time[p]
        while state[_DRAM] < end_p:
            choice = choose(state, extent, channel, look, p)
            if choice == 0:
                break
            if choice == 3:
                issue_store(state, channel, before, end_p, p)
            else:
                issue_load(state, channel, n_loads, state[_FREE] if choice == 1 else state[_BOUND], p, before)
        # What tile p + 1 waits for and is not yet on its way: live loads, stores, live loads those held up, late loads.
        settle_loads(state, extent, channel, p + 1, True, before)
        settle_stores(state, extent, channel, p + 1, before, end_p)
        settle_loads(state, extent, channel, p + 1, True, before)
        settle_loads(state, extent, channel, p + 1, False, end_p)
        before = end_p
        now = max(end_p, ready[p + 1])
    return int(max(now, state[_DRAM]))
