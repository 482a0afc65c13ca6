"""Figures of tiles on one core, found once for each partition and batch (rules M11 to M16, M125)."""

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.core_mapper import (
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
from codesign.scheduling.segments.kernels.machine import Caches, Problem

NEVER = 1e18
"""Unit time of a layer on a kind of cores that cannot do it."""


@njit
def mix(key: int, value: int) -> int:
    """A key with one more number in it (the finaliser of splitmix64)."""
    z = np.uint64(key) ^ (np.uint64(value) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))  # type: ignore[return-value]


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
