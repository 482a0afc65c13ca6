"""What exact searches of single layers show of machines that differ in sizes and prices alone (rules LB8 and LB12)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture, Fanout, Links
from codesign.bounds.chain import ChainTables
from codesign.bounds.layer import LayerFacts
from codesign.bounds.searches import CYCLES, ENERGY, PRODUCT, WEIGHTED, LayerSearches, whole_cycles
from codesign.bounds.structure import prices_of, with_prices
from codesign.core.factors import divisors
from codesign.mapping.nest import Nest

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Beside:
    """What a design spends beside the mappings of its layers.

    Args:
        energy_pj: Of vector operators.
        cycles: Of vector operators.
        leakage_pj_per_cycle: Of everything, all the time.
    """

    energy_pj: float = 0.0
    cycles: float = 0.0
    leakage_pj_per_cycle: float = 0.0


@final
class MachineSearches:
    """Searches of all layers of a workload, shared by all machines they hold for.

    Args:
        layers: The computations.
        counts: How often each occurs: ``layers``.
        chain: Least accesses and cycles of any machine.
    """

    def __init__(self, layers: Sequence[LayerFacts], counts: Floats, chain: ChainTables) -> None:
        self._layers, self._counts, self._chain = layers, counts, chain
        self._found: dict[object, list[LayerSearches]] = {}
        self._work = np.array([work_of(facts) for facts in layers])
        self._raised = np.ones(len(layers))  # by how much searches raised what was known, at most

    def of(self, machine: Architecture) -> list[LayerSearches]:
        """Those of each layer on machines that differ in sizes and prices alone."""
        key = tuple(
            (v.word_bits, v.one_element_per_word, v.keep, v.ports, v.fanout.links, _network(v.fanout))
            for v in machine.levels
        )
        if key not in self._found:
            self._found[key] = [LayerSearches(facts, self._chain.counts_of) for facts in self._layers]
        return self._found[key]

    def known(self, machine: Architecture) -> tuple[float, float]:
        """Energy in pJ and cycles of all layers from what searches showed so far."""
        floor = self._chain.least_cycles(machine)
        energy_pj = cycles = 0.0
        for k, (searches, count) in enumerate(zip(self.of(machine), self._counts, strict=True)):
            least_pj, least = searches.known(machine, float(floor[k]))
            energy_pj += count * least_pj
            cycles += count * whole_cycles(least)
        return energy_pj, cycles

    def least_pj(self, machine: Architecture, floors_pj: Floats) -> Floats:
        """Energy of each layer that no mapping is below, from searches so far and what is known otherwise: ``layers``."""
        shown = [searches.known(machine, 0.0)[0] for searches in self.of(machine)]
        return np.asarray(np.maximum(np.array(shown), floors_pj))

    def sharpen_energy(
        self, machine: Architecture, floors_pj: Floats, tolerance: float, enough: Callable[[float], bool]
    ) -> None:
        """Search the least energy of layers until the sum of all is enough.

        It ends earlier once the sum cannot become enough, or can rise by the share `tolerance` at most. The layer that may raise the sum most for the work of its search is next. How far one may rise is shown by the best mapping known;
        without a mapping, by how far the layer rose on other machines.

        Args:
            machine: Any.
            floors_pj: What is known of each layer otherwise: ``layers``.
            tolerance: Relative.
            enough: Whether a sum in pJ is.
        """
        layers, known = self.of(machine), self.least_pj(machine, floors_pj)
        if np.isinf(known).any():  # nothing fits
            return
        guess = known * np.where(self._raised > 1.0, self._raised, _RISE)
        best = np.array([min((e for e, _ in s.scores(machine)), default=math.inf) for s in layers])
        slack = self._counts * np.maximum(np.where(np.isfinite(best), best, guess) - known, 0.0)
        while True:
            total, more = float(self._counts @ known), float(slack.sum())
            if more <= tolerance * total or enough(total) or not enough(total + more):
                return
            k = int(np.argmax(slack / self._work))
            layers[k].search(ENERGY, machine, 0.0, _OFF * tolerance)
            shown = max(layers[k].known(machine, 0.0)[0], known[k])
            self._raised[k] = max(self._raised[k], shown / known[k]) if math.isfinite(shown) else self._raised[k]
            known[k], slack[k] = shown, 0.0

    def known_product(self, machine: Architecture, beside: Beside) -> float:
        """Energy times cycles of all layers and what comes on top of them, that no choice of mappings is below (rule LB14)."""
        found = self._each(machine)
        each = np.array([(e, c, p) for _, e, c, p in found])
        lines = [searches.known_weighted(machine, cycles) for searches, _, cycles, _ in found]
        return product_of_sums(each, self._counts, beside, lines)[0]

    def search_products(
        self,
        machine: Architecture,
        beside: Beside,
        tolerance: float,
        enough: Callable[[], bool] | None = None,
        goal: float = math.inf,
    ) -> int:
        """Search layers until mappings known show that the product of sums can rise by no more than about the share `tolerance`.

        It ends earlier once the product is at least `goal`, in pJ cycles. The layer whose best mapping is furthest above its region is next: its product first, then what the region is limited by. Returns
        how many searches were made.
        """
        found = self._each(machine)
        each = np.array([(e, c, p) for _, e, c, p in found])
        lines = [searches.known_weighted(machine, cycles) for searches, _, cycles, _ in found]
        scores = [searches.scores(machine) for searches, _, _, _ in found]
        floor = self._chain.least_cycles(machine)
        tried: list[set[int]] = [set() for _ in found]
        most = _SEARCHES * len(found)
        for done in range(most):
            if enough is not None and enough():
                return done
            product, slope = product_of_sums(each, self._counts, beside, lines)
            if product >= goal:
                return done
            weight = slope + beside.leakage_pj_per_cycle
            least, points = least_sums(each, np.array([weight]), lines)
            weighted = np.array([min((e + weight * c for e, c in s), default=math.inf) for s in scores])
            slack = self._counts * np.maximum(weighted - least[0], 0.0)
            slack[[len(t) == _SEARCHES for t in tried]] = 0.0
            if not 2.0 * slack.sum() > tolerance * float(self._counts @ least[0]):
                return done
            k = int(np.argmax(slack))
            searches = found[k][0]
            column = _next_search(tried[k], points[0, k], each[k], scores[k])
            tried[k].add(column)
            searches.search(column, machine, WEIGHT_STEP ** round(math.log(weight, WEIGHT_STEP)), _OFF * tolerance)
            each[k] = self._of_layer(searches, machine, float(floor[k]))
            lines[k] = searches.known_weighted(machine, each[k, 1])
            scores[k] = searches.scores(machine)
        return most

    def best_products(self, machine: Architecture, nests: Sequence[Nest | None] = ()) -> tuple[float, float]:
        """Energy in pJ and cycles of all layers by the mappings known, of each layer the one of the least product; infinite without.

        Args:
            machine: Any.
            nests: Of each layer one that is taken where it fits; empty: none is.
        """
        energy_pj = cycles = 0.0
        for k, (searches, count) in enumerate(zip(self.of(machine), self._counts, strict=True)):
            nest = nests[k] if nests else None
            best = searches.score(machine, nest) if nest is not None else (math.inf, math.inf)
            if math.isinf(best[0]):
                best = min(searches.scores(machine), key=lambda score: score[0] * score[1], default=best)
            energy_pj, cycles = energy_pj + count * best[0], cycles + count * best[1]
        return energy_pj, cycles

    def _each(self, machine: Architecture) -> list[tuple[LayerSearches, float, float, float]]:
        """Of every layer the searches, and the energy, cycles and product they show."""
        floor = self._chain.least_cycles(machine)
        return [(s, *self._of_layer(s, machine, float(f))) for s, f in zip(self.of(machine), floor, strict=True)]

    @staticmethod
    def _of_layer(searches: LayerSearches, machine: Architecture, floor: float) -> tuple[float, float, float]:
        energy_pj, cycles = searches.known(machine, floor)
        whole = whole_cycles(cycles)
        product = searches.known_product(machine, energy_pj, whole)
        return energy_pj if math.isfinite(product) else math.inf, whole, product

    def search(
        self, machine: Architecture, column: int, tolerance: float, enough: Callable[[], bool] | None = None
    ) -> int:
        """Search the least energy (0) or latency (1) of layers until all others may raise their sum by the share `tolerance` at most.

        Mappings found elsewhere show what a layer may still be raised by. Returns how many layers were searched.
        """
        floor, searches, done = self._chain.least_cycles(machine), self.of(machine), 0
        slack = np.array([s.slack(machine, float(f))[column] for s, f in zip(searches, floor, strict=True)])
        slack *= self._counts
        allowed = tolerance * self.known(machine)[column]
        for k in np.argsort(-slack):
            if slack.sum() <= allowed or (enough is not None and enough()):
                break
            if slack[k] > 0.0:
                searches[k].search(column, machine, 0.0, _OFF * tolerance)
                done += 1
            slack[k] = 0.0
        return done


_OFF = 0.25
"""Of the share that a sum may be below what is known, that the search of one layer may end early by."""

_RISE = 1.3
"""How far a search is taken to raise a layer, before one has shown it."""

_WINDOW = 6
"""Work of a search of a layer with a window, over that of one without."""

_SEARCHES = 4
"""Searches of a layer on one machine at most: of its product, its weighted sum, its energy and its cycles."""

WEIGHT_STEP = 1.02
"""Weights of cycles are searched at powers of it, so that machines share them."""

SLOPE_STEP = 1.01
"""Ratio of slopes between which the least weighted sum is taken as linear: it is concave, so that is a bound."""

SLOPE_SPAN = 16.0
"""Slopes looked at, over and under that of the least energy and cycles; beyond it the product is larger by as much."""


def least_sums(each: Floats, slopes: Floats, lines: Sequence[Floats] = ()) -> tuple[Floats, Floats]:
    """The least of energy + slope x cycles in the region of every layer, and the energy there: ``q x layers`` twice.

    Args:
        each: Least energy, cycles and product: ``layers x 3``.
        slopes: ``q``, ascending.
        lines: Of every layer, slopes at which the least is known, ascending, and that least: ``k x 2``; it is concave in the slope.
    """
    energy, cycles, product = each.T
    s = slopes[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        point = np.clip(np.sqrt(s * product), energy, product / cycles)  # on the curve energy x cycles = product
        sums = point + s * product / point
    works = np.isfinite(sums) & (product > 0.0)
    sums = np.where(works, sums, energy + s * cycles)
    for k, known in enumerate(lines):
        if len(known):
            at, value = np.append(0.0, known[:, 0]), np.append(energy[k], known[:, 1])
            beyond = value[-1] + np.maximum(slopes - at[-1], 0.0) * cycles[k]
            sums[:, k] = np.maximum(sums[:, k], np.where(slopes > at[-1], beyond, np.interp(slopes, at, value)))
    return sums, np.where(works, point, energy)


def product_of_sums(each: Floats, counts: Floats, beside: Beside, lines: Sequence[Floats] = ()) -> tuple[float, float]:
    """The least of (sum of energies + leakage x cycles) x (sum of cycles) where every layer keeps its three bounds, and its slope.

    A layer's energy, cycles and product bound a convex region. With e + s c >= m(s) for each layer, sums have E + s C >= v(s), the sum of
    all m. At a point of slope s = E / C that is E C >= v(s)^2 / (4 s), so the least of it over all slopes is a bound.

    Args:
        each: Least energy, cycles and product of a layer, the product at least that of the others: ``layers x 3``.
        counts: How often each occurs: ``layers``.
        beside: What comes on top.
        lines: See `least_sums`.
    """
    leakage = beside.leakage_pj_per_cycle
    least_pj, least = float(counts @ each[:, 0]) + beside.energy_pj, float(counts @ each[:, 1]) + beside.cycles
    plain = (least_pj + leakage * least) * least
    if not math.isfinite(plain) or least_pj <= 0.0 or least <= 0.0:
        return plain, 1.0
    middle = least_pj / least + leakage
    steps = math.ceil(math.log(SLOPE_SPAN) / math.log(SLOPE_STEP))
    slopes: Floats = middle * SLOPE_STEP ** np.arange(-steps, steps + 1, dtype=np.float64)
    value = (
        least_sums(each, slopes + leakage, lines)[0] @ counts + beside.energy_pj + (slopes + leakage) * beside.cycles
    )
    rise = np.diff(value) / np.diff(slopes)
    start = value[:-1] - rise * slopes[:-1]  # the chord, start + rise x slope, is below the concave value
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = np.clip(np.where(rise > 0.0, start / rise, math.inf), slopes[:-1], slopes[1:])
    lowest = (start + rise * turn) ** 2 / (4.0 * turn)
    at = int(np.argmin(lowest))
    return max(plain, min(float(lowest[at]), SLOPE_SPAN * plain)), float(turn[at])


def _next_search(tried: set[int], point_pj: float, known: Floats, scores: Sequence[tuple[float, float]]) -> int:
    """The product, then the weighted sum, then the energy where the region's point spends less than the best mapping does, or cycles."""
    for column in (PRODUCT, WEIGHTED):
        if column not in tried:
            return column
    _, best_pj = min(((e * c, e) for e, c in scores), default=(math.inf, math.inf))
    first = ENERGY if point_pj < best_pj or known[1] <= 0.0 else CYCLES
    return first if first not in tried else ENERGY + CYCLES - first


