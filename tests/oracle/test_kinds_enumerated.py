"""Small systems of two kinds of cores, all trees and unequal parts counted by an evaluator of the test's own."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import pytest

from codesign.arch.many_core import Buffer, CoreKind, Links, ManyCore, Memories, VectorMacCore
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.evaluate import OWN_RULES, Evaluator
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.search import SearchSettings, TreeSearch
from codesign.scheduling.segments.segment_tree import Cut, CutKind, Leaf
from codesign.scheduling.segments.system_arrays import tile_sizes
from tests.oracle.kinds_evaluator import Part, RowOfCores

BATCH = 2


def core(vector: int, side: int, big_pj: float) -> VectorMacCore:
    small = Buffer(2048, 0.5, 0.4)
    big = Buffer(65536, big_pj, big_pj)
    return VectorMacCore(
        small, small, small, small, big, vector=vector, lanes=vector, elements_a=side, elements_o=side,
        vector_unit_macs=8, output_reserve_bytes=64,
    )  # fmt: skip


def system(places: tuple[str, ...]) -> ManyCore:
    """A row of matrix cores and cores for depthwise layers."""
    small = CoreKind("small", core(1, 2, 1.0))
    links, memories = Links(8, 0.2), Memories((((0, 0),),), 16, 4.0)
    return ManyCore("row", len(places), 1, len(places), core(2, 1, 1.2), links, memories, kinds=(small,), places=(places,))  # fmt: skip


def layer(name: str, c: int, k: int, rows: int, kernel: int, inputs: tuple[int, ...], groups: int = 1) -> SegmentLayer:
    kind = LayerKind.CONV if groups == 1 else LayerKind.GROUP_CONV
    return SegmentLayer(
        name, kind, c, k, kernel, 1, rows, 1, groups=groups, pad_h=kernel // 2, in_h=rows, in_w=1,
        weight_words=c // groups * k * kernel, external_c=0 if inputs else c, inputs=inputs,
    )  # fmt: skip


POINTWISE, DEPTHWISE = layer("a", 4, 4, 4, 1, ()), layer("b", 4, 4, 4, 3, (0,), groups=4)
PAIR = SegmentNetwork("pair", (POINTWISE, DEPTHWISE))
TRIPLE = SegmentNetwork("triple", (POINTWISE, DEPTHWISE, layer("c", 4, 3, 4, 1, (1,))))
SMALL = (layer("a", 4, 2, 2, 1, ()), layer("b", 2, 2, 2, 3, (0,), groups=2))
QUAD = SegmentNetwork("quad", (*SMALL, layer("c", 2, 2, 2, 1, (1,)), layer("d", 2, 2, 2, 3, (2,), groups=2)))


@dataclass(frozen=True)
class Tree:
    """Segments as kind, groups, batch of a run, first layer and parts; and runs of the root."""

    root_groups: int
    segments: tuple[tuple[str, int, int, int, tuple[Part, ...]], ...]


def compositions(size: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a size as so many parts, empty ones too."""
    if parts == 1:
        yield (size,)
        return
    for first in range(size + 1):
        for rest in compositions(size - first, parts - 1):
            yield (first, *rest)


def parts_of(of: SegmentLayer, batch: int, first: int, kinds: list[int]) -> list[Part]:
    """All unequal parts of a layer on consecutive cores, of all kinds or of one of them."""
    found = []
    spans = {(first, len(kinds))}
    for kind in set(kinds):
        spans.add((first + kinds.index(kind), kinds.count(kind)))
    for start, cores in sorted(spans):
        for counts in product(range(1, cores + 1), repeat=3):
            if np.prod(counts) == cores:
                wholes = (of.K, batch, of.H)
                found += [
                    Part(start, (k, b, h))
                    for k, b, h in product(*(list(compositions(n, p)) for n, p in zip(wholes, counts, strict=True)))
                ]
    return found


class Enumeration:
    """All trees of a network whose segments are layers, or cuts over layers."""

    def __init__(self, row: RowOfCores, evaluator: Evaluator) -> None:
        self.row, self.evaluator = row, evaluator

    def segments(self, first: int, past: int, whole: int) -> Iterator[tuple[str, int, int, int, tuple[Part, ...]]]:
        """Those over some layers on a batch."""
        n, kinds = past - first, self.row.kind
        for kind, groups in product(("time", "space") if n > 1 else ("time",), (1, 2) if n > 1 else (1,)):
            if whole % groups:
                continue
            spans = [(0, len(kinds))] * n
            if kind == "space":
                if n > len(kinds):
                    continue
                spans = self.row.shared([list(self.evaluator.unit_times[i]) for i in range(first, past)])
            options = [
                parts_of(self.row.layers[first + i], whole // groups, at, kinds[at : at + count])
                for i, (at, count) in enumerate(spans)
            ]
            for parts in product(*options):
                yield kind, groups, whole // groups, first, parts

    def some(self, count: int) -> Iterator[tuple[float, int, Tree]]:
        """Energy and time of random trees of one segment."""
        rng = np.random.default_rng(0)
        listed = list(self.segments(0, len(self.row.layers), BATCH))
        for i in rng.integers(0, len(listed), count):
            kind, groups, batch, first, parts = listed[i]
            price = self.row.segment(kind, groups, first, batch, parts)
            if price is not None:
                yield price.energy, price.time, Tree(1, (listed[i],))

    def best(self) -> tuple[float, Tree, int]:
        """The least energy x time, a tree that has it, and how many segments were priced."""
        found, best, counted = float("inf"), None, 0
        n = len(self.row.layers)
        for root_groups in (1, 2):
            fronts: dict[tuple[int, int], list[tuple[float, float, tuple[str, int, int, int, tuple[Part, ...]]]]] = {}
            for first in range(n):
                for past in range(first + 1, n + 1):
                    priced = []
                    for segment in self.segments(first, past, BATCH // root_groups):
                        price = self.row.segment(segment[0], segment[1], first, segment[2], segment[4])
                        counted += 1
                        if price is not None:
                            priced.append((price.energy * root_groups, float(price.time * root_groups), segment))
                    fronts[first, past] = self._front(priced)
            for cuts in product((False, True), repeat=n - 1):
                borders = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), n]
                for chosen in product(*(fronts[a, b] for a, b in pairwise(borders))):
                    value = sum(c[0] for c in chosen) * sum(c[1] for c in chosen)
                    if value < found:
                        found, best = value, Tree(root_groups, tuple(c[2] for c in chosen))
        assert best is not None
        return found, best, counted

    @staticmethod
    def _front(priced: list) -> list:  # type: ignore[type-arg]
        """Those that no other beats in energy and time: a sum of segments is best with such."""
        kept = []  # type: ignore[var-annotated]
        for one in sorted(priced, key=lambda p: p[:2]):
            if not kept or one[1] < kept[-1][1]:
                kept.append(one)
        return kept


