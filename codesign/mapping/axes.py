"""Axes of a fan-out that dimensions may lie along."""

from codesign.mapping.constraints import Constraints


def allowed_axes(constraints: Constraints, level: str, dim: str, x: int, y: int) -> list[int]:
    """Axes of a fan-out of x by y that a dimension may lie along."""
    item = constraints.by_level.get(level)
    axes = [a for a, n in ((0, x), (1, y)) if n > 1]
    if item is not None and item.along_x is not None:
        wanted = 0 if dim in item.along_x else 1
        axes = [a for a in axes if a == wanted]
    return axes


def fit_axes(limits: tuple[int, int], factors: list[tuple[int, list[int]]]) -> list[int] | None:
    """An axis for each (factor, axes it may take) so that no axis takes more than its limit; the first such choice, x first.

    >>> fit_axes((4, 4), [(4, [0, 1]), (4, [0, 1])])
    [0, 1]
    """
    dead: set[tuple[int, int, int]] = set()  # a place in the list and what the axes had: nothing fits from there

    def place(i: int, used: tuple[int, int]) -> list[int] | None:
        if i == len(factors):
            return []
        if (i, *used) in dead:
            return None
        factor, axes = factors[i]
        for axis in axes:
            now = (used[0] * factor, used[1]) if axis == 0 else (used[0], used[1] * factor)
            if now[axis] <= limits[axis] and (after := place(i + 1, now)) is not None:
                return [axis, *after]
        dead.add((i, *used))
        return None

    return place(0, (1, 1))
