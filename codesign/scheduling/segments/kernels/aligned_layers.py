"""Partitions of consecutive layers chosen together, so that words stay on the core that made them (rule M56)."""

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray, stable_order
from codesign.scheduling.segments.kernels.core_mapper import CYCLES
from codesign.scheduling.segments.kernels.machine import (
    FED,
    ORDERS,
    RANKS,
    SHAPED,
    STAMP,
    Caches,
    Problem,
    Tokens,
    Workspace,
)
from codesign.scheduling.segments.kernels.placed_leaf import place_row
from codesign.scheduling.segments.kernels.segment_cost import add_on_chip, leaf_cost
from codesign.scheduling.segments.kernels.tile_figures import core_figures
from codesign.scheduling.segments.kernels.tree import LEAF, TIME
from codesign.scheduling.segments.kernels.tree_search import NEST, price_option, write_flat

SLOWEST = 1.6
"""Cycles of a core, over those of a layer's fastest partition, above which a partition is not priced."""


@njit
def _cores(problem: Problem) -> int:
    """Cores of the system."""
    return problem.kind_start[problem.kind_start.shape[0] - 1]  # type: ignore[no-any-return]


@njit
def _edge_bits(problem: Problem, layer: int) -> int:
    """All edges of a layer, as bits."""
    return (1 << (problem.edges.start[layer + 1] - problem.edges.start[layer])) - 1  # type: ignore[no-any-return]


@njit
def _placed(problem: Problem, caches: Caches, layer: int, batch_at: int, row: int, turn: int) -> int:
    """The slot of a layer on all cores, all that it reads being on chip, and its outputs too where they are read."""
    stored = 1 if problem.reader_start[layer] == problem.reader_start[layer + 1] else 0
    where = 0, _cores(problem)
    return place_row(problem, caches, layer, batch_at, where, row, turn, _edge_bits(problem, layer), stored)


@njit
def _priced(work: Workspace, layer: int, slot: int, batch: int, bits: int, per_time: float) -> float:
    """Energy + `per_time` x time of a layer in a slot; producers of edges with a bit stand in the slots of the room."""
    counter = work.scratch.counters[0]
    counter[:] = work.caches.leaf_counters[slot]
    add_on_chip(work, layer, slot, batch, bits, counter)
    energy, time, _ = leaf_cost(work.problem, work.caches, slot, counter, False)
    return energy + per_time * time


@njit
def price_rows(work: Workspace, batch_at: int, turn: int, per_time: float, prices: FloatArray) -> None:
    """Price of each layer on all cores in every partition, its producers being cut likewise as far as they can be.

    Args:
        work: Network, system and room.
        batch_at: Number of the batch of a run.
        turn: Number of the order of the dimensions.
        per_time: Energy that a unit of time is worth.
        prices: Receives them, layers x partitions of all cores; infinite where a layer does not fit.
    """
    problem, caches, scratch = work.problem, work.caches, work.scratch
    batch, first_row = problem.batches[batch_at], problem.part_start[_cores(work.problem)]
    for layer in range(problem.table.shape[0]):
        if problem.kin[layer, FED] < layer:
            prices[layer] = prices[problem.kin[layer, FED]]
            continue
        start, past, shaped = problem.edges.start[layer], problem.edges.start[layer + 1], problem.kin[layer, SHAPED]
        least = np.inf
        for row in range(first_row, first_row + prices.shape[1]):
            if core_figures(problem, caches, 0, shaped, batch_at, row):
                least = min(least, caches.core_figures[shaped, batch_at, row, CYCLES])
        for at in range(prices.shape[1]):
            row = first_row + at
            prices[layer, at] = np.inf
            if not core_figures(problem, caches, 0, shaped, batch_at, row):
                continue
            if caches.core_figures[shaped, batch_at, row, CYCLES] > SLOWEST * least:
                continue
            caches.counts[STAMP] += 1
            slot = _placed(work.problem, work.caches, layer, batch_at, row, turn)
            good = caches.leaf_figures[slot, 2] > 0.0
            for e in range(start, past):
                producer = problem.edges.producer[e]
                good = good and core_figures(problem, caches, 0, problem.kin[producer, SHAPED], batch_at, row)
                if good:
                    scratch.leaf_of[producer], scratch.leaf_batch[e - start] = e - start, batch
                    scratch.slots[e - start] = _placed(work.problem, work.caches, producer, batch_at, row, turn)
            if good:
                bits = _edge_bits(work.problem, layer)
                prices[layer, at] = _priced(work, layer, slot, batch, bits, per_time)
        for e in range(start, past):
            scratch.leaf_of[problem.edges.producer[e]] = -1


@njit
def _state_of(back: IntArray, at: int, state: int, earlier: int) -> int:
    """State of an earlier layer on the best way to a state of a layer."""
    while at > earlier:
        state = back[at, state]
        at -= 1
    return state


@njit
def _may_improve(slots: IntArray, least: FloatArray, before: float, best: FloatArray) -> bool:
    """Whether a way of a price to the layer before may be the best one to any partition of a layer, words from cores left out."""
    may = False
    for q in range(RANKS):
        may = may or (slots[q] >= 0 and before + least[q] < best[q])
    return may


