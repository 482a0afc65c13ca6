"""What the fan-outs may do with imperfect factors, and which profiles arithmetic alone does not rule out (rules J2 and J6)."""

import itertools
import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from codesign.core.errors import UserError
from codesign.core.jit import njit
from codesign.cost.columns import FILL, READ, UPDATE
from codesign.mapping.nest import FloatArray, IntArray
from codesign.verify.even.problem import Kept, Space, Vector
from codesign.verify.imperfect.words import Facts, Prices, Spread, ceiling, closed

MOST = 400_000
"""Pairs of factors along X and Y of one fan-out, at most."""


class Listed(NamedTuple):
    """What the fan-outs may do, one list after the other. L levels, C choices, D dimensions.

    Attributes:
        factor: ``C x D``.
        fewest: ``C x D`` tiles that a factor needs.
        start: ``L + 1`` where a level's choices start.
        children: ``L`` units of a fan-out.
    """

    factor: IntArray
    fewest: IntArray
    start: IntArray
    children: IntArray


class Goal(NamedTuple):
    """What is looked for: energy and cycles to their exponents, below a limit; the MACs' energy in pJ is the same everywhere."""

    macs_pj: float
    energy_exponent: float
    latency_exponent: float
    limit: float


def refuse_uncovered(space: Space) -> None:
    """Refuse what the rules J do not cover.

    Raises:
        UserError: More than two dimensions on one axis of a tensor, or fan-outs too large to list.
    """
    if ((space.coef > 0).sum(axis=2) > 2).any():
        raise UserError("--certificate does not cover imperfect factors where three dimensions move one axis")
    for v in range(space.n_levels):
        vectors_of(space, v)


def facts_of(space: Space, kept: Kept) -> Facts:
    """The boundaries of a keep set."""
    rows: list[tuple[int, int, int]] = []
    first = [0]
    for t in range(space.n_tensors):
        levels = [v for v in range(space.n_levels) if kept[v][t]]
        rows += [(t, v, u) for u, v in itertools.pairwise((*levels, space.n_levels))][::-1]
        first.append(len(rows))
    table = np.array(rows, np.int64)
    alone = (space.coef > 0).sum(axis=2, keepdims=True) < 2
    window = ((space.coef > 0) & ~alone).any(axis=1).astype(np.int64)
    return Facts(
        space.bounds, space.coef, space.relevant, window, space.arrays.shares, np.array(first, np.int64),
        table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy(),
    )  # fmt: skip


def energy_prices(space: Space, facts: Facts) -> Prices:
    """Of a word, in pJ (rules T, O and N)."""
    a, n = space.arrays, space.n_levels
    found = _free(facts, n)
    for b, (t, v, u) in enumerate(zip(facts.tensor, facts.level, facts.parent, strict=True)):
        for m in range(u, v):
            found.sent[b, m] += a.hops[m, 0] * a.hop_energy[m, t]
            found.sent[b, m + 1] += a.hops[m, 1] * a.hop_energy[m, t]
        if t == space.n_tensors - 1:
            found.sent[b, u] += a.energy[u, t, UPDATE]
        found.parent[b] = a.energy[u, t, READ]
        found.child[b] = a.energy[v, t, FILL] if v < n else 0.0
    return found


def port_prices(space: Space, facts: Facts) -> list[tuple[int, Prices]]:
    """By port of limited width its level and the cycles of a word, all instances of the level together (rules L2 and L4)."""
    a, found = space.arrays, []
    for level in range(space.n_levels):
        sides = [(0, 1)] if a.one_port[level] else [(0,), (1,)]
        for side in (s for s in sides if any(a.bandwidth[level, w] for w in s)):
            prices = _free(facts, space.n_levels)
            read, write = (1.0 / a.bandwidth[level, w] if w in side and a.bandwidth[level, w] else 0.0 for w in (0, 1))
            for b, (t, v, u) in enumerate(zip(facts.tensor, facts.level, facts.parent, strict=True)):
                if u == level:
                    prices.parent[b] = read * a.words[level, t]
                    prices.sent[b, u] += write * a.words[level, t] if t == space.n_tensors - 1 else 0.0
                if v == level:
                    prices.child[b] = write * a.words[level, t]
            found.append((level, prices))
    return found


