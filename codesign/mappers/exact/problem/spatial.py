"""What one fan-out may do: every vector of spatial factors, and which words its children share on a diagonal."""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from codesign.mappers.exact.problem.instance import FanoutRules, Instance
from codesign.mapping.nest import FloatArray

Sizes = frozenset[tuple[int, ...]]
"""Tiles by their sizes along `Instance.windows`; 0 is any size."""


@dataclass(frozen=True, eq=False)
class Vectors:
    """Every way to use one fan-out (V of them).

    Attributes:
        factors: ``V x D``.
        share: ``V x T`` product of the factors that index each tensor.
        distinct: ``V x T`` different words the children take at a time: `share`, or less on a diagonal (rule S3).
        tiles: ``V`` sizes the tile inside must have for that, None any.
    """

    factors: FloatArray
    share: FloatArray
    distinct: FloatArray
    tiles: tuple[Sizes | None, ...]


def vectors_of(instance: Instance, m: int) -> Vectors:
    """The vectors of fan-out m."""
    masks = tuple(int(v) for v in instance.relevant_mask)
    axes = (
        [t for t, found in enumerate(instance.sliding_axes) for _ in found] if instance.problem.shares[m] == 1 else []
    )
    coef = tuple((t, tuple(tuple(int(c) for c in row) for row in instance.coef[t] if row.any())) for t in axes)
    return _vectors(instance.lattice.divisors, masks, instance.windows, coef, instance.fanouts[m], instance.n_tensors)


@lru_cache(maxsize=1024)
def _vectors(
    divisors: tuple[tuple[int, ...], ...], masks: tuple[int, ...], together: tuple[int, ...],
    coef: tuple[tuple[int, tuple[tuple[int, ...], ...]], ...], rules: FanoutRules, n_tensors: int,
) -> Vectors:  # fmt: skip
    """All vectors, then once more those with a diagonal: how many words differ depends on the tile inside."""
    factors = _factors(divisors, rules)
    share = np.ones((len(factors), n_tensors))
    for t in range(n_tensors):
        share[:, t] = factors[:, [d for d, mask in enumerate(masks) if mask >> t & 1]].prod(axis=1)
    found: dict[tuple[int, ...], list[tuple[FloatArray, Sizes]]] = {}
    rows: list[int] = []
    distinct, tiles = [share], list[Sizes | None]([None] * len(factors))
    for o, key in enumerate(map(tuple, factors[:, list(together)].astype(int).tolist()) if coef else ()):
        if key not in found:
            found[key] = _diagonal_classes(divisors, masks, together, dict(coef), key, n_tensors)
        for repeated, allowed in found[key]:
            rows.append(o)
            distinct.append((share[o] * repeated)[None])
            tiles.append(allowed)
    which = [*range(len(factors)), *rows]
    return Vectors(factors[which], share[which], np.concatenate(distinct), tuple(tiles))


def _factors(divisors: tuple[tuple[int, ...], ...], rules: FanoutRules) -> FloatArray:
    """``V x D`` factors that fit the children along X and Y."""
    fixed, limit = dict(rules.fixed), rules.x * rules.y
    rows, used = np.ones((1, 0)), np.ones((1, 2))  # children along X, or anywhere, and along Y
    for d, sizes in enumerate(divisors):
        size = np.array([f for f in sizes if f <= limit and fixed.get(d, f) == f], np.float64)
        side = int(rules.along_x is not None and d not in rules.along_x)
        used = np.repeat(used, len(size), axis=0)
        used[:, side] *= np.tile(size, len(rows))
        rows = np.hstack([np.repeat(rows, len(size), axis=0), np.tile(size, len(rows))[:, None]])
        fits = used[:, 0] <= limit if rules.along_x is None else (used[:, 0] <= rules.x) & (used[:, 1] <= rules.y)
        rows, used = rows[fits], used[fits]
    if rules.along_x is None:
        products, which = np.unique(used[:, 0], return_inverse=True)
        rows = rows[np.array([_along_x(int(n), rules) > 0 for n in products])[which]]
    return rows


