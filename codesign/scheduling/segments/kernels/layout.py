"""How a layer lies on its cores: tiles, and groups of cores that receive the same words (rules M6 to M10).

Ranges are rows of eight: channels, batch, height and width, each first and one past the last.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels.core_mapper import ceil_div
from codesign.scheduling.segments.kernels.fabric import Fabric

CONV, FC, GROUP_CONV, POOL, ELTWISE, PTP, TRANSPOSE = 0, 1, 2, 3, 4, 5, 6

TYPE, C, K, R, S, H, W = 0, 1, 2, 3, 4, 5, 6
STRIDE_H, STRIDE_W, OPERANDS, GROUPS, PAD_H, PAD_W = 7, 8, 9, 10, 11, 12
IN_H, IN_W, OUT_K, OUT_H, OUT_W, WEIGHT_WORDS, EXTERNAL_C, BATCHED_WEIGHT = 13, 14, 15, 16, 17, 18, 19, 20
AXIS_0, AXIS_1, AXIS_2 = 21, 22, 23
LAYER_COLUMNS = 24
"""Columns of the table of layers."""


LEAST_STEPS = 4
"""Steps of unequal sizes that a part has on average, at least: smaller powers of two are taken where it would have fewer."""


class Groups(NamedTuple):
    """Groups of cores, each with a range: those that receive the same words, or a core that makes them.

    Attributes:
        number: How many there are, one entry.
        ranges: Of each, cores x 8.
        starts: Where the sites of each begin in `sites`.
        sites: Of all groups, sorted within one.
    """

    number: IntArray
    ranges: IntArray
    starts: IntArray
    sites: IntArray


class Layout(NamedTuple):
    """Where the parts of one layer are.

    Attributes:
        tiles: Output ranges, a core each.
        inputs: Input ranges, with the cores that need them.
        weights: The same of weights: channels, batch, input channels, and kernel places.
    """

    tiles: Groups
    inputs: Groups
    weights: Groups


@njit
def members_of(groups: Groups, g: int) -> IntArray:
    """Sites of a group."""
    return groups.sites[groups.starts[g] : groups.starts[g + 1]]


@njit
def cut(n: int, parts: int, i: int) -> int:
    """Where part i of n elements begins; the first part is never empty (rule M6)."""
    return n - (n * (parts - i)) // parts


@njit
def volume(box: IntArray) -> int:
    """Elements of a range of eight."""
    size = 1
    for d in range(4):
        size *= max(0, box[2 * d + 1] - box[2 * d])
    return size


@njit
def is_vector(kind: int) -> bool:
    """Whether the vector unit does the layer."""
    return kind >= POOL


@njit
def own_channels(kind: int) -> bool:
    """Whether every core needs inputs of its own channels only, so that none are shared."""
    return kind >= GROUP_CONV


@njit
def _window(first: int, past: int, stride: int, kernel: int, pad: int, size: int, out: IntArray, at: int) -> None:
    out[at] = max(0, first * stride - pad)
    out[at + 1] = min((past - 1) * stride + kernel - pad, size)


@njit
def input_range(layer: IntArray, tile: IntArray, out: IntArray) -> None:
    """The inputs that an output tile needs (rule M7)."""
    kind = layer[TYPE]
    out[:] = tile
    if kind in (ELTWISE, PTP):
        return
    if kind == TRANSPOSE:
        for i in range(3):
            axis = layer[AXIS_0 + i]
            to, source = 2 * (axis + 1 if axis > 0 else 0), 2 * (i + 1 if i > 0 else 0)
            out[to], out[to + 1] = tile[source], tile[source + 1]
        return
    if kind == FC:
        out[0], out[1] = 0, layer[C]
        out[4], out[5] = 0, layer[R] - layer[PAD_H]
        out[6], out[7] = 0, layer[S] - layer[PAD_W]
        return
    _window(tile[4], tile[5], layer[STRIDE_H], layer[R], layer[PAD_H], layer[IN_H], out, 4)
    _window(tile[6], tile[7], layer[STRIDE_W], layer[S], layer[PAD_W], layer[IN_W], out, 6)
    if kind == CONV:
        out[0], out[1] = 0, layer[C]
    elif kind == GROUP_CONV:
        per_k, per_c = layer[K] // layer[GROUPS], layer[C] // layer[GROUPS]
        out[0], out[1] = tile[0] // per_k * per_c, ceil_div(tile[1], per_k) * per_c


@njit
def weight_range(layer: IntArray, tile: IntArray, out: IntArray) -> None:
    """The weights that an output tile needs: output channels, batch, input channels, kernel places."""
    out[0], out[1] = tile[0], tile[1]
    out[2], out[3] = 0, 1
    if layer[BATCHED_WEIGHT] == 1:
        out[2], out[3] = tile[2], tile[3]
    out[4], out[5] = 0, layer[C] // layer[GROUPS] if layer[TYPE] == GROUP_CONV else layer[C]
    out[6], out[7] = 0, layer[R] * layer[S]


@njit
def _insert_sorted(sites: IntArray, start: int, past: int, site: int) -> None:
    at = past
    while at > start and sites[at - 1] > site:
        sites[at] = sites[at - 1]
        at -= 1
    sites[at] = site


@njit
def order_steps(order: IntArray, parts: IntArray) -> IntArray:
    """Distance in the mesh order of neighbouring parts along each dimension; the last of `order` is innermost."""
    steps = np.ones(4, np.int64)
    product = 1
    for i in range(3, -1, -1):
        steps[order[i]] = product
        product *= parts[order[i]]
    return steps


@njit
def sizes_of(layer: IntArray, batch: int) -> tuple[int, int, int, int]:
    """Channels, samples, rows and columns of a layer's output."""
    return layer[OUT_K], batch, layer[OUT_H], layer[OUT_W]


