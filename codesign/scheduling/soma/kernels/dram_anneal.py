"""Compiled: simulated annealing over the DRAM attributes (order and living durations) of fixed tiles.

The timing is `kernels.timing.simulate` for one channel, restated per transfer so that it needs one pass over the DRAM order: with
``first`` the start of a load or the position of a store, and M the largest ``first`` up to a transfer, the transfer may serve
deadline d only if ``d > M``, or ``d == M`` and everything from the first such transfer on is a load used and started at M.
A property test holds the two equal.
"""

import math
from typing import NamedTuple

from codesign.core.jit import njit
from codesign.core.rng import RandomState, below, uniform
from codesign.scheduling.soma.kernels.decode import STORE
from codesign.scheduling.soma.kernels.fusion_anneal import Cooling, heat_at
from codesign.scheduling.soma.kernels.score_scheme import FloatArray
from codesign.scheduling.soma.model.layer_graph import IntArray

N_DRAM_MOVES = 3
REORDER, RETIME, BOTH = range(N_DRAM_MOVES)
DRAM_MOVE_NAMES = ("order", "duration", "order_and_duration")


@njit
def order_latency(
    tile_time: IntArray,
    kind: IntArray,
    use: IntArray,
    start: IntArray,
    end: IntArray,
    cycles: IntArray,
    order: IntArray,
    first_loads: int,
    tile_end: IntArray,
    ready: IntArray,
) -> int:
    """Latency of a DRAM order on one channel, -1 when it cannot run.

    `first_loads` is the number of loads tile 0 uses; `tile_end` and `ready` are scratch of ``T + 1``.
    """
    T = tile_time.shape[0]
    ready[:] = 0
    p, comp, dram, furthest = 0, 0, 0, -1
    carry = False
    for i in range(order.shape[0]):
        t = order[i]
        if kind[t] == STORE:
            first, deadline, release = use[t], end[t], use[t]
            late_load = False
        else:
            first, deadline, release = start[t], use[t], start[t] - 1
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
        dram += cycles[t]
        ready[deadline] = dram
    while p < T:
        comp = max(comp, ready[p]) + tile_time[p]
        p += 1
    return max(comp, dram)


@njit
def producer_window(
    t: int,
    order: IntArray,
    rank: IntArray,
    kind: IntArray,
    source: IntArray,
    layer: IntArray,
    lists: tuple[IntArray, IntArray, IntArray, IntArray],
) -> tuple[int, int]:
    """Ranks between which tensor `t` may lie: loads after the stores of their producer, stores before the loads of their consumers."""
    store_start, store_ids, load_start, load_ids = lists
    lo, hi = -1, order.shape[0]
    if kind[t] == STORE:
        for e in range(load_start[layer[t]], load_start[layer[t] + 1]):
            hi = min(hi, rank[load_ids[e]])
    elif source[t] >= 0:
        for e in range(store_start[source[t]], store_start[source[t] + 1]):
            lo = max(lo, rank[store_ids[e]])
    return lo, hi


@njit
def shift_rank(order: IntArray, rank: IntArray, a: int, b: int) -> None:
    """Move the tensor at rank `a` to rank `b`."""
    t = order[a]
    if a < b:
        for x in range(a, b):
            order[x] = order[x + 1]
            rank[order[x]] = x
    else:
        for x in range(a, b, -1):
            order[x] = order[x - 1]
            rank[order[x]] = x
    order[b] = t
    rank[t] = b


@njit
def hold(usage: IntArray, a: int, b: int, size: int, limit: int) -> bool:
    """Add `size` bytes at positions a..b-1; False (and nothing added) when the limit would be passed."""
    for p in range(a, b):
        if usage[p + 1] + size > limit:
            return False
    for p in range(a, b):
        usage[p + 1] += size
    return True


@njit
def release(usage: IntArray, a: int, b: int, size: int) -> None:
    """Take `size` bytes from positions a..b-1."""
    for p in range(a, b):
        usage[p + 1] -= size


@njit
def propose_life(
    t: int,
    kind: IntArray,
    use: IntArray,
    start: IntArray,
    earliest: IntArray,
    order: IntArray,
    rank: IntArray,
    T: int,
    near: bool,
    random: RandomState,
) -> int:
    """A new start of a load or end of a store; with `near` one that fits the neighbours in DRAM order."""
    if kind[t] == STORE:
        span = T - earliest[t]
        if near:
            span = min(span, 1 + below(random, 8))
        return int(earliest[t] + below(random, span + 1))
    lo, hi = earliest[t], use[t]
    if near:
        r = rank[t]
        if r > 0:
            s = order[r - 1]
            lo = max(lo, use[s] + 1 if kind[s] == STORE else start[s])
        if r + 1 < order.shape[0]:
            s = order[r + 1]
            hi = min(hi, use[s] + 1 if kind[s] == STORE else start[s])
        if hi < lo:
            return int(max(earliest[t], min(lo, use[t])))
    return int(lo + below(random, hi - lo + 1))


@njit
def pick(by_size: FloatArray, random: RandomState) -> int:
    """A tensor: in half of the draws by the cumulative probabilities `by_size`, else any."""
    if uniform(random) >= 0.5:
        return below(random, by_size.shape[0])
    draw = uniform(random)
    lo, hi = 0, by_size.shape[0] - 1
    while lo < hi:
        middle = (lo + hi) // 2
        if by_size[middle] > draw:
            hi = middle
        else:
            lo = middle + 1
    return lo


