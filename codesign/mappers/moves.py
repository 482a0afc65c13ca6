"""What annealing does in a map space: changes a slot or a factor, an order or a bypass, and accepts what is worse.

Kirkpatrick, Gelatt and Vecchi, Science 1983. The energy of the annealing is the logarithm of the
objective, so a temperature is a relative worsening and needs no scaling to the problem; a move is
accepted with probability min(1, (old / new) ** (1 / T)).
"""

from typing import NamedTuple

from codesign.core.jit import njit
from codesign.core.rng import RandomState, below, uniform
from codesign.mapping.imperfect_factors import FactorSpace, draw_factor
from codesign.mapping.nest import IntArray
from codesign.mapping.space import MapSpace, MapState


class Cooling(NamedTuple):
    """A run of annealing: moves, the first temperature, and what every move multiplies it with."""

    moves: int
    hot: float
    rate: float


def geometric(moves: int, hot: float, cold: float) -> Cooling:
    """A run that cools from a first to a last temperature."""
    return Cooling(moves, float(hot), float((cold / hot) ** (1.0 / max(1, moves - 1))))


@njit
def accepts(current: float, value: float, temperature: float, random: RandomState) -> bool:
    """Whether a move to `value` is made; what is worse draws a number."""
    return value <= current or uniform(random) < (current / value) ** (1.0 / temperature)


@njit
def turn_bypass(free: IntArray, keep: IntArray, random: RandomState) -> None:
    """Turn one of the free bypasses (``B x 2`` level, tensor)."""
    i = below(random, free.shape[0])
    v, t = free[i, 0], free[i, 1]
    keep[v, t] = 1 - keep[v, t]


@njit
def move_dim(order: IntArray, n_free: IntArray, random: RandomState) -> None:
    """Move one of the free dimensions of one level (``L x D``, the first ``n_free`` of a row) to another place in its order."""
    v = below(random, order.shape[0])
    n = n_free[v]
    if n < 2:
        return
    source, target = below(random, n), below(random, n)
    shift(order[v], source, target)


@njit
def shift(row: IntArray, source: int, target: int) -> None:
    """Move one entry of a row, the ones between making room."""
    entry = row[source]
    step = 1 if target > source else -1
    for i in range(source, target, step):
        row[i] = row[i + step]
    row[target] = entry


@njit
def change_state(space: MapSpace, state: MapState, random: RandomState) -> None:
    """Change one thing: one or two slots of primes, or factors; the place of a dimension in a level's order; a bypass."""
    kind = uniform(random)
    n_movable = space.movable.shape[0]
    if space.free.shape[0] > 0 and kind < (0.1 if space.imperfect == 1 else 0.12):
        turn_bypass(space.free, state.keep, random)
        return
    if space.imperfect == 1:
        if not change_factors(space.factors, state.slot, kind, random):
            move_dim(state.order, space.n_free, random)
        return
    if n_movable > 0 and kind < 0.55:
        p = space.movable[below(random, n_movable)]
        state.slot[p] = space.choices[p, below(random, space.n_choices[p])]
        if kind < 0.30:  # a second prime follows, mostly into the slot the first one left
            q = space.movable[below(random, n_movable)]
            state.slot[q] = space.choices[q, below(random, space.n_choices[q])]
        return
    if n_movable > 1 and kind < 0.70:
        p = space.movable[below(random, n_movable)]
        q = space.movable[below(random, n_movable)]
        at_p, at_q = state.slot[p], state.slot[q]
        if is_among(space.choices[p], space.n_choices[p], at_q) and is_among(
            space.choices[q], space.n_choices[q], at_p
        ):
            state.slot[p], state.slot[q] = at_q, at_p
        return
    move_dim(state.order, space.n_free, random)


@njit
def is_among(row: IntArray, many: int, value: int) -> bool:
    """Whether a value stands among the first entries of a row."""
    found = False
    for i in range(many):
        found = found or row[i] == value
    return found


@njit
def change_factors(factors: FactorSpace, factor: IntArray, kind: float, random: RandomState) -> bool:
    """Change one or two imperfect factors, or exchange two slots of a dimension, as `kind` says; False where it says neither."""
    n_open = factors.open.shape[0]
    if n_open > 0 and kind < 0.65:
        _transfer(factors, factor, below(random, n_open), random)
        if kind < 0.25:
            _transfer(factors, factor, below(random, n_open), random)
        return True
    if n_open > 1 and kind < 0.75:
        i = below(random, n_open)
        d = factors.open[i, 1]
        j = factors.first_open[d] + below(random, factors.first_open[d + 1] - factors.first_open[d])
        a, b = factor[i], factor[j]
        if factors.least[i] <= b <= factors.most[i] and factors.least[j] <= a <= factors.most[j]:
            factor[i], factor[j] = b, a
        return True
    return False


@njit
def _transfer(factors: FactorSpace, factor: IntArray, i: int, random: RandomState) -> None:
    """Another factor for one slot; another slot of the dimension makes up for it, if `uniform` says so."""
    d = factors.open[i, 1]
    before = factor[i]
    if uniform(random) < 0.4:
        wanted = before + (1 if uniform(random) < 0.5 else -1)
        factor[i] = min(factors.most[i], max(factors.least[i], wanted))
    else:
        factor[i] = draw_factor(factors, i, random)
    others = factors.first_open[d + 1] - factors.first_open[d]
    if others < 2 or uniform(random) < 0.4:
        return
    j = factors.first_open[d] + below(random, others)
    if j != i:
        product = before * factor[j]
        factor[j] = min(factors.most[j], max(factors.least[j], (product + factor[i] - 1) // factor[i]))
