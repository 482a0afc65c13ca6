"""Layers placed on cores, once for each partition, batch and place: what the search looks up (rules M6 to M20)."""

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.core_mapper import (
    BIG,
    CYCLES,
    ENERGY,
    FIGURES,
    Core,
    Tile,
    ceil_div,
    core_of,
    map_convolution,
    map_vector_work,
)
from codesign.scheduling.segments.kernels.fabric import ALL_DRAMS
from codesign.scheduling.segments.kernels.layout import Layout, lay_out
from codesign.scheduling.segments.kernels.machine import (
    CAPACITY,
    CHOICES,
    DRAM_PJ,
    FED,
    HOP_PJ,
    LEVELS,
    ORDERS,
    PLACED,
    RANKS,
    SHAPED,
    STAMP,
    SUBSETS,
    WAY,
    Caches,
    Problem,
)
from codesign.scheduling.segments.kernels.traffic import (
    buffer_use,
    channels_from_dram,
    filling_by_kind,
    filling_energy,
    stored_weights,
    written_outputs,
)

LEAST_USE = 0.75
"""Share of the elements that a partition's equal tiles must be (rule M6)."""

FACTORS = (1.0, 0.5, 0.71, 0.84, 1.19, 1.41, 2.0)
"""What the pace of a kind is multiplied with by level of a code: as it is, less, more (rule M123)."""

BY_PACE, ALL_KINDS, ONE_KIND = 0, 1, 2
"""Which kinds do a layer: all where that pays, else the one of most pace; all; or from this number on one by number."""

WORTHWHILE = 1.15
"""Pace of all kinds over that of the strongest from which a layer runs on all where its choice leaves it open (rule M123)."""

NEVER = 1e18
"""Unit time of a layer on a kind of cores that cannot do it."""

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
def map_tile(core: Core, shape: IntArray, k: int, batch: int, high: int, wide: int, found: FloatArray) -> bool:
    """Figures of a tile of a layer on one core; returns whether there is a mapping (rules M11 to M16)."""
    if layout.is_vector(shape[layout.TYPE]):
        work = k * high * wide * shape[layout.OPERANDS] * shape[layout.R] * shape[layout.S] * batch
        map_vector_work(core, work, found)
        return True
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
    return map_convolution(core, tile, found)


@njit
def tile_key(kind: int, layer: int, k: int, batch: int, high: int, wide: int) -> int:
    """A key of a tile of the shape of a layer on a kind of cores; never 0."""
    key = mix(mix(mix(mix(kind * 65536 + layer, k), batch), high), wide)
    return key if key != 0 else 1


@njit
def find_exact(keys: IntArray, key: int) -> int:
    """The row of a key, or the free one to use for it."""
    at = (key & 0x7FFFFFFFFFFF) % keys.shape[0]
    while keys[at] != 0 and keys[at] != key:
        at = (at + 1) % keys.shape[0]
    return at  # type: ignore[no-any-return]


@njit
def kind_figures(
    problem: Problem, kind: int, layer: int, k: int, batch: int, high: int, wide: int, found: FloatArray
) -> bool:
    """Figures of a tile on a core of a kind; an architecture's are the exact mapper's, or estimates in proportion (rule M125)."""
    shape = problem.table[layer]
    if problem.mapped[kind] == 0 or layout.is_vector(shape[layout.TYPE]):
        return map_tile(core_of(problem.cores, kind), shape, k, batch, high, wide, found)
    key = tile_key(kind, layer, k, batch, high, wide)
    at = find_exact(problem.exact_keys, key)
    if problem.exact_keys[at] == key:
        found[:] = problem.exact_figures[at]
        return found[FIGURES] >= 0.0  # type: ignore[no-any-return]
    share = k * batch * high * wide / (shape[layout.OUT_K] * shape[layout.OUT_H] * shape[layout.OUT_W])
    found[:] = 0.0
    found[ENERGY] = share * problem.unit_pj[layer, kind]
    found[CYCLES] = float(int(share * problem.unit_times[layer, kind]) + 1)
    found[FIGURES] = found[ENERGY] * found[CYCLES]
    return problem.unit_times[layer, kind] < NEVER  # type: ignore[no-any-return]


