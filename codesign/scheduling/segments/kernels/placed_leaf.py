"""Layers placed on cores, once for each partition, batch and place: what the search looks up (rules M6 to M20)."""

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.core_mapper import BIG, CYCLES, ENERGY, FIGURES
from codesign.scheduling.segments.kernels.fabric import ALL_DRAMS
from codesign.scheduling.segments.kernels.kind_shares import chosen_cores, common_kind, leaf_borders, own_tiles
from codesign.scheduling.segments.kernels.layout import Groups, Layout, lay_out
from codesign.scheduling.segments.kernels.machine import (
    FED,
    INPUTS,
    ORDERS,
    PLACE,
    PLACED,
    RANKS,
    SHAPED,
    STAMP,
    TILES,
    WEIGHTS,
    Caches,
    Problem,
)
from codesign.scheduling.segments.kernels.partition_ranks import rank_partitions
from codesign.scheduling.segments.kernels.tile_figures import batch_index, mix, whole_batch
from codesign.scheduling.segments.kernels.traffic import (
    buffer_use,
    channels_from_dram,
    filling_energy,
    stored_weights,
    written_outputs,
)

WAYS = 1024
"""More than there are orders of up to four dimensions, to the base of five."""


@njit
def slot_groups(caches: Caches, slot: int, which: int) -> Groups:
    """Tiles, groups of inputs or groups of weights that are kept in a slot, by number."""
    return Groups(
        caches.leaf_counts[slot, which : which + 1],
        caches.leaf_boxes[slot, which],
        caches.leaf_starts[slot, which],
        caches.leaf_sites[slot, which],
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
    code = choice // (ORDERS * RANKS)
    first, cores = chosen_cores(problem.kind_start, problem.unit_times[layer], first, cores, code)
    kind = common_kind(problem.kind_start, first, cores)
    n = rank_partitions(problem, caches, kind, shaped, batch_at, cores)
    if n == 0:
        return -1
    row = caches.ranked[kind * problem.table.shape[0] + shaped, batch_at, cores, (choice // ORDERS) % RANKS % n]
    return place_row(problem, caches, layer, batch_at, (first, cores), row, choice, on_chip, stored)


@njit
def place_row(
    problem: Problem,
    caches: Caches,
    layer: int,
    batch_at: int,
    where: tuple[int, int],
    row: int,
    choice: int,
    on_chip: int,
    stored: int,
) -> int:
    """The slot of a layer in a partition by number, whatever its rank, on cores that are chosen: the first, and how many."""
    first, cores = where
    code = choice // (ORDERS * RANKS)
    way = 0
    for d in problem.orders[choice % ORDERS]:  # dimensions of one part may stand anywhere
        if problem.parts[row, d] > 1:
            way = way * 5 + d + 1
    place = mix(mix(problem.kin[layer, FED] * 128 + batch_at, first * 4096 + cores), row * WAYS + way)
    if problem.limits.shape[0] > 1:  # weights of kinds
        place = mix(place, code)
    key = mix(place, on_chip * 2 + stored)
    slot = _find_slot(caches, key)
    known = caches.leaf_keys[slot] == key
    caches.leaf_stamps[slot] = caches.counts[STAMP]
    if not known:
        caches.leaf_keys[slot], caches.leaf_counts[slot, PLACE] = key, place
        caches.counts[PLACED] += 1
        _fill_slot(problem, caches, slot, layer, batch_at, first, row, choice, on_chip, stored)
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
def _producers_from_dram(
    problem: Problem, counter: IntArray, groups: Groups, edges: tuple[int, int], shift: int, wraps: int, on_chip: int
) -> None:
    """Words of producers that come through DRAM to the groups of a layer.

    Args:
        problem: Network and system.
        counter: Receives the words.
        groups: Of the layer.
        edges: First and one past the last edge.
        shift: Channels before those of the first.
        wraps: Channels after which an elementwise layer's begin anew; 0 for none.
        on_chip: Bits of the edges that stay on chip, the first for the first of `edges`.
    """
    first, past = edges
    for e in range(first, past):
        if wraps > 0 and shift == wraps:
            shift = 0
        channels = problem.table[problem.edges.producer[e], layout.OUT_K]
        if (on_chip >> (e - first)) & 1 == 0:
            channels_from_dram(problem.fabric, counter, groups, shift, shift + channels, ALL_DRAMS)
        shift += channels


@njit
def _fill_slot(
    problem: Problem,
    caches: Caches,
    slot: int,
    layer: int,
    batch_at: int,
    first: int,
    row: int,
    choice: int,
    on_chip: int,
    stored: int,
) -> None:
    fabric, shape, parts = problem.fabric, problem.table[layer], problem.parts[row]
    batch = problem.batches[batch_at]
    place = Layout(
        slot_groups(caches, slot, TILES), slot_groups(caches, slot, INPUTS), slot_groups(caches, slot, WEIGHTS)
    )
    order = order_of(parts, problem.orders[choice % ORDERS])
    borders = leaf_borders(problem, layer, batch, parts, order, first, choice // (ORDERS * RANKS))
    lay_out(fabric, shape, borders, parts, order, first, problem.limits.shape[0] > 1, place)
    counter = caches.leaf_counters[slot]
    counter[:] = 0
    runs = whole_batch(problem) // batch
    start, middle, past = problem.edges.start[layer], problem.edges.weight_start[layer], problem.edges.start[layer + 1]
    if shape[layout.BATCHED_WEIGHT] == 0:
        stored_weights(fabric, counter, place.weights, ALL_DRAMS, runs, 1)
    _producers_from_dram(problem, counter, place.weights, (middle, past), 0, 0, on_chip >> (middle - start))
    wraps = shape[layout.OUT_K] if shape[layout.TYPE] == layout.ELTWISE else 0
    shift = shape[layout.EXTERNAL_C]
    channels_from_dram(fabric, counter, place.inputs, 0, shift, ALL_DRAMS)
    _producers_from_dram(problem, counter, place.inputs, (start, middle), shift, wraps, on_chip)
    if stored == 1:
        written_outputs(fabric, counter, place.tiles, ALL_DRAMS)
    whole, usage, figures = np.zeros(6, np.int64), caches.leaf_usage[slot], caches.leaf_figures[slot]
    buffer_use(shape, place, whole, problem.reserve, usage)
    figures[2] = 1.0
    if problem.limits.shape[0] == 1:
        core = caches.core_figures[problem.kin[layer, SHAPED], batch_at, row]
        filling = filling_energy(shape, place, batch, runs, whole, problem.cores.pj[0, BIG])
        figures[0] = core[ENERGY] * place.tiles.number[0] + filling
        figures[1] = core[CYCLES]
    elif not own_tiles(problem, layer, place, runs, np.zeros(FIGURES + 1), figures):
        figures[2] = 0.0
    if (usage[0] + usage[2] > problem.capacity).any():
        figures[2] = 0.0
