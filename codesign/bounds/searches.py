"""What exact searches of one layer showed of machines, and what follows for others (rules LB8 and LB12)."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture
from codesign.bounds.dram import least_cycles, least_energy, least_product
from codesign.bounds.layer import LayerFacts
from codesign.bounds.structure import prices_of, with_prices
from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible, evaluate
from codesign.mapping.mapping import Mapping

Floats = NDArray[np.float64]

POOL = 24
"""Mappings that are tried on other machines, the latest ones."""

NEAREST = 12
"""Searches that are mixed, those of the nearest prices."""


def whole_cycles(least: float) -> float:
    """Cycles of a layer from a bound: whole ones, as they are counted; infinite where nothing fits."""
    return float(math.ceil(least * (1.0 - 1e-12) - 1e-6)) if math.isfinite(least) else least


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
        self._sizes: list[Floats] = []
        self._prices: list[Floats] = []
        self._energies: list[float] = []
        self._quick_sizes: list[Floats] = []
        self._cycles: list[float] = []
        self._product_sizes: list[Floats] = []
        self._product_prices: list[Floats] = []
        self._products: list[float] = []
        self._mappings: list[Mapping] = []

    def known(self, machine: Architecture, floor: float) -> tuple[float, float]:
        """Energy in pJ and cycles that no mapping is below, without a search; `floor` are cycles known otherwise."""
        prices, sizes = prices_of(machine), sizes_of(machine)
        counts = self._counts_of(self._facts, machine)
        least = float(counts @ prices)
        if self._energies:
            holds = (np.array(self._sizes) >= sizes).all(axis=1)
            least = max(least, between(np.array(self._prices)[holds], np.array(self._energies)[holds], prices, counts))
        if self._cycles:
            holds = (np.array(self._quick_sizes) >= sizes).all(axis=1)
            floor = max([floor, *np.array(self._cycles)[holds].tolist()])
        return least, floor

    def known_product(self, machine: Architecture, least_pj: float, least: float) -> float:
        """Energy times cycles that no mapping is below (rule LB14), given the least of each: pJ cycles."""
        product = least_pj * least
        if self._products:
            prices, counts = prices_of(machine), self._counts_of(self._facts, machine)
            holds = (np.array(self._product_sizes) >= sizes_of(machine)).all(axis=1)
            searched, found = np.array(self._product_prices)[holds], np.array(self._products)[holds]
            product = max(product, between(searched, found, prices, counts * least))  # a price counts in every cycle
        return product

    def scores(self, machine: Architecture) -> list[tuple[float, float]]:
        """Energy in pJ and cycles of the mappings known that fit a machine."""
        scored = (self.score(machine, mapping) for mapping in self._mappings)
        return [(energy, cycles) for energy, cycles in scored if math.isfinite(energy)]

    def slack(self, machine: Architecture, floor: float) -> tuple[float, float]:
        """How far the best mappings known are above what is known: pJ and cycles; infinite without a mapping."""
        least_pj, least = self.known(machine, floor)
        scores = [self.score(machine, mapping) for mapping in self._mappings]
        energy_pj, cycles = min((e for e, _ in scores), default=math.inf), min((c for _, c in scores), default=math.inf)
        return max(energy_pj - least_pj, 0.0), max(cycles - whole_cycles(least), 0.0)

    def search_energy(self, machine: Architecture, tolerance: float = 0.0) -> None:
        """Find the least energy on a machine, or a bound within the tolerance."""
        plain = with_prices(machine, prices_of(machine))
        found, mapping = least_energy(self._facts.computation, plain, self._start(plain, 0), tolerance)
        self._sizes.append(_without_bandwidth(sizes_of(machine)))
        self._prices.append(prices_of(machine))
        self._energies.append(found)
        self._remember(mapping)

    def search_cycles(self, machine: Architecture, tolerance: float = 0.0) -> None:
        """Find the least latency on a machine, or a bound within the tolerance."""
        plain = _without_prices(machine)
        found, mapping = least_cycles(self._facts.computation, plain, self._start(plain, 1), tolerance)
        self._quick_sizes.append(sizes_of(machine))
        self._cycles.append(found)
        self._remember(mapping)

    def search_product(self, machine: Architecture, tolerance: float = 0.0) -> None:
        """Find the least energy times latency on a machine, or a bound within the tolerance."""
        found, mapping = least_product(self._facts.computation, machine, self._start(machine, 2), tolerance)
        self._product_sizes.append(sizes_of(machine))
        self._product_prices.append(prices_of(machine))
        self._products.append(found)
        self._remember(mapping)

    def _start(self, machine: Architecture, column: int) -> Mapping | None:
        """The mapping known with the least energy (0), cycles (1) or product of both (2) on a machine; None where none fits."""
        scores = (self.score(machine, mapping) for mapping in self._mappings)
        values = [(energy, cycles, energy * cycles)[column] for energy, cycles in scores]
        best = min(values, default=math.inf)
        return self._mappings[values.index(best)] if math.isfinite(best) else None

    def _remember(self, mapping: Mapping | None) -> None:
        """Keep a mapping to be tried elsewhere."""
        if mapping is not None:
            self._mappings = [*self._mappings[1 - POOL :], mapping]

    def best_mapping(self, machine: Architecture) -> Mapping | None:
        """Of the mappings found so far the one with the least energy-delay product on a machine."""
        scored = [(e * c, k) for k, (e, c) in enumerate(self.score(machine, m) for m in self._mappings)]
        least, best = min(scored, default=(math.inf, 0))
        return self._mappings[best] if math.isfinite(least) else None

    def score(self, machine: Architecture, mapping: Mapping) -> tuple[float, float]:
        """Energy in pJ and cycles of a mapping on a machine; infinite where it does not fit."""
        try:
            cost = evaluate(self._facts.computation, machine, mapping)
        except UserError:  # more children than the machine has
            return math.inf, math.inf
        return (math.inf, math.inf) if isinstance(cost, Infeasible) else (cost.energy_pj, float(cost.latency_cycles))


def between(searched: Floats, energies: Floats, prices: Floats, counts: Floats) -> float:
    """The most that one search, or a mixture of two, shows of the least energy at some prices (rule LB8).

    The least energy is concave and homogeneous in prices: at a mixture of two searched vectors it is at least the mixture of what was found, and
    what is left of the prices costs at least the least accesses.

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
        limits = (level.capacity_bytes, level.read_bandwidth_words_per_cycle, level.write_bandwidth_words_per_cycle)
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
