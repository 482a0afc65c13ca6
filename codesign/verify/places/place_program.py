"""The least cost of a profile with places of their own, by labels from the inside out (rules UK2 to UK4); the sweep is compiled."""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from codesign.core.errors import UserError
from codesign.core.goals import Objective
from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray
from codesign.verify.even.bounds import sharpened
from codesign.verify.even.prices import Profile
from codesign.verify.even.problem import Kept, Space, Vector
from codesign.verify.even.profiles import exact
from codesign.verify.even.program import Grid, States, step
from codesign.verify.even.tiles import Program
from codesign.verify.places.place_states import PlaceStates, Segment, place_states, segments_of

_ROUNDED = 1.0 - 1e-11
MOST_LABELS = 4_000_000
"""Labels of one segment; where they do not suffice, closed bounds remain."""
MOST_CELLS = 30_000_000
"""Tiles times states of one segment, likewise."""


class Labels(NamedTuple):
    """Undominated pairs of every tile and state, as linked lists.

    Attributes:
        head: ``N x S`` first label, -1 for none.
        bits: Bits held at the watched level.
        cost: Of what is closed.
        follow: The next label, -1 for none.
        used: ``1`` labels in use.
    """

    head: IntArray
    bits: FloatArray
    cost: FloatArray
    follow: IntArray
    used: IntArray


@dataclass(frozen=True, eq=False)
class PlaceProgram:
    """One profile whose nodes and loops stand anywhere between its fan-outs.

    Args:
        program: Its tiles and words.
    """

    program: Program

    @property
    def profile(self) -> Profile:
        """The profile."""
        return self.program.profile

    @cached_property
    def grid(self) -> Grid:
        """Tiles and words, as for even mappings."""
        return self.program.grid

    @cached_property
    def stages(self) -> tuple[PlaceStates, ...]:
        """The states of every segment, from the inside out."""
        p = self.profile
        return tuple(place_states(p.space, p.kept, s) for s in segments_of(p.vectors))

    @cached_property
    def bits(self) -> FloatArray:
        """``B x N`` share of its level that the tile of every boundary's node takes, infinite where it is too large."""
        a, found = self.profile.space.arrays, np.zeros_like(self.grid.words)
        for i, b in enumerate(self.profile.boundaries):
            share = self.grid.words[i] * float(a.element_bits[b.level, b.tensor]) / float(a.capacity_bits[b.level])
            found[i] = np.where(share <= 1.0, share, np.inf)
        return found

    def watched(self, segment: Segment) -> int:
        """The level of a segment whose tensors exceed it most together; -1 where none can."""
        most, found = 1.0, -1
        for v in range(max(1, segment.first), segment.last + 1):
            own = [i for i, b in enumerate(self.profile.boundaries) if b.level == v]
            largest = sum(float(self.bits[i][np.isfinite(self.bits[i])].max(initial=0.0)) for i in own)
            if len(own) > 1 and largest > most:
                most, found = largest, v
        return found

    def cheapest(self, price: FloatArray, fixed: float, limit: float, stop: float) -> float:
        """The least cost of a nest if it is below `limit`, infinite if none is; `fixed` and fewest words where there are too many labels.

        Raises:
            TimeoutError: CPU seconds ran out.
        """
        p, grid = self.profile, self.grid
        fewest = np.array([q * p.fewest(b) for q, b in zip(price, p.boundaries, strict=True)])
        closed = fixed + float(fewest.sum())
        start = tuple((0, 0, 0) for _ in range(p.space.n_tensors))
        live: dict[tuple[int, int], float] = {(0, self.stages[0].number[start]): 0.0}
        for i, stage in enumerate(self.stages):
            if time.process_time() > stop:
                raise TimeoutError
            if len(self.program.tiles) * len(stage.every) > MOST_CELLS:
                return closed
            rest = np.where(stage.states.waiting >= 0, np.append(fewest, 0.0)[stage.states.waiting], 0.0).sum(axis=2)[0]
            labels = _room(len(self.program.tiles), len(stage.every), live)
            enough = sweep(
                grid, stage.states, stage.placed, stage.node, self.bits, self._levels(stage), price, rest,
                self._allowed(stage.segment), stage.segment.first, limit - fixed, labels,
            )  # fmt: skip
            if not enough:
                return closed
            least = least_of(labels, stage.done)
            if i + 1 < len(self.stages):
                live = self._crossed(stage, self.stages[i + 1], least)
            else:
                return fixed + float(last(stage.states, price, grid, least[-1]))
        raise AssertionError("a profile has segments")

    def _levels(self, stage: PlaceStates) -> IntArray:
        """``B`` 1 where a node stands at the watched level."""
        watched = self.watched(stage.segment)
        return np.array([int(b.level == watched) for b in self.profile.boundaries], np.int64)

    def _allowed(self, segment: Segment) -> IntArray:
        rows = self.profile.space.allowed[segment.first : segment.last + 1]
        return np.asarray(rows.max(axis=0), np.int64)

    def _crossed(self, stage: PlaceStates, outer: PlaceStates, least: FloatArray) -> dict[tuple[int, int], float]:
        """What enters the next segment out: tiles that the fan-outs between allow (rule S3)."""
        may = np.ones(len(least), bool)
        for diagonal in self.program.diagonals:
            if outer.segment.last <= diagonal.level < stage.segment.first:
                rows = self.program.tiles[:, list(diagonal.dims)].astype(np.int64)
                may &= np.array([tuple(r) in diagonal.sizes for r in rows.tolist()])
        found: dict[tuple[int, int], float] = {}
        for x, s in zip(*np.nonzero(np.isfinite(least) & may[:, None]), strict=True):
            found[int(x), outer.number[stage.every[s]]] = float(least[x, s])
        return found


