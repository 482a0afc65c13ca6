"""Compiled: the timing of a DRAM order and the buffer check. Reference data `spec.md`, sections 3 and 4.

One compute engine runs the tiles in sequence; the DRAM channel takes the tensors strictly in DRAM order. With E(p) the
end of tile p, a transfer starts at ``max(channel free, release)``, where the release of a load is
``E(start - 1)`` and that of a store the end of its own tile; tile p starts at ``max(E(p-1), end of every transfer it waits for)``:
loads first used at p, stores whose living duration ends at p, and everything before those in DRAM order.

The rule is restated per transfer, so that it needs one pass over the DRAM order: with ``first`` the start of a load or the position of a
store, and M the largest ``first`` up to a transfer, the transfer may serve deadline d only if ``d > M``, or ``d == M`` and everything
from the first such transfer on is a load used and started at M. A property test holds it to the rule tile by tile.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import IntArray
from codesign.scheduling.soma.kernels.decode import LOAD_BEFORE_STORE, OK, STORE


class Clocks(NamedTuple):
    """What the timing finds, in cycles.

    Attributes:
        tile_end: ``T + 1``: end of each tile.
        ready: ``T + 1``: when all that a tile waits for has been transferred.
        transfer_start: Start of each transfer, by tensor.
    """

    tile_end: IntArray
    ready: IntArray
    transfer_start: IntArray


@njit
def order_latency(
    tile_time: IntArray, kind: IntArray, use: IntArray, cycles: IntArray, life: IntArray, order: IntArray, first_loads: int,
    clocks: Clocks,
) -> int:  # fmt: skip
    """Latency of a DRAM order on one channel, -1 when it cannot run.

    Args:
        tile_time: ``T`` cycles of each tile.
        kind: Load of an input, load of weights, or store, by tensor.
        use: First position that needs a load, or own position of a store.
        cycles: Of the channel.
        life: Position from which a load, and up to which a store, holds the buffer.
        order: Numbers of the tensors in DRAM order.
        first_loads: Loads that tile 0 uses.
        clocks: Result.
    """
    tile_end, ready = clocks.tile_end, clocks.ready
    T = tile_time.shape[0]
    ready[:] = 0
    p, comp, dram, furthest = 0, 0, 0, -1
    carry = False
    for i in range(order.shape[0]):
        t = order[i]
        if kind[t] == STORE:
            first, deadline, release = use[t], life[t], use[t]
            late_load = False
        else:
            first, deadline, release = life[t], use[t], life[t] - 1
            late_load = first == deadline
            if first < 0 and first_loads == 0:
                return -1
        if first > furthest:
            furthest = first
            carry = late_load
        elif first == furthest:
            carry = carry and late_load
        else:
            carry = False
        if deadline <= furthest and not (deadline == furthest and carry):
            return -1
        if deadline == 0:
            if furthest >= 0:
                return -1
            first_loads -= 1
        if release >= 0:
            while p <= release:
                comp = max(comp, ready[p]) + tile_time[p]
                tile_end[p] = comp
                p += 1
            dram = max(dram, tile_end[release])
        clocks.transfer_start[t] = dram
        dram += cycles[t]
        ready[deadline] = dram
    while p < T:
        comp = max(comp, ready[p]) + tile_time[p]
        tile_end[p] = comp
        p += 1
    return max(comp, dram)


@njit
def time_order(
    tile_time: IntArray, kind: IntArray, use: IntArray, cycles: IntArray, start: IntArray, end: IntArray, order: IntArray, clocks: Clocks
) -> int:  # fmt: skip
    """`order_latency` with living durations from `start` to `end`; -1 also where one ends before its use or behind the tiles."""
    life = np.empty(kind.shape[0], np.int64)
    first_loads = 0
    for i in range(order.shape[0]):
        t = order[i]
        if end[t] <= use[t]:
            return -1
        if kind[t] == STORE:
            if end[t] > tile_time.shape[0]:
                return -1
            life[t] = end[t]
        else:
            life[t] = start[t]
            first_loads += use[t] == 0
    return order_latency(tile_time, kind, use, cycles, life, order, first_loads, clocks)


@njit
def buffer_usage(size: IntArray, start: IntArray, end: IntArray, usage: IntArray) -> int:
    """Bytes held at positions -1..T-1 into ``usage[position + 1]``; a tensor counts while ``start <= position < end``.

    Returns:
        The peak.
    """
    T = usage.shape[0]
    usage[:] = 0
    for t in range(size.shape[0]):
        usage[start[t] + 1] += size[t]
        if end[t] + 1 < T:
            usage[end[t] + 1] -= size[t]
    peak = int(usage[0])
    for p in range(1, T):
        usage[p] += usage[p - 1]
        peak = max(peak, int(usage[p]))
    return peak


@njit
def stored_before_loaded(
    order: IntArray, kind: IntArray, layer: IntArray, source: IntArray, rank_of_store: IntArray
) -> int:
    """Whether every load comes after the last store of its producer in DRAM order (`rank_of_store` is scratch, per layer)."""
    rank_of_store[:] = -1
    for i in range(order.shape[0]):
        t = order[i]
        if kind[t] == STORE:
            rank_of_store[layer[t]] = i
    for i in range(order.shape[0]):
        t = order[i]
        if kind[t] == 0 and source[t] >= 0 and rank_of_store[source[t]] > i:
            return LOAD_BEFORE_STORE
    return OK
