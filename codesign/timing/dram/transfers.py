"""The bursts of a mapping's transfers: which addresses each load from DRAM, and each store to it, touches.

Layouts are rule A1 of docs/explanation/dram-and-mesh.md. Elements are those that the cost model counts: a tile, or the part of it
that its predecessor did not hold, once for every child with a tile of its own.

* A2: Tensors lie one after another. Each starts at a row of the device.
* A3: A load asks for what the cost model counts: its tile, or the boxes that its predecessor did not hold (R1 to R4).
  Every child with a tile of its own adds its boxes.
* A4: A transfer asks for each burst it touches once, in ascending order. A burst of which one byte is wanted costs a
  whole burst.
* A5: A store writes the bursts of its tile, and reads them first where several children add to one word.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import sort_unique
from codesign.cost.columns import FILLS, READS, TILE
from codesign.cost.packed import Kernel
from codesign.mapping.nest import BYPASSED, IntArray
from codesign.timing.derive import ARRAY, ISSUER
from codesign.timing.dram.device import DramDevice
from codesign.timing.dram.layout import read_layout
from codesign.timing.event_plan import LOAD, STORE
from codesign.timing.mapped_plan import MappedPlan

INACTIVE, WHOLE, NEW_PART = 0, 1, 2


class Regions(NamedTuple):
    """Where the tiles of the plan's processes lie that move to or from DRAM.

    Shapes: K processes of the plan, S its loops, A axes, C children.

    Attributes:
        tensor: ``K`` tensor of the process; -1 where it is no DRAM transfer.
        store: ``K`` 1 for stores.
        extent: ``K x A`` of the tile.
        move: ``K x S x A`` travel of the tile when a loop of the plan advances by one.
        part: ``K x (S + 1)`` `INACTIVE`, `WHOLE` or `NEW_PART` by the way the step is entered (a store: left).
        shift: ``K x (S + 1) x A`` from the tile before, for `NEW_PART`.
        first_child: ``K + 1`` where the children of each process start.
        child: ``C x A`` their offsets.
        again: ``C`` 1 where an earlier child of the process has the same tile.
        old: ``K`` 1 where a store adds to what earlier children have stored: it reads that first.
    """

    tensor: IntArray
    store: IntArray
    extent: IntArray
    move: IntArray
    part: IntArray
    shift: IntArray
    first_child: IntArray
    child: IntArray
    again: IntArray
    old: IntArray


class Places(NamedTuple):
    """Where the elements of the tensors lie.

    Attributes:
        first: ``T x A`` start of each axis's part in `part`.
        part: What each index adds to the element's number.
        order: ``T x A`` axes from outermost to innermost.
        sorted: ``T`` 1 where a walk in that order meets ascending addresses.
        linear: ``T`` 1 where the innermost axis is contiguous.
        base_bits: ``T`` where each tensor starts.
        bits: ``T`` of an element.
    """

    first: IntArray
    part: IntArray
    order: IntArray
    sorted: IntArray
    linear: IntArray
    base_bits: IntArray
    bits: IntArray


def outer_level(position: IntArray, v: int, t: int) -> int:
    """The next level outside v that keeps tensor t; -1 if there is none."""
    for u in range(v - 1, -1, -1):
        if position[u, t] != BYPASSED:
            return u
    return -1


def regions(mapped: MappedPlan, memory: int) -> Regions:
    """Regions of a mapping's plan, for transfers from and to level `memory`."""
    plan, role, kernel, position = mapped.plan, mapped.role, mapped.kernel, mapped.nest.position
    n, ways, axes = len(plan.kind), plan.factors.shape[1] + 1, kernel.coef.shape[1]
    tensor, store, old = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    extent = np.ones((n, axes), np.int64)
    move = np.zeros((n, ways - 1, axes), np.int64)
    part, shift = np.zeros((n, ways), np.int64), np.zeros((n, ways, axes), np.int64)
    children, first_child = [np.zeros((0, axes), np.int64)], np.zeros(n + 1, np.int64)
    for k in range(n):
        first_child[k + 1] = first_child[k]
        t, v = int(role[k, 0]), int(role[k, 1])
        if t in (ISSUER, ARRAY) or plan.kind[k] not in (LOAD, STORE) or outer_level(position, v, t) != memory:
            continue
        tensor[k], store[k] = t, plan.kind[k] == STORE
        extent[k] = np.maximum(1, kernel.extent[v, t])
        full = int(kernel.counts[v, t, TILE])
        words, travelled = mapped.moved(v, t)
        old[k] = plan.kind[k] == STORE and kernel.counts[v, t, FILLS] == 0 and kernel.counts[memory, t, READS] > 0
        for way in range(ways):
            if plan.active[k, 0, way] == 0:
                continue
            part[k, way] = WHOLE
            loop = mapped.loops.get(way - 1)
            stay = plan.kind[k] == LOAD and (mapped.keeps_tiles(v) or role[k, 2] == 1)
            if stay and loop is not None and 0 < words[loop] < full:
                part[k, way], shift[k, way] = NEW_PART, travelled[loop]
        for loop, i in mapped.loops.items():
            if i < position[v, t]:
                move[k, loop] = mapped.travel(t, i)
        offsets = mapped.child_offsets(t, memory, v)
        children.append(offsets)
        first_child[k + 1] += len(offsets)
    child = np.concatenate(children)
    again = np.zeros(len(child), np.int64)
    for k in range(n):
        those = slice(first_child[k], first_child[k + 1])
        _, newest = np.unique(child[those], axis=0, return_index=True)
        again[those] = 1
        again[first_child[k] + newest] = 0
    return Regions(tensor, store, extent, move, part, shift, first_child, child, again, old)


