"""The least cost of a profile by a table over numbers of tiles, from the inside out (rules J7 and J8); the loops are compiled."""

import itertools
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray
from codesign.verify.even.problem import Kept, Space, Vector, words_of
from codesign.verify.imperfect.spatial_factors import facts_of, spread_of
from codesign.verify.imperfect.words import Facts, Prices, Spread, charge, closed


class Grid(NamedTuple):
    """Numbers of tiles at one level. D dimensions, V places of a dimension, N cells.

    Attributes:
        number: ``D x V`` tiles at each place, descending, 0 padded.
        size: ``D`` places.
        stride: ``D`` of a cell's number.
        first: ``D x (V + 1)`` where the places that one loop leads to start in `follow`.
        follow: ``D x F``.
        fits: ``N`` 1 where the least tile fits the level and those outside it, whose tiles are no smaller.
    """

    number: IntArray
    size: IntArray
    stride: IntArray
    first: IntArray
    follow: IntArray
    fits: IntArray


class States(NamedTuple):
    """How many boundaries of each tensor are open. S states.

    Attributes:
        open: ``S x T``, most open first.
        number: State by code.
        digit: ``T`` weight of a tensor's count in the code.
        passed: ``L x T`` boundaries inside the loops of a level.
    """

    open: IntArray
    number: IntArray
    digit: IntArray
    passed: IntArray


class Level(NamedTuple):
    """Everything that the loops in time of one level are priced by.

    Attributes:
        v: The level.
        rest: ``S`` the least cost of the boundaries that nothing has closed yet.
        limit: Costs that matter are below it.
        table: ``N x S`` the least cost known of a cell in a state.
    """

    facts: Facts
    spread: Spread
    prices: Prices
    grid: Grid
    states: States
    v: int
    rest: FloatArray
    limit: float
    table: FloatArray


class Known(NamedTuple):
    """What closing costs at one cell, as far as it was asked for.

    Attributes:
        cost: ``B``.
        cell: ``B`` of which cell.
        slid: ``B x D x F`` after a loop that slides a window.
        slid_cell: ``B x D x F`` of which cell.
    """

    cost: FloatArray
    cell: IntArray
    slid: FloatArray
    slid_cell: IntArray


