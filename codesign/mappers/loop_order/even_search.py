"""Searching loop orders, and with SALSA the spatial unrolling too, on any architecture (rule Z20)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from codesign.core.goals import Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState, below, uniform
from codesign.mappers.driver import OBJECTIVE_CODE, Encoded
from codesign.mappers.loop_order.compiled_orders import accepts, next_permutation
from codesign.mappers.loop_order.even_allocation import Loops, Orders, Room, allocate_levels, score_even, write_nest
from codesign.mappers.loop_order.factors import merge_loops
from codesign.mappers.moves import Cooling
from codesign.mappers.protocol import MapResult
from codesign.mapping.nest import IntArray


class Unrollings(NamedTuple):
    """Where loops may lie.

    Attributes:
        slots: ``I x S`` spatial slots that a loop may be laid on, -1 (temporal) among them where it may be temporal.
        n_slots: ``I`` how many of them count.
    """

    slots: IntArray
    n_slots: IntArray


@dataclass(frozen=True)
class EvenSearch:
    """A mapping problem ready for compiled search over loop orders.

    Args:
        loops: Its loops; `Loops.slot` is the spatial unrolling, overwritten by the search.
        room: Of the decoder; `Room.keep` is overwritten by the search where bypass is free.
        unrollings: Where its loops may lie.
        order: ``N`` the loops that have a choice of level, as indices of `loops`.
    """

    encoded: Encoded
    loops: Loops
    room: Room
    unrollings: Unrollings
    order: IntArray

    @classmethod
    def of(cls, encoded: Encoded) -> "EvenSearch":
        """Split the prime factors of a problem by what may become of them."""
        space = encoded.space
        n_loops, n_levels, n_dims = space.prime.shape[0], *space.order.shape
        may = np.zeros((n_loops, n_levels), np.int64)
        pinned = np.full(n_loops, -1, np.int64)
        slots = np.full((n_loops, 2 * n_levels + 1), -1, np.int64)
        n_slots = np.zeros(n_loops, np.int64)
        for i in range(n_loops):
            choices = [int(c) for c in space.choices[i, : space.n_choices[i]]]
            temporal = [c for c in choices if c < n_levels]
            spatial = [c for c in choices if c >= n_levels]
            may[i, temporal] = 1
            found = ([-1] if temporal else []) + spatial
            slots[i, : len(found)] = found
            n_slots[i] = len(found)
            if len(choices) == 1 and temporal:
                pinned[i] = temporal[0]
        loops = Loops(space.prime_dim.copy(), space.prime.copy(), may, pinned, slots[:, 0].copy())
        room = Room(
            keep=space.keep.copy(),
            fixed=np.ones((n_levels, n_dims), np.int64),
            inside=np.ones(n_dims, np.int64),
            reach=np.ones(n_dims, np.int64),
            level=np.zeros(n_loops, np.int64),
        )
        return cls(encoded, loops, room, Unrollings(slots, n_slots), np.flatnonzero(pinned < 0))

    def fanouts(self) -> dict[int, int]:
        """Children by spatial slot."""
        levels = self.encoded.source.architecture.levels
        return {
            len(levels) + 2 * v + axis: size
            for v, level in enumerate(levels)
            for axis, size in ((0, level.fanout.x), (1, level.fanout.y))
        }

    def unroll(self, generator: np.random.Generator) -> int:
        """Lay random loops on the fan-outs until no more fits (`Loops.slot`); returns the units in use."""
        room, slots = self.fanouts(), self.unrollings.slots
        slot = self.loops.slot
        slot[:] = slots[:, 0]
        by_need = sorted(generator.permutation(len(slot)), key=lambda i: slots[i, 0] < 0)
        for i in by_need:  # those that may only be spatial first
            factor = int(self.loops.factor[i])
            choices = [int(s) for s in slots[i, : self.unrollings.n_slots[i]] if s >= 0 and room[int(s)] >= factor]
            if self.loops.pinned[i] < 0 and choices:
                slot[i] = choices[int(generator.integers(len(choices)))]
                room[slot[i]] //= factor
        return int(np.prod([self.loops.factor[i] for i in range(len(slot)) if slot[i] >= 0], dtype=np.int64))

    def merged(self, limit: int) -> "EvenSearch":
        """The same with the temporal loops merged to at most `limit`, for the unrolling that `Loops.slot` holds."""
        is_free = np.isin(np.arange(len(self.loops.dim)), self.order) & (self.loops.slot < 0)
        old = self.loops
        merged = merge_loops(
            [(str(d), int(f)) for d, f in zip(old.dim[is_free], old.factor[is_free], strict=True)], limit
        )
        rest = ~is_free
        dims = np.array([int(d) for d, _ in merged], np.int64)
        # primes of one dimension may be placed alike
        may = np.array([old.may[is_free][old.dim[is_free] == d].min(axis=0) for d in dims], np.int64)
        loops = Loops(
            dim=np.concatenate([dims, old.dim[rest]]),
            factor=np.concatenate([np.array([f for _, f in merged], np.int64), old.factor[rest]]),
            may=np.concatenate([may.reshape(-1, old.may.shape[1]), old.may[rest]]),
            pinned=np.concatenate([np.full(len(dims), -1, np.int64), old.pinned[rest]]),
            slot=np.concatenate([np.full(len(dims), -1, np.int64), old.slot[rest]]),
        )
        return EvenSearch(self.encoded, loops, self.room, self.unrollings, np.arange(len(dims)))

    def orders(self, objective: Objective) -> Orders:
        """What compiled searches hand on."""
        of = self.encoded
        return Orders(of.kernel, of.space, self.loops, self.room, of.nest, OBJECTIVE_CODE[objective])

    def result(self, order: IntArray, evaluated: int, started: float, seed: int | None) -> MapResult:
        """The result for an order that `score_even` found valid, with the unrolling and the bypasses at hand."""
        orders = self.orders(Objective.ENERGY)
        allocate_levels(orders, order)
        return self.encoded.result_of_nest(write_nest(orders, order), evaluated, started, seed)


@njit
def enumerate_even(
    orders: Orders,
    first_of: IntArray,
    symbols: IntArray,
    order: IntArray,
    best: IntArray,
    best_value: float,
    limit: int,
) -> tuple[float, int, bool]:
    """Score up to `limit` orders from `symbols` on, `first_of` being a loop of each; returns the value of `best`, orders scored, whether any is left."""
    scored, left = 0, True
    while scored < limit and left:
        for place in range(symbols.shape[0]):
            order[place] = first_of[symbols[place]]
        value = score_even(orders, order)
        scored += 1
        if value < best_value:
            best_value = value
            best[:] = order
        left = next_permutation(symbols) >= 0
    return best_value, scored, left


class _Move(NamedTuple):
    """What was changed, so that it can be undone: a kind, two loops or places, and where the loops lay."""

    kind: int
    i: int
    j: int
    old_i: int
    old_j: int


_SWAP, _LAY, _TURN = 0, 1, 2


@njit
def _change(orders: Orders, unrollings: Unrollings, order: IntArray, random: RandomState) -> _Move:
    """Mostly swap two loops of the order; or lay a loop on another fan-out, two perhaps trading places; or turn a free bypass."""
    space, loops, room = orders.space, orders.loops, orders.room
    n, n_free = order.shape[0], space.free.shape[0]
    kind = uniform(random)
    if kind < 0.1 and n_free > 0:
        i = below(random, n_free)
        room.keep[space.free[i, 0], space.free[i, 1]] ^= 1
        return _Move(_TURN, i, 0, -1, -1)
    if kind < 0.35 or n < 2:
        i, j, old_i, old_j = 0, 0, -1, -1
        if n > 0:
            i, j = order[below(random, n)], order[below(random, n)]
            old_i, old_j = loops.slot[i], loops.slot[j]
            loops.slot[i] = unrollings.slots[i, below(random, unrollings.n_slots[i])]
            if uniform(random) < 0.5 and i != j and _may_lie(unrollings, j, old_i):
                loops.slot[j] = old_i
        return _Move(_LAY, i, j, old_i, old_j)
    i, j = below(random, n), below(random, n)
    order[i], order[j] = order[j], order[i]
    return _Move(_SWAP, i, j, -1, -1)


@njit
def _undo(orders: Orders, order: IntArray, move: _Move) -> None:
    """Take a change back."""
    space, loops, room = orders.space, orders.loops, orders.room
    if move.kind == _TURN:
        room.keep[space.free[move.i, 0], space.free[move.i, 1]] ^= 1
    elif move.kind == _LAY:
        if order.shape[0] > 0:
            loops.slot[move.j] = move.old_j
            loops.slot[move.i] = move.old_i
    else:
        order[move.i], order[move.j] = order[move.j], order[move.i]


@njit
def anneal_even(
    orders: Orders, unrollings: Unrollings, order: IntArray, best: tuple[IntArray, IntArray, IntArray], best_value: float,
    cooling: Cooling, random: RandomState,
) -> float:  # fmt: skip
    """One run of annealing from the order, unrolling and bypass at hand; `best` (the same three) is overwritten."""
    current = score_even(orders, order)
    if current < best_value:
        best_value = current
        _keep_state(orders, order, best)
    temperature = cooling.hot
    for _ in range(cooling.moves - 1):
        move = _change(orders, unrollings, order, random)
        value = score_even(orders, order)
        if value < np.inf and (value <= current or accepts(current, value, temperature, random)):
            current = value
            if value < best_value:
                best_value = value
                _keep_state(orders, order, best)
        else:
            _undo(orders, order, move)
        temperature *= cooling.rate
    return best_value


@njit
def _may_lie(unrollings: Unrollings, i: int, slot: int) -> bool:
    found = False
    for k in range(unrollings.n_slots[i]):
        found = found or unrollings.slots[i, k] == slot
    return found


@njit
def _keep_state(orders: Orders, order: IntArray, best: tuple[IntArray, IntArray, IntArray]) -> None:
    best[0][:], best[1][:], best[2][:] = order, orders.loops.slot, orders.room.keep
