"""What exact searches of one layer showed of machines, and what follows for others (rules LB8 and LB12)."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture
from codesign.bounds.dram import least_objective
from codesign.bounds.layer import LayerFacts
from codesign.bounds.structure import prices_of, with_prices
from codesign.core.goals import Objective
from codesign.cost.arrays import encode_problem
from codesign.cost.kernel import score
from codesign.cost.packed import Kernel, make_kernel
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import Nest, encode_nest

Floats = NDArray[np.float64]

POOL = 24
"""Mappings that are tried on other machines, the latest ones."""

MOST_LOOPS = 64
"""Room for loops of a mapping; more is made where one has more."""

NEAREST = 12
"""Searches that are mixed, those of the nearest prices."""


ENERGY, CYCLES, PRODUCT, WEIGHTED = range(4)
"""What a search finds the least of."""

_OBJECTIVE = (Objective.ENERGY, Objective.LATENCY, Objective.EDP, Objective.ENERGY)


def whole_cycles(least: float) -> float:
    """Cycles of a layer from a bound: whole ones, as they are counted; infinite where nothing fits."""
    return float(math.ceil(least * (1.0 - 1e-12) - 1e-6)) if math.isfinite(least) else least


@final
class Found:
    """What searches of one kind found: sizes and prices of the machines, and the least."""

    def __init__(self) -> None:
        self._sizes: list[Floats] = []
        self._prices: list[Floats] = []
        self._least: list[float] = []

    def add(self, sizes: Floats, prices: Floats, least: float) -> None:
        """Keep what one exact search found: the machine's sizes, its prices, the least cost."""
        self._sizes.append(sizes)
        self._prices.append(prices)
        self._least.append(least)

    def that_hold(self, sizes: Floats) -> tuple[Floats, Floats]:
        """Prices and least of searches of machines that can do all that one of these sizes can: ``n x p`` and ``n``."""
        if not self._least:
            return np.zeros((0, 0)), np.zeros(0)
        holds = (np.array(self._sizes) >= sizes).all(axis=1)
        return np.array(self._prices)[holds], np.array(self._least)[holds]


@final
class LayerSearches:
    """Searches of one layer on machines that differ in sizes and prices alone.

    A machine that can do less, at prices nowhere below, needs at least the energy found, and the difference in prices for what every
    mapping accesses at the least; and at least the cycles found.

    Args:
        facts: Of the layer.
        counts_of: Least accesses of the layer on a machine, in the order of `prices_of`.
    """

    def __init__(self, facts: LayerFacts, counts_of: Callable[[LayerFacts, Architecture], Floats]) -> None:
        self._facts, self._counts_of = facts, counts_of
        self._found = [Found() for _ in _OBJECTIVE]
        self._mappings: list[tuple[Mapping, Nest]] = []
        self._kernel: tuple[Architecture, Kernel] | None = None

    def known(self, machine: Architecture, floor: float) -> tuple[float, float]:
        """Energy in pJ and cycles that no mapping is below, without a search; `floor` are cycles known otherwise."""
        prices, sizes = prices_of(machine), sizes_of(machine)
        counts = self._counts_of(self._facts, machine)
        least = float(counts @ prices)
        searched, found = self._found[ENERGY].that_hold(sizes)
        least = max(least, between(searched, found, prices, counts))
        _, found = self._found[CYCLES].that_hold(sizes)
        return least, max([floor, *found.tolist()])

    def known_product(self, machine: Architecture, least_pj: float, least: float) -> float:
        """Energy times cycles that no mapping is below (rule LB14), given the least of each: pJ cycles."""
        searched, found = self._found[PRODUCT].that_hold(sizes_of(machine))
        counts = self._counts_of(self._facts, machine) * least  # a price is paid in every cycle
        return max(least_pj * least, between(searched, found, prices_of(machine), counts))

    def known_weighted(self, machine: Architecture, least: float) -> Floats:
        """Energy + weight x cycles that no mapping is below, at the weights searched, ascending: ``k x 2``, weights first (rule LB15).

        A weight of cycles is one more price: what is known between prices is known between weights.
        """
        searched, found = self._found[WEIGHTED].that_hold(sizes_of(machine))
        if not len(found) or np.isinf(found).any():  # where nothing fits, the product says so
            return np.zeros((0, 2))
        prices, counts = prices_of(machine), np.append(self._counts_of(self._facts, machine), least)
        weights = np.unique(searched[:, -1])
        return np.array([(w, between(searched, found, np.append(prices, w), counts)) for w in weights])

    def scores(self, machine: Architecture) -> list[tuple[float, float]]:
        """Energy in pJ and cycles of the mappings known that fit a machine."""
        scored = (self.score(machine, nest) for _, nest in self._mappings)
        return [(energy, cycles) for energy, cycles in scored if math.isfinite(energy)]

    def slack(self, machine: Architecture, floor: float) -> tuple[float, float]:
        """How far the best mappings known are above what is known: pJ and cycles; infinite without a mapping."""
        least_pj, least = self.known(machine, floor)
        scores = self.scores(machine)
        energy_pj, cycles = min((e for e, _ in scores), default=math.inf), min((c for _, c in scores), default=math.inf)
        return max(energy_pj - least_pj, 0.0), max(cycles - whole_cycles(least), 0.0)

    def search(self, what: int, machine: Architecture, weight: float = 0.0, tolerance: float = 0.0) -> None:
        """Find the least energy, cycles, product or energy + weight x cycles on a machine, or a bound within the tolerance."""
        computation, prices, sizes = self._facts.computation, prices_of(machine), sizes_of(machine)
        plain, cycle_pj = machine, 0.0
        if what == ENERGY:
            plain, sizes = with_prices(machine, prices), _without_bandwidth(sizes)
        elif what == CYCLES:
            plain = _without_prices(machine)
        elif what == WEIGHTED:
            cycle_pj, prices = weight, np.append(prices, weight)
        best = self._best(plain, what, weight)
        start = None if best is None else best[0]
        found, mapping = least_objective(computation, plain, _OBJECTIVE[what], start, tolerance, cycle_pj)
        self._found[what].add(sizes, prices, found)
        if mapping is not None:  # to be tried elsewhere
            nest = encode_nest(computation, machine, mapping)
            self._mappings = [*self._mappings[1 - POOL :], (mapping, nest)]

    def _best(self, machine: Architecture, what: int, weight: float = 0.0) -> tuple[Mapping, Nest] | None:
        """The mapping known with the least of what a search finds on a machine; None where none fits."""
        scores = (self.score(machine, nest) for _, nest in self._mappings)
        values = [(energy, cycles, energy * cycles, energy + weight * cycles)[what] for energy, cycles in scores]
        least = min(values, default=math.inf)
        return self._mappings[values.index(least)] if math.isfinite(least) else None

    def best_mapping(self, machine: Architecture) -> Nest | None:
        """Of the mappings found so far the one with the least energy-delay product on a machine."""
        best = self._best(machine, PRODUCT)
        return None if best is None else best[1]

    def score(self, machine: Architecture, nest: Nest) -> tuple[float, float]:
        """Energy in pJ and cycles of a mapping on a machine; infinite where it does not fit."""
        count = len(nest.loops)
        if self._kernel is None or self._kernel[0] is not machine or len(self._kernel[1].inner) < count + 2:
            room = max(count, MOST_LOOPS)
            self._kernel = machine, make_kernel(encode_problem(self._facts.computation, machine), room)
        _, energy_pj, cycles = score(self._kernel[1], nest, count)
        return energy_pj, cycles


