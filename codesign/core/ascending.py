"""Values in ascending order, sorted only as far as somebody looks."""

import math
from typing import final

import numpy as np
from numpy.typing import NDArray

_FIRST = 1 << 14
"""Values sorted at first; then as many again as there are."""


@final
class Ascending:
    """The values below a limit in ascending order, equal ones in the order given; a reader that goes from first to last.

    Args:
        values: ``n``.
        limit: Values from here on are left out.

    Attributes:
        at: How many have been taken.
    """

    def __init__(self, values: NDArray[np.float64], limit: float = math.inf) -> None:
        self._given, self.at = values, 0
        self._rest = np.flatnonzero(values < limit)
        self._order = np.zeros(0, np.int64)
        self._values = np.zeros(0)

    @property
    def first(self) -> float:
        """The least value not taken; infinite when none is left."""
        self._sort(self.at + 1)
        return float(self._values[self.at]) if self.at < len(self._values) else math.inf

    def take(self, most: int, limit: float = math.inf) -> NDArray[np.int64]:
        """The indices of the next values below a limit, so many at most."""
        self._sort(self.at + most)
        stop = self.at + int(np.searchsorted(self._values[self.at : self.at + most], limit))
        taken = self._order[self.at : stop]
        self.at = stop
        return taken

    def _sort(self, count: int) -> None:
        """Sort at least that many, if there are."""
        while len(self._order) < count and len(self._rest):
            values = self._given[self._rest]
            more = max(_FIRST, len(self._order), count - len(self._order))
            now = values <= np.partition(values, more)[more] if more < len(values) else np.ones(len(values), np.bool_)
            chosen = self._rest[now]
            chosen = chosen[np.argsort(self._given[chosen], kind="stable")]
            self._rest = self._rest[~now]
            self._order = np.concatenate([self._order, chosen])
            self._values = self._given[self._order]