@njit
def _place_states(
    work: Workspace, layer: int, batch_at: int, turn: int, per_time: float, slots: IntArray, least: FloatArray
) -> None:
    """Slots of a layer in all its ranks, -1 where it does not fit, and their prices without words from cores."""
    problem, caches = work.problem, work.caches
    ranked = caches.ranked[problem.kin[layer, SHAPED], batch_at, _cores(work.problem)]
    for q in range(RANKS):
        slots[q] = -1
        if ranked[q] >= 0:
            slots[q] = _placed(work.problem, work.caches, layer, batch_at, ranked[q], turn)
            least[q] = _priced(work, layer, slots[q], problem.batches[batch_at], 0, per_time)
            if caches.leaf_figures[slots[q], 2] == 0.0:
                slots[q] = -1


@njit
def _choose(order: IntArray, prices: FloatArray, back: IntArray, turn: int, choices: IntArray) -> float:
    """Choices of all layers on the best way to the last one, whose states have prices; returns the least price."""
    last = 0
    for q in range(RANKS):
        if prices[q] < prices[last]:
            last = q
    if prices[last] < np.inf:
        for i in range(order.shape[0]):
            choices[order[i]] = _state_of(back, order.shape[0] - 1, last, i) * ORDERS + turn
    return prices[last]  # type: ignore[no-any-return]


@njit
def align_layers(
    work: Workspace, order: IntArray, batch_at: int, turn: int, per_time: float, choices: IntArray
) -> float:
    """Partitions of all layers on all cores, chosen by a dynamic program along the layers; returns the price.

    The state is the partition of a layer, one of its ranks. What a layer reads from one before the last is priced by the
    partition that this had on the best way to the last one.

    Args:
        work: Network, system and what is known, with ranks of all layers.
        order: Layers.
        batch_at: Number of the batch of a run.
        turn: Number of the order of the dimensions.
        per_time: Energy that a unit of time is worth.
        choices: Receives the choice of each layer.
    """
    problem, caches, scratch = work.problem, work.caches, work.scratch
    n, batch, cores = order.shape[0], problem.batches[batch_at], _cores(work.problem)
    best, back = np.full((n, RANKS), np.inf), np.zeros((n, RANKS), np.int64)
    place_of, slots, least = np.zeros(n, np.int64), np.zeros(RANKS, np.int64), np.zeros(RANKS)
    for i in range(n):
        layer = order[i]
        place_of[layer] = i
        caches.counts[STAMP] += 1
        _place_states(work, layer, batch_at, turn, per_time, slots, least)
        start, past, bits = problem.edges.start[layer], problem.edges.start[layer + 1], _edge_bits(work.problem, layer)
        ways = stable_order(best[i - 1]) if i > 0 else np.zeros(1, np.int64)
        for p in ways:
            before = best[i - 1, p] if i > 0 else 0.0
            if before == np.inf:
                break
            if not _may_improve(slots, least, before, best[i]):
                continue
            for e in range(start, past):
                producer = problem.edges.producer[e]
                state = _state_of(back, i - 1, p, place_of[producer])
                row = caches.ranked[problem.kin[producer, SHAPED], batch_at, cores, state]
                scratch.leaf_of[producer], scratch.leaf_batch[e - start] = e - start, batch
                scratch.slots[e - start] = _placed(work.problem, work.caches, producer, batch_at, row, turn)
            for q in range(RANKS):
                if slots[q] < 0 or before + least[q] >= best[i, q]:
                    continue
                price = before + _priced(work, layer, slots[q], batch, bits, per_time)
                if price < best[i, q]:
                    best[i, q], back[i, q] = price, p
        for e in range(start, past):
            scratch.leaf_of[problem.edges.producer[e]] = -1
    return _choose(order, best[n - 1], back, turn, choices)


@njit
def clean_places(problem: Problem, order: IntArray, clean: IntArray) -> None:
    """1 for each place among the layers where words of one layer alone are read behind it, or of none."""
    n = order.shape[0]
    place_of, reach = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(n):
        place_of[order[i]] = i
    for i in range(n):
        for e in range(problem.edges.start[order[i]], problem.edges.start[order[i] + 1]):
            reach[place_of[problem.edges.producer[e]]] = i
    for i in range(n + 1):
        waiting = 0
        for j in range(i):
            waiting += 1 if reach[j] >= i else 0
        clean[i] = 1 if waiting <= 1 else 0


@njit
def price_runs(
    work: Workspace,
    tokens: Tokens,
    order: IntArray,
    root_groups: int,
    options: IntArray,
    choices: IntArray,
    short: int,
    costs: FloatArray,
) -> int:
    """Energy and time of segments of consecutive layers: any of few layers, and all between two clean places.

    Args:
        work: Network, system and room.
        tokens: Room.
        order: Layers.
        root_groups: Runs of every segment.
        options: See `tree_search.price_segments`.
        choices: Choice of each layer.
        short: Most layers of a segment that ends at a place that is not clean.
        costs: Receives energy and time, lengths x layers x m x 2; infinite where there is no scheme.

    Returns:
        How many schemes there are.
    """
    n, found = order.shape[0], 0
    clean = np.zeros(n + 1, np.int64)
    clean_places(work.problem, order, clean)
    write_flat(tokens, order, root_groups)
    costs[:] = np.inf
    for first in range(n):
        for o in range(options.shape[0]):
            for past in range(first + 1, n + 1):
                alone = past == first + 1
                if alone != (options[o, 0] == LEAF):
                    continue
                if past > first + short and (clean[first] == 0 or clean[past] == 0):
                    continue
                cost = costs[past - first - 1, first, o]
                work.scratch.segment_of[:n] = -1
                if price_option(work, tokens, order[first:past], options[o], choices, cost):
                    found += 1
                elif clean[past] == 1 and options[o, 0] == TIME and options[o, 2] == NEST:
                    break
    return found