def as_tree(tree: Tree, evaluator: Evaluator) -> Cut:
    """An enumerated tree as the product's."""
    starts, names = evaluator.kind_start, [kind.name for kind in evaluator.core_kinds]
    cores = evaluator.system.cores

    def leaf(number: int, batch: int, part: Part, whole: tuple[int, int]) -> Leaf:
        k, b, h = part.sizes
        kind = next((n for i, n in enumerate(names) if starts[i] <= part.first < starts[i + 1]), "")
        counts = (len(k), len(b), len(h), 1)
        return Leaf(number, batch, counts, sizes=(k, b, h, (1,)), kind="" if part.cores == whole[1] else kind)

    children = []
    for kind, groups, batch, first, parts in tree.segments:
        spans = [(0, cores)] * len(parts)
        if kind == "space":
            row = RowOfCores(evaluator.system, evaluator.network.layers, BATCH, lambda *_: None)
            spans = row.shared([list(evaluator.unit_times[first + i]) for i in range(len(parts))])
        below = tuple(leaf(first + i, batch, part, spans[i]) for i, part in enumerate(parts))
        children.append(below[0] if len(below) == 1 else Cut(CutKind[kind.upper()], batch * groups, below))
    return Cut(CutKind.TIME, BATCH, tuple(children))


def enumeration(places: tuple[str, ...], network: SegmentNetwork) -> tuple[Evaluator, Enumeration]:
    evaluator = Evaluator(system(places), network, OWN_RULES)
    known: dict[tuple[int, str, int, int, int], tuple[float, float] | None] = {}

    def figures(kind: int, of: SegmentLayer, k: int, b: int, h: int) -> tuple[float, float] | None:
        key = (kind, of.name, k, b, h)
        if key not in known:
            number = network.index_of(of.name)
            found = evaluator.figures_on(kind, number, tuple(tile_sizes(of, k, b, h, 1)))
            known[key] = None if found is None else (float(found[0]), float(found[1]))
        return known[key]

    return evaluator, Enumeration(RowOfCores(evaluator.system, network.layers, BATCH, figures), evaluator)


@pytest.mark.parametrize(
    ("places", "network", "most"),
    [
        (("core", "small"), PAIR, 1.0),
        (("small", "core"), PAIR, 1.0),
        pytest.param(("core", "small", "small"), PAIR, 1.0031, marks=pytest.mark.slow("oracle")),
        pytest.param(("core", "small"), TRIPLE, 1.0, marks=pytest.mark.slow("oracle")),
        pytest.param(("core", "small"), QUAD, 1.0, marks=pytest.mark.slow("oracle")),
        pytest.param(
            ("core", "small", "core", "small"), SegmentNetwork("tiny", SMALL), 1.033, marks=pytest.mark.slow("oracle")
        ),
    ],
)
def test_the_search_is_near_the_best_of_all_unequal_parts_and_the_bound_below(
    places: tuple[str, ...], network: SegmentNetwork, most: float
) -> None:
    """The search's result is at most `most` of the best of all trees, as measured; both evaluators agree on every tree."""
    evaluator, all_trees = enumeration(places, network)
    value, tree, counted = all_trees.best()
    found = evaluator.evaluate(as_tree(tree, evaluator))
    assert found.edp == pytest.approx(value, rel=1e-9), "both evaluators"
    assert counted > 300
    bound = bound_of(evaluator, BATCH)
    assert bound.edp <= value
    assert bound.energy_pj <= found.rows[0].energy_pj and bound.time <= found.rows[0].time
    for energy, time, other in all_trees.some(20):
        whole = evaluator.evaluate(as_tree(other, evaluator)).rows[0]
        assert whole.time == time and whole.energy_pj == pytest.approx(energy, rel=1e-9)
        assert bound.energy_pj <= energy and bound.time <= time
    searched = TreeSearch(evaluator, BATCH, SearchSettings(steps=4000, least_use=0.0)).run().evaluation
    assert value * (1 - 1e-9) <= searched.edp <= value * most * (1 + 1e-9)
