"""What the choice of a leaf stands for, and the tiles that the exact mapper has to map for it (rules M123, M125)."""

from dataclasses import replace

import numpy as np

from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.kernels import tree as tree_kernels
from codesign.scheduling.segments.kernels.kind_shares import chosen_cores, common_kind, leaf_borders
from codesign.scheduling.segments.kernels.layout import even_borders
from codesign.scheduling.segments.kernels.machine import ORDERS, RANKS, SHAPED, Caches, Problem
from codesign.scheduling.segments.kernels.placed_leaf import order_of
from codesign.scheduling.segments.kernels.tile_figures import batch_index, find_exact, tile_key
from codesign.scheduling.segments.layouts import layout_of
from codesign.scheduling.segments.mapped_cores import MAPPED
from codesign.scheduling.segments.segment_tree import Cut, Leaf, leaves
from codesign.scheduling.segments.system_arrays import tile_sizes

EXACT_ENTRIES = 2**14
"""Tiles of architectures that a search can know, at most half as many."""


def leaf_with_parts(evaluator: Evaluator, problem: Problem, caches: Caches, leaf: Leaf, first: int, cores: int) -> Leaf:
    """A leaf whose order holds its choice with the parts that this stands for.

    Args:
        evaluator: Network and system.
        problem: The same for the kernels.
        caches: With the ranks of partitions.
        leaf: The layer.
        first: First core of its range.
        cores: Cores of its range.
    """
    (choice,) = leaf.order
    code = choice // (ORDERS * RANKS)
    start, used = chosen_cores(problem.kind_start, problem.unit_times[leaf.layer], first, cores, code)
    kind = common_kind(problem.kind_start, start, used)
    at = kind * len(problem.table) + problem.kin[leaf.layer, SHAPED]
    ranked = caches.ranked[at, batch_index(problem, leaf.batch), used]
    parts = problem.parts[ranked[(choice // ORDERS) % RANKS % int((ranked >= 0).sum())]]
    order = order_of(parts, problem.orders[choice % ORDERS])
    k, b, h, w = (int(p) for p in parts)
    found = Leaf(leaf.layer, leaf.batch, (k, b, h, w), tuple(int(d) for d in order))
    if len(problem.limits) == 1:
        return found
    borders = leaf_borders(problem, leaf.layer, leaf.batch, parts, order, start, code)
    even = even_borders(problem.table[leaf.layer], leaf.batch, parts)
    sizes = tuple(
        () if (borders[d] == even[d]).all() else tuple(int(n) for n in np.diff(borders[d, : parts[d] + 1]))
        for d in range(4)
    )
    return replace(found, sizes=sizes, kind=evaluator.core_kinds[kind].name if used < cores else "")


def map_tiles(evaluator: Evaluator, problem: Problem, root: Cut) -> int:
    """Give the kernels the exact mapper's figures of all tiles of a tree on architectures; returns how many were new."""
    shape, known = evaluator.shape(root), np.count_nonzero(problem.exact_keys)
    before = known
    for node, leaf in zip(np.flatnonzero(shape.kind == tree_kernels.LEAF), leaves(root), strict=True):
        layer, first = evaluator.network.layers[leaf.layer], int(shape.core_first[node])
        if not layer.computes:
            continue
        place = layout_of(evaluator.fabric, evaluator.table[leaf.layer], leaf, first, False, evaluator.kinds)
        shaped = int(problem.kin[leaf.layer, SHAPED])
        for t in range(int(place.counts[0])):
            kind = int(evaluator.site_kind[place.tile_sites[t]])
            k, b, h, w = (int(n) for n in np.diff(place.tiles[t].reshape(4, 2))[:, 0])
            if not problem.mapped[kind] or k * b * h * w == 0:
                continue
            key = tile_key(kind, shaped, k, b, h, w)
            at = find_exact(problem.exact_keys, key)
            if problem.exact_keys[at] == 0 and known < EXACT_ENTRIES // 2:
                sizes = tuple(tile_sizes(layer, k, b, h, w))
                problem.exact_figures[at] = MAPPED.figures(evaluator.core_kinds[kind], sizes)
                problem.exact_keys[at] = key
                known += 1
    return int(known - before)
