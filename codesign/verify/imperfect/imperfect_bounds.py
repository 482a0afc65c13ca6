"""Whether a profile of imperfect factors has a mapping below a value: bounds by closed forms and walks (rules J6 to J8)."""

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.verify.even.bounds import sharpened
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
        prices, constant = self._energy
        ports = [(float(np.prod(vectors[:level], dtype=np.float64)), port) for level, port in self._ports]

        def cheapest(port: int | None, weight: float | None, most: float) -> float:
            if port is None:
                return (constant + self.walks.least(vectors, prices, most - constant)) * _ROUNDED
            units, busy = ports[port]  # prices are those of all instances of its level
            if weight is None:
                return self.walks.least(vectors, busy, most * units) / units
            w = weight / units
            both = Prices(prices.sent + w * busy.sent, prices.parent + w * busy.parent, prices.child + w * busy.child)
            return (constant + self.walks.least(vectors, both, most - constant)) * _ROUNDED

        return sharpened(self.space.objective, self._closed(vectors), len(ports), cheapest, limit)

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
