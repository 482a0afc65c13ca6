"""Which parameters it is worth trying to split boxes along.

Bounds of both halves along every parameter are dear where there are many. What a split raised elsewhere says which few to try: the
reliability branching of T. Achterberg, T. Koch and A. Martin, Branching rules revisited, Oper. Res. Letters 33(1), 2005.
"""

from typing import final

import numpy as np

from codesign.optim.protocols import Floats, Indices

MOST_TRIED = 3
"""Parameters that a box is tried to be split along, once it is known how much each tends to raise bounds."""

RELIABLE = 16
"""Splits of a range of some length after which their mean rise is known."""


@final
class Branching:
    """What splits raised so far, by parameter and length of the range that was split.

    Args:
        sizes: Choices of every parameter: ``d``.
    """

    def __init__(self, sizes: Indices) -> None:
        self._rises = np.zeros((len(sizes), int(sizes.max())))
        self._count = np.zeros_like(self._rises)

    def learn(self, column: Indices, length: Indices, rise: Floats) -> None:
        """Splits of ranges along parameters, lengths in steps, and what they raised: ``k`` each."""
        np.add.at(self._rises, (column, length), rise)
        np.add.at(self._count, (column, length), 1.0)

    def promising(self, low: Indices, high: Indices) -> tuple[Indices, Indices]:
        """Boxes, by number, and parameters to try to split them along: ``n x d`` twice to ``k`` twice, in the order of boxes.

        Those of the largest mean rise, and those hardly tried.
        """
        box, column = np.nonzero(high > low)
        where = column, high[box, column] - low[box, column]
        unknown = self._count[where] < RELIABLE
        mean = np.where(unknown, np.inf, self._rises[where] / np.maximum(self._count[where], 1.0))
        order = np.lexsort((-mean, box))
        place = np.arange(len(order)) - np.searchsorted(box[order], box[order])
        keep = order[(place < MOST_TRIED) | unknown[order]]
        return box[keep], column[keep]
