"""Profiles that rows and columns of a square convolution turn into each other."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.spatial import Vectors
from codesign.mapping.nest import IntArray


class Mirror:
    """Dimensions that can change places (rows and columns of a square convolution): one of two mirrored profiles will do."""

    def __init__(self, problem: EvenProblem) -> None:
        self._maps: list[IntArray] | None = None
        for swapped in _swaps(problem.instance):
            maps = [_mirrored(vectors, tuple(swapped), problem.instance.windows) for vectors in problem.vectors]
            if all(m is not None for m in maps):
                self._maps = [m for m in maps if m is not None]

    def turned(self, rows: IntArray) -> IntArray:
        """``P x L`` what each profile becomes; itself if no dimensions can change places."""
        if self._maps is None:
            return rows
        return np.stack([m[rows[:, k]] for k, m in enumerate(self._maps)], axis=1)

    def canonical(self, rows: IntArray) -> IntArray:
        """Which rows to look at."""
        other = self.turned(rows)
        different = rows != other
        first, at = different.argmax(axis=1), np.arange(len(rows))
        return np.flatnonzero(~different.any(axis=1) | (rows[at, first] < other[at, first]))


def _swaps(instance: Instance) -> Iterator[list[int]]:
    """Permutations of the dimensions that exchange two axes of a tensor and change nothing."""
    bounds, dims = instance.lattice.bounds, list(range(instance.n_dims))
    for t in range(instance.n_tensors):
        axes = [
            np.flatnonzero(axis).tolist() for axis in instance.coef[t] if (axis.astype(bool) & ~instance.plain[t]).any()
        ]
        if len(axes) != 2 or instance.problem.entangled[t] or len(axes[0]) != len(axes[1]):
            continue
        coef = {d: int(instance.coef[t, :, d].max()) for axis in axes for d in axis}
        pairs = list(zip(*(sorted(axis, key=lambda d: (coef[d], bounds[d])) for axis in axes), strict=True))
        swapped = dims.copy()
        for a, b in pairs:
            swapped[a], swapped[b] = b, a
        if all(bounds[a] == bounds[b] for a, b in pairs) and _unchanged(instance, swapped):
            yield swapped


def _unchanged(instance: Instance, swapped: list[int]) -> bool:
    """Whether the problem looks the same after dimensions have changed places."""
    for table in instance.coef:
        if sorted(map(tuple, table.tolist())) != sorted(map(tuple, table[:, swapped].tolist())):
            return False
    free = all(
        {swapped[d] for d in rules.free} == rules.free and not rules.ordered and not rules.fixed
        for rules in instance.rules
    )
    return free and all(not rules.fixed and rules.along_x is None for rules in instance.fanouts)


@lru_cache(maxsize=256)
def _mirrored(vectors: Vectors, swapped: tuple[int, ...], windows: tuple[int, ...]) -> IntArray | None:
    """Number of the vector that each becomes; None if some becomes none of them.

    Args:
        vectors: Of a fan-out.
        swapped: What each dimension becomes.
        windows: Dimensions that the sizes in `Vectors.tiles` are of.
    """
    place = [windows.index(swapped[d]) for d in windows if swapped[d] in windows]

    def turned(tiles: frozenset[tuple[int, ...]] | None) -> frozenset[tuple[int, ...]] | None:
        return None if tiles is None else frozenset(tuple(sizes[i] for i in place) for sizes in tiles)

    rows = list(zip(map(tuple, vectors.factors), map(tuple, vectors.distinct), vectors.tiles, strict=True))
    where = {row: i for i, row in enumerate(rows)}
    others = zip(
        map(tuple, vectors.factors[:, list(swapped)]), map(tuple, vectors.distinct), vectors.tiles, strict=True
    )
    found = [where.get((factors, distinct, turned(tiles)), -1) for factors, distinct, tiles in others]
    return None if -1 in found else np.array(found, np.int64)
