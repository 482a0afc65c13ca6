"""Energy bounds from exact searches of whole machines that stand for many designs (rule LB8).

The least energy over all mappings is a minimum of sums of counts times prices, so as a function of the prices it is concave, homogeneous and
monotone, hence E(p) >= (1 - t) E(p0) + t E(p1) + E0(p - (1 - t) p0 - t p1) for any bound E0 and p above the chord.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import AccessEnergy, Architecture
from codesign.bounds.dram import least_energy_pj
from codesign.bounds.layer import LayerFacts

Floats = NDArray[np.float64]


def prices_of(architecture: Architecture) -> Floats:
    """Read, fill, update and hop energy of every level, then that of a MAC: ``4 L + 1``."""
    found: list[float] = []
    for level in architecture.levels:
        energy = level.energy or AccessEnergy(0.0, 0.0, 0.0)
        found += [energy.read_pj, energy.fill_pj, energy.update_pj, level.fanout.hop_pj_per_bit]
    return np.array([*found, architecture.mac.least_energy_pj])


def with_prices(architecture: Architecture, prices: Floats) -> Architecture:
    """The machine with these prices (`prices_of`) and no limit on any bandwidth."""
    levels = []
    for k, level in enumerate(architecture.levels):
        read, fill, update, hop = (float(p) for p in prices[4 * k : 4 * k + 4])
        levels.append(
            replace(
                level,
                energy=AccessEnergy(read, fill, update),
                fanout=replace(level.fanout, hop_pj_per_bit=hop),
                read_bandwidth_words_per_cycle=None,
                write_bandwidth_words_per_cycle=None,
                area_mm2=None,
                leakage_mw=None,
                banks=1,
            )
        )
    mac = replace(
        architecture.mac, energy_pj=float(prices[-1]), by_width=(), unpack_pj=0.0, area_mm2=None, leakage_mw=None
    )
    return Architecture("structure", tuple(levels), mac)


def structure_of(architecture: Architecture) -> Architecture:
    """What designs must share to stand for each other: everything but prices, bandwidths, area and leakage."""
    return with_prices(architecture, np.zeros(4 * len(architecture.levels) + 1))


@final
@dataclass(frozen=True)
class Chord:
    """Exact energies of one structure at two price vectors.

    Args:
        low: Prices: ``p``.
        high: Prices, nowhere below `low`: ``p``.
        low_pj: Least energy at `low`.
        high_pj: Least energy at `high`.
    """

    low: Floats
    high: Floats
    low_pj: float
    high_pj: float

    def at(self, prices: Floats) -> tuple[float, Floats]:
        """The part of the energy that the chord bounds, and the prices left over, for prices nowhere below `low`: ``p``."""
        span = self.high - self.low
        rising = span > 0.0
        share = float(np.clip(((prices - self.low)[rising] / span[rising]).min(), 0.0, 1.0)) if rising.any() else 0.0
        left = prices - self.low - share * span
        return (1.0 - share) * self.low_pj + share * self.high_pj, np.maximum(left, 0.0)


@final
class StructureSearches:
    """Exact energy searches of structures, each made once for each price vector.

    Args:
        layers: The computations.
        counts: How often each occurs: ``layers``.
    """

    def __init__(self, layers: Sequence[LayerFacts], counts: Floats) -> None:
        self._layers, self._counts = layers, counts
        self._found: dict[Architecture, float] = {}
        self.searches = 0

    def least_pj(self, architecture: Architecture, prices: Floats) -> float:
        """Least energy of all layers at these prices."""
        priced = with_prices(architecture, prices)
        if priced not in self._found:
            self.searches += 1
            energies = [least_energy_pj(f.computation, priced) for f in self._layers]
            self._found[priced] = float((self._counts * np.array(energies)).sum())
        return self._found[priced]

    def chord(self, architecture: Architecture, low: Floats, high: Floats) -> Chord:
        """Both ends; one search where they are equal."""
        return Chord(low, high, self.least_pj(architecture, low), self.least_pj(architecture, high))
