"""The formulas of the zigzag semantics, compiled: tiles of an order, word accesses and energy of an allocation.

Rules Z1... stand in docs/explanation/loop-order.md. Written from the published description of the model and checked
against evaluations of ZigZag 3.9.1 (reference data).
"""

import math
from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_inline
from codesign.cost.zigzag.arrays import FROM_HIGH, FROM_LOW, TO_HIGH, TO_LOW, Layer, Sizes
from codesign.mapping.nest import FloatArray, IntArray


class Order(NamedTuple):
    """An order of temporal loops, innermost first, and what follows from it alone. ``p`` counts loops from inside.

    Attributes:
        dim: ``N`` dimension of each loop.
        factor: ``N`` its iterations.
        cycles: ``N + 1`` iterations of the first p loops.
        alone: ``T x S x (N + 1)`` units of a stage, times the first p loops, that stand alone on an axis of the tensor.
        length: ``T x S x X x 2 x (N + 1)`` the same for each dimension of the sums.
        reduces: ``N + 1`` 1 where a reduced loop is among those from p outwards.
        reach: ``D`` scratch space.
    """

    dim: IntArray
    factor: IntArray
    cycles: FloatArray
    alone: FloatArray
    length: FloatArray
    reduces: IntArray
    reach: FloatArray


class Allocation(NamedTuple):
    """Which loops each tensor keeps at each of its levels.

    Attributes:
        cut: ``T x V`` loops kept at a level and below it.
        tile: ``T x V`` elements that they make (fractional where units are).
    """

    cut: IntArray
    tile: FloatArray


def make_order(layer: Layer, n_loops: int) -> Order:
    """Room for an order of `n_loops` loops."""
    n_tensors, n_axes = layer.pairs.shape[:2]
    n_stages = layer.fraction.alone.shape[1]
    return Order(
        dim=np.zeros(n_loops, np.int64),
        factor=np.ones(n_loops, np.int64),
        cycles=np.ones(n_loops + 1),
        alone=np.ones((n_tensors, n_stages, n_loops + 1)),
        length=np.ones((n_tensors, n_stages, n_axes, 2, n_loops + 1)),
        reduces=np.zeros(n_loops + 1, np.int64),
        reach=np.ones(layer.reduced.shape[0]),
    )


def make_allocation(layer: Layer) -> Allocation:
    """Room for what every tensor keeps at every level."""
    return Allocation(np.zeros(layer.memory.shape, np.int64), np.ones(layer.memory.shape))


@njit
def complete_order(layer: Layer, sizes: Sizes, order: Order, start: int) -> None:
    """Fill in what follows from ``dim`` and ``factor``; entries before `start` are still right."""
    n = order.dim.shape[0]
    for p in range(start, n):
        order.cycles[p + 1] = order.cycles[p] * order.factor[p]
    for p in range(n - 1, -1, -1):
        order.reduces[p] = 1 if layer.reduced[order.dim[p]] == 1 else order.reduces[p + 1]
    for t in range(layer.relevant.shape[0]):
        for stage in range(layer.n_stages[t]):
            _grow(layer, sizes, order, t, stage, start)


@njit_inline
def _grow(layer: Layer, sizes: Sizes, order: Order, t: int, stage: int, start: int) -> None:
    """Products of units and of loops, each dimension on its own first: fractional tiles are rounded in that order (rule Z3)."""
    if start == 0:
        order.alone[t, stage, 0] = sizes.alone[t, stage]
        for x in range(layer.n_pairs[t]):
            for side in range(2):
                order.length[t, stage, x, side, 0] = sizes.spatial[t, stage, layer.pairs[t, x, side]]
    if layer.fractional:
        for d in range(order.reach.shape[0]):
            order.reach[d] = sizes.spatial[t, stage, d]
        for p in range(start):
            order.reach[order.dim[p]] *= order.factor[p]
    for p in range(start, order.dim.shape[0]):
        d, factor = order.dim[p], order.factor[p]
        kind = layer.relevant[t, d]
        product = order.alone[t, stage, p]
        if layer.fractional:
            order.reach[d] *= factor
            if kind == 1:
                product = 1.0
                for other in range(order.reach.shape[0]):
                    if layer.relevant[t, other] == 1:
                        product *= order.reach[other]
        elif kind == 1:
            product *= factor
        order.alone[t, stage, p + 1] = product
        for x in range(layer.n_pairs[t]):
            for side in range(2):
                grown = factor if layer.pairs[t, x, side] == d else 1
                order.length[t, stage, x, side, p + 1] = order.length[t, stage, x, side, p] * grown


