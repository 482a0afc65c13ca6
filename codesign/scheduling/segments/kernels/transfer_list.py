"""Transfers one by one rather than summed: which producer's core sends how many words to which group (rule M101)."""

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import IntArray
from codesign.cost.mesh import LOCAL
from codesign.scheduling.segments.kernels.layout import Groups
from codesign.scheduling.segments.kernels.traffic import common_words
from codesign.timing.noc.state import LATE_PORTS

TILE, GROUP, WORDS = 0, 1, 2
"""Columns of a list: producer's tile, consumer's group, words."""


@njit
def list_between(tiles: Groups, groups: Groups, shift: int, from_batch: int, to_batch: int, found: IntArray) -> int:
    """Words from each tile of a producer to each group of a consumer; returns how many rows were written.

    Args:
        tiles: Of the producer.
        groups: Of the consumer.
        shift: Channels of the consumer's input before those of this producer.
        from_batch: Samples of a run of the producer.
        to_batch: Samples of a run of the consumer.
        found: Receives columns `TILE`, `GROUP`, `WORDS`, n m x 3.
    """
    ratio = from_batch // to_batch if from_batch > to_batch else 1
    rows = 0
    for g in range(groups.number[0]):
        for t in range(tiles.number[0]):
            words = common_words(tiles.ranges[t], groups.ranges[g], shift, from_batch, to_batch) // ratio
            if words > 0:
                found[rows, TILE], found[rows, GROUP], found[rows, WORDS] = t, g, words
                rows += 1
    return rows


@njit
def fill_trees(
    width: int, source: IntArray, entry: IntArray, first: IntArray, target: IntArray, exit_at: IntArray, ports: IntArray
) -> None:
    """Output ports of trees on a mesh: along x, then along y, to the router of each target (rule M102).

    A node beside the mesh sends into its router first, and receives from its router last.

    Args:
        width: Nodes along x.
        source: Node of each tree.
        entry: Its router: the node itself, or its neighbour.
        first: Where the targets of each tree begin, one entry more than trees.
        target: Nodes.
        exit_at: Their routers.
        ports: Receives bits, trees x nodes.
    """
    for k in range(source.shape[0]):
        row = ports[k]
        for i in range(first[k], first[k + 1]):
            here = _hop(width, row, source[k], entry[k])
            while here != exit_at[i]:
                x, to = here % width, exit_at[i] % width
                if x != to:
                    here = _hop(width, row, here, here + 1 if to > x else here - 1)
                else:
                    here = _hop(width, row, here, here + width if exit_at[i] > here else here - width)
            here = _hop(width, row, here, target[i])
            row[here] |= 1 << LOCAL


@njit
def _hop(width: int, row: IntArray, here: int, to: int) -> int:
    """Mark the port from a node to a neighbour, or none to itself; returns where that leads."""
    if to == here + 1:
        row[here] |= 1
    elif to == here - 1:
        row[here] |= 2
    elif to == here + width:
        row[here] |= 4
    elif to == here - width:
        row[here] |= 8
    return to


@njit
def fill_table_trees(
    start: IntArray,
    before: IntArray,
    late: IntArray,
    out: IntArray,
    which: IntArray,
    source: IntArray,
    entry: IntArray,
    first: IntArray,
    target: IntArray,
    exit_at: IntArray,
    ports: IntArray,
) -> None:
    """Output ports of trees by a table of ways (rules M115, M116).

    Args:
        start: Place that each link leaves.
        before: Last link of every way.
        late: Whether packets are late on it.
        out: Port of a node towards another.
        which: Way of each tree.
        source: Node of each.
        entry: Its router.
        first: Where the targets of each tree begin, one entry more than trees.
        target: Nodes.
        exit_at: Their routers.
        ports: Receives bits, trees x nodes.
    """
    for k in range(source.shape[0]):
        row, way, begin = ports[k], which[k], entry[k]
        if source[k] != begin:
            row[source[k]] |= 1 << out[source[k], begin]
        for i in range(first[k], first[k + 1]):
            at = exit_at[i]
            while at != begin:
                here = start[before[way, begin, at]]
                port = out[here, at]
                row[here] |= (1 << port) | (late[way, begin, at] << (LATE_PORTS + port))
                at = here
            if target[i] != exit_at[i]:
                row[exit_at[i]] |= 1 << out[exit_at[i], target[i]]
            row[target[i]] |= 1 << LOCAL


@njit
def take_turns(flits: IntArray, most: int, transfer: IntArray, length: IntArray) -> int:
    """Packets of transfers, one of each in turn until all are sent; returns how many (rule M103).

    Args:
        flits: Of each transfer.
        most: Flits of a packet.
        transfer: Receives the transfer of each packet.
        length: Receives its flits.
    """
    left = flits.copy()
    open_ones = np.arange(flits.shape[0])
    n, count = 0, flits.shape[0]
    while count > 0:
        kept = 0
        for i in range(count):
            which = open_ones[i]
            size = min(most, left[which])
            if size == 0:
                continue
            transfer[n], length[n] = which, size
            n += 1
            left[which] -= size
            if left[which] > 0:
                open_ones[kept] = which
                kept += 1
        count = kept
    return n