def between(searched: Floats, energies: Floats, prices: Floats, counts: Floats) -> float:
    """The most that one search, or a mixture of two, shows of the least energy at some prices (rule LB8).

    The least energy is concave and homogeneous in prices: at a mixture of two searched vectors it is at least the mixture of what was found, and
    what is left of the prices costs at least the least accesses. At no prices at all it is nothing, which counts as one more search.

    Args:
        searched: Prices of the searches: ``n x p``.
        energies: Least energies found: ``n``.
        prices: Asked for: ``p``.
        counts: Least accesses: ``p``.
    """
    if not len(energies):
        return 0.0
    if np.isinf(energies).any():  # nothing fits a machine that can do more
        return math.inf
    if len(energies) > NEAREST:
        nearest = np.argsort(np.abs(prices - searched) @ counts, kind="stable")[:NEAREST]
        searched, energies = searched[nearest], energies[nearest]
    searched, energies = np.concatenate([searched, np.zeros((1, len(prices)))]), np.append(energies, 0.0)
    slack = prices - searched
    margin = energies - searched @ counts  # what a search adds to the least accesses
    alone = (slack >= 0.0).all(axis=1)
    best = float(margin[alone].max()) if alone.any() else -math.inf
    step = searched[None] - searched[:, None]  # a share t of it is added to the first: t x step <= slack
    with np.errstate(divide="ignore", invalid="ignore"):
        share = slack[:, None] / step
        most = np.where(step > 0.0, share, math.inf).min(axis=2)
        least = np.where(step < 0.0, share, -math.inf).max(axis=2)
    fixed = ((step != 0.0) | (slack[:, None] >= 0.0)).all(axis=2)
    low, high = np.maximum(least, 0.0), np.minimum(most, 1.0)
    works = fixed & (low <= high)
    if works.any():
        first, second = np.nonzero(works)
        rise = margin[second] - margin[first]
        ends = margin[first][:, None] + rise[:, None] * np.stack([low[works], high[works]], axis=1)
        best = max(best, float(ends.max()))
    return best + float(prices @ counts) if math.isfinite(best) else 0.0


def sizes_of(machine: Architecture) -> Floats:
    """What a machine can do, the more the better: ``5 L``."""
    found: list[float] = []
    for level in machine.levels:
        limits = (level.capacity_bytes, *level.words_per_cycle)
        found += [level.fanout.x, level.fanout.y, *(math.inf if v is None else v for v in limits)]
    return np.array(found)


def _without_bandwidth(sizes: Floats) -> Floats:
    """Energy does not depend on bandwidth, so a search holds for any."""
    free = sizes.reshape(-1, 5).copy()
    free[:, 3:] = math.inf
    return free.ravel()


def _without_prices(machine: Architecture) -> Architecture:
    free = with_prices(machine, np.zeros(4 * len(machine.levels) + 1))
    levels = tuple(
        replace(
            level,
            read_bandwidth_words_per_cycle=given.read_bandwidth_words_per_cycle,
            write_bandwidth_words_per_cycle=given.write_bandwidth_words_per_cycle,
        )
        for level, given in zip(free.levels, machine.levels, strict=True)
    )
    return replace(free, levels=levels)
