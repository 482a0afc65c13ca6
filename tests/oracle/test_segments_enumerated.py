"""Small systems and networks, all trees counted: the search finds the best one, and the bound is never above it."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from codesign.arch.core_network import CoreNetwork
from codesign.arch.many_core import Buffer, Links, ManyCore, Memories, VectorMacCore
from codesign.arch.many_core_scaling import edge_ports
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.evaluate import SEMANTICS, Evaluator
from codesign.scheduling.segments.kernels.segment_cost import number_nodes, segment_cost, tree_cost
from codesign.scheduling.segments.kernels.tree import LEAF, SPACE, TIME
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.search import SearchSettings, TreeSearch
from codesign.scheduling.segments.search_arrays import layer_kin
from codesign.scheduling.segments.segment_tree import Cut

Shape = int | tuple[int, int, tuple["Shape", ...]]
"""A leaf's layer, or kind, groups and children of a cut."""


def layer(
    name: str, c: int, k: int, side: int, kernel: int, inputs: tuple[int, ...], external: int = 0
) -> SegmentLayer:
    pad = kernel // 2
    sizes = {"pad_h": pad, "pad_w": pad, "in_h": side, "in_w": side}
    words = c * k * kernel * kernel
    conv = SegmentLayer(name, LayerKind.CONV, c, k, kernel, kernel, side, side, **sizes, weight_words=words)  # type: ignore[arg-type]
    return SegmentLayer(**{**conv.__dict__, "inputs": inputs, "external_c": external})


CHAIN = SegmentNetwork(
    "chain", (layer("a", 8, 16, 8, 3, (), 8), layer("b", 16, 32, 8, 1, (0,)), layer("c", 32, 8, 8, 3, (1,)))
)
JOIN = SegmentNetwork(
    "join", (layer("a", 8, 16, 8, 1, (), 8), layer("b", 8, 16, 8, 3, (), 8), layer("c", 32, 8, 8, 1, (0, 1)))
)


def system(buffer_bytes: int) -> ManyCore:
    core = VectorMacCore(
        Buffer(2048, 0.8, 0.4),
        Buffer(2048, 0.3, 0.3),
        Buffer(1024, 0.3, 0.3),
        Buffer(8192, 0.7, 0.9),
        Buffer(buffer_bytes, 2.0, 2.2),
        elements_a=2,
        elements_o=2,
        vector=4,
        lanes=4,
        output_reserve_bytes=256,
    )
    return ManyCore("two", 2, 1, 1, core, Links(4, 3.0), Memories((((0, 0), (1, 0)),), 4, 60.0))


def shapes(layers: tuple[int, ...], groups: tuple[int, ...], below_root: bool = True) -> Iterator[tuple[Shape, ...]]:
    """All ways to write consecutive layers as a list of subtrees."""
    if not layers:
        yield ()
        return
    for first in range(1, len(layers) + 1):
        if first == len(layers) and not below_root:
            continue  # a cut around all children of a cut
        for head in subtrees(layers[:first], groups):
            for tail in shapes(layers[first:], groups, True) if first < len(layers) else [()]:
                yield (head, *tail)


def subtrees(layers: tuple[int, ...], groups: tuple[int, ...]) -> Iterator[Shape]:
    if len(layers) == 1:
        yield layers[0]
        return
    yield from product((SPACE, TIME), groups, list(shapes(layers, groups, False)))


def write(search: TreeSearch, shape: Shape, at: int, choices: tuple[int, ...]) -> int:
    """Write a subtree as tokens; returns the next free one."""
    tokens = search.trial
    if isinstance(shape, int):
        tokens.kind[at], tokens.layer[at], tokens.groups[at], tokens.size[at] = LEAF, shape, 1, 1
        tokens.choice[at] = choices[shape] * 24
        return at + 1
    kind, groups, children = shape
    tokens.kind[at], tokens.layer[at], tokens.groups[at], tokens.choice[at] = kind, -1, groups, 0
    end = at + 1
    for child in children:
        end = write(search, child, end, choices)
    tokens.size[at] = end - at
    return end


def all_values(search: TreeSearch, batch: int) -> Iterator[tuple[float, Shape, tuple[int, ...]]]:
    """Energy x time of every tree that is a scheme."""
    groups = tuple(int(g) for g in search.work.problem.batches)
    for root_groups, children in product(groups, list(shapes((0, 1, 2), groups))):
        whole: Shape = (TIME, root_groups, children)
        for choices in product(range(4), repeat=3):
            search.trial.length[0] = write(search, whole, 0, choices)
            good, energy, time = tree_cost(search.work, search.trial)
            if good:
                yield energy * time, whole, choices