@njit
def propose_rank(
    t: int,
    order: IntArray,
    rank: IntArray,
    kind: IntArray,
    source: IntArray,
    layer: IntArray,
    lists: tuple[IntArray, IntArray, IntArray, IntArray],
    random: RandomState,
) -> int:
    """A new place in DRAM order between the producer and the first user; the present one where there is no other."""
    lo, hi = producer_window(t, order, rank, kind, source, layer, lists)
    if hi - lo <= 2:
        return int(rank[t])
    if uniform(random) < 0.7:
        reach = 1 + below(random, 1 + below(random, 24))
        place = rank[t] + (reach if uniform(random) < 0.5 else -reach)
    else:
        place = lo + 1 + below(random, hi - lo - 1)
    return int(place if lo < place < hi else rank[t])


@njit
def set_life(
    t: int,
    old: int,
    new: int,
    kind: IntArray,
    start: IntArray,
    end: IntArray,
    usage: IntArray,
    size: IntArray,
    limit: int,
) -> bool:
    """Move the end of a store or the start of a load, and what the buffer holds with it; False where that does not fit."""
    fits = True
    grows = new > old if kind[t] == STORE else new < old
    if grows:
        fits = hold(usage, min(old, new), max(old, new), size[t], limit)
    else:
        release(usage, min(old, new), max(old, new), size[t])
    if kind[t] == STORE:
        end[t] = new
    else:
        start[t] = new
    return fits


class Buffer(NamedTuple):
    """The buffer of a schedule.

    Attributes:
        usage: ``T + 1`` bytes held at positions -1..T-1.
        limit: Bytes it may hold.
        ideal: No-stall bound of the tiles, in cycles.
    """

    usage: IntArray
    limit: int
    ideal: int


@njit
def anneal_dram(
    tile_time: IntArray, tensors: tuple[IntArray, ...], lists: tuple[IntArray, IntArray, IntArray, IntArray], state: tuple[IntArray, ...],
    best: tuple[IntArray, IntArray, IntArray], values: IntArray, buffer: Buffer, by_size: FloatArray, stats: IntArray,
    random: RandomState, cooling: Cooling, rounds: int,
) -> None:  # fmt: skip
    """Run the proposals of a part of the annealing.

    Args:
        tile_time: ``T`` cycles per position.
        tensors: kind, use, size, cycles, layer, source and earliest start (stores: earliest end), ``D`` each.
        lists: Stores by producing layer and loads by source layer, compressed rows.
        state: order, rank, start, end of the current scheme (``D`` each), scratch of ``T + 1`` twice; updated.
        best: order, start, end of the best; updated.
        values: Current and best latency; updated.
        buffer: What it holds and may hold; updated.
        by_size: ``D`` cumulative probability of picking each tensor.
        stats: ``N_DRAM_MOVES x N_STATS``; updated.
        random: Generator state; updated.
        cooling: The part of the whole annealing; its temperature is relative to the distance from the no-stall bound.
        rounds: Proposals.
    """
    kind, use, size, cycles, layer, source, earliest = tensors
    order, rank, start, end, tile_end, ready = state
    usage, limit, ideal = buffer
    T = tile_time.shape[0]
    D = order.shape[0]
    first_loads = 0
    for t in range(D):
        first_loads += kind[t] != STORE and use[t] == 0
    for index in range(rounds):
        heat = heat_at(cooling, index, rounds)
        t = pick(by_size, random)
        draw = uniform(random)
        move = REORDER if draw < 0.1 else (RETIME if draw < 0.5 else BOTH)
        stats[move, 0] += 1
        old_rank, new_rank = rank[t], rank[t]
        if move != RETIME:
            new_rank = propose_rank(t, order, rank, kind, source, layer, lists, random)
            if new_rank == old_rank:
                continue
            shift_rank(order, rank, old_rank, new_rank)
        old_life = end[t] if kind[t] == STORE else start[t]
        new_life, fits = old_life, True
        if move != REORDER and (kind[t] == STORE or use[t] > 0):
            new_life = propose_life(t, kind, use, start, earliest, order, rank, T, uniform(random) < 0.7, random)
            fits = set_life(t, old_life, new_life, kind, start, end, usage, size, limit)
        latency = -1
        if fits and (new_life != old_life or new_rank != old_rank):
            latency = order_latency(tile_time, kind, use, start, end, cycles, order, first_loads, tile_end, ready)
        accept = False
        if latency >= 0:
            stats[move, 1] += 1
            rise = (latency - values[0]) / (values[0] - ideal + 1.0)
            accept = rise <= 0 or (heat > 0 and uniform(random) < math.exp(-rise / heat))
        if accept:
            stats[move, 2] += 1
            values[0] = latency
            if latency < values[1]:
                stats[move, 3] += 1
                values[1] = latency
                best[0][:] = order
                best[1][:] = start
                best[2][:] = end
            continue
        if new_rank != old_rank:
            shift_rank(order, rank, new_rank, old_rank)
        if fits:
            set_life(t, new_life, old_life, kind, start, end, usage, size, 1 << 62)
        elif kind[t] == STORE:
            end[t] = old_life
        else:
            start[t] = old_life
