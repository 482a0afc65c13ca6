"""Trees of two or three layers on a row of cores of different kinds, priced word by word (rules M5, M17 to M32, M122 to M124).

Written from the rules, with sets of coordinates in place of the product's boxes; only figures of a core's tile are the product's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product

from codesign.arch.many_core import ManyCore, VectorMacCore
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer

Word = tuple[int, int, int]
"""Channel, sample, row."""

Figures = Callable[[int, SegmentLayer, int, int, int], tuple[float, float] | None]
"""Energy and cycles of a tile of so many channels, samples and rows of a layer on a kind; None where there is no mapping."""


@dataclass(frozen=True)
class Part:
    """A layer's parts on consecutive cores: sizes along channels, samples and rows, channels outermost."""

    first: int
    sizes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

    @property
    def cores(self) -> int:
        k, b, h = self.sizes
        return len(k) * len(b) * len(h)


@dataclass(frozen=True)
class Price:
    """Energy and time of a run, and words of links by ``(from, to)``, of DRAM under None."""

    energy: float
    time: int
    words: dict[tuple[int, int] | None, int]


def ranges(sizes: tuple[int, ...]) -> list[range]:
    starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return [range(a, b) for a, b in pairwise(starts)]


def needed(layer: SegmentLayer, k: range, b: range, h: range) -> set[Word]:
    """Input words of an output tile."""
    rows = {y * layer.stride_h - layer.pad_h + r for y in h for r in range(layer.R)}
    rows = {y for y in rows if 0 <= y < layer.in_h}
    own = layer.kind is LayerKind.GROUP_CONV
    return set(product(k if own else range(layer.C), b, rows)) if k else set()


