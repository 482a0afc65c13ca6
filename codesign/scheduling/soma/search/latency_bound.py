"""A lower bound on the latency of fixed tiles under any DRAM attributes: how far from optimal a schedule can be.

With S(p) and E(p) lower bounds on the start and end of tile p, and room(p) the bytes the buffer has left at position p when nothing is held that
need not be:

* a load that starts before E(p) for a later tile is held at p, and transfers are whole: of the loads used in (p, q] at most the largest
  sum of their sizes that fits room(p) starts before E(p), the others are transferred between E(p) and S(q);
* stores of the tiles p..q-1 are transferred in that time too, but for those held at q, which fit room(q);
* data between groups is loaded after its producer's last tile has ended and its output has been stored;
* after E(p) come all other loads of later tiles and all stores from p on.

The channel moves at most its bandwidth. The third rule holds for every schedule the search makes; the published model, which does
not check it, could be cheated past the bound.
"""

import math

import numpy as np

from codesign.core.kernel_library import IntArray
from codesign.scheduling.soma.evaluator import BYTES, KIND, SOURCE, USE, Parsed
from codesign.scheduling.soma.kernels import decode as kf
from codesign.scheduling.soma.search.dram_search import last_store_of, least_held

# Resolution of the sums of sizes, and the largest problem (tiles times loads) they are formed for.
_UNITS, _MOST_SUMS = 1 << 16, 60_000


def stage2_bound(parsed: Parsed) -> int:
    """Cycles no order and living durations of these tiles can beat."""
    rows = parsed.tensors
    T = len(parsed.tile_layer)
    is_load, is_store = parsed.is_load, parsed.is_store
    room = np.maximum(parsed.problem.limit_bytes - least_held(parsed), 0)
    loaded = np.zeros(T, np.int64)
    np.add.at(loaded, rows[is_load, USE], rows[is_load, BYTES])
    stored = np.zeros(T + 1, np.int64)
    np.add.at(stored, rows[is_store, USE] + 1, rows[is_store, BYTES])
    cum_load, cum_store = np.cumsum(loaded), np.cumsum(stored)
    by_use: list[list[int]] = [[] for _ in range(T)]
    for use, size in rows[is_load][:, [USE, BYTES]].tolist():
        by_use[use].append(size)
    after = _loads_after_stores(parsed)
    exact = T * int(is_load.sum()) <= _MOST_SUMS
    bandwidth = parsed.problem.hardware.dram_bytes_per_cycle
    begin = cum_load / bandwidth
    latency = 0.0
    for p in range(T):
        if p > 0:
            begin[p] = max(begin[p], begin[p - 1] + int(parsed.tile_cycles[p - 1]))
        ended = begin[p] + int(parsed.tile_cycles[p])
        ahead = _loaded_ahead(by_use, cum_load, p, int(room[p]), parsed.problem.limit_bytes, exact)
        loads = cum_load[p + 1 :] - cum_load[p] - ahead
        stores = np.maximum(cum_store[p + 1 : T] - cum_store[p] - room[p + 1 :], 0)
        begin[p + 1 :] = np.maximum(begin[p + 1 :], ended + (loads + stores) / bandwidth)
        for q, moved in after.get(p, ()):
            begin[q] = max(begin[q], ended + moved / bandwidth)
        rest = (loads[-1] if p + 1 < T else 0) + cum_store[T] - cum_store[p]
        latency = max(latency, ended + rest / bandwidth)
    return max(parsed.bound_cycles, math.ceil(latency - 1e-6))


def _loads_after_stores(parsed: Parsed) -> dict[int, list[tuple[int, int]]]:
    """Per last position of a stored layer: positions that load its output, with the bytes moved between, that store included."""
    rows = parsed.tensors
    last = last_store_of(parsed)
    moved: dict[int, int] = {}
    found: dict[int, list[tuple[int, int]]] = {}
    loads = np.flatnonzero((rows[:, KIND] == kf.LOAD_IFMAP) & (rows[:, SOURCE] >= 0))
    for t in loads[np.argsort(rows[loads, USE], kind="stable")].tolist():
        source, use, size = (int(v) for v in rows[t, [SOURCE, USE, BYTES]])
        store = int(last[source])
        moved[source] = moved.get(source, int(rows[store, BYTES])) + size
        found.setdefault(int(rows[store, USE]), []).append((use, moved[source]))
    return found


def _loaded_ahead(by_use: list[list[int]], cum_load: IntArray, p: int, room: int, limit: int, exact: bool) -> IntArray:
    """For each q > p: most bytes of the loads used in (p, q] that start before tile p ends.

    With `exact` the largest sum of sizes within `room`, else `room`. Sums are formed in units of ``limit / _UNITS``, sizes rounded
    down; what rounding may have lost is added back, so that the result is never too small.
    """
    T = len(by_use)
    most: IntArray = np.minimum(cum_load[p + 1 :] - cum_load[p], room)
    if not exact or p + 1 == T or int(cum_load[-1] - cum_load[p]) <= room:
        return most
    unit = max(limit // _UNITS, 1)
    mask = (1 << (room // unit + 1)) - 1
    sums, count = 1, 0
    for q in range(p + 1, T):
        for size in by_use[q]:
            sums |= (sums << (size // unit)) & mask
            count += 1
        most[q - p - 1] = min(most[q - p - 1], (sums.bit_length() - 1 + count) * unit)
    return most
