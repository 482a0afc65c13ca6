"""Whether a profile of imperfect factors has a mapping below a value: bounds by closed forms and walks (rules J6 to J8)."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.verify.even.bounds import least_score
from codesign.verify.even.prices import whole_cycles
from codesign.verify.even.problem import Kept, Space, Vector
from codesign.verify.imperfect.spatial_factors import (
    busiest,
    energy_prices,
    open_profiles,
    port_prices,
    spread_of,
    stacked,
)
from codesign.verify.imperfect.walk import Walks
from codesign.verify.imperfect.words import Prices, closed

_ROUNDED = 1.0 - 1e-11
"""Below every rounding of the sums."""

_ROOM = 1.0 + 1e-6
"""Walks look a little further than they must, so that what is cut off is above the limit after all rounding."""


@dataclass(frozen=True, eq=False)
class ImperfectBounds:
    """Bounds of the profiles of one keep set.

    Args:
        space: All mappings; the factors of each dimension may multiply to more than its bound.
        kept: The keep set.
    """

    space: Space
    kept: Kept

    @cached_property
    def walks(self) -> Walks:
        """Tables, with grids that profiles share."""
        return Walks(self.space, self.kept)

    @cached_property
    def _energy(self) -> tuple[Prices, float]:
        a = self.space.arrays
        return energy_prices(self.space, self.walks.facts), float(a.macs) * float(a.mac_energy)

    @cached_property
    def _ports(self) -> list[tuple[int, Prices]]:
        return port_prices(self.space, self.walks.facts)

    def least(self, vectors: tuple[Vector, ...], limit: float) -> float:
        """A value that no imperfect mapping of a profile is below, sharp below `limit` only."""
        n, m = self.space.objective.energy_exponent, self.space.objective.latency_exponent
        energy, cycles = self._closed(vectors)
        prices, constant = self._energy
        if n:
            most = (limit / cycles**m) ** (1.0 / n) * _ROOM
            energy = max(energy, (constant + self.walks.least(vectors, prices, most - constant)) * _ROUNDED)
        if not m or np.isinf(energy):
            return self.space.objective.score(energy, cycles)
        for units, port in self._busy(vectors):
            most = (limit / (energy**n if n else 1.0)) ** (1.0 / m) * _ROOM * units
            cycles = max(cycles, whole_cycles(self.walks.least(vectors, port, most) / units))
            if self.space.objective.score(energy, cycles) >= limit:
                return self.space.objective.score(energy, cycles)
        return max(
            self.space.objective.score(energy, cycles), self._together(vectors, energy, cycles, limit) if n else 0.0
        )

    def _together(self, vectors: tuple[Vector, ...], energy: float, cycles: float, limit: float) -> float:
        """The bound by energy plus a weight times the cycles of a port, the best of all ports."""
        objective, (prices, constant), best = self.space.objective, self._energy, 0.0
        weight = energy / cycles
        for units, port in self._busy(vectors):
            w = weight / units
            both = Prices(prices.sent + w * port.sent, prices.parent + w * port.parent, prices.child + w * port.child)
            # a mapping below the limit has its sum below one end of the line or the other
            n, m = objective.energy_exponent, objective.latency_exponent
            most = max(
                (limit / cycles**m) ** (1.0 / n) + weight * cycles, energy + weight * (limit / energy**n) ** (1.0 / m)
            )
            total = (constant + self.walks.least(vectors, both, most * _ROOM - constant)) * _ROUNDED
            best = max(best, least_score(objective, energy, cycles, weight, total))
        return best

    def _busy(self, vectors: tuple[Vector, ...]) -> Iterator[tuple[float, Prices]]:
        """By port the instances of its level and its prices."""
        for level, port in self._ports:
            yield float(np.prod(vectors[:level], dtype=np.float64)), port

    def _closed(self, vectors: tuple[Vector, ...]) -> tuple[float, float]:
        """Energy and cycles by closed forms."""
        facts, spread = self.walks.facts, spread_of(self.space, vectors)
        each, room = np.zeros(len(facts.tensor)), np.ones((3, len(self.space.dims)), np.int64)
        prices, constant = self._energy
        spent = (constant + float(closed(facts, spread, prices, each, room))) * _ROUNDED
        ports, levels = stacked(self._ports, facts)
        return spent, float(busiest(facts, spread, ports, levels, each, room))


def imperfect_bound(space: Space, wanted: float) -> float:
    """The most, up to `wanted`, that the rules J show that no imperfect mapping is below."""
    found = wanted
    for kept in space.keep_sets():
        bounds = ImperfectBounds(space, kept)
        for vectors in open_profiles(space, kept, wanted):
            found = min(found, bounds.least(vectors, found))
    return found


def below(bounds: ImperfectBounds, vectors: tuple[Vector, ...], limit: float, stop: float) -> bool:
    """Whether the rules leave room for a mapping of a profile below `limit`.

    Raises:
        TimeoutError: CPU seconds ran out.
    """
    if time.process_time() > stop:
        raise TimeoutError
    return bounds.least(vectors, limit) < limit