def refuse_places(space: Space) -> None:
    """Refuse what the rules UK do not cover.

    Raises:
        UserError: Loops that a constraint places.
    """
    if any(rule.temporal or rule.order for rule in space.rules):
        raise UserError("--certificate does not cover fixed loops in time or orders of uneven mappings")


@dataclass(frozen=True, eq=False)
class PlaceBounds:
    """Bounds of the profiles of one keep set.

    Args:
        space: All mappings, even or not.
        kept: The keep set.
    """

    space: Space
    kept: Kept

    def least(self, vectors: tuple[Vector, ...], limit: float, stop: float) -> float:
        """A value that no uneven mapping of a profile is below, sharp below `limit` only.

        Raises:
            TimeoutError: CPU seconds ran out.
        """
        found = (Program(profile, diagonals) for profile, diagonals in exact(self.space, self.kept, vectors))
        return min(
            (_least(PlaceProgram(p), self.space.objective, limit, stop) for p in found if p.starts), default=np.inf
        )


def _least(places: PlaceProgram, objective: Objective, limit: float, stop: float) -> float:
    """The bound of one way in which diagonals share words (rule UK4)."""
    p = places.profile
    price, fixed = np.array([p.price(b)[0] for b in p.boundaries]), p.fixed_energy()
    ports = [(np.array([p.demand(b, port)[0] for b in p.boundaries]), p.fixed_cycles(port)) for port in p.ports()]

    def cheapest(port: int | None, weight: float | None, most: float) -> float:
        if port is None:
            return places.cheapest(price, fixed, most, stop) * _ROUNDED
        words, busy = ports[port]
        if weight is None:
            return places.cheapest(words, busy, most, stop)
        return places.cheapest(price + weight * words, fixed + weight * busy, most, stop) * _ROUNDED

    closed = p.closed_energy(), p.closed_cycles() if objective.latency_exponent else 1.0
    return sharpened(objective, closed, len(ports), cheapest, limit)


def _room(tiles: int, states: int, live: dict[tuple[int, int], float]) -> Labels:
    head = np.full((tiles, states), -1, np.int64)
    bits, cost = np.zeros(MOST_LABELS), np.zeros(MOST_LABELS)
    follow, used = np.full(MOST_LABELS, -1, np.int64), np.array([len(live)], np.int64)
    for n, ((x, s), value) in enumerate(live.items()):
        head[x, s], cost[n] = n, value
    return Labels(head, bits, cost, follow, used)


