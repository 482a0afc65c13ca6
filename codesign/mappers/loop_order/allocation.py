"""Bottom-up memory allocation: from a loop order alone to what every tensor keeps at every level (rules Z4, Z5).

LOMA, Symons et al., AICAS 2021: memories are filled from the innermost outwards; in each one the tensors that
share it take as many of the loops still unplaced as fit.
"""

import numpy as np

from codesign.core.jit import njit, njit_inline
from codesign.cost.zigzag.arrays import Layer
from codesign.cost.zigzag.kernel import Allocation, Order, stored_bits, tile_elements

FITS = -1


@njit
def allocate(layer: Layer, order: Order, even: bool, allocation: Allocation) -> int:
    """Write the allocation of an order, with one cut a memory if `even` (rule Z4); returns `FITS`, or the memory in which not even the smallest tiles fit."""
    for m in range(layer.capacity.shape[0]):
        count = layer.n_members[m]
        if not layer.fractional and (count == 1 or not even) and _take_most(layer, order, m, allocation):
            continue
        shared = count == 1 or even
        if not (_one_cut(layer, order, m, allocation) if shared else _own_cuts(layer, order, m, allocation)):
            return m
    return FITS


@njit_inline
def _start(allocation: Allocation, t: int, v: int) -> int:
    """Loops below level v."""
    return allocation.cut[t, v - 1] if v > 0 else 0


@njit_inline
def _least(layer: Layer, order: Order, allocation: Allocation, t: int, v: int) -> int:
    """Loops that level v keeps at least: those below it; all of them in the outermost level."""
    if v == layer.n_levels[t] - 1:
        return order.dim.shape[0]  # type: ignore[no-any-return]
    return _start(allocation, t, v)


@njit_inline
def tile_bits(layer: Layer, order: Order, allocation: Allocation, t: int, v: int, p: int) -> float:
    """Bits that tensor t takes at level v when the level keeps all loops up to p (rule Z5)."""
    elements = tile_elements(layer, layer.fraction, order, t, v, p)
    return elements * stored_bits(layer, order, t, v, _start(allocation, t, v))


@njit_inline
def _keep(layer: Layer, order: Order, allocation: Allocation, t: int, v: int, p: int) -> None:
    allocation.cut[t, v] = p
    allocation.tile[t, v] = tile_elements(layer, layer.fraction, order, t, v, p)


@njit_inline
def _largest_fit(layer: Layer, order: Order, allocation: Allocation, t: int, v: int, room: float) -> int:
    """The most loops that level v can keep of tensor t in `room` bits; -1 if not even the fewest. Tiles only grow outwards."""
    p = _least(layer, order, allocation, t, v)
    if tile_bits(layer, order, allocation, t, v, p) > room:
        return -1
    while p < order.dim.shape[0] and tile_bits(layer, order, allocation, t, v, p + 1) <= room:
        p += 1
    return p


@njit_inline
def _take_most(layer: Layer, order: Order, m: int, allocation: Allocation) -> bool:
    """Give every tensor of a memory all the loops that would fit if it were alone; false if they do not fit together.

    Moving a loop inwards never costs more where units are whole (rule Z4), so this is the best when it fits.
    """
    total = 0.0
    for i in range(layer.n_members[m]):
        t, v = layer.members[m, i], layer.member_level[m, i]
        p = _largest_fit(layer, order, allocation, t, v, layer.capacity[m])
        if p < 0:
            return False
        total += tile_bits(layer, order, allocation, t, v, p)
        _keep(layer, order, allocation, t, v, p)
    return total <= layer.capacity[m]  # type: ignore[no-any-return]


@njit
def _one_cut(layer: Layer, order: Order, m: int, allocation: Allocation) -> bool:
    """One cut for all tensors of a memory."""
    n = order.dim.shape[0]
    least = 0
    for i in range(layer.n_members[m]):
        least = max(least, _least(layer, order, allocation, layer.members[m, i], layer.member_level[m, i]))
    best, chosen = np.inf, -1
    for p in range(n, least - 1, -1):
        bits = 0.0
        for i in range(layer.n_members[m]):
            bits += tile_bits(layer, order, allocation, layer.members[m, i], layer.member_level[m, i], p)
        if bits <= layer.capacity[m]:
            cost = bits * (order.cycles[n] / order.cycles[p])
            if cost < best:
                best, chosen = cost, p
    if chosen < 0:
        return False
    for i in range(layer.n_members[m]):
        _keep(layer, order, allocation, layer.members[m, i], layer.member_level[m, i], chosen)
    return True


@njit
def _own_cuts(layer: Layer, order: Order, m: int, allocation: Allocation) -> bool:
    """Own cuts for each of the tensors of a memory, all combinations tried."""
    n, count, i, best = order.dim.shape[0], layer.n_members[m], 0, np.inf
    cut, chosen = np.empty(count, np.int64), np.full(count, -1, np.int64)
    held, cost = np.zeros(count + 1), np.zeros(count + 1)
    cut[0] = n + 1
    while i >= 0:
        t, v = layer.members[m, i], layer.member_level[m, i]
        cut[i] -= 1
        if cut[i] < _least(layer, order, allocation, t, v):
            i -= 1
            continue
        bits = tile_bits(layer, order, allocation, t, v, cut[i])
        held[i + 1], cost[i + 1] = held[i] + bits, cost[i] + bits * (order.cycles[n] / order.cycles[cut[i]])
        if held[i + 1] > layer.capacity[m] or cost[i + 1] >= best:
            continue
        if i + 1 < count:
            i += 1
            cut[i] = n + 1
        else:
            best = cost[count]
            chosen[:] = cut
    for k in range(count if chosen[0] >= 0 else 0):
        _keep(layer, order, allocation, layer.members[m, k], layer.member_level[m, k], chosen[k])
    return chosen[0] >= 0  # type: ignore[no-any-return]


@njit
def least_bits(layer: Layer, order: Order, allocation: Allocation, m: int) -> float:
    """Bits that the smallest tiles take in memory m, those of the memories inside it being allocated."""
    bits = 0.0
    for i in range(layer.n_members[m]):
        t, v = layer.members[m, i], layer.member_level[m, i]
        bits += tile_bits(layer, order, allocation, t, v, _least(layer, order, allocation, t, v))
    return bits