def stacked(ports: list[tuple[int, Prices]], facts: Facts) -> tuple[Prices, IntArray]:
    """Prices of all ports, one after the other, and their levels."""
    n, b = len(ports), len(facts.tensor)
    prices = Prices(
        np.array([p.sent for _, p in ports]).reshape(n, b, -1) if n else np.zeros((0, b, 1)),
        np.array([p.parent for _, p in ports]).reshape(n, b),
        np.array([p.child for _, p in ports]).reshape(n, b),
    )
    return prices, np.array([v for v, _ in ports], np.int64)


def _free(facts: Facts, levels: int) -> Prices:
    n = len(facts.tensor)
    return Prices(np.zeros((n, levels + 1)), np.zeros(n), np.zeros(n))


def spread_of(space: Space, vectors: tuple[Vector, ...]) -> Spread:
    """Fan-outs that are known."""
    fewest = [fewest_tiles(space, v, vector) for v, vector in enumerate(vectors)]
    return _room(np.array(vectors, np.int64), np.array(fewest, np.int64), space.n_tensors)


def _room(factor: IntArray, fewest: IntArray, tensors: int) -> Spread:
    levels = len(factor)
    return Spread(factor, fewest, np.ones(levels, np.int64), np.ones((tensors, levels)), np.ones(levels + 1))


def _sides(space: Space, v: int) -> list[tuple[int, int]]:
    """Of every dimension the children that it may use along X and along Y."""
    x, y = (int(n) for n in space.arrays.fanout[v])
    along_x = space.rules[v].along_x
    names = [space.source.computation.dims[i] for i in space.dims]
    return [(x, y) if along_x is None else (x, 1) if name in along_x else (1, y) for name in names]


def vectors_of(space: Space, v: int) -> tuple[Vector, ...]:
    """All factors of a fan-out: products of some along X and some along Y, none above its bound.

    Raises:
        UserError: They are too many.
    """
    wanted = dict(space.rules[v].spatial)
    fixed = tuple(wanted.get(space.source.computation.dims[i]) for i in space.dims)
    x, y = (int(n) for n in space.arrays.fanout[v])
    return _vectors(tuple(int(b) for b in space.bounds), x, y, tuple(_sides(space, v)), fixed)


