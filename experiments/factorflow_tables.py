"""Compiled part of the search under FactorFlow's rules: least costs of what is left to decide, and a walk over all mappings that may win.

Memories are steps from the inside out. A state is a step, the loops inside it (a tile), and which operands are *open*: no loop above 1 stood outside
their taker yet. What leaves a taker depends on its tile and on the loop that closes it, so the least cost of a state is a table.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codesign.core.jit import njit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BIG = 1e300


class Nesting(NamedTuple):
    """A problem with everything laid out in space fixed: S steps, Q measures, D divisors at most.

    Args:
        divisors: Of the loops in time, by dimension: ``3 x D``.
        many: How many: ``3``.
        holds: ``S x 3``.
        given: Whether an operand's taker inside a step has a giver at it or further out: ``S x 3``.
        taker: Inside a step, the one it would send to, 0 for the MAC, else its step plus 1: ``S x 3``.
        scale: Values sent for a tile of 1: ``3 x (S + 1)``.
        price: What one value sent costs in each measure: ``3 x (S + 1) x Q``.
        inside: What is laid out inside a step: ``S x 3``.
        size: Values a step holds: ``S``.
        fixed: Loops given, 0 where free: ``S x 3``.
        order: Dimensions from outer to inner where that is given, else -1: ``S x 3``.
    """

    divisors: Ints
    many: Ints
    holds: Ints
    given: Ints
    taker: Ints
    scale: Floats
    price: Floats
    inside: Ints
    size: Floats
    fixed: Ints
    order: Ints


@njit
def allowed(n: Nesting, s: int, x: Ints, y: Ints) -> bool:
    """Whether a step's loops may grow the tile from x to y (indices of divisors)."""
    for d in range(3):
        if y[d] < x[d] or n.divisors[d, y[d]] % n.divisors[d, x[d]] != 0:
            return False
        if n.fixed[s, d] > 0 and n.divisors[d, y[d]] != n.fixed[s, d] * n.divisors[d, x[d]]:
            return False
    m = n.divisors[0, y[0]] * n.inside[s, 0]
    k = n.divisors[1, y[1]] * n.inside[s, 1]
    c = n.divisors[2, y[2]] * n.inside[s, 2]
    held = 0.0
    if n.holds[s, 0]:
        held += float(k) * float(c)
    if n.holds[s, 1]:
        held += float(m) * float(k)
    if n.holds[s, 2]:
        held += float(m) * float(c)
    return bool(held <= n.size[s])


@njit
def may_be_innermost(n: Nesting, s: int, x: Ints, y: Ints, d: int) -> bool:
    """Whether the loop over a dimension may be the innermost above 1; the step next to the MAC is asked for one alone."""
    if y[d] == x[d]:
        return False
    last = -1
    for e in range(3):
        if n.order[s, e] >= 0 and y[n.order[s, e]] > x[n.order[s, e]]:
            last = n.order[s, e]
    if s == 0 or n.order[s, 0] >= 0:
        if last >= 0:
            return d == last
        for e in range(d):
            if y[e] > x[e]:
                return False
    return True


@njit
def sent(n: Nesting, s: int, opened: int, x: Ints, y: Ints, inner: int, t: int) -> float:
    """Values that an operand's taker gets because of a step's loops, or because its giver is passed; -1 where nothing is decided."""
    if not (opened >> t & 1) or not n.given[s, t]:
        return -1.0
    d = 0 if t == 0 else 2 if t == 1 else 1
    grown = inner >= 0
    if not grown and not n.holds[s, t]:
        return -1.0
    saved = 1.0
    if grown and inner == d and s > 0:
        saved = float(n.divisors[d, y[d]]) / float(n.divisors[d, x[d]])
    return float(n.scale[t, n.taker[s, t]] / (float(n.divisors[d, x[d]]) * saved))