@njit
def core_figures(problem: Problem, caches: Caches, kind: int, layer: int, batch_at: int, row: int) -> bool:
    """Find the figures of one core's tile among equal parts, once; returns whether there is a mapping."""
    at = kind * problem.table.shape[0] + layer
    if caches.core_known[at, batch_at, row] == 0:
        shape, parts = problem.table[layer], problem.parts[row]
        batch = ceil_div(problem.batches[batch_at], parts[1])
        k, high, wide = (
            ceil_div(shape[layout.K], parts[0]),
            ceil_div(shape[layout.H], parts[2]),
            ceil_div(shape[layout.W], parts[3]),
        )
        good = kind_figures(problem, kind, layer, k, batch, high, wide, caches.core_figures[at, batch_at, row])
        caches.core_known[at, batch_at, row] = 1 if good else 2
    return caches.core_known[at, batch_at, row] == 1  # type: ignore[no-any-return]


@njit
def _used(problem: Problem, layer: int, batch: int, row: int) -> float:
    """Share of the ceiling tiles that is work."""
    shape, parts = problem.table[layer], problem.parts[row]
    share = shape[layout.K] / (ceil_div(shape[layout.K], parts[0]) * parts[0])
    share *= batch / (ceil_div(batch, parts[1]) * parts[1])
    share *= shape[layout.H] / (ceil_div(shape[layout.H], parts[2]) * parts[2])
    return share * (shape[layout.W] / (ceil_div(shape[layout.W], parts[3]) * parts[3]))  # type: ignore[no-any-return]


@njit
def _least_cut(problem: Problem, kind: int, layer: int, batch: int, cores: int) -> int:
    """Parts of batch, rows and columns together that a plain convolution needs for its inputs to fit (rule M6)."""
    shape = problem.table[layer]
    if shape[layout.TYPE] > layout.FC:
        return 0
    words = shape[layout.C] * shape[layout.IN_H] * shape[layout.IN_W] * batch
    return int(words / (FULL * cores * problem.limits[kind, CAPACITY]) + 1)


@njit
def _guess(problem: Problem, caches: Caches, kind: int, layer: int, batch_at: int, row: int) -> float:
    """Energy x cycles of a layer alone, about: distances are averages, halos left out. It only ranks partitions."""
    shape, parts, batch = problem.table[layer], problem.parts[row], problem.batches[batch_at]
    figures = caches.core_figures[kind * problem.table.shape[0] + layer, batch_at, row]
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
    write = problem.cores.pj[kind, BIG, 1]
    energy = figures[ENERGY] * cores + (weights * weight_copies + inputs * copies) * write
    energy += words * problem.prices[HOP_PJ]
    moved = weights + 0.5 * (inputs + shape[layout.OUT_K] * shape[layout.OUT_H] * shape[layout.OUT_W] * batch)
    return (energy + moved * problem.prices[DRAM_PJ]) * figures[CYCLES]  # type: ignore[no-any-return]


@njit
def common_kind(kind_start: IntArray, first: int, cores: int) -> int:
    """The kind of most of some consecutive cores, the first of several."""
    most, chosen = 0, 0
    for kind in range(kind_start.shape[0] - 1):
        n = min(first + cores, kind_start[kind + 1]) - max(first, kind_start[kind])
        if n > most:
            most, chosen = n, kind
    return chosen


@njit
def chosen_cores(kind_start: IntArray, unit_times: FloatArray, first: int, cores: int, code: int) -> tuple[int, int]:
    """The cores of a layer's range that do it: those of one kind, or all (rule M123).

    Args:
        kind_start: Where the cores of each kind begin.
        unit_times: Unit time of the layer on each kind.
        first: First core of the range.
        cores: Cores of the range.
        code: Weights and kinds of a choice.

    Returns:
        First core and how many; all where the kind has none in the range.
    """
    kinds, subset = kind_start.shape[0] - 1, code % SUBSETS
    if kinds == 1 or subset == ALL_KINDS:
        return first, cores
    chosen = subset - ONE_KIND
    if subset == BY_PACE:
        most, total = -1.0, 0.0
        for kind in range(kinds):
            n = min(first + cores, kind_start[kind + 1]) - max(first, kind_start[kind])
            pace = max(n, 0) / max(unit_times[kind], 1e-12)
            total += pace
            if n > 0 and pace > most:
                most, chosen = pace, kind
        if total >= WORTHWHILE * most:
            return first, cores
    start, past = max(first, kind_start[chosen]), min(first + cores, kind_start[chosen + 1])
    if past <= start:
        return first, cores
    return start, past - start


@njit
def rank_partitions(problem: Problem, caches: Caches, kind: int, layer: int, batch_at: int, cores: int) -> int:
    """The allowed partitions of a shape on some cores, the most promising first; returns how many there are."""
    ranked = caches.ranked[kind * problem.table.shape[0] + layer, batch_at, cores]
    if ranked[0] == -2:
        _fill_ranks(problem, caches, kind, layer, batch_at, cores, ranked)
    n = 0
    while n < RANKS and ranked[n] >= 0:
        n += 1
    return n