def work_of(facts: LayerFacts) -> float:
    """About the work of a search of a layer, in some unit: the tiles there are; windows make it several times as much."""
    tiles = math.prod(len(divisors(size)) for size in facts.computation.sizes.values())
    return float(tiles * (_WINDOW if facts.spread.sliding else 1))


def optimistic(machines: Sequence[Architecture], *, dear: bool = False) -> Architecture:
    """The machine with the largest of every capacity and bandwidth, and the least of every price; with `dear` the highest.

    All have the same levels, sizes and prices aside.
    """
    prices = np.array([prices_of(m) for m in machines])
    merged = with_prices(machines[0], prices.max(axis=0) if dear else prices.min(axis=0))
    levels = []
    for k, level in enumerate(merged.levels):
        sizes = [m.levels[k].capacity_bytes for m in machines]
        levels.append(replace(level, capacity_bytes=None if None in sizes else max(s for s in sizes if s is not None)))
    return replace(merged, levels=tuple(levels))


def _network(fanout: Fanout) -> object:
    """What machines must share beside the kind of links to stand for each other.

    A longer bus is dearer where its words cost energy. A single child is reached without a hop. A mesh is a matter of where its nodes lie.
    """
    if fanout.links is Links.MESH:
        return fanout.x, fanout.y, fanout.mesh
    if fanout.size == 1:
        return "single"
    costs = fanout.links is not Links.SYSTOLIC and fanout.hop_pj_per_bit > 0.0
    return (fanout.x, fanout.y) if costs else None