@pytest.mark.parametrize("buffer_bytes", [6144, 65536])
@pytest.mark.parametrize("network", [CHAIN, JOIN], ids=lambda network: network.name)
@pytest.mark.parametrize("rules", ["set", "own"])
def test_the_search_finds_the_best_tree_and_the_bound_is_below_all(
    network: SegmentNetwork, buffer_bytes: int, rules: str
) -> None:
    evaluator = Evaluator(system(buffer_bytes), network, SEMANTICS[rules])
    settings = SearchSettings(steps=6000, least_use=0.0)
    search = TreeSearch(evaluator, 2, settings)
    found = sorted(all_values(search, 2), key=lambda item: item[0])
    assert len(found) > 500
    bound = bound_of(evaluator, 2)
    assert bound.edp <= found[0][0]
    rng = np.random.default_rng(0)
    for at in (0, 1, 2, *rng.integers(0, len(found), 12)):
        value, whole, choices = found[at]
        search.trial.length[0] = write(search, whole, 0, choices)
        evaluation = evaluator.evaluate(search.tree(search.trial))
        assert evaluation.edp == pytest.approx(value, rel=1e-9), "both evaluations"
        assert evaluator.overflow(evaluation) is None
        assert bound.energy_pj <= evaluation.rows[0].energy_pj and bound.time <= evaluation.rows[0].time
    best = TreeSearch(evaluator, 2, settings).run()
    assert best.evaluation.edp == pytest.approx(found[0][0], rel=1e-9), f"of {len(found)} trees"


def row_of(count: int) -> SegmentNetwork:
    """Layers of which each third adds what stands before its two predecessors, or reads the one before."""
    layers = [layer("0", 8, 8, 8, 3, (), 8)]
    for i in range(1, count):
        if i % 3 == 0:
            layers.append(SegmentLayer(str(i), LayerKind.ELTWISE, 16, 8, 1, 1, 8, 8, operands=2, inputs=(i - 3, i - 1)))
        else:
            layers.append(layer(str(i), 8, 8, 8, 1 + 2 * (i % 2), (i - 1,)))
    return SegmentNetwork(f"row of {count}", tuple(layers))


