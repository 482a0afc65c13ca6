"""Orders of layers, and cuts in space of blocks of about equal work, from which the search of trees starts (rule M52)."""

from dataclasses import replace

import numpy as np

from codesign.arch.many_core_files import load_system
from codesign.scheduling.segments.evaluate import SEMANTICS, Evaluator
from codesign.scheduling.segments.kernels.segment_cost import tree_cost
from codesign.scheduling.segments.kernels.tree import LEAF, SPACE, TIME
from codesign.scheduling.segments.kernels.tree_search import write_option
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.search import LONG, MOST_DESCENTS, SearchSettings, TreeSearch
from codesign.scheduling.segments.search_start import orders_of


def layer(name: str, inputs: tuple[int, ...], k: int = 32) -> SegmentLayer:
    c = 32 * max(1, len(inputs))
    external = 0 if inputs else c
    return SegmentLayer(
        name, LayerKind.CONV, c, k, 1, 1, 8, 8, in_h=8, in_w=8, weight_words=c * k, inputs=inputs, external_c=external
    )


HEADS = SegmentNetwork(
    "heads",
    (
        layer("a", ()),
        layer("b", (0,)),
        layer("bt", (1,)),
        layer("c", (0,)),
        layer("d", (0,)),
        layer("ct", (3,)),
        layer("dt", (4,)),
        layer("e", (2, 5, 6)),
    ),
)
"""Three branches; the layers of the second and the third stand mixed."""


def a_search(network: SegmentNetwork) -> TreeSearch:
    system = load_system("set-8x8")
    memories = replace(system.memories, ports=(((0, 0), (1, 0)),))
    small = replace(system, width=2, height=2, stride=1, memories=memories)
    evaluator = Evaluator(small, network, SEMANTICS["own"])
    return TreeSearch(evaluator, 4, SearchSettings(steps=1, least_use=0.0))


def test_orders_put_layers_side_by_side_or_after_their_producers() -> None:
    found = [tuple(int(i) for i in order) for order in orders_of(HEADS)]
    assert found == [(0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 3, 4, 2, 5, 6, 7), (0, 1, 2, 3, 5, 4, 6, 7)]
    chain = SegmentNetwork("chain", (layer("a", ()), layer("b", (0,)), layer("c", (1,))))
    assert [order.tolist() for order in orders_of(chain)] == [[0, 1, 2]]


def test_blocks_of_a_cut_in_space_have_about_equal_work() -> None:
    wide = SegmentNetwork("wide", (layer("a", (), 128), *(layer(f"b{i}", (0,)) for i in range(4))))
    search = a_search(wide)
    tokens, order = search.trial, np.arange(5, dtype=np.int64)
    option, choices = np.array([SPACE, 2, 2], np.int64), np.zeros(5, np.int64)
    assert write_option(search.work.problem, tokens, 1, order[:2], option, choices) == 1, "two layers are plain"
    end = write_option(search.work.problem, tokens, 1, order, option, choices)
    assert tokens.kind[1:end].tolist() == [SPACE, LEAF, TIME, LEAF, LEAF, LEAF, LEAF]
    assert tokens.layer[1:end].tolist() == [-1, 0, -1, 1, 2, 3, 4]
    assert tokens.size[1:end].tolist() == [7, 1, 5, 1, 1, 1, 1]
    assert tokens.groups[1] == 2
    tokens.kind[0], tokens.layer[0], tokens.groups[0], tokens.size[0], tokens.length[0] = TIME, -1, 1, end, end
    assert tree_cost(search.work, tokens)[0]


def test_the_start_takes_the_order_of_the_best_tree() -> None:
    search = a_search(HEADS)
    value = search.start(4)
    start = search.starter
    kept = start.order.tolist()
    others = []
    for order in orders_of(HEADS):
        start.order = order
        options, costs = start._priced(4, 1, (0.0, float("inf")), 4, True)
        others.append((start._cut(1, options, costs, float("inf")), order.tolist()))
    assert kept == min(others, key=lambda other: other[0])[1]
    assert value <= min(others)[0]


def test_a_long_search_descends_several_times_and_never_ends_above_a_short_one() -> None:
    search = a_search(HEADS)
    long = LONG * len(HEADS.layers)
    assert [search._descents(n * long) for n in (0.5, 1.0, 2.0, 3.9, 1e6)] == [1, 1, 2, 3, MOST_DESCENTS]
    settings = SearchSettings(steps=2 * long, least_use=0.0)
    found = [TreeSearch(search.evaluator, 4, settings).run() for _ in range(2)]
    assert found[0].evaluation.root == found[1].evaluation.root
    assert (
        found[0].evaluation.edp
        <= TreeSearch(search.evaluator, 4, SearchSettings(steps=100, least_use=0.0)).run().evaluation.edp
    )
