"""Compiled: simulated annealing over the DRAM attributes (order and living durations) of fixed tiles."""

from typing import NamedTuple

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.core.rng import RandomState, below, uniform
from codesign.scheduling.soma.kernels.decode import STORE
from codesign.scheduling.soma.kernels.fusion_anneal import ACCEPTED, IMPROVED, LEGAL, TRIED, Cooling, accepts, heat_at
from codesign.scheduling.soma.kernels.timing import Clocks, order_latency

N_DRAM_MOVES = 3
REORDER, RETIME, BOTH = range(N_DRAM_MOVES)
DRAM_MOVE_NAMES = ("order", "duration", "order_and_duration")

_NO_LIMIT = 1 << 62


class Transfers(NamedTuple):
    """The DRAM tensors of fixed tiles, ``D`` entries each unless said otherwise.

    Attributes:
        kind: Load of an input, load of weights, or store.
        use: First position that needs a load, or own position of a store.
        size: Bytes.
        cycles: Of the channel.
        layer: Layer that reads or makes it.
        source: Layer whose stores must have finished before a load, or -1.
        earliest: First position from which a load, and up to which a store, may hold the buffer.
        stores: Those of each layer, compressed rows: starts, numbers.
        loads: Those of each source, compressed rows.
    """

    kind: IntArray
    use: IntArray
    size: IntArray
    cycles: IntArray
    layer: IntArray
    source: IntArray
    earliest: IntArray
    stores: tuple[IntArray, IntArray]
    loads: tuple[IntArray, IntArray]


class State(NamedTuple):
    """DRAM attributes that are being changed, and what the buffer holds under them.

    Attributes:
        order: ``D`` DRAM order.
        rank: ``D`` place of each tensor in it.
        life: ``D`` position from which a load, and up to which a store, holds the buffer.
        usage: ``T + 1`` bytes held at positions -1..T-1.
        clocks: Scratch of the timing.
    """

    order: IntArray
    rank: IntArray
    life: IntArray
    usage: IntArray
    clocks: Clocks


@njit
def producer_window(t: int, transfers: Transfers, rank: IntArray) -> tuple[int, int]:
    """Ranks between which tensor `t` may lie: loads after the stores of their producer, stores before the loads of their consumers."""
    layer, source = transfers.layer[t], transfers.source[t]
    lo, hi = -1, rank.shape[0]
    if transfers.kind[t] == STORE:
        start, ids = transfers.loads
        for e in range(start[layer], start[layer + 1]):
            hi = min(hi, rank[ids[e]])
    elif source >= 0:
        first, stores = transfers.stores
        for e in range(first[source], first[source + 1]):
            lo = max(lo, rank[stores[e]])
    return lo, hi


@njit
def shift_rank(order: IntArray, rank: IntArray, a: int, b: int) -> None:
    """Move the tensor at rank `a` to rank `b`."""
    t = order[a]
    step = 1 if a < b else -1
    for x in range(a, b, step):
        order[x] = order[x + step]
        rank[order[x]] = x
    order[b] = t
    rank[t] = b


@njit
def propose_rank(t: int, transfers: Transfers, rank: IntArray, random: RandomState) -> int:
    """A new place in DRAM order between the producer and the first user; the present one where there is no other."""
    lo, hi = producer_window(t, transfers, rank)
    if hi - lo <= 2:
        return int(rank[t])
    if uniform(random) < 0.7:
        reach = 1 + below(random, 1 + below(random, 24))
        place = rank[t] + (reach if uniform(random) < 0.5 else -reach)
    else:
        place = lo + 1 + below(random, hi - lo - 1)
    return int(place if lo < place < hi else rank[t])


