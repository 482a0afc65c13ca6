"""Which kinds of cores do a layer, and what part of it each does (rules M123, M124)."""

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.core_mapper import CYCLES, ENERGY, FIGURES
from codesign.scheduling.segments.kernels.layout import Layout
from codesign.scheduling.segments.kernels.machine import LEVELS, SHAPED, SUBSETS, Problem
from codesign.scheduling.segments.kernels.tile_figures import kind_figures
from codesign.scheduling.segments.kernels.traffic import filling_by_kind

FACTORS = (1.0, 0.5, 0.71, 0.84, 1.19, 1.41, 2.0)
"""What the pace of a kind is multiplied with by level of a code: as it is, less, more (rule M123)."""

BY_PACE, ALL_KINDS, ONE_KIND = 0, 1, 2
"""Which kinds do a layer: all where that pays, else the one of most pace; all; or from this number on one by number."""

WORTHWHILE = 1.15
"""Pace of all kinds over that of the strongest from which a layer runs on all where its choice leaves it open (rule M123)."""


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
    for t in range(place.tiles.number[0]):
        tile = place.tiles.ranges[t]
        if layout.volume(tile) == 0:
            continue
        kind = problem.site_kind[place.tiles.sites[t]]
        k, b, h, w = tile[1] - tile[0], tile[3] - tile[2], tile[5] - tile[4], tile[7] - tile[6]
        if not kind_figures(problem, kind, shaped, k, b, h, w, mapped):
            return False
        energy += mapped[ENERGY]
        cycles = max(cycles, mapped[CYCLES])
    filling = filling_by_kind(problem.table[layer], place, runs, problem.cores, problem.site_kind)
    figures[0], figures[1] = energy + filling, cycles
    return True