@njit
def opened_after(n: Nesting, s: int, opened: int, inner: int) -> int:
    """Which operands are open outside a step."""
    after = 0
    for t in range(3):
        if n.holds[s, t] or (inner < 0 and opened >> t & 1):
            after |= 1 << t
    return after


@njit
def fill(n: Nesting, weight: Floats, table: Floats) -> None:
    """Least weighted cost of everything from a step outwards: ``(S + 1) x 8 x D x D x D``."""
    steps = n.holds.shape[0]
    x, y = np.zeros(3, np.int64), np.zeros(3, np.int64)
    cost = np.zeros((3, steps + 1))
    for t in range(3):
        for v in range(steps + 1):
            for q in range(weight.shape[0]):
                cost[t, v] += weight[q] * n.price[t, v, q]
    table[:] = BIG
    for opened in range(8):
        table[steps, opened, n.many[0] - 1, n.many[1] - 1, n.many[2] - 1] = 0.0
    for s in range(steps - 1, -1, -1):
        for a in range(n.many[0]):
            for b in range(n.many[1]):
                for c in range(n.many[2]):
                    x[0], x[1], x[2] = a, b, c
                    _fill_state(n, s, x, y, cost, table)


@njit
def _fill_state(n: Nesting, s: int, x: Ints, y: Ints, cost: Floats, table: Floats) -> None:
    for a in range(x[0], n.many[0]):
        for b in range(x[1], n.many[1]):
            for c in range(x[2], n.many[2]):
                y[0], y[1], y[2] = a, b, c
                if not allowed(n, s, x, y):
                    continue
                for inner in range(-1, 3):
                    if inner < 0:
                        if a > x[0] or b > x[1] or c > x[2]:
                            continue
                    elif not may_be_innermost(n, s, x, y, inner):
                        continue
                    for opened in range(8):
                        rest = table[s + 1, opened_after(n, s, opened, inner), a, b, c]
                        if rest >= BIG:
                            continue
                        for t in range(3):
                            values = sent(n, s, opened, x, y, inner, t)
                            if values >= 0.0:
                                rest += cost[t, n.taker[s, t]] * values
                        if rest < table[s, opened, x[0], x[1], x[2]]:
                            table[s, opened, x[0], x[1], x[2]] = rest


@njit
def product_bound(e: float, c: float, b: float, w: float) -> float:
    """The least product of energy and cycles where they are at least e and c, and energy + w cycles at least b."""
    if w <= 0.0 or b <= e + w * c:
        return e * c
    return min(e * (b - e) / w, (b - w * c) * c)


@njit
def trace(n: Nesting, weight: Floats, table: Floats, paid: Floats, found: Ints) -> None:
    """The mapping of least weighted cost.

    Args:
        n: The problem.
        weight: Of every measure: ``Q``.
        table: Of `fill` under these weights.
        paid: Receives what it costs in every measure, on top of what it holds: ``Q``.
        found: Receives tile indices and the innermost dimension of every step: ``S x 4``.
    """
    steps, measures = n.holds.shape[0], paid.shape[0]
    x, y = np.zeros((steps + 1, 3), np.int64), np.zeros(3, np.int64)
    inner, at = np.full(steps, -2, np.int64), np.zeros((steps, 3), np.int64)
    opened = 7
    for s in range(steps):
        best = BIG
        while _advance(n, s, x, y, at, inner):
            rest = table[s + 1, opened_after(n, s, opened, inner[s]), y[0], y[1], y[2]]
            for t in range(3):
                values = sent(n, s, opened, x[s], y, inner[s], t)
                if values >= 0.0:
                    for q in range(measures):
                        rest += weight[q] * values * n.price[t, n.taker[s, t], q]
            if rest < best:
                best = rest
                found[s, 0], found[s, 1], found[s, 2], found[s, 3] = y[0], y[1], y[2], inner[s]
        for d in range(3):
            x[s + 1, d] = found[s, d]
        for t in range(3):
            values = sent(n, s, opened, x[s], x[s + 1], found[s, 3], t)
            if values >= 0.0:
                for q in range(measures):
                    paid[q] += values * n.price[t, n.taker[s, t], q]
        opened = opened_after(n, s, opened, found[s, 3])