def places(mapped: MappedPlan, memory: int, device: DramDevice, found: Regions) -> Places:
    """Tensors one after another, each from the start of a row; element widths are those of the cost model."""
    kernel, level = mapped.kernel, mapped.architecture.levels[memory]
    assert level.dram is not None
    n_tensors, n_axes = kernel.coef.shape[:2]
    first, order = np.zeros((n_tensors, n_axes), np.int64), np.zeros((n_tensors, n_axes), np.int64)
    ascending, linear = np.zeros(n_tensors, np.int64), np.zeros(n_tensors, np.int64)
    base, bits = np.zeros(n_tensors, np.int64), np.ones(n_tensors, np.int64)
    parts: list[IntArray] = []
    size, start = 0, 0
    row_bits = device.bursts_per_row * device.burst_bytes * 8
    for t, tensor in enumerate(mapped.computation.tensors):
        shape = _shape(kernel, t, max(1, len(tensor.axes)))  # a scalar is a tensor of one element
        text = level.dram.layout(tensor.name, tensor.role.value)
        where = f"architecture {mapped.architecture.name!r}, level {level.name!r}, tensor {tensor.name!r}"
        layout = read_layout(text, shape, _block(found, t, shape), where)
        pieces, total = layout.parts()
        inner = layout.order[-1]
        for a in range(n_axes):
            piece = pieces[a] if a < len(pieces) else np.zeros(1, np.int64)
            first[t, a] = size
            size += len(piece)
            parts.append(piece)
        order[t] = [*range(len(shape), n_axes), *layout.order]
        ascending[t] = layout.monotonic
        linear[t] = layout.monotonic and bool((np.diff(pieces[inner]) == 1).all())
        bits[t] = kernel.element_bits[memory, t]
        base[t] = start
        start += -(-total * int(bits[t]) // row_bits) * row_bits
    return Places(first, np.concatenate(parts), order, ascending, linear, base, bits)


def _shape(kernel: Kernel, t: int, axes: int) -> tuple[int, ...]:
    """Extents of the tensor's axes, borders of sliding windows included."""
    reach = 1 + (kernel.coef[t] * (kernel.bounds - 1)[None, :]).sum(axis=1)
    return tuple(int(x) for x in reach[:axes])


def _block(found: Regions, t: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Least step of the tensor's DRAM tiles along each axis, between loops or children: the blocks of a tiled layout."""
    block = np.array(shape, np.int64)
    for k in np.flatnonzero(found.tensor == t):
        offsets = found.child[found.first_child[k] : found.first_child[k + 1]]
        for steps in (found.move[k], offsets):
            for a in range(len(shape)):
                along = steps[:, a][steps[:, a] > 0]
                if len(along):
                    block[a] = min(block[a], int(along.min()))
    return tuple(int(b) for b in block)


@njit
def _put(out: IntArray, size: int, burst: int) -> tuple[IntArray, int]:
    if size == out.shape[0]:
        larger = np.empty(2 * size, np.int64)
        larger[:size] = out
        out = larger
    out[size] = burst
    return out, size + 1


@njit
def _box(
    low: IntArray, high: IntArray, t: int, places: Places, burst_bits: int, out: IntArray, size: int, start: int
) -> tuple[IntArray, int, int]:
    """Append the bursts of a box of elements; returns the elements met as well."""
    axes = low.shape[0]
    at = low.copy()
    inner = places.order[t, axes - 1]
    bits = places.bits[t]
    elements = 0
    for a in range(axes):
        if high[a] <= low[a]:
            return out, size, 0
    while True:
        place = 0
        for j in range(axes - 1):
            a = places.order[t, j]
            place += places.part[places.first[t, a] + at[a]]
        if places.linear[t] == 1:
            begin = places.base_bits[t] + (place + places.part[places.first[t, inner] + low[inner]]) * bits
            end = begin + (high[inner] - low[inner]) * bits - 1
            for burst in range(begin // burst_bits, end // burst_bits + 1):
                if size == start or out[size - 1] != burst:
                    out, size = _put(out, size, burst)
            elements += high[inner] - low[inner]
        else:
            for i in range(low[inner], high[inner]):
                begin = places.base_bits[t] + (place + places.part[places.first[t, inner] + i]) * bits
                for burst in range(begin // burst_bits, (begin + bits - 1) // burst_bits + 1):
                    if size == start or out[size - 1] != burst:
                        out, size = _put(out, size, burst)
                elements += 1
        j = axes - 2
        while j >= 0:
            a = places.order[t, j]
            at[a] += 1
            if at[a] < high[a]:
                break
            at[a] = low[a]
            j -= 1
        if j < 0:
            return out, size, elements


@njit
def _region(
    low: IntArray, extent: IntArray, part: int, shift: IntArray, t: int, places: Places, burst_bits: int, out: IntArray,
    size: int, start: int,
) -> tuple[IntArray, int, int]:  # fmt: skip
    """A tile, or the boxes of it that the tile before did not cover: axis by axis, the rest within the overlap."""
    axes = low.shape[0]
    high = low + extent
    if part == WHOLE:
        return _box(low, high, t, places, burst_bits, out, size, start)
    elements = 0
    inside_low, inside_high = low.copy(), high.copy()
    for a in range(axes):
        if shift[a] == 0:
            continue
        new_low, new_high = inside_low.copy(), inside_high.copy()
        if shift[a] > 0:
            edge = max(low[a], high[a] - shift[a])
            new_low[a] = edge
            inside_high[a] = edge
        else:
            edge = min(high[a], low[a] - shift[a])
            new_high[a] = edge
            inside_low[a] = edge
        out, size, more = _box(new_low, new_high, t, places, burst_bits, out, size, start)
        elements += more
    return out, size, elements


@njit
def _digits(step: int, store: bool, factors: IntArray, index: IntArray) -> int:
    """Write the iteration of every loop at a step; returns the way by which it is entered (a store: left)."""
    way, rest = 0, step
    for loop in range(factors.shape[0] - 1, -1, -1):
        index[loop] = rest % factors[loop]
        rest //= factors[loop]
        if way == 0 and (index[loop] + 1 < factors[loop] if store else index[loop] > 0):
            way = loop + 1
    return way


@njit
def entered_by(step: IntArray, store: bool, factors: IntArray) -> IntArray:
    """The way by which steps are entered (a store: left): 0, or 1 and the loop that advances."""
    out, index = np.zeros(step.shape[0], np.int64), np.zeros(factors.shape[0], np.int64)
    for i in range(step.shape[0]):
        out[i] = _digits(step[i], store, factors, index)
    return out


@njit
def _marked(write: IntArray, first: IntArray, listed: int, size: int) -> IntArray:
    """``B`` 1 for bursts that write."""
    found = np.zeros(size, np.int64)
    for i in range(listed):
        for b in range(write[i], first[i + 1]):
            found[b] = 1
    return found


@njit
def list_bursts(
    regions: Regions, places: Places, process: IntArray, step: IntArray, factors: IntArray, burst_bytes: int, most: int
) -> tuple[IntArray, IntArray, IntArray, IntArray, int]:
    """The bursts of transfers in their order.

    Args:
        regions: Of the plan's processes.
        places: Of the tensors.
        process: ``N`` process of each transfer.
        step: ``N`` its step.
        factors: ``S`` iterations of the plan's loops.
        burst_bytes: Bytes of a burst.
        most: Bursts after which the list ends, with the transfer that reaches them.

    Returns:
        (address ``B``, write ``B``, first burst of each transfer ``N + 1``, elements of each tensor read and written
        ``T x 2``, transfers listed).
    """
    n, n_loops = process.shape[0], factors.shape[0]
    axes = regions.extent.shape[1]
    out = np.empty(1024, np.int64)
    write = np.zeros(n + 1, np.int64)  # where writes start within a transfer
    first = np.zeros(n + 1, np.int64)
    elements = np.zeros((places.bits.shape[0], 2), np.int64)
    size = 0
    index = np.zeros(n_loops, np.int64)
    low = np.zeros(axes, np.int64)
    listed = n
    for i in range(n):
        k, t = process[i], regions.tensor[process[i]]
        way = _digits(step[i], regions.store[k] == 1, factors, index)
        begin = size
        for repeat in range(2 if regions.old[k] == 1 else 1):
            writes = regions.store[k] == 1 and repeat == regions.old[k]
            if writes:
                write[i] = size
            start = size
            for c in range(regions.first_child[k], regions.first_child[k + 1]):
                if regions.old[k] == 1 and not writes and regions.again[c] == 0:
                    continue
                for a in range(axes):
                    low[a] = regions.child[c, a]
                    for loop in range(n_loops):
                        low[a] += index[loop] * regions.move[k, loop, a]
                out, size, more = _region(
                    low, regions.extent[k], regions.part[k, way], regions.shift[k, way], t, places, burst_bytes * 8, out,
                    size, start,
                )  # fmt: skip
                elements[t, 1 if writes else 0] += more
            children = regions.first_child[k + 1] - regions.first_child[k]
            if places.sorted[t] == 0 or regions.part[k, way] == NEW_PART or children > 1:
                size = start + sort_unique(out[start:size])
        if regions.store[k] == 0:
            write[i] = size
        first[i + 1] = size
        if size >= most and begin < size:
            listed = i + 1
            break
    return out[:size] * burst_bytes, _marked(write, first, listed, size), first[: listed + 1], elements, listed
