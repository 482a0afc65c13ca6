"""Compiled: simulated annealing over the fusion attributes."""

import math
from typing import NamedTuple

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.core.rng import RandomState, uniform
from codesign.scheduling.soma.kernels.decode import OK, UNPRICED
from codesign.scheduling.soma.kernels.fusion_moves import change
from codesign.scheduling.soma.kernels.records import Net, Scheme, Scratch
from codesign.scheduling.soma.kernels.score_scheme import LATENCY, score_scheme

# Columns of the statistics per move: tried, applicable and legal, accepted, better than the best.
TRIED, LEGAL, ACCEPTED, IMPROVED, N_STATS = range(5)
# Entries of `costs`.
CURRENT, BEST, BEST_ENERGY, BEST_LATENCY, N_COSTS = range(5)


@njit
def copy_scheme(source: Scheme, target: Scheme) -> None:
    """Copy every array of a scheme."""
    target.order[:] = source.order
    target.cut[:] = source.cut
    target.tiles[:] = source.tiles
    target.place[:] = source.place
    target.shape[:] = source.shape
    target.cycles[:] = source.cycles
    target.energy[:] = source.energy


@njit
def temperature(progress: float, start: float) -> float:
    """The published cooling rule: ``T0 (1 - x) / (1 + 8 x)`` at progress x."""
    return start * (1.0 - progress) / (1.0 + 8.0 * progress)


class Cooling(NamedTuple):
    """A part of an annealing: progress (0..1) at its first and its last round, and the temperature the whole starts with."""

    begin: float
    stop: float
    t0: float


@njit
def heat_at(cooling: Cooling, index: int, rounds: int) -> float:
    """The temperature of one of the rounds of a part."""
    begin = cooling.begin
    return temperature(begin + (cooling.stop - begin) * index / rounds, cooling.t0)


@njit
def accepts(rise: float, heat: float, random: RandomState) -> bool:
    """Whether a relative rise of the cost is taken at a temperature (Metropolis)."""
    return rise <= 0 or (heat > 0 and uniform(random) < math.exp(-rise / heat))


@njit
def _drawn_move(chances: FloatArray, random: RandomState) -> int:
    """A move by its cumulative probability."""
    draw = uniform(random)
    kind = 0
    while draw >= chances[kind]:
        kind += 1
    return kind


@njit
def anneal_fusion(
    net: Net, setting: tuple[int, int, int, int], exponents: tuple[float, float], schemes: tuple[Scheme, Scheme, Scheme], scratch: Scratch,
    chances: FloatArray, costs: FloatArray, stats: IntArray, random: RandomState, cooling: Cooling, rounds: int, first: int,
) -> int:  # fmt: skip
    """Run proposals `first` to `rounds` of a part of the annealing.

    Stops before a proposal with a tile that has to be priced first (`kernels.score_scheme.cached_tile_cost`); called again from there, it
    makes the same proposal.

    Args:
        net: The network on its accelerator.
        setting: As of `score_scheme`.
        exponents: Of energy and of latency in the objective.
        schemes: Current, candidate and best scheme; the current one is scored.
        scratch: Tile costs met so far, and memory.
        chances: Cumulative probability of each move.
        costs: `N_COSTS`: cost of the current and best scheme, energy and latency of the best; updated.
        stats: ``moves x N_STATS``; updated.
        random: Generator state; updated.
        cooling: The part of the whole annealing; its temperature is relative to the cost.
        rounds: Proposals of this part.
        first: Proposals of these already made.

    Returns:
        Proposals made: `rounds`, or fewer when a tile has to be priced.
    """
    current, candidate, best = schemes
    for index in range(first, rounds):
        before = random[0]
        heat = heat_at(cooling, index, rounds)
        kind = _drawn_move(chances, random)
        stats[kind, TRIED] += 1
        copy_scheme(current, candidate)
        if not change(kind, candidate, net, random):
            continue
        code, energy = score_scheme(net, setting, candidate, current, False, scratch)
        if code == UNPRICED:
            random[0] = before
            stats[kind, TRIED] -= 1
            return index
        if code != OK:
            continue
        stats[kind, LEGAL] += 1
        cost = energy ** exponents[0] * float(scratch.score[LATENCY]) ** exponents[1]
        if not accepts((cost - costs[CURRENT]) / costs[CURRENT], heat, random):
            continue
        stats[kind, ACCEPTED] += 1
        copy_scheme(candidate, current)
        costs[CURRENT] = cost
        if cost < costs[BEST]:
            stats[kind, IMPROVED] += 1
            costs[BEST] = cost
            costs[BEST_ENERGY] = energy
            costs[BEST_LATENCY] = scratch.score[LATENCY]
            copy_scheme(candidate, best)
    return rounds
