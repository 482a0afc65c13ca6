"""Trees as the search holds them, token by token, made values."""

import numpy as np

from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.kernels import tree as tree_kernels
from codesign.scheduling.segments.kernels.machine import Caches, Problem, Tokens
from codesign.scheduling.segments.leaf_parts import leaf_with_parts
from codesign.scheduling.segments.segment_tree import Cut, CutKind, Leaf, Node, leaves


def tree_of(tokens: Tokens, batch: int) -> Cut:
    """The tree of a batch of samples; a leaf's order holds its choice alone."""
    node, end = _node(tokens, 0, batch)
    if not isinstance(node, Cut) or end != tokens.length[0]:
        raise AssertionError("the tokens are no tree")
    return node


def _node(tokens: Tokens, at: int, batch: int) -> tuple[Node, int]:
    if tokens.kind[at] == tree_kernels.LEAF:
        return Leaf(int(tokens.layer[at]), batch, (1, 1, 1, 1), (int(tokens.choice[at]),)), at + 1
    end, child, children = at + int(tokens.size[at]), at + 1, []
    while child < end:
        node, child = _node(tokens, child, batch // int(tokens.groups[at]))
        children.append(node)
    return Cut(CutKind(int(tokens.kind[at])), batch, tuple(children)), end


def with_parts(evaluator: Evaluator, problem: Problem, caches: Caches, root: Cut) -> Cut:
    """A tree of `tree_of` with the partitions that its choices stand for, now that the cores are known."""
    shape = evaluator.shape(root)
    found = {}
    for node, leaf in zip(np.flatnonzero(shape.kind == tree_kernels.LEAF), leaves(root), strict=True):
        cores = int(shape.core_past[node] - shape.core_first[node])
        first = int(shape.core_first[node])
        found[leaf.layer] = leaf_with_parts(evaluator, problem, caches, leaf, first, cores)

    def filled(node: Node) -> Node:
        if isinstance(node, Leaf):
            return found[node.layer]
        return Cut(node.kind, node.batch, tuple(filled(child) for child in node.children))

    return Cut(root.kind, root.batch, tuple(filled(child) for child in root.children))