@njit
def _insert(labels: Labels, x: int, s: int, bits: float, cost: float) -> bool:
    """Add a pair unless one is as good; drop those that it dominates. Whether there was room."""
    before, at = -1, labels.head[x, s]
    while at >= 0:
        if labels.bits[at] <= bits and labels.cost[at] <= cost:
            return True
        following = labels.follow[at]
        if labels.bits[at] >= bits and labels.cost[at] >= cost:
            if before < 0:
                labels.head[x, s] = following
            else:
                labels.follow[before] = following
        else:
            before = at
        at = following
    n = labels.used[0]
    if n >= labels.cost.shape[0]:
        return False
    labels.bits[n], labels.cost[n], labels.follow[n] = bits, cost, labels.head[x, s]
    labels.head[x, s] = n
    labels.used[0] = n + 1
    return True


@njit
def sweep(
    grid: Grid, states: States, placed: IntArray, node: IntArray, bits: FloatArray, counted: IntArray, price: FloatArray,
    rest: FloatArray, allowed: IntArray, v: int, limit: float, labels: Labels,
) -> bool:  # fmt: skip
    """All nodes and loops in time of one segment; whether the labels sufficed.

    Args:
        grid: The profile.
        states: Of the segment.
        placed: ``S x T`` states after a node.
        node: ``S x T`` its boundary.
        bits: ``B x N`` share of the watched level that a tile takes, infinite where it does not fit.
        counted: ``B`` 1 where it counts.
        price: ``B``.
        rest: ``S`` the least of what is not closed.
        allowed: ``D`` 1 where loops may stand.
        v: The outermost level of the segment.
        limit: What matters.
        labels: Changed in place.
    """
    for x in range(labels.head.shape[0]):
        for s in range(labels.head.shape[1]):
            at = labels.head[x, s]
            while at >= 0:
                held, spent = labels.bits[at], labels.cost[at]
                at = labels.follow[at]
                if not (spent + rest[s]) * (1.0 - 1e-9) < limit:
                    continue
                for t in range(placed.shape[1]):
                    if placed[s, t] >= 0:
                        b = node[s, t]
                        more = held + bits[b, x] if counted[b] == 1 else held
                        fits = bits[b, x] < np.inf and more <= 1.0 + 1e-12
                        if fits and not _insert(labels, x, placed[s, t], more, spent):
                            return False
                for d in range(grid.stride.shape[0]):
                    if allowed[d] == 0:
                        continue
                    i = (x // grid.stride[d]) % grid.n_sizes[d]
                    new = states.after[s, d]
                    for j in range(i + 1, grid.n_sizes[d]):
                        if grid.steps[d, i, j] == 0:
                            continue
                        total = spent + step(grid, states, price, v, x, s, d, j)
                        matters = (total + rest[new]) * (1.0 - 1e-9) < limit
                        if matters and not _insert(labels, x + (j - i) * grid.stride[d], new, held, total):
                            return False
    return True


@njit
def least_of(labels: Labels, done: IntArray) -> FloatArray:
    """``N x S`` the least cost of every tile and state with all nodes placed."""
    tiles, states = labels.head.shape
    found = np.full((tiles, states), np.inf)
    for x in range(tiles):
        for s in range(states):
            at = labels.head[x, s]
            while at >= 0 and done[s] == 1:
                found[x, s] = min(found[x, s], labels.cost[at])
                at = labels.follow[at]
    return found


@njit
def last(states: States, price: FloatArray, grid: Grid, least: FloatArray) -> float:
    """The least at the whole tile; what is open is moved once."""
    best, x = np.inf, grid.left.shape[0] - 1
    for s in range(least.shape[0]):
        total = least[s]
        for n in range(states.open.shape[1]):
            b = states.open[s, n]
            if b < 0:
                break
            total += price[b] * grid.words[b, x]
        best = min(best, total)
    return best
