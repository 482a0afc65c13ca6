"""Layers placed on cores, once for each partition, batch and place: what the search looks up (rules M6 to M20)."""

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.core_mapper import (
    BIG,
    CYCLES,
    ENERGY,
    Tile,
    ceil_div,
    map_convolution,
    map_vector_work,
)
from codesign.scheduling.segments.kernels.fabric import ALL_DRAMS
from codesign.scheduling.segments.kernels.layout import Layout, lay_out
from codesign.scheduling.segments.kernels.machine import (
    CAPACITY,
    DRAM_PJ,
    FED,
    HOP_PJ,
    ORDERS,
    PLACED,
    RANKS,
    RESERVE,
    SHAPED,
    STAMP,
    WAY,
    Caches,
    Problem,
)
from codesign.scheduling.segments.kernels.traffic import (
    buffer_use,
    channels_from_dram,
    filling_energy,
    stored_weights,
    written_outputs,
)

LEAST_USE = 0.75
"""Share of the elements that a partition's equal tiles must be (rule M6)."""

FULL = 0.8
"""Share of all buffers that the inputs of plain convolutions may fill (rule M6)."""


@njit
def batch_index(problem: Problem, batch: int) -> int:
    """Number of a batch among the divisors."""
    for i in range(problem.batches.shape[0]):
        if problem.batches[i] == batch:
            return i
    return -1


@njit
def whole_batch(problem: Problem) -> int:
    """Samples of a whole run."""
    return problem.batches[problem.batches.shape[0] - 1]  # type: ignore[no-any-return]


@njit
def core_figures(problem: Problem, caches: Caches, layer: int, batch_at: int, row: int) -> bool:
    """Find the figures of one core's tile, once; returns whether there is a mapping."""
    if caches.core_known[layer, batch_at, row] == 0:
        shape, parts = problem.table[layer], problem.parts[row]
        batch = ceil_div(problem.batches[batch_at], parts[1])
        k, high, wide = (
            ceil_div(shape[layout.K], parts[0]),
            ceil_div(shape[layout.H], parts[2]),
            ceil_div(shape[layout.W], parts[3]),
        )
        found = caches.core_figures[layer, batch_at, row]
        if layout.is_vector(shape[layout.TYPE]):
            work = k * high * wide * shape[layout.OPERANDS] * shape[layout.R] * shape[layout.S] * batch
            map_vector_work(problem.core, work, found)
            caches.core_known[layer, batch_at, row] = 1
        else:
            c, groups = shape[layout.C], 1
            if shape[layout.TYPE] == layout.GROUP_CONV:
                per_k = shape[layout.K] // shape[layout.GROUPS]
                groups, c = ceil_div(k, per_k), shape[layout.C] // shape[layout.GROUPS]
                if groups > 1:
                    k = per_k
            if shape[layout.BATCHED_WEIGHT] == 1:
                groups, batch = groups * batch, 1
            tile = Tile(
                c,
                k,
                shape[layout.R],
                shape[layout.S],
                high,
                wide,
                shape[layout.STRIDE_H],
                shape[layout.STRIDE_W],
                batch,
                groups,
            )
            good = map_convolution(problem.core, tile, found)
            caches.core_known[layer, batch_at, row] = 1 if good else 2
    return caches.core_known[layer, batch_at, row] == 1  # type: ignore[no-any-return]


@njit
def _used(problem: Problem, layer: int, batch: int, row: int) -> float:
    """Share of the ceiling tiles that is work."""
    shape, parts = problem.table[layer], problem.parts[row]
    share = shape[layout.K] / (ceil_div(shape[layout.K], parts[0]) * parts[0])
    share *= batch / (ceil_div(batch, parts[1]) * parts[1])
    share *= shape[layout.H] / (ceil_div(shape[layout.H], parts[2]) * parts[2])
    return share * (shape[layout.W] / (ceil_div(shape[layout.W], parts[3]) * parts[3]))  # type: ignore[no-any-return]


@njit
def _least_cut(problem: Problem, layer: int, batch: int, cores: int) -> int:
    """Parts of batch, rows and columns together that a plain convolution needs for its inputs to fit (rule M6)."""
    shape = problem.table[layer]
    if shape[layout.TYPE] > layout.FC:
        return 0
    words = shape[layout.C] * shape[layout.IN_H] * shape[layout.IN_W] * batch
    return int(words / (FULL * cores * problem.limits[CAPACITY]) + 1)


