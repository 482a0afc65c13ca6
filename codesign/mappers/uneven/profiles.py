"""Profiles: what every fan-out does (U5, U9, U14, docs/explanation/exact-mapper.md)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from codesign.mapping.looptree import Factors, Fanout, Machine, Operator

Vector = tuple[tuple[str, int], ...]
"""Factors above one of the dimensions laid out along one axis."""


@dataclass(frozen=True)
class Profile:
    """The spatial loops of a mapping and, where the outermost loop of a dimension leaves a remainder, its tile.

    Args:
        along: For each level (the compute units last) the vectors of the axes above it.
        axes: The axes themselves.
        tiles: Dimensions whose outermost loop is imperfect: the temporal tile inside that loop.
        ragged: Dimensions whose imperfect loop is spatial: the level above which it stands.
        relaxed: Dimensions whose tiles need not divide each other: such a profile bounds those it stands for (U14).
    """

    along: tuple[tuple[Vector, ...], ...]
    axes: tuple[tuple[Fanout, ...], ...]
    tiles: tuple[tuple[str, int], ...] = ()
    ragged: tuple[tuple[str, int], ...] = ()
    relaxed: tuple[str, ...] = ()

    @cached_property
    def factors(self) -> tuple[dict[str, int], ...]:
        """Factor of each dimension above each level."""
        found: list[dict[str, int]] = []
        for vectors in self.along:
            total: dict[str, int] = {}
            for vector in vectors:
                for dim, factor in vector:
                    total[dim] = total.get(dim, 1) * factor
            found.append(total)
        return tuple(found)

    def factor(self, dim: str, start: int, stop: int) -> int:
        """Product of the factors of `dim` above levels start..stop-1."""
        return math.prod(f.get(dim, 1) for f in self.factors[start:stop])

    def shared(self, tensor: str, dims: frozenset[str], start: int, stop: int) -> int:
        """Instances that get one copy together: factors of dimensions not in `dims` on axes that share `tensor`."""
        return math.prod(
            factor
            for vectors, axes in zip(self.along[start:stop], self.axes[start:stop], strict=True)
            for vector, axis in zip(vectors, axes, strict=True)
            if tensor in axis.shared
            for dim, factor in vector
            if dim not in dims
        )

    def key(self, operator: Operator) -> tuple[object, ...]:
        """Equal for profiles that cost the same."""
        same = tuple(tuple(sorted(f.items())) for f in self.factors)
        levels = range(len(self.along))
        sharing = tuple(tuple(self.shared(t.name, t.dims, v, v + 1) for v in levels) for t in operator.operands)
        return same, sharing, self.tiles, self.ragged, self.relaxed


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return small + [n // d for d in reversed(small) if d * d != n]


def _vectors(dims: list[str], left: dict[str, int], size: int, imperfect: frozenset[str]) -> Iterator[Vector]:
    if not dims:
        yield ()
        return
    dim, rest = dims[0], dims[1:]
    most = min(left[dim], size)
    choices = range(1, most + 1) if dim in imperfect else [f for f in _divisors(left[dim]) if f <= most]
    for factor in choices:
        for tail in _vectors(rest, left, size // factor, imperfect):
            yield ((dim, factor), *tail) if factor > 1 else tail


def profiles(operator: Operator, machine: Machine, factors: Factors) -> list[Profile]:
    """All profiles that use the fan-outs as far as they ask for, one of each kind.

    An axis that cannot reach its least use must be used as far as it can be, one axis after the other, the innermost first.
    """
    imperfect = operator.simple if factors.imperfect_spatial else frozenset[str]()
    partial: list[tuple[tuple[Vector, ...], dict[str, int]]] = [((), dict(operator.bounds))]
    for axis in reversed([axis for axes in machine.fanouts for axis in axes]):
        grown = []
        for vectors, left in partial:
            dims = [d for d in operator.bounds if d in axis.dims and left[d] > 1]
            for vector in _vectors(dims, left, axis.size, imperfect):
                inside = dict(left)
                for dim, factor in vector:
                    inside[dim] = -(-inside[dim] // factor)  # a remainder counts as a whole
                grown.append(((vector, *vectors), inside))
        partial = _used_enough(grown, axis) if not operator.copy else grown
    found = [vectors for vectors, _ in partial]
    relaxed = (
        tuple(d for d in operator.bounds if d in operator.simple and operator.bounds[d] > 1)
        if factors.imperfect
        else ()
    )
    unique: dict[object, Profile] = {}
    for vectors in found:
        rest = iter(vectors)
        along = tuple(tuple(next(rest) for _ in axes) for axes in machine.fanouts)
        profile = Profile(along, machine.fanouts, relaxed=relaxed)
        unique.setdefault(profile.key(operator), profile)
    return list(unique.values())


def _used_enough(
    grown: list[tuple[tuple[Vector, ...], dict[str, int]]], axis: Fanout
) -> list[tuple[tuple[Vector, ...], dict[str, int]]]:
    """The ways that use an axis as far as it asks for or, if none does, as far as can be (U9)."""
    if axis.min_usage > 0:
        used = [math.prod(f for _, f in vectors[0]) for vectors, _ in grown]
        enough = axis.min_usage * axis.size - 1e-9
        least = min(enough, max(used))
        grown = [way for way, u in zip(grown, used, strict=True) if u >= least]
    if axis.fewest:
        fewest = min(len(vectors[0]) for vectors, _ in grown)
        grown = [way for way in grown if len(way[0][0]) == fewest]
    return grown


def settled(operator: Operator, profile: Profile, dim: str) -> list[Profile]:
    """The profiles that `profile` stands for with the tiles of `dim` decided (U14)."""
    bound, levels = operator.bounds[dim], len(profile.along)
    spatial = profile.factor(dim, 0, levels)
    rest = tuple(d for d in profile.relaxed if d != dim)
    found = []
    if bound % spatial == 0:
        found.append(replace(profile, relaxed=rest))
    for tile in outer_tiles(bound, spatial):
        if (-(-bound // (tile * spatial))) * tile * spatial != bound or bound % spatial:
            found.append(replace(profile, relaxed=rest, tiles=(*profile.tiles, (dim, tile))))
    if spatial > 1 and bound % spatial:
        outermost = next(v for v, f in enumerate(profile.factors) if f.get(dim, 1) > 1)
        for tile in sorted({u * -(-bound // (spatial * u)) for u in range(1, -(-bound // spatial) + 1)}):
            if (spatial - 1) * tile < bound:
                found.append(
                    replace(
                        profile,
                        relaxed=rest,
                        tiles=(*profile.tiles, (dim, tile)),
                        ragged=(*profile.ragged, (dim, outermost)),
                    )
                )
    return found


def outer_tiles(bound: int, spatial: int) -> list[int]:
    """Temporal tiles inside an imperfect outermost loop: for each number of steps the least multiple of some inner tile."""
    found = set()
    for inner in range(1, -(-bound // spatial) + 1):
        for steps in range(2, -(-bound // (spatial * inner)) + 1):
            tile = inner * -(-bound // (spatial * inner * steps))
            if -(-bound // (tile * spatial)) == steps and (inner == 1 or tile > inner):
                found.add(tile)
    return sorted(found)