@lru_cache(maxsize=4096)
def _ceilings(bound: int) -> tuple[int, ...]:
    """Numbers of tiles that loops can leave of a bound, descending."""
    return tuple(sorted({-(-bound // k) for k in range(1, bound + 1)}, reverse=True))


@lru_cache(maxsize=4096)
def _followers(bound: int) -> tuple[tuple[int, ...], ...]:
    """By place the places that one loop leads to."""
    numbers = _ceilings(bound)
    place = {n: i for i, n in enumerate(numbers)}
    return tuple(tuple(sorted({place[-(-n // k)] for k in range(2, n + 1)})) for n in numbers)


@dataclass(frozen=True, eq=False)
class Walks:
    """The tables of one keep set.

    Args:
        space: All mappings.
        kept: The keep set.
    """

    space: Space
    kept: Kept
    _grids: dict[tuple[int, Vector], Grid] = field(default_factory=dict)

    @cached_property
    def facts(self) -> Facts:
        """Its boundaries."""
        return facts_of(self.space, self.kept)

    @cached_property
    def states(self) -> States:
        """Its states."""
        held = np.diff(self.facts.first) - 1
        every = sorted(itertools.product(*(range(n + 1) for n in held)), key=lambda s: -sum(s))
        digit = np.cumprod([1, *(held[:-1] + 1)]).astype(np.int64)
        opened = np.array(every, np.int64)
        number = np.zeros(len(every), np.int64)
        number[opened @ digit] = np.arange(len(every))
        levels = self.facts.level
        passed = [
            [((self.facts.tensor == t) & (levels > v) & (levels < self.space.n_levels)).sum() for t in range(len(held))]
            for v in range(self.space.n_levels)
        ]
        return States(opened, number, digit, np.array(passed, np.int64))

    def grid(self, v: int, inside: Vector) -> Grid:
        """The numbers of tiles at a level with so many children inside its tiles."""
        if (v, inside) not in self._grids:
            self._grids[v, inside] = self._made(v, inside)
        return self._grids[v, inside]

    def _made(self, v: int, inside: Vector) -> Grid:
        bounds = self.space.bounds
        whole = [-(-int(n) // i) for n, i in zip(bounds, inside, strict=True)]
        rows = [_ceilings(n) for n in whole]
        follow = [_followers(n) for n in whole]
        size = np.array([len(r) for r in rows], np.int64)
        number = np.zeros((len(rows), max(size, default=1)), np.int64)
        first = np.zeros((len(rows), max(size, default=1) + 1), np.int64)
        leads = np.zeros((len(rows), max([sum(map(len, f)) for f in follow], default=1) or 1), np.int64)
        for d, (row, led) in enumerate(zip(rows, follow, strict=True)):
            number[d, : len(row)] = row
            first[d, 1 : len(row) + 1] = np.cumsum([len(f) for f in led])
            leads[d, : first[d, len(row)]] = [p for f in led for p in f]
        stride = np.array([int(size[d + 1 :].prod()) for d in range(len(rows))], np.int64)
        at_macs = v == self.space.n_levels
        fits = np.ones(1, np.int64) if at_macs else self._fits(v, rows, whole, inside)
        return Grid(number, size, stride, first, leads, fits)

    def _fits(self, v: int, rows: list[tuple[int, ...]], whole: list[int], inside: Vector) -> IntArray:
        """Whether the least tiles of a level fit it and those outside: multiples of the children inside (rule J7)."""
        s = self.space
        axes = [
            np.minimum(b, np.array([i * -(-m // n) for n in row], np.int64))
            for row, m, i, b in zip(rows, whole, inside, s.bounds, strict=True)
        ]
        tiles = np.array([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], np.float64).T.reshape(-1, len(rows))
        words = [words_of(table, tiles) for table in s.coef]
        found = np.ones(len(tiles), bool)
        for u in range(1, v + 1):
            bits = s.arrays.element_bits[u]
            used = sum(w * float(b) for w, b, kept in zip(words, bits, self.kept[u], strict=True) if kept)
            found &= np.asarray(used <= float(s.arrays.capacity_bits[u]))
        return found.astype(np.int64)

    def least(self, vectors: tuple[Vector, ...], prices: Prices, limit: float) -> float:
        """The least cost of a profile if it is below `limit`, else infinite."""
        facts, states, spread = self.facts, self.states, spread_of(self.space, vectors)
        room = np.ones((3, len(self.space.dims)), np.int64)
        each = np.zeros(len(facts.tensor))
        base = float(closed(facts, spread, prices, each, room))
        if not base * (1.0 - 1e-9) < limit:
            return np.inf
        inner = facts.level < self.space.n_levels
        now = np.full((1, len(states.open)), np.inf)
        now[0, -1] = base - float(each[inner].sum())
        inside: Vector = (1,) * len(self.space.dims)
        before = self.grid(self.space.n_levels, inside)
        for v in range(self.space.n_levels - 1, -1, -1):
            inside = tuple(i * f for i, f in zip(inside, vectors[v], strict=True))
            grid = self.grid(v, inside)
            after = np.full((len(grid.fits), len(states.open)), np.inf)
            place = _crossed(before, grid, vectors[v], spread.fewest[v])
            kept = np.array([v + 1 < self.space.n_levels and v + 1 in facts.level[facts.tensor == t] for t in range(self.space.n_tensors)], np.int64)  # fmt: skip
            enter(before, grid, states, place, kept, now, after)
            rest = self._rest(v, each)
            level = Level(facts, spread, prices, grid, states, v, rest, limit, after)
            walk_level(level, self.space.allowed[v])
            now, before = after, grid
        return float(finish(facts, spread, prices, states, now[-1]))

    def _rest(self, v: int, each: FloatArray) -> FloatArray:
        """By state the least cost of the boundaries that nothing has closed yet."""
        facts, states = self.facts, self.states
        rest = np.zeros(len(states.open))
        for t in range(self.space.n_tensors):
            own = each[facts.first[t] + 1 : facts.first[t + 1]]
            after = np.array([own[n:].sum() for n in range(len(own) + 1)])
            rest += after[np.maximum(0, states.passed[v, t] - states.open[:, t])]
        return rest


def _crossed(inner: Grid, outer: Grid, factor: Vector, fewest: IntArray) -> IntArray:
    """``D x V`` the place outside a fan-out of each place inside; -1 where children would stay without work (rule J2)."""
    found = np.full(inner.number.shape, -1, np.int64)
    for d, f in enumerate(factor):
        place = {int(n): i for i, n in enumerate(outer.number[d, : outer.size[d]])}
        for i in range(inner.size[d]):
            n = int(inner.number[d, i])
            found[d, i] = place.get(-(-n // f), -1) if n >= fewest[d] else -1
    return found


@njit
def enter(
    inner: Grid, outer: Grid, states: States, place: IntArray, kept: IntArray, now: FloatArray, after: FloatArray
) -> None:
    """Store what a level keeps and cross the fan-out outside it: boundaries of the tensors `kept` become open."""
    dims, tensors = inner.size.shape[0], states.digit.shape[0]
    for c in range(now.shape[0]):
        if inner.fits[c] == 0:
            continue
        target, possible = 0, True
        for d in range(dims):
            p = place[d, (c // inner.stride[d]) % inner.size[d]]
            possible = possible and p >= 0
            target += p * outer.stride[d]
        if not possible:
            continue
        for s in range(now.shape[1]):
            if now[c, s] < np.inf:
                code = 0
                for t in range(tensors):
                    code += (states.open[s, t] + kept[t]) * states.digit[t]
                new = states.number[code]
                after[target, new] = min(after[target, new], now[c, s])


@njit
def walk_level(level: Level, allowed: IntArray) -> None:
    """All loops in time of a level: tensors close where they are, or after a loop that slides their windows (rule J8)."""
    facts, grid, states, table = level.facts, level.grid, level.states, level.table
    v, rest, limit = level.v, level.rest, level.limit
    dims, tensors = grid.size.shape[0], states.digit.shape[0]
    room, tiles = np.ones((2, dims), np.int64), np.ones(dims, np.int64)
    n, leads = facts.tensor.shape[0], grid.follow.shape[1]
    known = Known(
        np.zeros(n), np.full(n, -1, np.int64), np.zeros((n, dims, leads)), np.full((n, dims, leads), -1, np.int64)
    )
    for c in range(table.shape[0]):
        seen = False
        if grid.fits[c] == 0:
            continue
        for s in range(table.shape[1]):
            spent = table[c, s]
            if not (spent + rest[s]) * (1.0 - 1e-9) < limit:
                continue
            if not seen:
                for d in range(dims):
                    tiles[d] = grid.number[d, (c // grid.stride[d]) % grid.size[d]]
                seen = True
            for t in range(tensors):
                if states.open[s, t] > 0:
                    total, past = spent, facts.first[t] + 1 + states.passed[v, t]
                    for b in range(past - states.open[s, t], past):
                        if known.cell[b] != c:
                            known.cell[b] = c
                            known.cost[b] = charge(facts, level.spread, level.prices, b, tiles, v, -1, 0, room)
                        total += known.cost[b]
                    new = _closed_state(states, s, t)
                    if total < table[c, new] and (total + rest[new]) * (1.0 - 1e-9) < limit:
                        table[c, new] = total
            for d in range(dims):
                if allowed[d] == 1 and _free(facts, states, s, d):
                    _loops(level, c, s, d, tiles, room, known)


@njit
def _closed_state(states: States, s: int, closed: int) -> int:
    """The state with one tensor's boundaries closed."""
    code = 0
    for t in range(states.digit.shape[0]):
        if t != closed:
            code += states.open[s, t] * states.digit[t]
    number: int = states.number[code]
    return number


@njit
def _free(facts: Facts, states: States, s: int, d: int) -> bool:
    """Whether a loop moves open tensors by sliding their windows only."""
    for t in range(states.digit.shape[0]):
        if states.open[s, t] > 0 and facts.related[t, d] == 1 and facts.window[t, d] == 0:
            return False
    return True


@njit
def _loops(level: Level, c: int, s: int, d: int, tiles: IntArray, room: IntArray, known: Known) -> None:
    """All loops over one dimension from a cell in a state."""
    facts, grid, states, table = level.facts, level.grid, level.states, level.table
    v, rest, limit = level.v, level.rest, level.limit
    at = (c // grid.stride[d]) % grid.size[d]
    new = s
    for t in range(states.digit.shape[0]):
        if states.open[s, t] > 0 and facts.window[t, d] == 1:
            new = _closed_state(states, new, t)
    for f in range(grid.first[d, at], grid.first[d, at + 1]):
        to = grid.follow[d, f]
        place, total = c + (to - at) * grid.stride[d], table[c, s]
        if grid.fits[place] == 0:
            break
        for t in range(states.digit.shape[0]):
            if states.open[s, t] > 0 and facts.window[t, d] == 1:
                past = facts.first[t] + 1 + states.passed[v, t]
                for b in range(past - states.open[s, t], past):
                    if known.slid_cell[b, d, f] != c:
                        known.slid_cell[b, d, f] = c
                        known.slid[b, d, f] = charge(
                            facts, level.spread, level.prices, b, tiles, v, d, grid.number[d, to], room
                        )
                    total += known.slid[b, d, f]
        if total < table[place, new] and (total + rest[new]) * (1.0 - 1e-9) < limit:
            table[place, new] = total


@njit
def finish(facts: Facts, spread: Spread, prices: Prices, states: States, last: FloatArray) -> float:
    """The least over the states at the whole tile; what is still open is moved once."""
    dims = facts.bounds.shape[0]
    tiles, room = np.ones(dims, np.int64), np.ones((2, dims), np.int64)
    best = np.inf
    for s in range(last.shape[0]):
        total = last[s]
        for t in range(states.digit.shape[0]):
            past = facts.first[t] + 1 + states.passed[0, t]
            for b in range(past - states.open[s, t], past):
                total += charge(facts, spread, prices, b, tiles, 0, -1, 0, room)
        best = min(best, total)
    return best
