"""Compiled: timing of a fusion scheme without search over the DRAM attributes.

`double_buffer` is the published rule: every load one position ahead, every store one position late. `prefetch` builds
DRAM attributes greedily: the channel always takes the transfer with the earliest deadline that the buffer can hold, loads as
early as the buffer allows, stores as late as they may. Both read the same arrays:

loads sorted by first use: `use`, `size`, `cycles`, `dep` (index of the store that must come first, -1: none);
stores sorted by position: `at`, `size`, `cycles`, `end` (default end of the living duration).
"""

import numpy as np

from codesign.core.jit import njit
from codesign.scheduling.soma.model.layer_graph import IntArray

Loads = tuple[IntArray, IntArray, IntArray, IntArray]
Stores = tuple[IntArray, IntArray, IntArray, IntArray]

T_NEVER = 1 << 62
MOST_AHEAD, LEAST_AHEAD, AHEAD_WORK = 2048, 64, 1 << 19
"""Positions a load may start ahead of its use: fewer when there are many loads, which bounds the work on very long schedules."""


@njit
def double_buffer(
    tile_time: IntArray,
    T: int,
    loads: Loads,
    l_weight: IntArray,
    n_loads: int,
    stores: Stores,
    n_stores: int,
    ready: IntArray,
) -> int:
    """Latency under the default DRAM order and living durations; `ready` is scratch of ``T + 1``."""
    l_use, _l_size, l_cycles, _l_dep = loads
    s_at, _s_size, s_cycles, s_end = stores
    ready[: T + 1] = 0
    before, now, dram, load, store = 0, 0, 0, 0, 0
    for p in range(-1, T):
        # `now` is the end of tile p, `before` the end of tile p - 1; bucket p of the DRAM order is issued here.
        while load < n_loads and l_use[load] == p + 1 and l_weight[load]:
            dram = max(dram, before) + l_cycles[load]
            ready[p + 1] = max(ready[p + 1], dram)
            load += 1
        own = store < n_stores and s_at[store] == p
        if own and s_end[store] == p + 1:
            dram = max(dram, now) + s_cycles[store]
            ready[p + 1] = max(ready[p + 1], dram)
            store += 1
            own = False
        while load < n_loads and l_use[load] == p + 1:
            dram = max(dram, before) + l_cycles[load]
            ready[p + 1] = max(ready[p + 1], dram)
            load += 1
        if own:
            dram = max(dram, now) + s_cycles[store]
            e = s_end[store]
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


# Entries of the walk's state.
_COUNT, _DRAM, _FREE, _BOUND, _STORE, _FREE_FROM, _BOUND_FROM, N_STATE = range(8)


@njit
def skip_to(l_dep: IntArray, k: int, n_loads: int, dependent: bool) -> int:
    """First load from `k` on that waits for a store (or, with `dependent` false, that does not)."""
    while k < n_loads and (l_dep[k] >= 0) != dependent:
        k += 1
    return k


@njit
def issue_store(
    state: IntArray,
    s_at: IntArray,
    s_cycles: IntArray,
    s_end: IntArray,
    ready: IntArray,
    sequence: IntArray,
    before: int,
    own_end: int,
    p: int,
) -> None:
    """Put the next store on the channel; `before`, `own_end` are the ends of tiles p - 1 and p."""
    j = state[_STORE]
    release = own_end if s_at[j] == p else before
    state[_DRAM] = max(state[_DRAM], release) + s_cycles[j]
    ready[s_end[j]] = max(ready[s_end[j]], state[_DRAM])
    sequence[state[_COUNT]] = -1 - j
    state[_COUNT] += 1
    state[_STORE] += 1


@njit
def issue_load(
    state: IntArray, loads: Loads, n_loads: int, k: int, start: int, release: int, usage: IntArray, ready: IntArray,
    l_start: IntArray, sequence: IntArray,
) -> None:  # fmt: skip
    """Put load `k` on the channel with living duration from `start`."""
    l_use, l_size, l_cycles, l_dep = loads
    l_start[k] = start
    size = l_size[k]
    for x in range(start, l_use[k]):
        usage[x + 1] += size
    state[_DRAM] = max(state[_DRAM], release) + l_cycles[k]
    ready[l_use[k]] = max(ready[l_use[k]], state[_DRAM])
    sequence[state[_COUNT]] = k
    state[_COUNT] += 1
    if l_dep[k] < 0:
        state[_FREE] = skip_to(l_dep, k + 1, n_loads, False)
        state[_FREE_FROM] = 0
    else:
        state[_BOUND] = skip_to(l_dep, k + 1, n_loads, True)
        state[_BOUND_FROM] = 0


