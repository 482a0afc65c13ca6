"""Searching loop orders, and with SALSA the spatial unrolling too, on any architecture (rule Z20)."""

from dataclasses import dataclass

import numpy as np

from codesign.core.goals import Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState, below, uniform
from codesign.cost.columns import FAN_X, FAN_Y
from codesign.mappers.driver import OBJECTIVE_CODE, Encoded
from codesign.mappers.loop_order.compiled_orders import accepts, next_permutation
from codesign.mappers.loop_order.even_allocation import Loops, Orders, Room, allocate_levels, score_even, write_nest
from codesign.mappers.loop_order.factors import merge_loops
from codesign.mappers.moves import Cooling, is_among, turn_bypass
from codesign.mappers.protocol import MapResult
from codesign.mapping.nest import IntArray


@dataclass(frozen=True)
class EvenSearch:
    """A mapping problem ready for compiled search over loop orders.

    Args:
        loops: Its loops; `Loops.slot` is the spatial unrolling, overwritten by the search.
        room: Of the decoder; `Room.keep` is overwritten by the search where bypass is free.
        order: ``N`` the loops that have a choice of level, as indices of `loops`.
    """

    encoded: Encoded
    loops: Loops
    room: Room
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
        loops = Loops(space.prime_dim.copy(), space.prime.copy(), may, pinned, slots[:, 0].copy(), slots, n_slots)
        room = Room(
            keep=space.keep.copy(),
            fixed=np.ones((n_levels, n_dims), np.int64),
            inside=np.ones(n_dims, np.int64),
            reach=np.ones(n_dims, np.int64),
            level=np.zeros(n_loops, np.int64),
        )
        return cls(encoded, loops, room, np.flatnonzero(pinned < 0))

    def unroll(self, generator: np.random.Generator) -> int:
        """Lay random loops on the fan-outs until no more fits (`Loops.slot`); returns the units in use."""
        loops, first = self.loops, self.encoded.space.order.shape[0]
        fan_outs = self.encoded.kernel.level_int[:, FAN_X : FAN_Y + 1]
        left = fan_outs.flatten()  # children by spatial slot, from `first` on
        loops.slot[:] = loops.slots[:, 0]
        by_need = sorted(generator.permutation(len(loops.slot)), key=lambda i: loops.slots[i, 0] < 0)
        for i in by_need:  # those that may only be spatial first
            factor = int(loops.factor[i])
            choices = [int(s) for s in loops.slots[i, : loops.n_slots[i]] if s >= 0 and left[s - first] >= factor]
            if loops.pinned[i] < 0 and choices:
                loops.slot[i] = choices[int(generator.integers(len(choices)))]
                left[loops.slot[i] - first] //= factor
        return int(np.prod(loops.factor[loops.slot >= 0], dtype=np.int64))

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
            slots=np.concatenate([np.full((len(dims), old.slots.shape[1]), -1, np.int64), old.slots[rest]]),
            n_slots=np.concatenate([np.ones(len(dims), np.int64), old.n_slots[rest]]),
        )
        return EvenSearch(self.encoded, loops, self.room, np.arange(len(dims)))

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


OrderState = tuple[IntArray, IntArray, IntArray]
"""What annealing changes: an order, `Loops.slot`, `Room.keep`."""


@njit
def _change(orders: Orders, order: IntArray, random: RandomState) -> None:
    """Mostly swap two loops of the order; or lay a loop on another fan-out, two perhaps trading places; or turn a free bypass."""
    loops, n, kind = orders.loops, order.shape[0], uniform(random)
    if kind < 0.1 and orders.space.free.shape[0] > 0:
        turn_bypass(orders.space.free, orders.room.keep, random)
    elif n == 0:
        return
    elif kind < 0.35 or n < 2:
        i, j = order[below(random, n)], order[below(random, n)]
        before = loops.slot[i]
        loops.slot[i] = loops.slots[i, below(random, loops.n_slots[i])]
        if uniform(random) < 0.5 and i != j and is_among(loops.slots[j], loops.n_slots[j], before):
            loops.slot[j] = before
    else:
        i, j = below(random, n), below(random, n)
        order[i], order[j] = order[j], order[i]


@njit
def anneal_even(
    orders: Orders, state: OrderState, best: OrderState, best_value: float, cooling: Cooling, random: RandomState
) -> float:
    """One run of annealing from the state at hand, whose slots and bypasses are those of `orders`; `best` is overwritten where it improves."""
    order = state[0]
    before = order.copy(), state[1].copy(), state[2].copy()
    current = score_even(orders, order)
    if current < best_value:
        best_value = current
        _copy(state, best)
    temperature = cooling.hot
    for _ in range(cooling.moves - 1):
        _copy(state, before)
        _change(orders, order, random)
        value = score_even(orders, order)
        if value < np.inf and (value <= current or accepts(current, value, temperature, random)):
            current = value
            if value < best_value:
                best_value = value
                _copy(state, best)
        else:
            _copy(before, state)
        temperature *= cooling.rate
    return best_value


@njit
def _copy(source: OrderState, target: OrderState) -> None:
    target[0][:], target[1][:], target[2][:] = source[0], source[1], source[2]
