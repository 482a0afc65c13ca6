"""All profiles of a space: what every fan-out does, and how many children then take different words (rules K2 and K3)."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codesign.verify.even.prices import Profile
from codesign.verify.even.problem import Kept, Space, Vector, divisors

Sizes = frozenset[tuple[int, ...]]


@dataclass(frozen=True)
class Diagonal:
    """Sizes in time that the tile inside a fan-out must have for a profile's numbers to hold (rule S3).

    Args:
        level: Of the fan-out.
        dims: Positions of the dimensions.
        sizes: Of these dimensions.
    """

    level: int
    dims: tuple[int, ...]
    sizes: Sizes


def exact(space: Space, kept: Kept, vectors: tuple[Vector, ...]) -> Iterator[tuple[Profile, tuple[Diagonal, ...]]]:
    """The profiles that a combination of vectors stands for, one for each way in which diagonals share words."""
    by_level = [_classes(space, m, vectors) for m in range(space.n_levels)]
    for chosen in itertools.product(*by_level):
        yield (
            Profile(space, kept, vectors, tuple(distinct for distinct, _ in chosen)),
            tuple(diagonal for _, diagonal in chosen if diagonal is not None),
        )


def _classes(space: Space, m: int, vectors: tuple[Vector, ...]) -> list[tuple[tuple[float, ...], Diagonal | None]]:
    vector = np.array(vectors[m])
    if space.arrays.shares[m] == 0:
        return [((float(vector.prod()),) * space.n_tensors, None)]
    rows = [row for table in space.coef for row in table if ((row > 0) & (vector > 1)).sum() > 1]
    dims = (
        tuple(int(d) for d in np.flatnonzero((vector > 1) & np.any([row > 0 for row in rows], axis=0))) if rows else ()
    )
    if not dims:
        return [(_alike(space, vectors[m]), None)]
    inside = np.prod(np.array(vectors[m + 1 :]).reshape(-1, len(space.dims)), axis=0)
    every = np.prod(np.array(vectors), axis=0)
    found: dict[tuple[float, ...], set[tuple[int, ...]]] = defaultdict(set)
    for sizes in itertools.product(*(divisors(int(space.bounds[d] // every[d])) for d in dims)):
        tile = inside.copy()
        tile[list(dims)] *= np.array(sizes, np.int64)
        found[tuple(_different(space, t, vector, tile) for t in range(space.n_tensors))].add(sizes)
    return [(distinct, Diagonal(m, dims, frozenset(sizes))) for distinct, sizes in found.items()]


@lru_cache(maxsize=4096)
def _alike(space: Space, vector: Vector) -> tuple[float, ...]:
    """Different words among the children where no axis has two spatial loops: the same whatever the tile."""
    ones = np.ones(len(space.dims), np.int64)
    return tuple(_different(space, t, np.array(vector), ones) for t in range(space.n_tensors))


def _different(space: Space, t: int, vector: np.ndarray, tile: np.ndarray) -> float:
    """Different offsets of a tensor among the children (S2), axis by axis."""
    count = 1
    for row in space.coef[t]:
        offsets = {0}
        for d in np.flatnonzero(row * (vector > 1)):
            offsets = {o + int(row[d] * tile[d]) * k for o in offsets for k in range(int(vector[d]))}
        count *= len(offsets)
    return float(count)
