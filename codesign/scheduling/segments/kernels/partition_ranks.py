"""Partitions that a layer may have on some cores, the most promising first (rule M6)."""

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.core_mapper import BIG, CYCLES, ENERGY, ceil_div
from codesign.scheduling.segments.kernels.machine import (
    CAPACITY,
    DRAM_PJ,
    HOP_PJ,
    RANKS,
    WAY,
    Caches,
    Problem,
)
from codesign.scheduling.segments.kernels.tile_figures import core_figures, whole_batch

LEAST_USE = 0.75
"""Share of the elements that a partition's equal tiles must be (rule M6)."""

FULL = 0.8
"""Share of all buffers that the inputs of plain convolutions may fill (rule M6)."""


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