def _diagonal_classes(
    divisors: tuple[tuple[int, ...], ...],
    masks: tuple[int, ...],
    together: tuple[int, ...],
    coef: dict[int, tuple[tuple[int, ...], ...]],
    key: tuple[int, ...],
    n_tensors: int,
) -> list[tuple[FloatArray, Sizes]]:
    """(``T`` share of the children's words that are different, tiles inside with which it is so), if some are equal."""
    factor = dict(zip(together, key, strict=True))
    spatial = [d for d in together if factor[d] > 1]
    if not any(sum(row[d] > 0 for d in spatial) > 1 for table in coef.values() for row in table):
        return []
    sizes = [
        [v for v in divisors[d] if max(divisors[d]) % (v * factor[d]) == 0] if d in spatial else [0] for d in together
    ]
    parts = {t: math.prod(factor[d] for d in spatial if masks[d] >> t & 1) for t in coef}
    classes: dict[tuple[float, ...], set[tuple[int, ...]]] = {}
    for tile in product(*sizes):
        share = [1.0] * n_tensors
        for t, table in coef.items():
            share[t] = _different(table, together, tile, factor) / parts[t]
        if min(share) < 1.0:
            classes.setdefault(tuple(share), set()).add(tile)
    return [(np.array(share), frozenset(allowed)) for share, allowed in sorted(classes.items())]


def _different(
    table: tuple[tuple[int, ...], ...], together: tuple[int, ...], tile: tuple[int, ...], factor: dict[int, int]
) -> int:
    """Different offsets of a tensor among the children along these dimensions (rule S2)."""
    spatial = [(d, size) for d, size in zip(together, tile, strict=True) if factor[d] > 1]
    on_axes = [[(row[d] * size, factor[d]) for d, size in spatial if row[d]] for row in table]
    if (
        sum(map(len, on_axes)) <= len({d for row in table for d, _ in spatial if row[d]})
        and max(map(len, on_axes)) <= 2
    ):
        return math.prod(
            count_sums(*axis) for axis in on_axes
        )  # every dimension on one axis only: axes are independent
    offsets = {(0,) * len(table)}
    for d, size in spatial:
        steps = [tuple(row[d] * size * k for row in table) for k in range(factor[d])]
        offsets = {tuple(a + b for a, b in zip(o, s, strict=True)) for o in offsets for s in steps}
    return len(offsets)


def count_sums(*loops: tuple[int, int]) -> int:
    """How many different sums at most two loops of (step, iterations) make.

    Two pairs of indices have one sum when they differ by a multiple of (step_2, -step_1) / gcd; so every sum but
    the first of its kind has a predecessor at that distance.
    """
    if len(loops) < 2:
        return loops[0][1] if loops else 1
    (a, n), (b, m) = loops
    common = math.gcd(a, b)
    return n * m - max(0, n - b // common) * max(0, m - a // common)


def _along_x(children: int, rules: FanoutRules) -> int:
    """The largest part of a product of factors that can lie along X so that the rest fits along Y; 0 if none does."""
    parts = range(min(rules.x, children), 0, -1)
    return next((part for part in parts if children % part == 0 and children // part <= rules.y), 0)


def lay_out(factors: dict[int, int], rules: FanoutRules) -> list[tuple[int, int, int]]:
    """Place spatial factors on a mesh: (dimension, factor, axis 0 for X or 1 for Y), X loops first."""
    if rules.along_x is not None:
        placed = [(d, f, 0 if d in rules.along_x else 1) for d, f in sorted(factors.items())]
        return sorted(placed, key=lambda item: item[2])
    along_x = _along_x(math.prod(factors.values()), rules)
    in_x, in_y = [], []
    for d, f in sorted(factors.items()):
        part = int(np.gcd(f, along_x))
        along_x //= part
        if part > 1:
            in_x.append((d, part, 0))
        if f // part > 1:
            in_y.append((d, f // part, 1))
    return in_x + in_y
