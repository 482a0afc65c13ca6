"""Shares of hits in set-associative caches with random replacement, from the tiles touched between two uses (rules C of docs)."""

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

LINE_BYTES = 64
PAGE_BYTES = 4096
_MOST_TILES = 400
"""Tiles remembered: far more than fit any cache here."""
_FULL, _HOPELESS = 1.0, 8.0


@dataclass(frozen=True)
class Footprint:
    """What a tile occupies of a cache.

    Rows narrower than their stride use only the lines that the stride meets within a page, hence a share of the sets.

    Args:
        size_bytes: Bytes of all lines touched.
        share: Share of the sets they fall into, 1 where they spread.
        slot: Which of those shares: tiles in other slots do not meet.
    """

    size_bytes: float
    share: float = 1.0
    slot: int = 0

    @classmethod
    def of_rows(cls, rows: float, width_bytes: int, stride_bytes: int, start_bytes: int) -> "Footprint":
        """Rows of a width at a stride.

        >>> Footprint.of_rows(100, 16, 512, 64)
        Footprint(size_bytes=6400.0, share=0.125, slot=1)
        """
        if stride_bytes < LINE_BYTES:
            return cls(float(rows * stride_bytes))
        width = -(-width_bytes // LINE_BYTES) * LINE_BYTES
        period = min(math.gcd(stride_bytes, PAGE_BYTES), stride_bytes)
        share = 1.0 if width_bytes >= stride_bytes or width >= period else width / period
        slot = 0 if share == 1.0 else start_bytes // width % round(1 / share)
        return cls(float(rows * width), share, slot)


@lru_cache(maxsize=100_000)
def hit_share(load: float) -> float:
    """Share of hits when `load` caches' worth of lines comes round under random replacement.

    A line survives the misses of the others: ``h = exp(-(1 - h) load)``; all hit while they fit.
    """
    if load <= _FULL or load > _HOPELESS:
        return float(load <= _FULL)
    share = 0.0
    for _ in range(60):
        share = math.exp(-(1.0 - share) * load)
    return share


class ReuseTracker:
    """Tiles in the order of their last use; says what share of a tile is still in each of several caches.

    Args:
        capacities_bytes: Of the caches, innermost first.
        before_bytes: Data touched once before the run: the distance of a first use.
    """

    def __init__(self, capacities_bytes: tuple[float, ...], before_bytes: float) -> None:
        self._capacities = capacities_bytes
        self._before = before_bytes
        self._tiles: OrderedDict[Hashable, Footprint] = OrderedDict()
        self._known: dict[tuple[float, Footprint, tuple[tuple[float, int, float], ...]], tuple[float, ...]] = {}

    def touch(self, tile: Hashable, footprint: Footprint) -> tuple[float, ...]:
        """Use a tile; returns the share of hits in each cache."""
        if tile not in self._tiles:
            self._tiles[tile] = footprint
            self._forget()
            return tuple(hit_share(self._before / z) for z in self._capacities)
        spread = 0.0
        striped: dict[tuple[float, int], float] = {}
        for other in reversed(self._tiles):
            seen = self._tiles[other]
            if seen.share == 1.0:
                spread += seen.size_bytes
            else:
                key = (seen.share, seen.slot)
                striped[key] = striped.get(key, 0.0) + seen.size_bytes
            if other == tile:
                break
        self._tiles[tile] = footprint
        self._tiles.move_to_end(tile)
        stripes = tuple(sorted((share, slot, size) for (share, slot), size in striped.items()))
        key_all = (spread, footprint, stripes)
        if key_all not in self._known:
            self._known[key_all] = tuple(_hits(spread, stripes, footprint, z) for z in self._capacities)
        return self._known[key_all]

    def _forget(self) -> None:
        while len(self._tiles) > _MOST_TILES:
            self._tiles.popitem(last=False)


def _hits(
    spread: float, stripes: tuple[tuple[float, int, float], ...], footprint: Footprint, capacity_bytes: float
) -> float:
    """Share of hits of a tile, set group by set group: the stripes of the finest share, and the rest of the sets."""
    if footprint.share != 1.0:
        own = sum(size for share, slot, size in stripes if (share, slot) == (footprint.share, footprint.slot))
        others = sum(size for share, _, size in stripes if share != footprint.share)
        return hit_share((spread + others + own / footprint.share) / capacity_bytes)
    if not stripes:
        return hit_share(spread / capacity_bytes)
    finest = stripes[0][0]
    even = spread + sum(size for share, _, size in stripes if share != finest)
    hits, left = 0.0, 1.0
    for share, _, size in stripes:
        if share == finest:
            hits += share * hit_share((even + size / share) / capacity_bytes)
            left -= share
    return hits + max(0.0, left) * hit_share(even / capacity_bytes)
