"""The two-clock timing rule of the reference data, tile by tile (`spec.md`, sections 3 and 4): an oracle of the one-pass rule.

One compute engine runs the tiles in sequence; the DRAM channel takes the tensors strictly in DRAM order. With E(p) the
end of tile p, a transfer starts at ``max(channel free, release)``, where the release of a load is
``E(start - 1)`` and that of a store the end of its own tile; tile p starts at ``max(E(p-1), end of every transfer it waits for)``:
loads first used at p, stores whose living duration ends at p, and everything before those in DRAM order.
"""

import numpy as np

from codesign.core.kernel_library import IntArray
from codesign.scheduling.soma.kernels.decode import BAD_TENSOR_ORDER, OK, STORE


def deadlines(order: IntArray, kind: IntArray, use: IntArray, end: IntArray, last_needed: IntArray) -> None:
    """Per position 0..T: index in DRAM order of the last transfer that must be done before it, -1 for none."""
    last_needed[:] = -1
    top = last_needed.shape[0] - 1
    for i in range(order.shape[0]):
        t = order[i]
        p = end[t] if kind[t] == STORE else use[t]
        if p <= top:
            last_needed[p] = i
    last_needed[top] = order.shape[0] - 1


def may_issue(order: IntArray, i: int, last: int, p: int, kind: IntArray, use: IntArray, start: IntArray) -> bool:
    """Whether the transfers ``order[i:last+1]`` may all be issued before tile p starts.

    A head is live when its `start` lies before p (a store: its tile has run). One exception: loads of tile p itself
    may have ``start == p`` when nothing else follows them up to the last one needed.
    """
    carry = False
    for j in range(i, last + 1):
        t = order[j]
        first = use[t] if kind[t] == STORE else start[t]
        if first < p and not carry:
            continue
        if kind[t] == STORE or use[t] != p or start[t] != p:
            return False
        carry = True
    return True


def _lives_fit(
    order: IntArray, kind: IntArray, use: IntArray, start: IntArray, end: IntArray, T: int, first: int
) -> bool:
    """Whether every living duration holds the use, and what stands up to `first` in the order is loaded before all tiles."""
    for i in range(order.shape[0]):
        t = order[i]
        if end[t] <= use[t]:
            return False
        if kind[t] == STORE:
            if end[t] > T or i <= first:
                return False
        elif (start[t] < 0) != (i <= first):
            return False
    return True


def simulate(
    tile_time: IntArray, kind: IntArray, layer: IntArray, source: IntArray, use: IntArray, start: IntArray, end: IntArray,
    duration: IntArray, order: IntArray, tile_start: IntArray, transfer_start: IntArray,
) -> tuple[int, int]:  # fmt: skip
    """Run one scheme.

    Args:
        tile_time: ``T`` cycles of each tile.
        kind: ``D`` kinds of the DRAM tensors.
        layer: ``D`` layer of each tensor.
        source: ``D`` layer whose stores must have finished before a load, or -1.
        use: ``D`` first position that needs a load, or own position of a store.
        start: ``D`` start of the living duration.
        end: ``D`` end of it.
        duration: ``D`` transfer cycles.
        order: ``D`` DRAM order.
        tile_start: Result, ``T`` start cycles.
        transfer_start: Result, ``D`` start cycles.

    Returns:
        ``(status, latency)``.
    """
    T, D = tile_time.shape[0], order.shape[0]
    last_needed = np.empty(T + 1, np.int64)
    deadlines(order, kind, use, end, last_needed)
    if not _lives_fit(order, kind, use, start, end, T, last_needed[0]):
        return BAD_TENSOR_ORDER, 0
    ready = np.zeros(T + 1, np.int64)
    stored = np.zeros(layer.max() + 1 if D else 1, np.int64)
    tile_end = np.zeros(T + 1, np.int64)
    comp, free, i = 0, 0, 0
    for p in range(T + 1):
        last = last_needed[p]
        if p > 0 and i <= last and not may_issue(order, i, last, p, kind, use, start):
            return BAD_TENSOR_ORDER, 0
        while i <= last:
            t = order[i]
            if kind[t] == STORE:
                release = tile_end[use[t]]
            else:
                release = tile_end[start[t] - 1] if start[t] > 0 else 0
                release = max(release, stored[source[t]] if source[t] >= 0 else 0)
            transfer_start[t] = max(free, release)
            free = transfer_start[t] + duration[t]
            deadline = end[t] if kind[t] == STORE else use[t]
            ready[deadline] = max(ready[deadline], free)
            if kind[t] == STORE:
                stored[layer[t]] = max(stored[layer[t]], free)
            i += 1
        comp = max(comp, ready[p])
        if p < T:
            tile_start[p] = comp
            comp += tile_time[p]
            tile_end[p] = comp
    return OK, max(comp, free)
