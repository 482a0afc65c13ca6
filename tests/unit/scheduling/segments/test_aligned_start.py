"""Layers cut alike: prices of the dynamic program, nests of cuts, and the start against a recipe by hand (rule M56)."""

import numpy as np
import pytest

from codesign.core.factors import divisors
from codesign.scheduling.segments.aligned_start import AlignedStart
from codesign.scheduling.segments.kernels import aligned_layers
from codesign.scheduling.segments.kernels.machine import ORDERS, RANKS, SHAPED
from codesign.scheduling.segments.kernels.partition_ranks import rank_partitions
from codesign.scheduling.segments.kernels.tree import LEAF, TIME
from codesign.scheduling.segments.kernels.tree_search import write_nest
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.search import TreeSearch
from codesign.scheduling.segments.segment_tree import Cut, CutKind, Leaf, leaves
from tests.unit.scheduling.segments.test_starts import a_search


def conv(name: str, c: int, k: int, size: int, inputs: tuple[int, ...], stride: int = 1) -> SegmentLayer:
    external, before = (0 if inputs else c), size * stride
    return SegmentLayer(
        *(name, LayerKind.CONV, c, k, 1, 1, size, size, stride, stride),
        in_h=before,
        in_w=before,
        weight_words=c * k,
        inputs=inputs,
        external_c=external,
    )


def added(name: str, k: int, size: int, inputs: tuple[int, int]) -> SegmentLayer:
    return SegmentLayer(
        name, LayerKind.ELTWISE, 2 * k, k, 1, 1, size, size, operands=2, in_h=size, in_w=size, inputs=inputs
    )


RESIDUAL = SegmentNetwork(
    "residual",
    (
        conv("stem", 16, 32, 16, ()),
        conv("a", 32, 32, 16, (0,)),
        conv("b", 32, 32, 16, (1,)),
        added("add", 32, 16, (0, 2)),
        conv("c", 32, 64, 8, (3,), 2),
        conv("d", 64, 64, 8, (4,)),
        conv("branch", 32, 64, 8, (3,), 2),
        added("add2", 64, 8, (5, 6)),
    ),
)
"""Two residual blocks, the second one with a stride and a branch."""


def nest_of(search: TreeSearch, choices: list[int], groups: int) -> Cut:
    """All layers as one nest of cuts below a root with groups."""
    tokens, n = search.trial, len(choices)
    end = write_nest(search.work.problem, tokens, 1, np.arange(n), 1, True, np.array(choices, np.int64))
    tokens.kind[0], tokens.layer[0], tokens.groups[0], tokens.size[0], tokens.length[0] = TIME, -1, groups, end, end
    assert np.isfinite(search.value(tokens))
    return search.tree(tokens)


def shape_of(node: Cut | Leaf) -> object:
    return node.layer if isinstance(node, Leaf) else [shape_of(child) for child in node.children]


DEEP = SegmentNetwork(
    "deep",
    (
        conv("stem", 16, 32, 16, ()),
        conv("a", 32, 32, 16, (0,)),
        conv("b", 32, 32, 16, (1,)),
        added("inner", 32, 16, (1, 2)),
        added("outer", 32, 16, (0, 3)),
    ),
)
"""A residual block in another."""


@pytest.mark.parametrize(
    ("network", "shape"), [(RESIDUAL, [[0, [1, 2, 3], [4, 5, 6], 7]]), (DEEP, [[0, [1, [2, 3], 4]]])]
)
def test_a_nest_has_blocks_as_deep_as_words_need_it(network: SegmentNetwork, shape: object) -> None:
    search = a_search(network)
    tree = nest_of(search, [0] * len(network.layers), 4)
    assert shape_of(tree) == shape
    found = search.evaluator.evaluate(tree)
    assert found.on_chip[: len(search.work.problem.edges.producer) - 1].all(), "no words between layers go through DRAM"


@pytest.mark.parametrize("groups", [1, 4])
def test_the_program_prices_a_nest_as_the_evaluator_does(groups: int) -> None:
    search, order = a_search(RESIDUAL), np.arange(8, dtype=np.int64)
    start, per_time, choices = AlignedStart(search.work, search.trial), 700.0, np.zeros(8, np.int64)
    batch_at = divisors(4).index(4 // groups)
    start.seed_ranks(order, batch_at, per_time)
    price = aligned_layers.align_layers(search.work, order, batch_at, start.turns[0], per_time, choices)
    found = search.evaluator.evaluate(nest_of(search, choices.tolist(), groups))
    rows = [row for row in found.rows if row.layer is not None]
    assert price == pytest.approx(sum(row.energy_pj + per_time * row.time for row in rows), rel=1e-12)
    for other in range(RANKS):  # no single partition for all layers is cheaper
        if (search.work.caches.ranked[:, batch_at, 4, other] >= 0)[search.work.problem.kin[:, SHAPED]].all():
            alike = search.evaluator.evaluate(nest_of(search, [other * ORDERS + start.turns[0]] * 8, groups))
            rows = [row for row in alike.rows if row.layer is not None]
            assert price <= sum(row.energy_pj + per_time * row.time for row in rows) * (1 + 1e-12)


def test_ranks_begin_as_before_and_hold_each_partition_once() -> None:
    search, order = a_search(RESIDUAL), np.arange(8, dtype=np.int64)
    shapes = np.unique(search.work.problem.kin[:, SHAPED])
    before = [rank_partitions(search.work.problem, search.work.caches, 0, int(shape), 2, 4) for shape in shapes]
    first = search.work.caches.ranked[shapes, 2, 4, 0].tolist()
    AlignedStart(search.work, search.trial).seed_ranks(order, 2, 700.0)
    assert search.work.caches.ranked[shapes, 2, 4, 0].tolist() == first
    for shape, many in zip(shapes, before, strict=True):
        ranked = [int(row) for row in search.work.caches.ranked[shape, 2, 4] if row >= 0]
        assert len(ranked) == len(set(ranked)) >= min(many, 3)
        assert all(search.work.problem.parts[row].prod() == 4 for row in ranked)


def test_the_start_is_no_worse_than_one_partition_for_all_layers_by_hand() -> None:
    search = a_search(RESIDUAL)
    search.start(8)
    found = search.evaluator.evaluate(search.tree(search.current))
    shape = shape_of(nest_of(search, [0] * 8, 4))
    best = float("inf")
    for groups in divisors(4):
        for parts in search.work.problem.parts[search.work.problem.part_start[4] :]:
            k, b, h, w = (int(p) for p in parts)

            def made(node: object, batch: int, parts: tuple[int, int, int, int] = (k, b, h, w)) -> Cut | Leaf:
                if isinstance(node, list):
                    return Cut(CutKind.TIME, batch, tuple(made(child, batch, parts) for child in node))
                assert isinstance(node, int)
                return Leaf(node, batch, parts, (1, 2, 3, 0))

            assert isinstance(shape, list)
            inner = made(shape[0], 4 // groups)
            alike = search.evaluator.evaluate(Cut(CutKind.TIME, 4, (inner,)))
            if search.evaluator.overflow(alike) is None:
                best = min(best, alike.edp)
    assert np.isfinite(best)
    assert found.edp <= best * (1 + 1e-12)
    assert len(leaves(found.root)) == 8
    assert (search.current.kind[: search.current.length[0]] == LEAF).sum() == 8
