"""Changes of trees: whatever the move, the tokens stay a tree of every layer once (rule M51)."""

import numpy as np
import pytest

from codesign.core.rng import make_state
from codesign.scheduling.segments.kernels import moves
from codesign.scheduling.segments.kernels.machine import ORDERS, Tokens
from codesign.scheduling.segments.kernels.segment_cost import number_nodes
from codesign.scheduling.segments.kernels.tree import LEAF, SPACE, TIME
from codesign.scheduling.segments.search import MOVE_WEIGHTS, TreeSearch
from codesign.scheduling.segments.segment_tree import leaves
from tests.unit.scheduling.segments.test_starts import HEADS, a_search

ROW = (
    (TIME, -1, 1, 11),
    (TIME, -1, 2, 6),
    *((LEAF, i, 1, 1) for i in range(5)),
    (TIME, -1, 2, 4),
    *((LEAF, i, 1, 1) for i in range(5, 8)),
)
"""Kind, layer, groups and size of every token of a root over two cuts."""

LEAVES = [at for at, row in enumerate(ROW) if row[0] == LEAF]
"""Token of every layer."""


def written(search: TreeSearch) -> Tokens:
    tokens = search.trial
    for at, (kind, layer, groups, size) in enumerate(ROW):
        tokens.kind[at], tokens.layer[at], tokens.groups[at], tokens.size[at] = kind, layer, groups, size
        tokens.choice[at] = 0
    tokens.length[0] = len(ROW)
    return tokens


def moved(search: TreeSearch, tokens: Tokens, move: int, seed: int) -> bool:
    weights = np.zeros(len(MOVE_WEIGHTS), np.int64)
    weights[move] = 1
    assert number_nodes(search.work, tokens)
    return bool(moves.mutate(search.work, tokens, search.room, weights, make_state(seed)))


def rows(tokens: Tokens) -> list[tuple[int, int, int]]:
    return [(int(tokens.kind[i]), int(tokens.layer[i]), int(tokens.groups[i])) for i in range(int(tokens.length[0]))]


def check_tree(tokens: Tokens, at: int = 0) -> int:
    """The end of a subtree, whose sizes must agree all the way down."""
    end, child = at + int(tokens.size[at]), at + 1
    if tokens.kind[at] == LEAF:
        assert end == child
        return end
    assert child < end, "a cut has a child"
    while child < end:
        child = check_tree(tokens, child)
    assert child == end
    return end


@pytest.mark.parametrize("move", range(len(MOVE_WEIGHTS)))
def test_any_move_leaves_a_tree_of_every_layer_once(move: int) -> None:
    search, changed = a_search(HEADS), 0
    for seed in range(60):
        tokens = written(search)
        changed += moved(search, tokens, move, seed)
        assert check_tree(tokens) == tokens.length[0]
        layers = sorted(layer for kind, layer, _ in rows(tokens) if kind == LEAF)
        assert layers == list(range(len(HEADS.layers)))
        assert all(kind in (LEAF, SPACE, TIME) for kind, _, _ in rows(tokens))
    assert changed


def test_two_cuts_are_merged_and_a_cut_is_split() -> None:
    search = a_search(HEADS)
    one = [(TIME, -1, 1), (TIME, -1, 2), *((LEAF, i, 1) for i in range(8))]
    found = []
    for seed in range(60):
        tokens = written(search)
        if moved(search, tokens, moves.MERGE, seed):
            assert rows(tokens) == one
            moved(search, tokens, moves.SPLIT, seed)
            found.append(rows(tokens))
    again = [(TIME, -1, 1), (TIME, -1, 2), *((LEAF, i, 1) for i in range(5)), (TIME, -1, 2)]
    assert [*again, *((LEAF, i, 1) for i in range(5, 8))] in found


def test_groups_move_between_a_cut_and_its_children() -> None:
    search, seen = a_search(HEADS), set()
    for seed in range(200):
        tokens = written(search)
        if moved(search, tokens, moves.SHIFT, seed):
            seen.add(tuple(groups for kind, _, groups in rows(tokens) if kind != LEAF))
    assert (2, 1, 1) in seen, "those of both cuts become the root's"
    assert all(groups[0] * groups[1] <= 2 for groups in seen)


def test_layers_that_align_take_one_partition_and_order() -> None:
    search = a_search(HEADS)
    counts = set()
    for seed in range(60):
        tokens = written(search)
        tokens.choice[3] = 2 * ORDERS + 5
        assert np.isfinite(search.value(tokens))
        before = tokens.choice[: len(ROW)].copy()
        if not moved(search, tokens, moves.ALIGN, seed):
            assert (tokens.choice[: len(ROW)] == before).all()
            continue
        changed = [
            leaf
            for leaf in leaves(search.tree(tokens))
            if tokens.choice[LEAVES[leaf.layer]] != before[LEAVES[leaf.layer]]
        ]
        assert len({leaf.parts for leaf in changed}) == 1
        assert len({int(tokens.choice[LEAVES[leaf.layer]]) % ORDERS for leaf in changed}) == 1
        counts.add(len(changed))
    assert 1 in counts
    assert max(counts) >= 4