@lru_cache(maxsize=256)
def _vectors(
    bounds: Vector, x: int, y: int, sides: tuple[tuple[int, int], ...], fixed: tuple[int | None, ...]
) -> tuple[Vector, ...]:
    along: list[IntArray] = []
    for axis, children in enumerate((x, y)):
        rows: list[tuple[Vector, int]] = [((), 1)]
        for bound, side, want in zip(bounds, sides, fixed, strict=True):
            most = min(bound if want is None else want, side[axis])
            rows = [((*r, f), n * f) for r, n in rows for f in range(1, min(most, children // n) + 1)]
        along.append(np.array([r for r, _ in rows], np.int64).reshape(-1, len(bounds)))
    if len(along[0]) * len(along[1]) > MOST:
        raise UserError("--certificate does not cover imperfect factors of fan-outs so large", hint="leave it out")
    joint = (along[0][:, None, :] * along[1][None, :, :]).reshape(-1, len(bounds))
    joint = np.unique(np.minimum(joint, np.array(bounds, np.int64)), axis=0)
    for d, want in enumerate(fixed):
        joint = joint if want is None else joint[joint[:, d] == want]
    return tuple(tuple(int(f) for f in row) for row in joint)


def fewest_tiles(space: Space, v: int, vector: Vector) -> Vector:
    """Of every factor the tiles without which a smaller factor would do the same (rule J2)."""
    sides = _sides(space, v)
    return tuple(_fewest(f, int(b), x, y) for f, b, (x, y) in zip(vector, space.bounds, sides, strict=True))


@lru_cache(maxsize=4096)
def _fewest(factor: int, bound: int, x: int, y: int) -> int:
    """All groups of the outer side work but the last; either side may be the outer one, and products may be cut to the bound."""
    found = factor
    for i in range(1, min(x, factor) + 1):
        j = math.ceil(factor / i)
        if j <= y and (i * j == factor or factor == bound):
            found = min(
                found, *(inner * (outer - 1) + 1 for outer, inner in ((i, j), (j, i)) if outer > 1 and inner > 1), found
            )
    return found


def open_profiles(space: Space, kept: Kept, limit: float) -> list[tuple[Vector, ...]]:
    """The profiles whose closed bound is below `limit` (rule J6)."""
    facts = facts_of(space, kept)
    choices = [vectors_of(space, v) for v in range(space.n_levels)]
    if not all(choices):
        return []
    start = np.cumsum([0, *map(len, choices)]).astype(np.int64)
    flat = np.array([v for c in choices for v in c], np.int64).reshape(start[-1], len(space.dims))
    fewest = np.array([fewest_tiles(space, m, v) for m, c in enumerate(choices) for v in c], np.int64).reshape(
        flat.shape
    )
    ports, levels = stacked(port_prices(space, facts), facts)
    children = space.arrays.fanout.prod(axis=1).astype(np.int64)
    listed = Listed(flat, fewest, start, children)
    constant = float(space.arrays.macs) * space.arrays.mac_energy
    goal = Goal(constant, space.objective.energy_exponent, space.objective.latency_exponent, limit)
    room = 4096
    while True:
        found = np.zeros((room, space.n_levels), np.int64)
        count = _screen(facts, energy_prices(space, facts), ports, levels, listed, goal, found)
        if count <= room:
            break
        room = count
    every = [v for c in choices for v in c]
    return [tuple(every[i] for i in row) for row in found[:count]]


@njit
def steps_of(facts: Facts, spread: Spread) -> float:
    """Fewest steps of computing (rules I3 and J6)."""
    steps = 1.0
    for d in range(facts.bounds.shape[0]):
        every = 1
        for m in range(spread.factor.shape[0]):
            every *= spread.factor[m, d]
        steps *= ceiling(facts.bounds[d], every)
    return steps


@njit
def busiest(facts: Facts, spread: Spread, ports: Prices, levels: IntArray, each: FloatArray, room: IntArray) -> float:
    """Fewest cycles of computing and of every port by the closed bound: an instance with most work has at least the mean (rule J6)."""
    cycles = steps_of(facts, spread)
    for q in range(levels.shape[0]):
        busy = closed(facts, spread, Prices(ports.sent[q], ports.parent[q], ports.child[q]), each, room)
        for m in range(levels[q]):
            for d in range(facts.bounds.shape[0]):
                busy /= spread.factor[m, d]
        cycles = max(cycles, np.ceil(busy * (1.0 - 1e-9)))
    return cycles


@njit
def _screen(
    facts: Facts, energy: Prices, ports: Prices, port_level: IntArray, listed: Listed, goal: Goal, found: IntArray
) -> int:
    """Write the digits of the profiles below the limit, from the outermost fan-out inwards; how many there are."""
    start, children = listed.start, listed.children
    levels, dims = start.shape[0] - 1, listed.factor.shape[1]
    n, m = goal.energy_exponent, goal.latency_exponent
    ones = np.ones((levels, dims), np.int64)
    spread = Spread(ones, ones.copy(), children.copy(), np.ones((facts.related.shape[0], levels)), np.ones(levels + 1))
    each, room = np.zeros(facts.tensor.shape[0]), np.ones((3, dims), np.int64)
    digit = start[:-1].copy()
    count, v = 0, 0
    while v >= 0:
        if digit[v] == start[v + 1]:
            digit[v] = start[v]
            spread.factor[v], spread.fewest[v], spread.unknown[v] = 1, 1, children[v]
            v -= 1
            if v >= 0:
                digit[v] += 1
            continue
        spread.factor[v], spread.fewest[v], spread.unknown[v] = listed.factor[digit[v]], listed.fewest[digit[v]], 1
        units = 1.0
        for k in range(v + 1, levels):
            units *= children[k]
        cycles = max(1.0, steps_of(facts, spread) / units)
        spent = (goal.macs_pj + closed(facts, spread, energy, each, room)) * (1.0 - 1e-9) if n > 0.0 else 1.0
        good = spent**n * cycles**m < goal.limit
        if good and v == levels - 1 and m > 0.0:
            good = spent**n * busiest(facts, spread, ports, port_level, each, room) ** m < goal.limit
        if good and v < levels - 1:
            v += 1
            continue
        if good:
            if count < found.shape[0]:
                found[count] = digit
            count += 1
        digit[v] += 1
    return count