class RowOfCores:
    """Prices trees on a system of one row with one DRAM port at its first core.

    Args:
        system: One row of cores.
        layers: A chain; the first reads from outside.
        batch: Samples of the whole.
        figures: Of tiles.
    """

    def __init__(self, system: ManyCore, layers: tuple[SegmentLayer, ...], batch: int, figures: Figures) -> None:
        self.system, self.layers, self.batch, self.figures = system, layers, batch, figures
        names = ["core", *(kind.name for kind in system.kinds)]
        row = [names.index(name) for name in system.places[0]]
        self.column = sorted(range(len(row)), key=lambda x: (row[x], x))
        self.kind = [row[x] for x in self.column]
        self.records: list[VectorMacCore] = [system.core, *(kind.core for kind in system.kinds if kind.core)]

    def tiles(self, layer: int, batch: int, part: Part) -> list[tuple[int, range, range, range]]:
        """Core and ranges of every part."""
        k, b, h = (ranges(sizes) for sizes in part.sizes)
        return [(part.first + i, *boxes) for i, boxes in enumerate(product(k, b, h))]

    def send(self, words: dict[tuple[int, int] | None, int], start: int, ends: list[int], count: int) -> None:
        """Words from a column to others: each link of the row once."""
        for x in range(start, max(ends)):
            words[x, x + 1] = words.get((x, x + 1), 0) + count
        for x in range(start, min(ends), -1):
            words[x, x - 1] = words.get((x, x - 1), 0) + count

    def leaf(self, layer: int, batch: int, part: Part, source: Part | None, stored: bool) -> Price | None:
        """One run of a layer, reading from the cores of `source` or from DRAM."""
        of, runs = self.layers[layer], self.batch // batch
        working = [tile for tile in self.tiles(layer, batch, part) if tile[1] and tile[2] and tile[3]]
        energy, cycles = 0.0, 0.0
        for core, k, b, h in working:
            found = self.figures(self.kind[core], of, len(k), len(b), len(h))
            if found is None:
                return None
            energy, cycles = energy + found[0], max(cycles, found[1])
            big = self.records[self.kind[core]].big
            own = of.kind is LayerKind.GROUP_CONV
            weights = len(k) * (1 if own else of.C) * of.R
            energy += len(needed(of, k, b, h)) * big.write_pj + weights * big.write_pj / runs
            energy += len(k) * len(b) * len(h) * big.read_pj
        words = self._weights(of, working, runs)
        self._inputs(of, layer, batch, working, source, words)
        for core, k, b, h in working if stored else ():
            count = len(k) * len(b) * len(h)
            words[None] = words.get(None, 0) + count
            self.send(words, self.column[core], [0], count)
        energy += sum(n * self.system.links.pj_per_word_hop for link, n in words.items() if link is not None)
        energy += words.get(None, 0) * self.system.memories.pj_per_word
        return Price(energy, max(int(cycles), self.moved(words)), words)

    def _weights(self, of: SegmentLayer, working: list[tuple[int, range, range, range]], runs: int) -> dict[tuple[int, int] | None, int]:  # fmt: skip
        """Stored weights, once for all runs: cores of equal channels receive them together."""
        words: dict[tuple[int, int] | None, int] = {}
        depth = 1 if of.kind is LayerKind.GROUP_CONV else of.C
        for k in {tile[1] for tile in working}:
            ends = [self.column[tile[0]] for tile in working if tile[1] == k]
            words[None] = words.get(None, 0) + len(k) * depth * of.R
            self.send(words, 0, ends, len(k) * depth * of.R)
        return {link: n // runs for link, n in words.items()}

    def _inputs(
        self,
        of: SegmentLayer,
        layer: int,
        batch: int,
        working: list[tuple[int, range, range, range]],
        source: Part | None,
        words: dict[tuple[int, int] | None, int],
    ) -> None:
        """Cores with the same samples and rows receive inputs together, those of a depthwise layer each its own."""
        own = of.kind is LayerKind.GROUP_CONV
        for key in {(tile[1] if own else None, tile[2], tile[3]) for tile in working}:
            members = [tile for tile in working if (tile[1] if own else None, tile[2], tile[3]) == key]
            ends, need = [self.column[tile[0]] for tile in members], needed(of, *members[0][1:])
            if source is None:
                words[None] = words.get(None, 0) + len(need)
                self.send(words, 0, ends, len(need))
                continue
            for core, k, b, h in self.tiles(layer - 1, batch, source):
                count = len(need & set(product(k, b, h)))
                if count:
                    self.send(words, self.column[core], [self.column[core], *ends], count)

    def moved(self, words: dict[tuple[int, int] | None, int]) -> int:
        """Cycles of DRAM and of the busiest link."""
        links = max((n for link, n in words.items() if link is not None), default=0)
        wide, deep = self.system.links.words_per_cycle, self.system.memories.words_per_cycle_each
        return max(-(-words.get(None, 0) // deep), -(-links // wide))

    def segment(self, kind: str, groups: int, first: int, batch: int, parts: tuple[Part, ...]) -> Price | None:
        """A cut over consecutive layers, or one layer: its children run `groups` times on `batch` samples each."""
        prices = []
        for i, part in enumerate(parts):
            source = parts[i - 1] if i else None
            price = self.leaf(first + i, batch, part, source, i == len(parts) - 1)
            if price is None:
                return None
            prices.append(price)
        words: dict[tuple[int, int] | None, int] = {}
        for price in prices:
            for link, n in price.words.items():
                words[link] = words.get(link, 0) + n * groups
        stages = len(parts) - 1
        time = (groups + stages) * max(p.time for p in prices) if kind == "space" else groups * sum(p.time for p in prices)  # fmt: skip
        return Price(groups * sum(p.energy for p in prices), max(time, self.moved(words)), words)

    def shared(self, unit_times: list[list[float]]) -> list[tuple[int, int]]:
        """First core and number of cores of the children of a cut in space over all cores, by brute force (rule M122)."""
        cores, n = len(self.kind), len(unit_times)
        last = max(self.kind)
        sequence = sorted(range(n), key=lambda i: unit_times[i][0] / unit_times[i][last])

        def times(counts: tuple[int, ...]) -> list[float]:
            at, found = 0, []
            for child, count in zip(sequence, counts, strict=True):
                found.append(1.0 / sum(1.0 / unit_times[child][self.kind[c]] for c in range(at, at + count)))
                at += count
            return found

        splits = [c for c in product(range(1, cores + 1), repeat=n) if sum(c) <= cores]
        least = min(max(times(c)) for c in splits)
        counts = list(min(c for c in splits if max(times(c)) <= least * (1 + 1e-9)))
        counts[-1] += cores - sum(counts)
        firsts = [sum(counts[:i]) for i in range(n)]
        return [(firsts[sequence.index(i)], counts[sequence.index(i)]) for i in range(n)]
