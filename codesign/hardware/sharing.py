"""Which of a mapping's spatial loops run along the rows of the array and which along its columns (rule G7 of docs/explanation/hardware.md).

Rows and columns do the same work, but results leave differently: a line of results takes those of one group of rows, side by side those of many
columns. So loops that add to the same result belong to rows, and loops that move it to columns.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from codesign.arch.architecture import Links
from codesign.hardware.parameters import Parameters
from codesign.mapping.mapping import Spatial

MOST_LOOPS = 8
"""Spatial loops up to which all ways of sharing them out are tried."""


def lines_of(factors: Sequence[int], moves: Sequence[bool], on_columns: Sequence[bool], p: Parameters) -> int:
    """Lines in which an iteration's results leave, if those that leave together lie side by side.

    Args:
        factors: Bounds of the spatial loops.
        moves: Whether each moves the result.
        on_columns: Whether each runs along the columns; the others run along rows.
        p: The machine.
    """
    shared = p.links is not Links.NONE
    rows = cols = again = 1
    for factor, move, column in zip(factors, moves, on_columns, strict=True):
        if column and move:
            cols *= factor
        elif column:
            again *= 1 if shared else factor
        elif move or not shared:
            rows *= factor
    return rows * again * math.ceil(cols / p.slots)


def shared_out(loops: Sequence[tuple[Spatial, int]], moves: Sequence[bool], p: Parameters) -> list[tuple[Spatial, int]]:
    """The loops along the axes with which results leave in the fewest lines; as they were where no other way has fewer.

    Args:
        loops: Spatial loops with what one iteration of each steps, the outermost first.
        moves: Whether each moves the result.
        p: The machine.
    """
    factors = [node.factor for node, _ in loops]
    best = [node.axis == "x" for node, _ in loops]
    fewest = lines_of(factors, moves, best, p)
    if fewest == 1 or len(loops) > MOST_LOOPS:
        return list(loops)
    for number in range(1 << len(loops)):
        chosen = [bool(number >> k & 1) for k in range(len(loops))]
        cols = math.prod(n for n, column in zip(factors, chosen, strict=True) if column)
        if cols > p.cols or math.prod(factors) // cols > p.rows:
            continue
        lines = lines_of(factors, moves, chosen, p)
        if lines < fewest:
            fewest, best = lines, chosen
    return [(replace(node, axis="x" if c else "y"), step) for (node, step), c in zip(loops, best, strict=True)]