@njit
def even_borders(layer: IntArray, batch: int, parts: IntArray) -> IntArray:
    """Where the parts of every dimension begin when they are equal, 4 x parts + 1 (rule M6)."""
    borders = np.zeros((4, parts.max() + 1), np.int64)
    sizes = sizes_of(layer, batch)
    for d in range(4):
        for i in range(parts[d] + 1):
            borders[d, i] = cut(sizes[d], parts[d], i)
    return borders


@njit
def share_out(size: int, weights: FloatArray, parts: int, borders: IntArray) -> None:
    """Where parts of a dimension begin that are in proportion to weights (rule M123).

    Sizes are multiples of a power of two, which cores fill better, and rounded so that the most loaded part has least.
    """
    total = 0.0
    for i in range(parts):
        total += weights[i]
    step = 1
    while size % (2 * step) == 0 and size >= 2 * step * LEAST_STEPS * parts:
        step *= 2
    given = np.zeros(parts, np.int64)
    left = size // step
    for i in range(parts):
        given[i] = int(size // step * (weights[i] / total))
    left -= given.sum()
    while left > 0:
        chosen, least = -1, np.inf
        for i in range(parts):
            if weights[i] > 0.0 and (given[i] + 1) / weights[i] < least:
                chosen, least = i, (given[i] + 1) / weights[i]
        given[chosen] += 1
        left -= 1
    borders[0] = 0
    for i in range(parts):
        borders[i + 1] = borders[i] + given[i] * step


@njit
def weighted_borders(layer: IntArray, batch: int, parts: IntArray, order: IntArray, weights: FloatArray) -> IntArray:
    """Where the parts of every dimension begin when cores have weights: a part's is the sum over its cores (rule M123).

    Args:
        layer: Row of the table of layers.
        batch: Samples of a run.
        parts: Parts of channels, batch, height, width.
        order: Dimensions, outermost first.
        weights: Of the cores in their order; not all are 0.
    """
    borders = np.zeros((4, parts.max() + 1), np.int64)
    steps, sizes = order_steps(order, parts), sizes_of(layer, batch)
    sums = np.zeros(parts.max())
    for d in range(4):
        sums[:] = 0.0
        for core in range(parts[0] * parts[1] * parts[2] * parts[3]):
            sums[core // steps[d] % parts[d]] += weights[core]
        share_out(sizes[d], sums, parts[d], borders[d])
    return borders


@njit
def place_tiles(fabric: Fabric, borders: IntArray, parts: IntArray, order: IntArray, first: int, tiles: Groups) -> None:
    """Cut a layer's output and give every part its core (rules M6, M8).

    Args:
        fabric: The network.
        borders: Where the parts of every dimension begin.
        parts: Parts of channels, batch, height, width.
        order: Dimensions, outermost first.
        first: First core by number.
        tiles: Receives them, parts of channels outermost.
    """
    steps = order_steps(order, parts)
    n, boxes, starts, sites = 0, tiles.ranges, tiles.starts, tiles.sites
    starts[0] = 0
    for k in range(parts[0]):
        for b in range(parts[1]):
            for h in range(parts[2]):
                for w in range(parts[3]):
                    row = boxes[n]
                    row[0], row[1] = borders[0, k], borders[0, k + 1]
                    row[2], row[3] = borders[1, b], borders[1, b + 1]
                    row[4], row[5] = borders[2, h], borders[2, h + 1]
                    row[6], row[7] = borders[3, w], borders[3, w + 1]
                    core = first + steps[0] * k + steps[1] * b + steps[2] * h + steps[3] * w
                    sites[n] = fabric.order[core]
                    n += 1
                    starts[n] = n
    tiles.number[0] = n


@njit
def _form_groups(
    layer: IntArray, tiles: Groups, many: int, members: int, of_inputs: bool, unequal: bool, out: Groups
) -> None:
    """Cores whose tiles need the same inputs, or the same weights (rules M9, M10).

    A group without any output needs nothing and is left out; among unequal parts, so is a core without any.

    Args:
        layer: Row of the table of layers.
        tiles: Of the layer.
        many: How many groups there are.
        members: Tiles of each: for inputs every one of so many, for weights neighbours.
        of_inputs: Whether they are groups of inputs.
        unequal: Whether parts are unequal.
        out: Receives the groups.
    """
    across, along = members, 1
    if of_inputs:
        across, along = 1, many
    n, filled, boxes, sites = 0, 0, tiles.ranges, out.sites
    for g in range(many):
        start = g * across
        leader = start
        while unequal and leader + along < start + members * along and volume(boxes[leader]) == 0:
            leader += along
        if volume(boxes[leader]) == 0:
            continue
        if of_inputs:
            input_range(layer, boxes[leader], out.ranges[n])
        else:
            weight_range(layer, boxes[leader], out.ranges[n])
        first = filled
        out.starts[n] = first
        for i in range(members):
            tile = start + i * along
            if unequal and volume(boxes[tile]) == 0:
                continue
            _insert_sorted(sites, first, filled, tiles.sites[tile])
            filled += 1
        n += 1
    out.starts[n] = filled
    out.number[0] = n


@njit
def lay_out(
    fabric: Fabric,
    layer: IntArray,
    borders: IntArray,
    parts: IntArray,
    order: IntArray,
    first: int,
    unequal: bool,
    out: Layout,
) -> None:
    """Tiles and groups of a layer on consecutive cores; see `place_tiles`."""
    place_tiles(fabric, borders, parts, order, first, out.tiles)
    tiles, shared = out.tiles.number[0], 1 if own_channels(layer[TYPE]) else parts[0]
    _form_groups(layer, out.tiles, tiles // shared, shared, True, unequal, out.inputs)
    apart = parts[0] * parts[1] if layer[BATCHED_WEIGHT] == 1 else parts[0]
    many = apart if layer[WEIGHT_WORDS] > 0 else 0
    _form_groups(layer, out.tiles, many, tiles // apart, False, unequal, out.weights)