@njit
def _guess(problem: Problem, caches: Caches, layer: int, batch_at: int, row: int) -> float:
    """Energy x cycles of a layer alone, about: distances are averages, halos left out. It only ranks partitions."""
    shape, parts, batch = problem.table[layer], problem.parts[row], problem.batches[batch_at]
    figures = caches.core_figures[layer, batch_at, row]
    cores = parts[0] * parts[1] * parts[2] * parts[3]
    runs = whole_batch(problem) // batch
    weights = float(shape[layout.WEIGHT_WORDS]) / runs
    weight_copies = parts[1] * parts[2] * parts[3]
    if shape[layout.BATCHED_WEIGHT] == 1:
        weights, weight_copies = float(shape[layout.WEIGHT_WORDS] * batch), parts[2] * parts[3]
    inputs = float(shape[layout.C] * shape[layout.IN_H] * shape[layout.IN_W] * batch)
    copies = 1 if layout.own_channels(shape[layout.TYPE]) else parts[0]
    way = problem.prices[WAY]
    words = weights * (way + weight_copies) + inputs * (way + copies)
    write = problem.core.pj[BIG, 1]
    energy = figures[ENERGY] * cores + (weights * weight_copies + inputs * copies) * write
    energy += words * problem.prices[HOP_PJ]
    moved = weights + 0.5 * (inputs + shape[layout.OUT_K] * shape[layout.OUT_H] * shape[layout.OUT_W] * batch)
    return (energy + moved * problem.prices[DRAM_PJ]) * figures[CYCLES]  # type: ignore[no-any-return]


@njit
def rank_partitions(problem: Problem, caches: Caches, layer: int, batch_at: int, cores: int) -> int:
    """The allowed partitions of a shape on some cores, the most promising first; returns how many there are."""
    ranked = caches.ranked[layer, batch_at, cores]
    if ranked[0] == -2:
        _fill_ranks(problem, caches, layer, batch_at, cores, ranked)
    n = 0
    while n < RANKS and ranked[n] >= 0:
        n += 1
    return n


@njit
def _fill_ranks(problem: Problem, caches: Caches, layer: int, batch_at: int, cores: int, ranked: IntArray) -> None:
    ranked[:] = -1
    batch = problem.batches[batch_at]
    least = _least_cut(problem, layer, batch, cores)
    first, past = problem.part_start[cores], problem.part_start[cores + 1]
    best_use = 0.0
    for row in range(first, past):
        if problem.parts[row, 1] * problem.parts[row, 2] * problem.parts[row, 3] >= least:
            best_use = max(best_use, _used(problem, layer, batch, row))
    limit = LEAST_USE if best_use >= LEAST_USE else best_use
    costs = np.full(RANKS, np.inf)
    for row in range(first, past):
        parts = problem.parts[row]
        if parts[1] * parts[2] * parts[3] < least or _used(problem, layer, batch, row) < limit:
            continue
        if not core_figures(problem, caches, layer, batch_at, row):
            continue
        cost = _guess(problem, caches, layer, batch_at, row)
        at = RANKS
        while at > 0 and costs[at - 1] > cost:
            at -= 1
        for j in range(RANKS - 1, at, -1):
            costs[j], ranked[j] = costs[j - 1], ranked[j - 1]
        if at < RANKS:
            costs[at], ranked[at] = cost, row


@njit
def mix(key: int, value: int) -> int:
    """A key with one more number in it (the finaliser of splitmix64)."""
    z = np.uint64(key) ^ (np.uint64(value) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))  # type: ignore[return-value]


@njit
def slot_layout(caches: Caches, slot: int) -> Layout:
    """The layout kept in a slot."""
    return Layout(
        caches.leaf_counts[slot],
        caches.leaf_boxes[slot, 0],
        caches.leaf_sites[slot, 0],
        caches.leaf_boxes[slot, 1],
        caches.leaf_starts[slot, 1],
        caches.leaf_sites[slot, 1],
        caches.leaf_boxes[slot, 2],
        caches.leaf_starts[slot, 2],
        caches.leaf_sites[slot, 2],
    )


@njit
def _find_slot(caches: Caches, key: int) -> int:
    """The slot of a key, or one to use for it: none that this evaluation has used."""
    slots = caches.leaf_keys.shape[0]
    start = (key & 0x7FFFFFFFFFFF) % slots
    oldest, stamp = -1, caches.counts[STAMP]
    for i in range(slots):
        slot = (start + i) % slots
        if caches.leaf_keys[slot] == key:
            return slot  # type: ignore[no-any-return]
        if caches.leaf_keys[slot] == 0:
            return slot  # type: ignore[no-any-return]
        if caches.leaf_stamps[slot] != stamp and (oldest < 0 or caches.leaf_stamps[slot] < caches.leaf_stamps[oldest]):
            oldest = slot
        if i >= 6 and oldest >= 0:
            break
    return oldest


