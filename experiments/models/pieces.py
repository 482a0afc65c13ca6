"""Execution of a weight-stationary systolic array: rows of an output stream past blocks of weights (rules A of docs)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_SETTLED, _PERIODS = 8, 12
_LONG = 400


@dataclass(frozen=True)
class StationaryArray:
    """A weight-stationary array.

    Args:
        side: Rows and columns.
        shortest_piece: Cycles of a piece of output rows, at least.
        in_flight: Pieces between issue and retirement.
        retire_cycles: Cycles from a piece's last row to its retirement.
    """

    side: int = 16
    shortest_piece: int = 4
    in_flight: int = 5
    retire_cycles: int = 33

    def block_cycles(self, row: int, rows: int) -> float:
        """Cycles of one block of weights over output rows of a length, in the steady state.

        The first piece after a change of weights takes `side` cycles, others their length, at least `shortest_piece`.
        """
        return _steady(self, row, rows)

    def pattern(self, row: int, rows: int) -> list[int]:
        """Cycles of the pieces of one block."""
        pieces = [max(self.shortest_piece, min(self.side, row - i)) for i in range(0, row, self.side)] * rows
        pieces[0] = self.side
        return pieces


@lru_cache(maxsize=4096)
def _steady(array: StationaryArray, row: int, rows: int) -> float:
    pieces = array.pattern(row, rows)
    if len(pieces) > _LONG:  # the window is filled once, then rows follow each other
        return float(sum(pieces))
    return _period(array, pieces)


def _period(array: StationaryArray, pieces: Sequence[int]) -> float:
    n = len(pieces)
    total = (_SETTLED + _PERIODS) * n
    starts = [0]
    for j in range(1, total + 1):
        start = starts[-1] + pieces[(j - 1) % n]
        if j >= array.in_flight:
            oldest = j - array.in_flight
            start = max(start, starts[oldest] + pieces[oldest % n] + array.retire_cycles)
        starts.append(start)
    return (starts[total] - starts[_SETTLED * n]) / _PERIODS
