"""Which of a mapping's spatial loops run along the rows of the array and which along its columns (rule G7 of docs/explanation/hardware.md).

Rows and columns do the same work, but results leave differently: a line of results takes those of one group of rows, side by side those of many
columns. So loops that add to the same result belong to rows, and loops that move it to columns. One loop may be *folded*: as many of its
iterations as the columns have room for lie side by side, the next ones in other rows.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from codesign.arch.architecture import Links
from codesign.hardware.parameters import Parameters
from codesign.mapping.mapping import Spatial

MOST_LOOPS = 8
"""Spatial loops up to which all ways of sharing them out are tried."""


@dataclass(frozen=True)
class Fold:
    """A spatial loop along both axes.

    Args:
        loop: Its number among the spatial loops.
        cols: Iterations that lie side by side; each further row takes as many, the last one what is left.
        rows: Such rows.
    """

    loop: int
    cols: int
    rows: int


def lines_of(
    factors: Sequence[int],
    moves: Sequence[bool],
    on_columns: Sequence[bool],
    fold: Fold | None,
    shared: bool,
    slots: int,
) -> int:
    """Lines in which an iteration's results leave, if those that leave together lie side by side.

    Args:
        factors: Bounds of the spatial loops.
        moves: Whether each moves the result.
        on_columns: Whether each runs along the columns; the others run along rows.
        fold: The loop that runs along both, if any.
        shared: Whether links form sums on the way.
        slots: Places of a line.
    """
    rows = cols = again = 1
    for k, (factor, move, column) in enumerate(zip(factors, moves, on_columns, strict=True)):
        parts = [(factor, column)]
        if fold is not None and k == fold.loop:
            parts = [(fold.cols, True), (fold.rows, False)]
        for n, sideways in parts:
            if sideways and move:
                cols *= n
            elif sideways:
                again *= 1 if shared else n
            elif move or not shared:
                rows *= n
    return rows * again * math.ceil(cols / slots)


def _folds(factors: Sequence[int], rows: int, cols: int) -> Iterator[Fold]:
    """Ways to fold one loop on an array of that size."""
    for k, factor in enumerate(factors):
        for high in range(2, min(rows, factor - 1) + 1):
            wide = math.ceil(factor / high)
            if 1 < wide <= cols and math.ceil(factor / wide) == high:
                yield Fold(k, wide, high)


@lru_cache(maxsize=4096)
def _fewest_lines(
    factors: tuple[int, ...], moves: tuple[bool, ...], begin: tuple[bool, ...], size: tuple[int, int, int, bool]
) -> tuple[tuple[bool, ...], Fold | None]:
    """Which loops run along columns, and the fold, with the fewest lines; as they began where nothing has fewer.

    Args:
        factors, moves: As in `lines_of`.
        begin: Which loops run along columns at first.
        size: Rows, columns, places of a line, whether links share.
    """
    rows, cols, slots, shared = size
    best: tuple[tuple[bool, ...], Fold | None] = (begin, None)
    fewest, total = lines_of(factors, moves, begin, None, shared, slots), math.prod(factors)
    tries: list[Fold | None] = [None, *_folds(factors, rows, cols)]
    for fold in tries:
        inside = (fold.cols, fold.rows, factors[fold.loop]) if fold is not None else (1, 1, 1)
        for number in range(1 << len(factors)):
            chosen = tuple(bool(number >> k & 1) for k in range(len(factors)))
            if fold is not None and not chosen[fold.loop]:
                continue
            beside = math.prod(n for n, column in zip(factors, chosen, strict=True) if column)
            wide, high = beside // inside[2] * inside[0], total // beside * inside[1]
            if wide > cols or high > rows:
                continue
            lines = lines_of(factors, moves, chosen, fold, shared, slots)
            if lines < fewest:
                fewest, best = lines, (chosen, fold)
    return best


def shared_out(
    loops: Sequence[tuple[Spatial, int]], moves: Sequence[bool], p: Parameters
) -> tuple[list[tuple[Spatial, int]], Fold | None]:
    """The loops along the axes with which results leave in the fewest lines; as they were where no other way has fewer.

    Args:
        loops: Spatial loops with what one iteration of each steps, the outermost first.
        moves: Whether each moves the result.
        p: The machine.

    Returns:
        The loops, and which of those along columns is folded, if any.
    """
    factors = tuple(node.factor for node, _ in loops)
    begin = tuple(node.axis == "x" for node, _ in loops)
    size = (p.rows, p.cols, p.slots, p.links is not Links.NONE)
    if len(loops) > MOST_LOOPS or lines_of(factors, moves, begin, None, size[3], p.slots) == 1:
        return list(loops), None
    best, fold = _fewest_lines(factors, tuple(moves), begin, size)
    return [(replace(node, axis="x" if c else "y"), step) for (node, step), c in zip(loops, best, strict=True)], fold
