"""What annealing does in any map space: turns a free bypass, moves a dimension in a level's order, accepts what is worse.

Kirkpatrick, Gelatt and Vecchi, Science 1983. The energy of the annealing is the logarithm of the
objective, so a temperature is a relative worsening and needs no scaling to the problem; a move is
accepted with probability min(1, (old / new) ** (1 / T)).
"""

from typing import NamedTuple

from codesign.core.jit import njit
from codesign.core.rng import RandomState, below, uniform
from codesign.mapping.nest import IntArray


class Cooling(NamedTuple):
    """A run of annealing: moves, and the first and last temperature, between which it cools geometrically."""

    moves: int
    hot: float
    cold: float


@njit
def rate(cooling: Cooling) -> float:
    """What every move multiplies the temperature with."""
    return (cooling.cold / cooling.hot) ** (1.0 / max(1, cooling.moves - 1))  # type: ignore[no-any-return]


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
    dim = order[v, source]
    step = 1 if target > source else -1
    for i in range(source, target, step):
        order[v, i] = order[v, i + step]
    order[v, target] = dim
