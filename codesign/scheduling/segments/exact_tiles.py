"""The tiles of a tree that the exact mapper has to map for the search (rule M125)."""

import numpy as np

from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.kernels.machine import SHAPED, Problem
from codesign.scheduling.segments.kernels.tile_figures import find_exact, tile_key
from codesign.scheduling.segments.layouts import layout_of
from codesign.scheduling.segments.mapped_cores import mapped_figures
from codesign.scheduling.segments.segment_tree import Cut, leaf_nodes
from codesign.scheduling.segments.system_arrays import tile_sizes

EXACT_ENTRIES = 2**14
"""Tiles of architectures that a search can know, at most half as many."""


def map_tiles(evaluator: Evaluator, problem: Problem, root: Cut) -> int:
    """Give the kernels the exact mapper's figures of all tiles of a tree on architectures; returns how many were new."""
    shape, known = evaluator.shape(root), np.count_nonzero(problem.exact_keys)
    before = known
    for node, leaf in leaf_nodes(root):
        layer, first = evaluator.network.layers[leaf.layer], int(shape.core_first[node])
        if not layer.computes:
            continue
        place = layout_of(evaluator.fabric, evaluator.table[leaf.layer], leaf, first, False, evaluator.kinds)
        shaped = int(problem.kin[leaf.layer, SHAPED])
        for kind, sizes in evaluator.tiles_with_work(place):
            if not problem.mapped[kind]:
                continue
            key = tile_key(kind, shaped, *sizes)
            at = find_exact(problem.exact_keys, key)
            if problem.exact_keys[at] == 0 and known < EXACT_ENTRIES // 2:
                tile = tuple(tile_sizes(layer, *sizes))
                problem.exact_figures[at] = mapped_figures(evaluator.core_kinds[kind], tile)
                problem.exact_keys[at] = key
                known += 1
    return int(known - before)
