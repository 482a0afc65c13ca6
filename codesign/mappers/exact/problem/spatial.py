"""What one fan-out may do: vectors of spatial factors, merged where no cost can tell them apart.

Costs see a spatial vector through its product (children), through the product of the factors that index each
tensor (multicast, shares), and through the factors of dimensions that a tensor kept further in does not simply
multiply by (windows, strides). Dimensions alike in all of these form a group, and an option fixes only the
product of each group; which vector makes it up is left to the dynamic program.
"""

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product

import numpy as np

from codesign.mappers.exact.problem.instance import FanoutRules, Instance
from codesign.mapping.nest import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class FanoutOptions:
    """The options of one fan-out (O of them; T tensors, D dimensions).

    Attributes:
        children: ``O`` children in use.
        share: ``O x T`` product of the factors that index each tensor.
        factor: ``O x D`` factor of each dimension that is a group of its own, 1 for the others.
        choice: ``O x G`` product of each group.
        vectors: per group, per product: the vectors as ``V x D`` positions among the divisors.
        distinct: ``O x T`` different words the children take at a time: `share`, or less on a diagonal (rule S3).
        by_kind: ``O x C`` product of the factors of each kind of dimension (those that index the same tensors).
        tiles: per option None, or the sizes (by dimension) the tile inside must have for that.
    """

    children: FloatArray
    share: FloatArray
    distinct: FloatArray
    factor: FloatArray
    choice: IntArray
    vectors: tuple[dict[int, IntArray], ...]
    by_kind: FloatArray
    tiles: tuple[frozenset[tuple[int, ...]] | None, ...]


