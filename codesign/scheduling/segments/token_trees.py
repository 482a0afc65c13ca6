"""Trees as the search holds them, token by token, made values (rule M123)."""

from collections.abc import Callable

import numpy as np

from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.kernels import tree as tree_kernels
from codesign.scheduling.segments.kernels.kind_shares import chosen_cores, common_kind, leaf_borders
from codesign.scheduling.segments.kernels.layout import even_borders
from codesign.scheduling.segments.kernels.machine import ORDERS, RANKS, SHAPED, Caches, Problem, Tokens
from codesign.scheduling.segments.kernels.placed_leaf import order_of
from codesign.scheduling.segments.kernels.tile_figures import batch_index, whole_batch
from codesign.scheduling.segments.segment_tree import Cut, CutKind, Leaf, Node


def tree_of(evaluator: Evaluator, problem: Problem, caches: Caches, tokens: Tokens) -> Cut:
    """A tree with the partitions that the choices of its leaves stand for on the cores that its cuts give them.

    Args:
        evaluator: Network and system.
        problem: The same for the kernels.
        caches: With the ranks of partitions.
        tokens: The tree.
    """

    def whole(at: int, batch: int) -> Leaf:
        return Leaf(int(tokens.layer[at]), batch, (1, 1, 1, 1))

    def in_parts(at: int, batch: int) -> Leaf:
        first, past = int(shape.core_first[at]), int(shape.core_past[at])
        layer, choice = int(tokens.layer[at]), int(tokens.choice[at])
        return _leaf(evaluator, problem, caches, layer, batch, choice, first, past - first)

    shape = evaluator.shape(_cut(tokens, 0, whole_batch(problem), whole))
    return _cut(tokens, 0, whole_batch(problem), in_parts)


def _cut(tokens: Tokens, at: int, batch: int, leaf: Callable[[int, int], Leaf]) -> Cut:
    """A cut whose leaves are made from their token and batch."""
    child, inner = at + 1, batch // int(tokens.groups[at])
    children: list[Node] = []
    while child < at + tokens.size[at]:
        is_leaf = tokens.kind[child] == tree_kernels.LEAF
        children.append(leaf(child, inner) if is_leaf else _cut(tokens, child, inner, leaf))
        child += int(tokens.size[child])
    return Cut(CutKind(int(tokens.kind[at])), batch, tuple(children))


def _leaf(
    evaluator: Evaluator, problem: Problem, caches: Caches, layer: int, batch: int, choice: int, first: int, cores: int
) -> Leaf:
    """A layer whose range of cores is given, with the parts that its choice stands for."""
    code = choice // (ORDERS * RANKS)
    start, used = chosen_cores(problem.kind_start, problem.unit_times[layer], first, cores, code)
    kind = common_kind(problem.kind_start, start, used)
    at = kind * len(problem.table) + problem.kin[layer, SHAPED]
    ranked = caches.ranked[at, batch_index(problem, batch), used]
    parts = problem.parts[ranked[(choice // ORDERS) % RANKS % int((ranked >= 0).sum())]]
    order = order_of(parts, problem.orders[choice % ORDERS])
    k, b, h, w = (int(p) for p in parts)
    turn = tuple(int(d) for d in order)
    if len(problem.limits) == 1:
        return Leaf(layer, batch, (k, b, h, w), turn)
    borders = leaf_borders(problem, layer, batch, parts, order, start, code)
    even = even_borders(problem.table[layer], batch, parts)
    sizes = tuple(
        () if (borders[d] == even[d]).all() else tuple(int(n) for n in np.diff(borders[d, : parts[d] + 1]))
        for d in range(4)
    )
    name = evaluator.core_kinds[kind].name if used < cores else ""
    return Leaf(layer, batch, (k, b, h, w), turn, sizes=sizes, kind=name)
