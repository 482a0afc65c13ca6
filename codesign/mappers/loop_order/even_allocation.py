"""Loop orders on any architecture: a bottom-up even allocation, scored by the production cost kernel (rule Z20).

Levels are filled from the innermost outwards: each takes the loops of the order, one after the other, as long as the
tiles of everything it keeps fit, and still fit in every level outside it.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.cost.columns import AXES, CAPACITY
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, Kernel
from codesign.cost.walk import box_words
from codesign.mappers.driver import value_of
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, LEVEL, TEMPORAL, IntArray, Nest
from codesign.mapping.space import MapSpace

DEFERRED = -1


class Loops(NamedTuple):
    """The loops that orders are made of, and those that have no choice. Shapes: I loops, L levels, D dimensions.

    Attributes:
        dim: ``I``.
        factor: ``I``.
        may: ``I x L`` 1 where the loop may be a temporal loop of the level.
        pinned: ``I`` the level of a loop that may be temporal in one level only and not spatial, else -1.
        slot: ``I`` the spatial slot (see `MapSpace`) a loop is laid on, -1 when temporal.
        slots: ``I x S`` spatial slots that a loop may be laid on, -1 (temporal) among them where it may be temporal.
        n_slots: ``I`` how many of them count.
    """

    dim: IntArray
    factor: IntArray
    may: IntArray
    pinned: IntArray
    slot: IntArray
    slots: IntArray
    n_slots: IntArray


class Room(NamedTuple):
    """What the decoder overwrites.

    Attributes:
        keep: ``L x T`` 1 where the level keeps the tensor.
        fixed: ``L x D`` product of the pinned and the spatial loops of a level.
        inside: ``D`` tile of the level being filled.
        reach: ``D`` tile of a level outside it.
        level: ``I`` the level that took each place of the order; equal loops of an order may be one index.
    """

    keep: IntArray
    fixed: IntArray
    inside: IntArray
    reach: IntArray
    level: IntArray


class Orders(NamedTuple):
    """A problem whose orders are scored.

    Attributes:
        space: Its map space.
        loops: What orders consist of.
        room: Of the decoder.
        nest: Scratch, left with the nest scored last.
        objective: See `codesign.mappers.driver.value_of`.
    """

    kernel: Kernel
    space: MapSpace
    loops: Loops
    room: Room
    nest: Nest
    objective: int


@njit
def _fits(orders: Orders, v: int, sizes: IntArray) -> bool:
    """Whether the tiles of all tensors kept at level v fit there."""
    kernel, keep, bits = orders.kernel, orders.room.keep, 0
    for t in range(keep.shape[1]):
        if keep[v, t] == 0:
            continue
        words = box_words(kernel.terms, kernel.first_term, kernel.tensor[t, AXES], t, sizes)
        bits += words * kernel.element_bits[v, t]
    return bits <= kernel.level_int[v, CAPACITY]  # type: ignore[no-any-return]


@njit
def _fits_outwards(orders: Orders, v: int) -> bool:
    """Whether level v and all levels outside it can hold what their own fixed loops and the loops inside v make."""
    room = orders.room
    if not _fits(orders, v, room.inside):
        return False
    room.reach[:] = room.inside
    for u in range(v - 1, -1, -1):
        room.reach[:] *= room.fixed[u]
        if not _fits(orders, u, room.reach):
            return False
    return True


@njit
def allocate_levels(orders: Orders, order: IntArray) -> bool:
    """Give every place of the order its level (`Room.level`); false when some loop may be in none (rule Z20)."""
    loops, room, n_levels = orders.loops, orders.room, orders.space.order.shape[0]
    room.fixed[:] = 1
    for i in range(loops.dim.shape[0]):
        level = loops.pinned[i]
        if loops.slot[i] >= 0:
            level = (loops.slot[i] - n_levels) // 2
        if level >= 0:
            room.fixed[level, loops.dim[i]] *= loops.factor[i]
    room.level[:] = DEFERRED
    room.inside[:] = 1
    for v in range(n_levels - 1, -1, -1):
        room.inside[:] *= room.fixed[v]
        for place in range(order.shape[0]):
            i = order[place]
            if room.level[place] != DEFERRED or loops.slot[i] >= 0 or loops.may[i, v] == 0:
                continue
            room.inside[loops.dim[i]] *= loops.factor[i]
            if v > 0 and not _fits_outwards(orders, v):
                room.inside[loops.dim[i]] //= loops.factor[i]
                break
            room.level[place] = v
    complete = True
    for place in range(order.shape[0]):
        complete = complete and (room.level[place] != DEFERRED or loops.slot[order[place]] >= 0)
    return complete


@njit
def _append(nest: Nest, count: int, dim: int, factor: int, kind: int, level: int, first: int) -> int:
    """Add a loop inside the others, or widen the last one if it is of the same dimension and kind; `first` is where the level starts."""
    if factor == 1:
        return count
    same = count > first and nest.loops[count - 1, DIM] == dim and nest.loops[count - 1, KIND] == kind
    if same:
        nest.loops[count - 1, FACTOR] *= factor
        return count
    nest.loops[count, DIM] = dim
    nest.loops[count, FACTOR] = factor
    nest.loops[count, KIND] = kind
    nest.loops[count, LEVEL] = level
    return count + 1


@njit
def write_nest(orders: Orders, order: IntArray) -> int:
    """The nest of an allocated order; returns its number of loops."""
    space, loops, room, nest = orders.space, orders.loops, orders.room, orders.nest
    n_levels, n_dims = space.order.shape
    count = 0
    for v in range(n_levels):
        first = count
        for t in range(room.keep.shape[1]):
            nest.position[v, t] = count if room.keep[v, t] == 1 else BYPASSED
        for place in range(order.shape[0] - 1, -1, -1):
            i = order[place]
            if room.level[place] == v and loops.slot[i] < 0 and not _is_ordered(space, v, loops.dim[i]):
                count = _append(nest, count, loops.dim[i], loops.factor[i], TEMPORAL, -1, first)
        for i in range(loops.dim.shape[0]):
            if loops.pinned[i] == v and not _is_ordered(space, v, loops.dim[i]):
                count = _append(nest, count, loops.dim[i], loops.factor[i], TEMPORAL, -1, first)
        for column in range(space.n_free[v], n_dims):  # the order that constraints ask for, innermost last
            d = space.order[v, column]
            product = 1
            for place in range(order.shape[0]):
                i = order[place]
                if room.level[place] == v and loops.slot[i] < 0 and loops.dim[i] == d:
                    product *= loops.factor[i]
            for i in range(loops.dim.shape[0]):
                if loops.pinned[i] == v and loops.dim[i] == d:
                    product *= loops.factor[i]
            count = _append(nest, count, d, product, TEMPORAL, -1, count)
        for axis in range(2):
            for d in range(n_dims):
                product = 1
                for i in range(loops.dim.shape[0]):
                    if loops.slot[i] == n_levels + 2 * v + axis and loops.dim[i] == d:
                        product *= loops.factor[i]
                count = _append(nest, count, d, product, 1 + axis, v, count)
    return count


@njit
def _is_ordered(space: MapSpace, v: int, dim: int) -> bool:
    """Whether constraints place the loops of a dimension within level v."""
    found = False
    for column in range(space.n_free[v], space.order.shape[1]):
        found = found or space.order[v, column] == dim
    return found


@njit_apart
def score_even(orders: Orders, order: IntArray) -> float:
    """The objective of an order, infinite where it has no valid mapping; the nest is left in `nest`."""
    if not allocate_levels(orders, order):
        return np.inf
    count = write_nest(orders, order)
    status, energy, cycles = score(orders.kernel, orders.nest, count)
    return value_of(orders.objective, energy, cycles) if status == VALID else np.inf