@njit
def _fill_ranks(
    problem: Problem, caches: Caches, kind: int, layer: int, batch_at: int, cores: int, ranked: IntArray
) -> None:
    ranked[:] = -1
    batch = problem.batches[batch_at]
    least = _least_cut(problem, kind, layer, batch, cores)
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
        if not core_figures(problem, caches, kind, layer, batch_at, row):
            continue
        cost = _guess(problem, caches, kind, layer, batch_at, row)
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
    code = choice // (ORDERS * RANKS)
    first, cores = chosen_cores(problem.kind_start, problem.unit_times[layer], first, cores, code)
    kind = common_kind(problem.kind_start, first, cores)
    n = rank_partitions(problem, caches, kind, shaped, batch_at, cores)
    if n == 0:
        return -1
    row = caches.ranked[kind * problem.table.shape[0] + shaped, batch_at, cores, (choice // ORDERS) % RANKS % n]
    way = choice % ORDERS
    if problem.limits.shape[0] > 1:  # weights of kinds
        way += code * CHOICES
    key = mix(
        mix(mix(problem.kin[layer, FED] * 128 + batch_at, first * 4096 + cores), row * ORDERS + way),
        on_chip * 2 + stored,
    )
    slot = _find_slot(caches, key)
    known = caches.leaf_keys[slot] == key
    caches.leaf_stamps[slot] = caches.counts[STAMP]
    if not known:
        caches.leaf_keys[slot] = key
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
def core_weights(kind_start: IntArray, unit_times: FloatArray, first: int, cores: int, code: int) -> FloatArray:
    """Weights of consecutive cores for a layer: the pace of their kind, times what a code says (rule M123).

    Args:
        kind_start: Where the cores of each kind begin.
        unit_times: Unit time of the layer on each kind.
        first: First core.
        cores: How many.
        code: Kinds that do it, and above these digits to the base of `LEVELS`, one for each kind after the first.
    """
    weights = np.ones(cores)
    code //= SUBSETS
    if kind_start.shape[0] == 2:
        return weights
    total = 0.0
    for kind in range(kind_start.shape[0] - 1):
        factor = 1.0
        if kind > 0:
            factor = FACTORS[code % LEVELS]
            code //= LEVELS
        pace = factor / max(unit_times[kind], 1e-12)
        for core in range(max(first, kind_start[kind]), min(first + cores, kind_start[kind + 1])):
            weights[core - first] = pace
            total += pace
    if total == 0.0 or (weights == weights[0]).all():
        weights[:] = 1.0
    return weights


@njit
def _slowest(problem: Problem, layer: int, borders: IntArray, parts: IntArray, order: IntArray, first: int) -> float:
    """Cycles of the slowest core of a layer whose parts begin at some borders; infinite where one cannot do its part."""
    steps, shaped = layout.order_steps(order, parts), problem.kin[layer, SHAPED]
    mapped, sizes, before = np.zeros(FIGURES + 1), np.zeros(5, np.int64), np.zeros(5, np.int64)
    slowest = 0.0
    for core in range(parts[0] * parts[1] * parts[2] * parts[3]):
        sizes[4] = problem.site_kind[problem.fabric.order[first + core]]
        for d in range(4):
            i = core // steps[d] % parts[d]
            sizes[d] = borders[d, i + 1] - borders[d, i]
        if sizes[0] * sizes[1] * sizes[2] * sizes[3] == 0 or (sizes == before).all():
            continue
        before[:] = sizes
        if not kind_figures(problem, sizes[4], shaped, sizes[0], sizes[1], sizes[2], sizes[3], mapped):
            return np.inf
        slowest = max(slowest, mapped[CYCLES])
    return slowest


@njit
def leaf_borders(
    problem: Problem, layer: int, batch: int, parts: IntArray, order: IntArray, first: int, code: int
) -> IntArray:
    """Where the parts of a layer begin: equal ones on equal cores, else in proportion to weights (rules M6, M123).

    Where a choice leaves the weights open, each factor is tried on the kinds after the first, and the slowest core decides.
    """
    shape = problem.table[layer]
    if problem.limits.shape[0] == 1:
        return layout.even_borders(shape, batch, parts)
    cores = parts[0] * parts[1] * parts[2] * parts[3]
    weights = core_weights(problem.kind_start, problem.unit_times[layer], first, cores, code)
    borders = layout.weighted_borders(shape, batch, parts, order, weights)
    if code >= SUBSETS or weights.min() == weights.max():
        return borders
    least = _slowest(problem, layer, borders, parts, order, first)
    for level in range(1, LEVELS):
        digits = 0
        for _ in range(problem.limits.shape[0] - 1):
            digits = digits * LEVELS + level
        weights = core_weights(problem.kind_start, problem.unit_times[layer], first, cores, digits * SUBSETS)
        other = layout.weighted_borders(shape, batch, parts, order, weights)
        cycles = _slowest(problem, layer, other, parts, order, first)
        if cycles < least:
            least, borders = cycles, other
    return borders


@njit
def own_tiles(problem: Problem, layer: int, place: Layout, runs: int, mapped: FloatArray, figures: FloatArray) -> bool:
    """Energy without words and cycles of a layer each of whose cores is charged its own tile (rule M124).

    Args:
        problem: Network and system.
        layer: Number of the layer.
        place: Its tiles.
        runs: Over which stored weights are spread.
        mapped: Room for the figures of a core.
        figures: Receives energy and cycles.

    Returns:
        Whether every core has a mapping.
    """
    energy, cycles = 0.0, 0.0
    shaped = problem.kin[layer, SHAPED]
    for t in range(place.counts[0]):
        tile = place.tiles[t]
        if layout.volume(tile) == 0:
            continue
        kind = problem.site_kind[place.tile_sites[t]]
        k, b, h, w = tile[1] - tile[0], tile[3] - tile[2], tile[5] - tile[4], tile[7] - tile[6]
        if not kind_figures(problem, kind, shaped, k, b, h, w, mapped):
            return False
        energy += mapped[ENERGY]
        cycles = max(cycles, mapped[CYCLES])
    filling = filling_by_kind(problem.table[layer], place, runs, problem.cores, problem.site_kind)
    figures[0], figures[1] = energy + filling, cycles
    return True


@njit
def _producers_from_dram(
    problem: Problem,
    counter: IntArray,
    ranges: IntArray,
    starts: IntArray,
    sites: IntArray,
    edges: tuple[int, int],
    shift: int,
    wraps: int,
    on_chip: int,
) -> None:
    """Words of producers that come through DRAM to the groups of a layer.

    Args:
        problem: Network and system.
        counter: Receives the words.
        ranges: Of the groups.
        starts: Where each group's sites begin.
        sites: Of the groups.
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
            channels_from_dram(problem.fabric, counter, ranges, starts, sites, shift, shift + channels, ALL_DRAMS)
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
    place = slot_layout(caches, slot)
    order = order_of(parts, problem.orders[choice % ORDERS])
    borders = leaf_borders(problem, layer, batch, parts, order, first, choice // (ORDERS * RANKS))
    lay_out(fabric, shape, borders, parts, order, first, problem.limits.shape[0] > 1, place)
    counter = caches.leaf_counters[slot]
    counter[:] = 0
    runs = whole_batch(problem) // batch
    weights, inputs = place.weight_ranges[: place.counts[2]], place.in_ranges[: place.counts[1]]
    start, middle, past = problem.edges.start[layer], problem.edges.weight_start[layer], problem.edges.start[layer + 1]
    if shape[layout.BATCHED_WEIGHT] == 0:
        stored_weights(fabric, counter, place, ALL_DRAMS, runs, 1)
    starts, sites = place.weight_starts, place.weight_sites
    on_chip_weights = on_chip >> (middle - start)
    _producers_from_dram(problem, counter, weights, starts, sites, (middle, past), 0, 0, on_chip_weights)
    wraps = shape[layout.OUT_K] if shape[layout.TYPE] == layout.ELTWISE else 0
    shift = shape[layout.EXTERNAL_C]
    starts, sites = place.in_starts, place.in_sites
    channels_from_dram(fabric, counter, inputs, starts, sites, 0, shift, ALL_DRAMS)
    _producers_from_dram(problem, counter, inputs, starts, sites, (start, middle), shift, wraps, on_chip)
    if stored == 1:
        written_outputs(fabric, counter, place, ALL_DRAMS)
    whole, usage, figures = np.zeros(6, np.int64), caches.leaf_usage[slot], caches.leaf_figures[slot]
    buffer_use(shape, place, whole, problem.reserve, usage)
    figures[2] = 1.0
    if problem.limits.shape[0] == 1:
        core = caches.core_figures[problem.kin[layer, SHAPED], batch_at, row]
        filling = filling_energy(shape, place, batch, runs, whole, problem.cores.pj[0, BIG])
        figures[0] = core[ENERGY] * place.counts[0] + filling
        figures[1] = core[CYCLES]
    elif not own_tiles(problem, layer, place, runs, np.zeros(FIGURES + 1), figures):
        figures[2] = 0.0
    if (usage[0] + usage[2] > problem.capacity).any():
        figures[2] = 0.0
