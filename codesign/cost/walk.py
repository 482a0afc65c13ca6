"""The walk of a nest that every count begins with: loops, fan-outs in use, tile sizes (rules C1, C2, I1, I2 of docs/reference/cost-model.md)."""

from codesign.core.jit import njit, njit_inline
from codesign.cost.columns import (
    AXES,
    BEFORE,
    CAPACITY,
    CHILDREN,
    FAN_X,
    FAN_Y,
    INSTANCES,
    MARKED,
    NEAREST,
    START,
    STEP_SIZE,
    STOP,
    TILE,
)
from codesign.cost.packed import OVER_CAPACITY, OVER_MESH, VALID, Kernel
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, LEVEL, SPATIAL_X, TEMPORAL, IntArray, Nest


@njit
def scan_loops(kernel: Kernel, nest: Nest, count: int) -> int:
    """Fill `outside`, `use` and `inner`; `VALID`, or `OVER_MESH` + 4 * level when a fan-out is too small.

    The last row of `inner` holds the product of all factors of each dimension. Where it is more than the bound, a tile is at most
    the bound (rule I2).
    """
    _find_fanouts(kernel, nest.loops, count)
    status = _use_fanouts(kernel, nest)
    if status == VALID:
        _size_tiles(kernel, nest.loops, count)
    return status


@njit_inline
def mac_count(kernel: Kernel) -> int:
    """Multiply-accumulates of the computation: the product of its bounds."""
    macs = 1
    for d in range(kernel.bounds.shape[0]):
        macs *= kernel.bounds[d]
    return macs


@njit
def _find_fanouts(kernel: Kernel, loops: IntArray, count: int) -> None:
    """Where the spatial loops of each level stand, and what temporal loops stand outside each place."""
    outside, use = kernel.outside, kernel.use
    for v in range(use.shape[0]):
        use[v, START] = 0
        use[v, STOP] = 0
    temporal, latest = 1, -1
    for i in range(count):
        outside[i, BEFORE] = temporal
        outside[i, NEAREST] = latest
        outside[i, MARKED] = 0
        if loops[i, KIND] == TEMPORAL:
            temporal *= loops[i, FACTOR]
            latest = i
        else:
            v = loops[i, LEVEL]
            if use[v, STOP] == 0:
                use[v, START] = i
            use[v, STOP] = i + 1
    outside[count, BEFORE] = temporal
    outside[count, NEAREST] = latest


@njit
def _use_fanouts(kernel: Kernel, nest: Nest) -> int:
    """Children and instances in use of every level; marks the places where a tensor is stored."""
    loops, position, outside, use = nest.loops, nest.position, kernel.outside, kernel.use
    instances = 1
    for v in range(use.shape[0]):
        use[v, INSTANCES] = instances
        used_x, used_y = 1, 1
        for i in range(use[v, START], use[v, STOP]):
            if loops[i, KIND] == SPATIAL_X:
                used_x *= loops[i, FACTOR]
            else:
                used_y *= loops[i, FACTOR]
        if used_x > kernel.level_int[v, FAN_X] or used_y > kernel.level_int[v, FAN_Y]:
            return OVER_MESH + 4 * v
        use[v, CHILDREN] = used_x * used_y
        instances *= used_x * used_y
        for t in range(position.shape[1]):
            if position[v, t] != BYPASSED:
                outside[position[v, t], MARKED] = 1
    return VALID


@njit
def _size_tiles(kernel: Kernel, loops: IntArray, count: int) -> None:
    """Steps of the loops, and tile sizes where a tensor is stored; the last row of `inner` runs along."""
    bounds, inner, outside = kernel.bounds, kernel.inner, kernel.outside
    running = inner.shape[0] - 1
    for d in range(bounds.shape[0]):
        inner[running, d] = 1
        inner[count, d] = 1
    for i in range(count - 1, -1, -1):
        d = loops[i, DIM]
        outside[i, STEP_SIZE] = inner[running, d]
        inner[running, d] *= loops[i, FACTOR]
        if outside[i, MARKED] == 1:
            for e in range(bounds.shape[0]):
                inner[i, e] = min(inner[running, e], bounds[e])


@njit_inline
def axis_extent(terms: IntArray, first_term: IntArray, a: int, t: int, sizes: IntArray) -> int:
    """Extent along axis a of the box that iterations of `sizes` touch of tensor t (rule C1)."""
    length = 1
    for k in range(first_term[t, a], first_term[t, a + 1]):
        length += terms[k, 1] * (sizes[terms[k, 0]] - 1)
    return length


@njit_inline
def box_words(terms: IntArray, first_term: IntArray, axes: int, t: int, sizes: IntArray) -> int:
    """Elements of that box."""
    words = 1
    for a in range(axes):
        words *= axis_extent(terms, first_term, a, t, sizes)
    return words


@njit
def fill_tiles(kernel: Kernel, position: IntArray) -> int:
    """Tile of every kept tensor, a whole one (rules C1, I2); `OVER_CAPACITY` + 4 * level where they do not fit (rule C2)."""
    counts = kernel.counts
    for v in range(position.shape[0]):
        bits = 0
        for t in range(position.shape[1]):
            place = position[v, t]
            if place == BYPASSED:
                continue
            words = 1
            for a in range(kernel.tensor[t, AXES]):
                kernel.extent[v, t, a] = axis_extent(kernel.terms, kernel.first_term, a, t, kernel.inner[place])
                words *= kernel.extent[v, t, a]
            counts[v, t, TILE] = words
            bits += words * kernel.element_bits[v, t]
        if bits > kernel.level_int[v, CAPACITY]:
            return OVER_CAPACITY + 4 * v
    return VALID