@njit_inline
def tile_elements(layer: Layer, sizes: Sizes, order: Order, t: int, v: int, p: int) -> float:
    """Elements of tensor t that the first p loops and the units below level v touch (rule Z2)."""
    stage = layer.stage[t, v]
    total = order.alone[t, stage, p]
    for x in range(layer.n_pairs[t]):
        a, b = order.length[t, stage, x, 0, p], order.length[t, stage, x, 1, p]
        length = a * b - max(0.0, b - layer.scales[t, x, 0]) * max(0.0, a - layer.scales[t, x, 1])
        total *= min(length, sizes.bound[t, x])
    return total  # type: ignore[no-any-return]


@njit_inline
def is_partial(layer: Layer, order: Order, t: int, v: int, p: int) -> bool:
    """Whether partial sums cross the boundary below level v, the level inside it being cut after p loops."""
    is_output = t == layer.relevant.shape[0] - 1
    return is_output and (order.reduces[p] == 1 or layer.reduces_above[v] == 1)  # type: ignore[no-any-return]


@njit_inline
def stored_bits(layer: Layer, order: Order, t: int, v: int, p: int) -> int:
    """Width that a level v which begins after p loops reckons with for an element of tensor t (rule Z5)."""
    return layer.partial_bits if is_partial(layer, order, t, v, p) else layer.bits[t]


@njit_inline
def skip_irrelevant(layer: Layer, order: Order, t: int, p: int) -> int:
    """The first p from there outwards where a loop relevant to tensor t follows (stationary merge, rule Z6)."""
    while p < order.dim.shape[0] and layer.relevant[t, order.dim[p]] == 0:
        p += 1
    return p


@njit_inline
def round_half_up(value: float) -> float:
    """The nearest integer."""
    return math.floor(value + 0.5)


@njit_inline
def word_accesses(layer: Layer, port: int, elements: float, bits: int, transfers: float, units: float) -> float:
    """Accesses of a port's full width that `transfers` transfers by each of `units` instances take (rule Z7)."""
    smallest, widest = layer.port_min[port], layer.port_max[port]
    words = math.ceil(elements * bits / smallest) * (smallest / widest)
    return math.floor(words * transfers * units)  # type: ignore[no-any-return]


@njit_inline
def moves(is_output: bool, partial: bool, side: int, direction: int) -> bool:
    """Whether data cross a boundary in a direction, seen from the level above it (side 0) or below it (side 1)."""
    if not is_output:
        return direction == (TO_LOW if side == 0 else FROM_HIGH)
    if direction == (FROM_LOW if side == 0 else TO_HIGH):
        return True
    return partial and direction == (TO_LOW if side == 0 else FROM_HIGH)


@njit_inline
def boost(layer: Layer, sizes: Sizes, t: int, v: int) -> float:
    """Distinct elements that the units between level v and the level below it take at a time (rule Z2)."""
    stage = layer.stage[t, v]
    if v > 0 and layer.stage[t, v - 1] == stage:
        return 1.0
    return sizes.boost[t, stage]  # type: ignore[no-any-return]


@njit_inline
def count_boundary(
    layer: Layer, t: int, v: int, elements: float, transfers: float, partial: bool, energy: float, words: FloatArray
) -> float:
    """Count the word accesses of what crosses the boundary below level v of tensor t into `words` (``T x V x 4``); returns `energy` plus theirs (rules Z7 to Z10)."""
    is_output = t == layer.relevant.shape[0] - 1
    bits = layer.partial_bits if partial else layer.bits[t]
    for side in range(2):  # the level above the boundary, then the one below it
        level = v - side
        moved = elements * boost(layer, layer.fraction, t, v) if side == 0 else elements
        for direction in range(4):
            if level < 0 or not moves(is_output, partial, side, direction):
                continue
            port = layer.port[t, level, direction]
            count = word_accesses(layer, port, moved, bits, transfers, layer.units[t, level])
            words[t, level, direction] = count
            energy += count * layer.port_energy[port, 0 if direction in (TO_LOW, TO_HIGH) else 1]
    return energy


@njit
def count_words(layer: Layer, order: Order, allocation: Allocation, words: FloatArray) -> float:
    """Word accesses by tensor, level and direction into `words` (``T x V x 4``); returns the energy (rules Z6-Z10)."""
    n_tensors, total = layer.relevant.shape[0], order.cycles[-1]
    energy = layer.mac_energy
    words[:] = 0.0
    for t in range(n_tensors):
        inside = 0 if t == n_tensors - 1 else skip_irrelevant(layer, order, t, 0)
        elements = 1.0
        for v in range(layer.n_levels[t]):
            partial = is_partial(layer, order, t, v, inside)
            energy = count_boundary(layer, t, v, elements, total / order.cycles[inside], partial, energy, words)
            inside = skip_irrelevant(layer, order, t, allocation.cut[t, v])
            elements = round_half_up(allocation.tile[t, v])
    return energy