@njit
def place_leaf(
    problem: Problem,
    caches: Caches,
    layer: int,
    batch: int,
    first: int,
    cores: int,
    choice: int,
    on_chip: int,
    stored: int,
) -> int:
    """The slot of a layer on its cores, with all words that come from or go to DRAM.

    Args:
        problem: Network and system.
        caches: What is known.
        layer: Number of the layer.
        batch: Samples of a run.
        first: First core.
        cores: How many.
        choice: Partition and order.
        on_chip: Bits of the edges that come from other cores.
        stored: 1 if outputs are written to DRAM.

    Returns:
        The slot; -1 where there is no partition.
    """
    batch_at, shaped = batch_index(problem, batch), problem.kin[layer, SHAPED]
    n = rank_partitions(problem, caches, shaped, batch_at, cores)
    if n == 0:
        return -1
    row = caches.ranked[shaped, batch_at, cores, (choice // ORDERS) % n]
    key = mix(
        mix(mix(problem.kin[layer, FED] * 128 + batch_at, first * 4096 + cores), row * ORDERS + choice % ORDERS),
        on_chip * 2 + stored,
    )
    slot = _find_slot(caches, key)
    known = caches.leaf_keys[slot] == key
    caches.leaf_stamps[slot] = caches.counts[STAMP]
    if not known:
        caches.leaf_keys[slot] = key
        caches.counts[PLACED] += 1
        _fill_slot(problem, caches, slot, layer, batch_at, first, row, choice % ORDERS, on_chip, stored)
    return slot


@njit
def order_of(parts: IntArray, wanted: IntArray) -> IntArray:
    """An order with all dimensions of one part last."""
    order = np.empty(4, np.int64)
    n = 0
    for i in range(4):
        if parts[wanted[i]] > 1:
            order[n] = wanted[i]
            n += 1
    for i in range(4):
        if parts[wanted[i]] == 1:
            order[n] = wanted[i]
            n += 1
    return order


@njit
def _fill_slot(
    problem: Problem,
    caches: Caches,
    slot: int,
    layer: int,
    batch_at: int,
    first: int,
    row: int,
    order: int,
    on_chip: int,
    stored: int,
) -> None:
    fabric, shape, parts = problem.fabric, problem.table[layer], problem.parts[row]
    batch = problem.batches[batch_at]
    place = slot_layout(caches, slot)
    lay_out(fabric, shape, batch, parts, order_of(parts, problem.orders[order]), first, place)
    counter = caches.leaf_counters[slot]
    counter[:] = 0
    runs = whole_batch(problem) // batch
    weights, inputs = place.weight_ranges[: place.counts[2]], place.in_ranges[: place.counts[1]]
    start, middle, past = problem.edges.start[layer], problem.edges.weight_start[layer], problem.edges.start[layer + 1]
    if shape[layout.BATCHED_WEIGHT] == 0:
        stored_weights(fabric, counter, place, ALL_DRAMS, runs, 1)
    shift = 0
    for e in range(middle, past):
        channels = problem.table[problem.edges.producer[e], layout.OUT_K]
        if (on_chip >> (e - start)) & 1 == 0:
            channels_from_dram(
                fabric, counter, weights, place.weight_starts, place.weight_sites, shift, shift + channels, ALL_DRAMS
            )
        shift += channels
    wraps = shape[layout.OUT_K] if shape[layout.TYPE] == layout.ELTWISE else 0
    shift = shape[layout.EXTERNAL_C]
    channels_from_dram(fabric, counter, inputs, place.in_starts, place.in_sites, 0, shift, ALL_DRAMS)
    for e in range(start, middle):
        if wraps > 0 and shift == wraps:
            shift = 0
        channels = problem.table[problem.edges.producer[e], layout.OUT_K]
        if (on_chip >> (e - start)) & 1 == 0:
            channels_from_dram(
                fabric, counter, inputs, place.in_starts, place.in_sites, shift, shift + channels, ALL_DRAMS
            )
        shift += channels
    if stored == 1:
        written_outputs(fabric, counter, place, ALL_DRAMS)
    whole = np.zeros(6, np.int64)
    usage = caches.leaf_usage[slot]
    buffer_use(shape, place, whole, problem.limits[RESERVE], usage)
    core = caches.core_figures[problem.kin[layer, SHAPED], batch_at, row]
    figures = caches.leaf_figures[slot]
    filling = filling_energy(shape, place, batch, runs, whole, problem.core.pj[BIG])
    figures[0] = core[ENERGY] * place.counts[0] + filling
    figures[1] = core[CYCLES]
    figures[2] = 1.0
    for s in range(usage.shape[1]):
        if usage[0, s] + usage[2, s] > problem.limits[CAPACITY]:
            figures[2] = 0.0