def best_of_all(search: TreeSearch, batch: int, options: int) -> tuple[float, int]:
    """The least energy x time of all trees over the layers in their order, and how many segments were priced.

    Costs of segments add up, so that those which others beat in energy and in time are left out.
    """
    least, counted, layers = np.inf, 0, len(search.work.problem.table)
    groups = tuple(int(g) for g in search.work.problem.batches)
    for root_groups in groups:
        whole = [g for g in groups if batch // root_groups % g == 0]
        fronts = [[(0.0, 0.0)], *[list[tuple[float, float]]() for _ in range(layers)]]
        for past in range(1, layers + 1):
            for first in range(past):
                priced = list(segments_of(search, first, past, root_groups, tuple(whole), options))
                counted += len(priced)
                ways = product(fronts[first], front_of(priced))
                fronts[past] += [(head[0] + tail[0], head[1] + tail[1]) for head, tail in ways]
            fronts[past] = front_of(fronts[past])
        least = min(least, *(root_groups**2 * energy * time for energy, time in fronts[layers]))
    return least, counted


def segments_of(
    search: TreeSearch, first: int, past: int, root_groups: int, groups: tuple[int, ...], options: int
) -> Iterator[tuple[float, float]]:
    """Energy and time of all segments over some layers that are schemes."""
    tokens, scratch = search.trial, search.work.scratch
    for shape in subtrees(tuple(range(first, past)), groups):
        for chosen in product(range(options), repeat=past - first):
            end = write(search, shape, 1, (0,) * first + chosen)
            tokens.kind[0], tokens.layer[0], tokens.groups[0], tokens.choice[0] = TIME, -1, root_groups, 0
            tokens.size[0] = tokens.length[0] = end
            scratch.segment_of[:] = -1
            if not number_nodes(search.work, tokens):
                break
            good, energy, time = segment_cost(search.work, tokens, 1)
            if good:
                yield energy, time


def front_of(priced: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those that no other beats in energy and time."""
    kept = list[tuple[float, float]]()
    for energy, time in sorted(priced):
        if not kept or time < kept[-1][1]:
            kept.append((energy, time))
    return kept


@pytest.mark.parametrize(
    ("layers", "width", "height", "options", "rules"),
    [
        (3, 2, 1, 4, "own"),
        pytest.param(4, 2, 1, 4, "set", marks=pytest.mark.slow("oracle")),
        pytest.param(4, 3, 1, 4, "own", marks=pytest.mark.slow("oracle")),
        pytest.param(4, 2, 2, 5, "own", marks=pytest.mark.slow("oracle")),
        pytest.param(5, 2, 1, 3, "gemini", marks=pytest.mark.slow("oracle")),
        pytest.param(5, 2, 2, 2, "own", marks=pytest.mark.slow("oracle")),
        pytest.param(6, 2, 1, 2, "own", marks=pytest.mark.slow("oracle")),
    ],
)
def test_up_to_six_layers_on_up_to_four_cores(layers: int, width: int, height: int, options: int, rules: str) -> None:
    """The search ends no higher than the best of all trees with some partitions of each layer, and none is below the bound."""
    mesh = replace(system(65536), width=width, height=height, stride=width)
    evaluator = Evaluator(mesh, row_of(layers), SEMANTICS[rules])
    settings = SearchSettings(steps=1500 * layers, least_use=0.0)
    least, counted = best_of_all(TreeSearch(evaluator, 2, settings), 2, options)
    assert counted > 500
    found = TreeSearch(evaluator, 2, settings).run().evaluation.edp
    assert bound_of(evaluator, 2).edp <= found <= least * (1 + 1e-9), f"of {counted} segments"


NETWORKS = [
    pytest.param(CoreNetwork("mesh", "yx"), 3, 1, 2, id="mesh yx"),
    pytest.param(CoreNetwork("mesh", "o1turn"), 2, 2, 2, id="mesh o1turn"),
    pytest.param(CoreNetwork("torus"), 3, 1, 2, id="torus"),
    pytest.param(CoreNetwork("torus"), 3, 1, 1, id="torus, slow links"),
    pytest.param(CoreNetwork("ring"), 2, 2, 2, id="ring"),
    pytest.param(CoreNetwork("ring"), 3, 1, 1, id="ring, slow links"),
    pytest.param(CoreNetwork("crossbar"), 3, 1, 2, id="crossbar"),
    pytest.param(CoreNetwork("mesh"), 2, 1, 1, id="mesh, slow links"),
]


@pytest.mark.parametrize(("network", "width", "height", "link_words"), NETWORKS)
def test_the_bound_is_below_all_trees_of_other_networks(
    network: CoreNetwork, width: int, height: int, link_words: int
) -> None:
    """Memories beside the cores, so that the cut between them counts (rule M68)."""
    memories = Memories((((-1, 0),), ((width, 0),)), 4, 60.0)
    joined = replace(
        system(65536), width=width, height=height, memories=memories, network=network, links=Links(link_words, 3.0)
    )
    evaluator = Evaluator(joined, CHAIN, SEMANTICS["own"])
    search = TreeSearch(evaluator, 2, SearchSettings(steps=4000, least_use=0.0))
    found = sorted(all_values(search, 2), key=lambda item: item[0])
    assert len(found) > 500
    bound = bound_of(evaluator, 2)
    assert bound.edp <= found[0][0]
    rng = np.random.default_rng(0)
    for at in (0, 1, *rng.integers(0, len(found), 12)):
        value, whole, choices = found[at]
        search.trial.length[0] = write(search, whole, 0, choices)
        evaluation = evaluator.evaluate(search.tree(search.trial))
        assert evaluation.edp == pytest.approx(value, rel=1e-9), "both evaluations"
        assert bound.energy_pj <= evaluation.rows[0].energy_pj and bound.time <= evaluation.rows[0].time
    best = search.run().evaluation.edp
    assert bound.edp <= best
    if height == 1:  # one, two or three cores are cut along one dimension: no other order of the parts
        assert best == pytest.approx(found[0][0], rel=1e-9), f"of {len(found)} trees"


@pytest.mark.parametrize("rules", ["set", "gemini", "own"])
@pytest.mark.parametrize("powers", [(1.0, 1e-6), (1e-6, 1.0), (1.0, 1.0)])
def test_no_search_for_one_figure_alone_is_below_the_bound(rules: str, powers: tuple[float, float]) -> None:
    wide = replace(system(8192), name="nine", width=3, height=3)
    network = SegmentNetwork(
        "fork",
        (
            *(layer("a", 8, 16, 8, 3, (), 8), layer("b", 16, 32, 8, 1, (0,)), layer("c", 16, 64, 8, 3, (0,))),
            *(layer("d", 96, 32, 8, 1, (1, 2)), layer("e", 32, 16, 8, 3, (3,)), layer("f", 16, 32, 8, 1, (4,))),
        ),
    )
    evaluator = Evaluator(wide, network, SEMANTICS[rules])
    settings = SearchSettings(steps=4000, energy_power=powers[0], time_power=powers[1], least_use=0.0)
    found, bound = TreeSearch(evaluator, 4, settings).run().evaluation, bound_of(evaluator, 4)
    assert bound.energy_pj <= found.rows[0].energy_pj
    assert bound.time <= found.rows[0].time and bound.edp <= found.edp


@pytest.mark.parametrize(("width", "height", "link_words"), [(4, 4, 64), (2, 2, 1)])
def test_the_bound_leaves_out_what_counts_lose_to_rounding(width: int, height: int, link_words: int) -> None:
    """Tiles of few words over four DRAMs: each takes a quarter, rounded down."""
    memories = Memories(edge_ports(width, height, 4), 1, 60.0)
    wide = replace(
        system(65536), width=width, height=height, stride=width, links=Links(link_words, 3.0), memories=memories
    )
    network = SegmentNetwork("odd", (layer("a", 7, 7, 1, 1, (), 7), layer("b", 7, 7, 1, 1, (0,))))
    evaluator = Evaluator(wide, network, SEMANTICS["own"])
    settings = SearchSettings(steps=1000, energy_power=1e-6, time_power=1.0, least_use=0.0)
    whole, bound = TreeSearch(evaluator, 4, settings).run().evaluation.rows[0], bound_of(evaluator, 4)
    assert whole.dram_words < 2 * 49 + 2 * 4 * 7  # words that the counts lose
    assert bound.dram_words <= whole.dram_words and bound.time <= whole.time and bound.energy_pj <= whole.energy_pj


def test_words_enter_the_mesh_over_the_links_of_the_ports() -> None:
    """Rule M68: 4,096 weights over two links of one word a cycle, which a DRAM of eight words a cycle waits for."""
    memories = Memories(edge_ports(4, 1, 1), 8, 60.0)
    narrow = replace(system(65536), width=4, stride=4, links=Links(1, 3.0), memories=memories)
    network = SegmentNetwork("wide", (layer("a", 64, 64, 1, 1, (), 64),))
    evaluator = Evaluator(narrow, network, SEMANTICS["own"])
    found, bound = TreeSearch(evaluator, 1, SearchSettings(steps=200, least_use=0.0)).run(), bound_of(evaluator, 1)
    assert bound.time == pytest.approx((64 * 64 + 64) / 2, rel=0.01)
    assert bound.time <= found.evaluation.rows[0].time <= 1.5 * bound.time


def test_a_bound_of_nothing_or_of_no_time_is_a_number() -> None:
    narrow = replace(system(65536), core=replace(system(65536).core, weights=Buffer(1, 0.3, 0.3)))
    assert bound_of(Evaluator(narrow, CHAIN, SEMANTICS["own"]), 2).edp == float("inf")
    quick = bound_of(Evaluator(replace(system(65536), clock_ghz=1e6), CHAIN, SEMANTICS["own"]), 2)
    assert quick.time == quick.edp == quick.gap(0.0) == 0.0 < quick.energy_pj
    assert quick.gap(1.0) == float("inf")


def test_layers_of_equal_shape_share_what_is_known_of_them() -> None:
    network = SegmentNetwork(
        "row", (layer("a", 8, 8, 8, 3, (), 8), *(layer(n, 8, 8, 8, 3, (i,)) for i, n in enumerate("bcd")))
    )
    kin = layer_kin(Evaluator(system(65536), network, SEMANTICS["own"]))
    assert kin.tolist() == [[0, 0], [1, 1], [1, 1], [1, 1]]


def test_a_search_without_time_starts_from_long_cuts() -> None:
    """A row of layers whose words fit the buffers: the start keeps them on chip, in one cut in time over all of them."""
    layers = tuple(layer(str(i), 8, 8, 8, 3, (i - 1,) if i else (), 0 if i else 8) for i in range(8))
    evaluator = Evaluator(system(65536), SegmentNetwork("row", layers), SEMANTICS["own"])
    search = TreeSearch(evaluator, 2, SearchSettings(seconds=0.0, least_use=0.0))
    flat = search.flat()
    assert search.start(8) < flat
    (segment,) = search.tree(search.current).children
    assert isinstance(segment, Cut) and len(segment.children) == 8
