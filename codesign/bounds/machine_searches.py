"""What exact searches of single layers show of machines that differ in sizes and prices alone (rules LB8 and LB12)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture, Fanout, Links
from codesign.bounds.chain import ChainTables
from codesign.bounds.layer import LayerFacts
from codesign.bounds.searches import LayerSearches
from codesign.bounds.structure import prices_of, with_prices

Floats = NDArray[np.float64]


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

    def of(self, machine: Architecture) -> list[LayerSearches]:
        """Those of each layer on machines that differ in sizes and prices alone."""
        key = tuple(
            (v.word_bits, v.one_element_per_word, v.keep, v.ports, v.fanout.links, _bus(v.fanout))
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
            cycles += count * math.ceil(least * (1.0 - 1e-12) - 1e-6)
        return energy_pj, cycles

    def search(self, machine: Architecture, column: int, tolerance: float) -> int:
        """Search the least energy (0) or latency (1) of layers until all others may raise their sum by the share `tolerance` at most.

        Mappings found elsewhere show what a layer may still be raised by. Returns how many layers were searched.
        """
        floor, searches, done = self._chain.least_cycles(machine), self.of(machine), 0
        slack = np.array([s.slack(machine, float(f))[column] for s, f in zip(searches, floor, strict=True)])
        slack *= self._counts
        allowed = tolerance * self.known(machine)[column]
        for k in np.argsort(-slack):
            if slack.sum() <= allowed:
                break
            if slack[k] > 0.0:
                (searches[k].search_cycles if column else searches[k].search_energy)(machine)
                done += 1
            slack[k] = 0.0
        return done


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


def _bus(fanout: Fanout) -> tuple[int, int] | None:
    """The sides of a bus whose words cost energy: a longer one is dearer, so machines that differ in it do not stand for each other."""
    costs = fanout.links is not Links.SYSTOLIC and fanout.hop_pj_per_bit > 0.0
    return (fanout.x, fanout.y) if costs else None