@njit
def walk(
    n: Nesting, base: Floats, floor: float, tables: Floats, weight: Floats, best: float, most: int, found: Ints
) -> tuple[float, int]:
    """The least product of energy (measure 0) and cycles (the largest of `floor` and all other measures) below `best`, and states looked at.

    Args:
        n: The problem.
        base: What every mapping costs in each measure: ``Q``.
        floor: Cycles of the MACs.
        tables: Of every measure, and of all under `weight`: ``(Q + 1) x (S + 1) x 8 x D x D x D``.
        weight: Of every measure in the last table, 1 for energy: ``Q``.
        best: Products that are no less do not count.
        most: States to look at; the search stops there.
        found: Receives tile indices and the innermost dimension of every step, where a product below `best` is found: ``S x 4``.
    """
    steps, measures = n.holds.shape[0], base.shape[0]
    x, y = np.zeros((steps + 1, 3), np.int64), np.zeros(3, np.int64)
    inner = np.full(steps, -2, np.int64)
    at = np.zeros((steps, 3), np.int64)
    opened = np.zeros(steps + 1, np.int64)
    opened[0] = 7
    paid = np.zeros((steps + 1, measures))
    paid[0] = base
    all_ports = 0.0
    for q in range(1, measures):
        all_ports += weight[q]
    s, looked = 0, 0
    while s >= 0:
        if not _advance(n, s, x, y, at, inner):
            s -= 1
            continue
        looked += 1
        if looked > most:
            return best, looked
        paid[s + 1] = paid[s]
        for t in range(3):
            values = sent(n, s, opened[s], x[s], y, inner[s], t)
            if values >= 0.0:
                for q in range(measures):
                    paid[s + 1, q] += values * n.price[t, n.taker[s, t], q]
        after = opened_after(n, s, opened[s], inner[s])
        rest = tables[0, s + 1, after, y[0], y[1], y[2]]
        if rest >= BIG:
            continue
        cycles, both = floor, paid[s + 1, 0] + tables[measures, s + 1, after, y[0], y[1], y[2]]
        for q in range(1, measures):
            cycles = max(cycles, paid[s + 1, q] + tables[q, s + 1, after, y[0], y[1], y[2]])
            both += weight[q] * paid[s + 1, q]
        if product_bound(paid[s + 1, 0] + rest, cycles, both, all_ports) >= best * (1.0 - 1e-12):
            continue
        if s == steps - 1:
            best = (paid[s + 1, 0] + rest) * cycles
            for v in range(steps):
                found[v, 0], found[v, 1], found[v, 2], found[v, 3] = at[v, 0], at[v, 1], at[v, 2], inner[v]
            continue
        x[s + 1] = y
        opened[s + 1] = after
        s += 1
        inner[s] = -2
    return best, looked


@njit
def _advance(n: Nesting, s: int, x: Ints, y: Ints, at: Ints, inner: Ints) -> bool:
    """The next choice of a step; leaves the tile in `y`. False once all were tried; `inner` of -2 begins."""
    if inner[s] == -2:
        at[s] = x[s]
        inner[s] = -2
    while True:
        inner[s] += 1
        if inner[s] > 2:
            inner[s] = -1
            d = 2
            while d >= 0:
                at[s, d] += 1
                if at[s, d] < n.many[d]:
                    break
                at[s, d] = x[s, d]
                d -= 1
            if d < 0:
                inner[s] = -2
                return False
        y[0], y[1], y[2] = at[s, 0], at[s, 1], at[s, 2]
        grown = y[0] > x[s, 0] or y[1] > x[s, 1] or y[2] > x[s, 2]
        if grown == (inner[s] < 0):
            continue
        if inner[s] >= 0 and not may_be_innermost(n, s, x[s], y, inner[s]):
            continue
        if allowed(n, s, x[s], y):
            return True