@lru_cache(maxsize=1024)
def join_options(first: FanoutOptions, second: FanoutOptions) -> FanoutOptions:
    """Both sets of options; the groups of the second follow those of the first."""

    def stack(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.concatenate([a, b])

    left = np.concatenate([first.choice, np.ones((len(second.children), first.choice.shape[1]), np.int64)])
    right = np.concatenate([np.ones((len(first.children), second.choice.shape[1]), np.int64), second.choice])
    return FanoutOptions(
        stack(first.children, second.children),
        stack(first.share, second.share),
        stack(first.distinct, second.distinct),
        stack(first.factor, second.factor),
        np.concatenate([left, right], axis=1),
        first.vectors + second.vectors,
        stack(first.by_kind, second.by_kind),
        first.tiles + second.tiles,
    )


def options_of(instance: Instance, m: int, kept_inside: tuple[bool, ...]) -> FanoutOptions:
    """The options of fan-out m when these tensors are kept at some level inside it."""
    exact = np.zeros(instance.n_dims, bool)
    for t, inside in enumerate(kept_inside):
        if inside:
            exact |= instance.relevant[t] & ~instance.plain[t]
    rules = instance.fanouts[m]
    masks = tuple(int(v) for v in instance.relevant_mask)
    divisors = instance.lattice.divisors
    options = _options(divisors, masks, tuple(bool(e) for e in exact), rules, instance.n_tensors)
    if instance.problem.shares[m] == 1 and rules.x * rules.y > 1 and any(instance.sliding_axes):
        diagonal = _diagonals(instance, rules, masks, tuple(bool(e) for e in exact))
        if diagonal is not None:
            options = join_options(options, diagonal)
    return options


def _diagonals(
    instance: Instance, rules: FanoutRules, masks: tuple[int, ...], exact: tuple[bool, ...]
) -> FanoutOptions | None:
    """Options in which two dimensions of one axis are spatial and some children take the same words (rule S3).

    How many words are different depends on the tile inside, so there is one option per vector and count.
    """
    axes = [(t, axis) for t, found in enumerate(instance.sliding_axes) for axis in found]
    together = instance.windows
    coef = tuple((t, tuple(tuple(int(c) for c in row) for row in instance.coef[t] if row.any())) for t, _ in axes)
    alone = tuple(e or d in together for d, e in enumerate(exact))
    return _diagonal_options(instance.lattice.divisors, masks, alone, together, coef, rules, instance.n_tensors)


@lru_cache(maxsize=1024)
def _diagonal_options(
    divisors: tuple[tuple[int, ...], ...],
    masks: tuple[int, ...],
    exact: tuple[bool, ...],
    together: tuple[int, ...],
    coef: tuple[tuple[int, tuple[tuple[int, ...], ...]], ...],
    rules: FanoutRules,
    n_tensors: int,
) -> FanoutOptions | None:
    whole = _options(divisors, masks, exact, rules, n_tensors)
    rows: list[int] = []
    tiles: list[frozenset[tuple[int, ...]]] = []
    distinct: list[FloatArray] = []
    found: dict[tuple[int, ...], list[tuple[FloatArray, frozenset[tuple[int, ...]]]]] = {}
    for o in range(len(whole.children)):
        factor = tuple(int(f) for f in whole.factor[o])
        key = tuple(factor[d] for d in together)
        if key not in found:
            found[key] = _diagonal_classes(divisors, masks, together, dict(coef), factor, n_tensors)
        for repeated, allowed in found[key]:
            rows.append(o)
            distinct.append(whole.share[o] * repeated)
            tiles.append(allowed)
    if not rows:
        return None
    return FanoutOptions(
        whole.children[rows],
        whole.share[rows],
        np.array(distinct),
        whole.factor[rows],
        whole.choice[rows],
        whole.vectors,
        whole.by_kind[rows],
        tuple(tiles),
    )


def _diagonal_classes(
    divisors: tuple[tuple[int, ...], ...],
    masks: tuple[int, ...],
    together: tuple[int, ...],
    coef: dict[int, tuple[tuple[int, ...], ...]],
    factor: tuple[int, ...],
    n_tensors: int,
) -> list[tuple[FloatArray, frozenset[tuple[int, ...]]]]:
    """(``T`` share of the children's words that are different, tiles inside with which it is so), if some are equal."""
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
    table: tuple[tuple[int, ...], ...], together: tuple[int, ...], tile: tuple[int, ...], factor: tuple[int, ...]
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


@lru_cache(maxsize=1024)
def _options(
    divisors: tuple[tuple[int, ...], ...],
    masks: tuple[int, ...],
    exact: tuple[bool, ...],
    rules: FanoutRules,
    n_tensors: int,
) -> FanoutOptions:
    fixed = dict(rules.fixed)
    keys: dict[tuple[int, bool | None, tuple[int, ...]], list[int]] = {}
    for d in range(len(divisors)):
        along = None if rules.along_x is None else d in rules.along_x
        single: tuple[int, ...] = (d,) if exact[d] or d in fixed else ()
        keys.setdefault((masks[d], along, single), []).append(d)
    limit = rules.x * rules.y
    groups = list(keys.items())
    vectors = tuple(_group_vectors(divisors, dims, fixed, limit) for _, dims in groups)
    rows: list[tuple[int, ...]] = []

    def extend(chosen: tuple[int, ...], x: int, y: int, either: int) -> None:
        if len(chosen) == len(groups):
            if _splits(either, rules.x, rules.y) if rules.along_x is None else x <= rules.x and y <= rules.y:
                rows.append(chosen)
            return
        along = groups[len(chosen)][0][1]
        for factor in sorted(vectors[len(chosen)]):
            if along is None and either * factor <= limit:
                extend((*chosen, factor), x, y, either * factor)
            elif along is True and x * factor <= rules.x:
                extend((*chosen, factor), x * factor, y, either)
            elif along is False and y * factor <= rules.y:
                extend((*chosen, factor), x, y * factor, either)

    extend((), 1, 1, 1)
    choice = np.array(rows, np.int64).reshape(len(rows), len(groups))
    kinds = sorted(set(masks))
    by_kind = np.ones((len(rows), len(kinds)))
    share = np.ones((len(rows), n_tensors))
    factor = np.ones((len(rows), len(divisors)))
    for g, ((mask, _, single), dims) in enumerate(groups):
        by_kind[:, kinds.index(mask)] *= choice[:, g]
        for t in range(n_tensors):
            if mask >> t & 1:
                share[:, t] *= choice[:, g]
        if single or len(dims) == 1:
            factor[:, dims[0]] = choice[:, g]
    return FanoutOptions(
        choice.prod(axis=1).astype(np.float64), share, share, factor, choice, vectors, by_kind, (None,) * len(rows)
    )


def _group_vectors(
    divisors: tuple[tuple[int, ...], ...], dims: list[int], fixed: dict[int, int], limit: int
) -> dict[int, IntArray]:
    """Vectors of a group by their product."""
    found: list[tuple[int, tuple[int, ...]]] = [(1, ())]
    for d in dims:
        allowed = [(j, f) for j, f in enumerate(divisors[d]) if f <= limit and fixed.get(d, f) == f]
        found = [(p * f, (*v, j)) for p, v in found for j, f in allowed if p * f <= limit]
    by_product: dict[int, list[IntArray]] = {}
    for children, places in found:
        vector = np.zeros(len(divisors), np.int64)
        vector[dims] = places
        by_product.setdefault(children, []).append(vector)
    return {product: np.array(rows) for product, rows in by_product.items()}


@cache
def _splits(children: int, x: int, y: int) -> bool:
    """Whether a product of factors can be laid out on an x by y mesh, part along X and part along Y."""
    return any(children % along_x == 0 and children // along_x <= y for along_x in range(1, min(x, children) + 1))


def lay_out(factors: dict[int, int], rules: FanoutRules) -> list[tuple[int, int, int]]:
    """Place spatial factors on a mesh: (dimension, factor, axis 0 for X or 1 for Y), X loops first."""
    if rules.along_x is not None:
        placed = [(d, f, 0 if d in rules.along_x else 1) for d, f in sorted(factors.items())]
        return sorted(placed, key=lambda item: item[2])
    total = int(np.prod(list(factors.values()), dtype=np.int64))
    along_x = next(g for g in range(min(rules.x, total), 0, -1) if total % g == 0 and total // g <= rules.y)
    in_x, in_y = [], []
    for d, f in sorted(factors.items()):
        part = int(np.gcd(f, along_x))
        along_x //= part
        if part > 1:
            in_x.append((d, part, 0))
        if f // part > 1:
            in_y.append((d, f // part, 1))
    return in_x + in_y