@njit
def propose_life(t: int, transfers: Transfers, state: State, near: bool, random: RandomState) -> int:
    """A new start of a load or end of a store; with `near` one that fits the neighbours in DRAM order."""
    kind, use, life, order = transfers.kind, transfers.use, state.life, state.order
    lo = transfers.earliest[t]
    if kind[t] == STORE:
        span = state.usage.shape[0] - 1 - lo
        if near:
            span = min(span, 1 + below(random, 8))
        return int(lo + below(random, span + 1))
    hi = use[t]
    if near:
        r = state.rank[t]
        if r > 0:
            s = order[r - 1]
            lo = max(lo, use[s] + 1 if kind[s] == STORE else life[s])
        if r + 1 < order.shape[0]:
            s = order[r + 1]
            hi = min(hi, use[s] + 1 if kind[s] == STORE else life[s])
        if hi < lo:
            return int(max(transfers.earliest[t], min(lo, use[t])))
    return int(lo + below(random, hi - lo + 1))


@njit
def set_life(t: int, new: int, transfers: Transfers, state: State, limit: int) -> bool:
    """Move the start of a load or the end of a store, and what the buffer holds; False, and nothing changed, where that does not fit."""
    life, usage, size = state.life, state.usage, transfers.size[t]
    old = life[t]
    a, b = min(old, new), max(old, new)
    if (new > old) == (transfers.kind[t] == STORE):
        for p in range(a, b):
            if usage[p + 1] + size > limit:
                return False
    else:
        size = -size
    for p in range(a, b):
        usage[p + 1] += size
    life[t] = new
    return True


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
def anneal_dram(
    tile_time: IntArray, transfers: Transfers, state: State, best: tuple[IntArray, IntArray], values: IntArray, limits: tuple[int, int],
    by_size: FloatArray, stats: IntArray, random: RandomState, cooling: Cooling, rounds: int,
) -> None:  # fmt: skip
    """Run the proposals of a part of the annealing.

    Args:
        tile_time: ``T`` cycles per position.
        transfers: What is transferred.
        state: The current scheme; updated.
        best: Order and lives of the best; updated.
        values: Current and best latency; updated.
        limits: Bytes that the buffer may hold, and the no-stall bound of the tiles in cycles.
        by_size: ``D`` cumulative probability of picking each tensor.
        stats: ``N_DRAM_MOVES x N_STATS``; updated.
        random: Generator state; updated.
        cooling: The part of the whole annealing; its temperature is relative to the distance from the no-stall bound.
        rounds: Proposals.
    """
    kind, use, order, rank, life = transfers.kind, transfers.use, state.order, state.rank, state.life
    limit, ideal = limits
    first_loads = 0
    for t in range(order.shape[0]):
        first_loads += kind[t] != STORE and use[t] == 0
    for index in range(rounds):
        heat = heat_at(cooling, index, rounds)
        t = pick(by_size, random)
        draw = uniform(random)
        move = REORDER if draw < 0.1 else (RETIME if draw < 0.5 else BOTH)
        stats[move, TRIED] += 1
        old_rank, old_life = rank[t], life[t]
        if move != RETIME:
            new_rank = propose_rank(t, transfers, rank, random)
            if new_rank == old_rank:
                continue
            shift_rank(order, rank, old_rank, new_rank)
        fits = True
        if move != REORDER and (kind[t] == STORE or use[t] > 0):
            new_life = propose_life(t, transfers, state, uniform(random) < 0.7, random)
            fits = set_life(t, new_life, transfers, state, limit)
        latency = -1
        if fits and (life[t] != old_life or rank[t] != old_rank):
            latency = order_latency(tile_time, kind, use, transfers.cycles, life, order, first_loads, state.clocks)
        if latency >= 0:
            stats[move, LEGAL] += 1
            if accepts((latency - values[0]) / (values[0] - ideal + 1.0), heat, random):
                stats[move, ACCEPTED] += 1
                values[0] = latency
                if latency < values[1]:
                    stats[move, IMPROVED] += 1
                    values[1] = latency
                    best[0][:] = order
                    best[1][:] = life
                continue
        if rank[t] != old_rank:
            shift_rank(order, rank, rank[t], old_rank)
        set_life(t, old_life, transfers, state, _NO_LIMIT)
