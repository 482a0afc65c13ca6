"""Compiled search over the orders of temporal loops under the zigzag semantics: all of them, or annealing by swaps.

LOMA (Symons et al., AICAS 2021) tries every order; SALSA (Jung et al., AICAS 2023) swaps two loops at a time.
"""

import math
from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.rng import RandomState, below, uniform
from codesign.cost.zigzag.arrays import Layer
from codesign.cost.zigzag.cost import Workspace
from codesign.cost.zigzag.kernel import complete_order, count_words
from codesign.cost.zigzag.latency import count_cycles
from codesign.mappers.driver import value_of
from codesign.mappers.loop_order.allocation import FITS, allocate
from codesign.mappers.moves import Cooling
from codesign.mapping.nest import FloatArray, IntArray
from codesign.mapping.space import shuffle


class OrderScorer(NamedTuple):
    """A layer whose orders are scored.

    Attributes:
        layer: Its arrays.
        work: Scratch, left with the order scored last.
        kinds: ``S x 2`` (dimension, iterations) of every different loop; an order is a row of places in it.
        even: Whether tensors that share a memory cut the order at the same place.
        objective: See `codesign.mappers.driver.value_of`.
    """

    layer: Layer
    work: Workspace
    kinds: IntArray
    even: bool
    objective: int


@njit
def score_order(scorer: OrderScorer, symbols: IntArray, start: int, limit: float) -> float:
    """The objective of an order whose first `start` loops are those scored last; infinite if tiles do not fit.

    Where the cycles without stalls make the objective `limit` or more already, stalls are not counted and that is the result.
    """
    layer, work = scorer.layer, scorer.work
    for p in range(start, symbols.shape[0]):
        work.order.dim[p] = scorer.kinds[symbols[p], 0]
        work.order.factor[p] = scorer.kinds[symbols[p], 1]
    complete_order(layer, layer.fraction, work.order, start)
    if allocate(layer, work.order, scorer.even, work.allocation) != FITS:
        return np.inf
    energy = count_words(layer, work.order, work.allocation, work.words)
    if scorer.objective == 0:
        return energy
    if layer.fractional:
        complete_order(layer, layer.whole, work.whole, start)
    undelayed = value_of(scorer.objective, energy, work.order.cycles[-1])
    if undelayed >= limit:
        return undelayed
    stall, loading, unloading = count_cycles(layer, work.order, work.whole, work.allocation, work.transfers)
    return value_of(scorer.objective, energy, work.order.cycles[-1] + stall + loading + unloading)


@njit
def next_permutation(symbols: IntArray) -> int:
    """The lexicographically next order of a multiset; returns the first position changed, -1 after the last order."""
    pivot = symbols.shape[0] - 2
    while pivot >= 0 and symbols[pivot] >= symbols[pivot + 1]:
        pivot -= 1
    if pivot < 0:
        return -1
    other = symbols.shape[0] - 1
    while symbols[other] <= symbols[pivot]:
        other -= 1
    symbols[pivot], symbols[other] = symbols[other], symbols[pivot]
    low, high = pivot + 1, symbols.shape[0] - 1
    while low < high:
        symbols[low], symbols[high] = symbols[high], symbols[low]
        low += 1
        high -= 1
    return pivot  # type: ignore[no-any-return]


@njit
def enumerate_orders(
    scorer: OrderScorer, symbols: IntArray, best: IntArray, best_value: float, start: int, limit: int
) -> tuple[float, int, int]:
    """Score up to `limit` orders from `symbols` on; returns the value of `best`, orders scored, and the first position changed in `symbols`, -1 at the end."""
    scored = 0
    while scored < limit:
        value = score_order(scorer, symbols, start, best_value)
        scored += 1
        if value < best_value:
            best_value = value
            best[:] = symbols
        start = next_permutation(symbols)
        if start < 0:
            break
    return best_value, scored, start


@njit
def accepts(old: float, new: float, temperature: float, random: RandomState) -> bool:
    """Whether annealing takes a worse value: with probability exp((old / new - 1) / T), SALSA's rule on relative values."""
    return uniform(random) < math.exp((old / new - 1.0) / temperature)


@njit
def anneal_orders(
    scorer: OrderScorer, symbols: IntArray, best: IntArray, best_value: float, cooling: Cooling, random: RandomState,
    visited: FloatArray,
) -> float:  # fmt: skip
    """One run of annealing from a random order; returns the value of `best`, which is overwritten where it improves.

    The values of the orders scored are written to `visited` as far as it reaches; it may be empty.
    """
    n = symbols.shape[0]
    shuffle(symbols, n, random)
    current = score_order(scorer, symbols, 0, np.inf)
    if visited.shape[0] > 0:
        visited[0] = current
    if current < best_value:
        best_value = current
        best[:] = symbols
    intact = n
    temperature = cooling.hot
    for step in range(1, cooling.moves):
        i, j = below(random, n), below(random, n)
        while symbols[i] == symbols[j]:
            i, j = below(random, n), below(random, n)
        symbols[i], symbols[j] = symbols[j], symbols[i]
        first = min(i, j)
        value = score_order(scorer, symbols, min(first, intact), np.inf)
        if step < visited.shape[0]:
            visited[step] = value
        if value <= current or accepts(current, value, temperature, random):
            current = value
            intact = n
            if value < best_value:
                best_value = value
                best[:] = symbols
        else:
            symbols[i], symbols[j] = symbols[j], symbols[i]
            intact = first
        temperature *= cooling.rate
    return best_value