@njit
def choose(
    state: IntArray, l_use: IntArray, l_size: IntArray, l_dep: IntArray, n_loads: int, s_at: IntArray, s_end: IntArray, n_stores: int,
    usage: IntArray, limit: int, look: int, p: int,
) -> int:  # fmt: skip
    """The transfer to start while tile p runs: 0 none, 1 load without, 2 with a store to wait for, 3 store."""
    choice, deadline = 0, T_NEVER
    k = state[_FREE]
    if k < n_loads and state[_FREE_FROM] <= p and l_use[k] - p <= look:
        conflict = last_conflict(usage, p, l_use[k] - 1, limit - l_size[k])
        if conflict < p:
            choice, deadline = 1, l_use[k]
        else:
            state[_FREE_FROM] = conflict + 1
    k = state[_BOUND]
    if k < n_loads and state[_BOUND_FROM] <= p and l_dep[k] < state[_STORE] and l_use[k] < min(deadline, p + look):
        conflict = last_conflict(usage, p, l_use[k] - 1, limit - l_size[k])
        if conflict < p:
            choice, deadline = 2, l_use[k]
        else:
            state[_BOUND_FROM] = conflict + 1
    j = state[_STORE]
    if j < n_stores and s_at[j] < p and s_end[j] < deadline:
        choice = 3
    return choice


@njit
def settle_stores(
    state: IntArray, stores: Stores, due: int, q: int, T: int, limit: int, usage: IntArray, ready: IntArray,
    must: IntArray, sequence: IntArray, before: int, own_end: int,
) -> None:  # fmt: skip
    """Stores due before tile q: one position later when the buffer has room, else now. Stores up to `due` cannot wait."""
    s_at, s_size, s_cycles, s_end = stores
    while state[_STORE] <= max(must[q], due):
        j = state[_STORE]
        last = j == must[q] and j > due
        if last and s_end[j] == q and q < T and usage[q + 1] + s_size[j] <= limit:
            usage[q + 1] += s_size[j]
            s_end[j] = q + 1
            must[q + 1] = max(must[q + 1], j)
            return
        issue_store(state, s_at, s_cycles, s_end, ready, sequence, before, own_end, q - 1)


@njit
def prefetch(
    tile_time: IntArray, T: int, limit: int, usage: IntArray, loads: Loads, n_loads: int, stores: Stores, n_stores: int,
    ready: IntArray, must: IntArray, l_start: IntArray, sequence: IntArray,
) -> int:  # fmt: skip
    """Build DRAM attributes greedily and return their latency.

    Args:
        tile_time: ``T`` cycles per position.
        T: Positions.
        limit: Bytes the buffer may hold.
        usage: ``T + 1`` bytes held at positions -1..T-1 when every load is held from its first use only; updated.
        loads: `use`, `size`, `cycles`, `dep`, increasing in use.
        n_loads: Loads.
        stores: `at`, `size`, `cycles`, `end`, increasing in position; `end` is moved later where that is better.
        n_stores: Stores.
        ready: Scratch ``T + 1``.
        must: Scratch ``T + 1``.
        l_start: Result: start of each load's living duration.
        sequence: Result: DRAM order, loads as their index, stores as ``-1 - index``.

    Returns:
        Cycles, or -1 when what the first tile needs does not fit the buffer.
    """
    l_use, l_size, _l_cycles, l_dep = loads
    s_at, _s_size, s_cycles, s_end = stores
    ready[: T + 1] = 0
    must[: T + 1] = -1
    for j in range(n_stores):
        must[s_end[j]] = j
    look = min(MOST_AHEAD, max(LEAST_AHEAD, AHEAD_WORK // max(n_loads, 1)))
    state = np.zeros(N_STATE, np.int64)
    state[_FREE] = skip_to(l_dep, 0, n_loads, False)
    state[_BOUND] = skip_to(l_dep, 0, n_loads, True)
    while state[_FREE] < n_loads and l_use[state[_FREE]] == 0:
        k = state[_FREE]
        usage[0] += l_size[k]
        issue_load(state, loads, n_loads, k, 0, 0, usage, ready, l_start, sequence)
        l_start[k] = -1
    if usage[0] > limit:
        return -1
    now = state[_DRAM]
    before = now
    for p in range(T):
        end_p = now + tile_time[p]
        while state[_DRAM] < end_p:
            choice = choose(state, l_use, l_size, l_dep, n_loads, s_at, s_end, n_stores, usage, limit, look, p)
            if choice == 0:
                break
            if choice == 3:
                issue_store(state, s_at, s_cycles, s_end, ready, sequence, before, end_p, p)
            else:
                k = state[_FREE] if choice == 1 else state[_BOUND]
                issue_load(state, loads, n_loads, k, p, before, usage, ready, l_start, sequence)
        # What tile p + 1 waits for and is not yet on its way: live loads, stores, live loads those held up, late loads.
        q = p + 1
        for turn in range(3):
            if turn == 1:
                due = -1
                k = state[_BOUND]
                while k < n_loads and l_use[k] == q:
                    due = max(due, l_dep[k])
                    k = skip_to(l_dep, k + 1, n_loads, True)
                settle_stores(state, stores, due, q, T, limit, usage, ready, must, sequence, before, end_p)
            for kind in range(2):
                while True:
                    k = state[_FREE] if kind == 0 else state[_BOUND]
                    if k >= n_loads or l_use[k] != q or l_dep[k] >= state[_STORE]:
                        break
                    if turn < 2 and usage[p + 1] + l_size[k] > limit:
                        break
                    start = p if turn < 2 else q
                    release = before if turn < 2 else end_p
                    issue_load(
                        state,
                        loads,
                        n_loads,
                        k,
                        start,
                        release,
                        usage,
                        ready,
                        l_start,
                        sequence,
                    )
        before = end_p
        now = max(end_p, ready[q])
    return int(max(now, state[_DRAM]))
