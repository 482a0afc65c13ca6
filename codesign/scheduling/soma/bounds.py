"""A lower bound on the latency of fixed tiles under any DRAM attributes: how far from optimal a schedule can be.

With E(p) a lower bound on the end of tile p, cum(p) the bytes of loads first used up to p, and room(p) the bytes the buffer has left at
position p when nothing is held that need not be: whatever is loaded before E(p) for later tiles is held at p, so at most room(p) bytes of
it. Everything else of the loads used in (p, q] is transferred between E(p) and the start of tile q, and after E(p) come also all
stores produced from p on. The channel moves at most its bandwidth.
"""

import math

import numpy as np

from codesign.scheduling.soma import kernel_fusion as kf
from codesign.scheduling.soma.dram_search import earliest_ends
from codesign.scheduling.soma.evaluator import BYTES, END, KIND, START, USE, Parsed


def stage2_bound(parsed: Parsed) -> int:
    """Cycles no order and living durations of these tiles can beat (single or several channels)."""
    rows = parsed.tensors
    T = len(parsed.tile_layer)
    kinds = rows[:, KIND]
    is_load = (kinds == kf.LOAD_IFMAP) | (kinds == kf.LOAD_WEIGHT)
    is_store = kinds == kf.STORE
    start = np.where(is_load, rows[:, USE], rows[:, START])
    end = np.where(is_store, earliest_ends(parsed), rows[:, END])
    held = np.zeros(T + 1, np.int64)
    np.add.at(held, start, rows[:, BYTES])
    np.add.at(held, np.minimum(end, T), -rows[:, BYTES])
    room = np.maximum(parsed.problem.limit_bytes - np.cumsum(held)[:T], 0)
    loads = np.zeros(T, np.int64)
    np.add.at(loads, rows[is_load, USE], rows[is_load, BYTES])
    cum = np.cumsum(loads)
    stores = np.zeros(T + 1, np.int64)
    np.add.at(stores, rows[is_store, USE], rows[is_store, BYTES])
    later_stores = np.cumsum(stores[::-1])[::-1]
    bandwidth = parsed.problem.hardware.dram_bytes_per_cycle
    total_loads = int(cum[-1])
    ended, best, tail = 0.0, -math.inf, 0.0
    for p in range(T):
        begin = max(ended, cum[p] / bandwidth, best + cum[p] / bandwidth)
        ended = begin + int(parsed.tile_cycles[p])
        best = max(best, ended - (cum[p] + room[p]) / bandwidth)
        left = max(total_loads - int(cum[p]) - int(room[p]), 0) + int(later_stores[p])
        tail = max(tail, ended + left / bandwidth)
    return max(parsed.bound_cycles, math.ceil(tail - 1e-6))
