"""Every mapping with imperfect factors of a small problem, in compiled code: all factors, orders and bypasses."""

import math
from itertools import permutations, product

import numpy as np

from codesign.core.goals import Objective
from codesign.core.jit import njit
from codesign.cost.arrays import Reuse
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, Kernel
from codesign.mappers.driver import OBJECTIVE_CODE, Encoded, value_of
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import FACTOR, IntArray, Nest
from codesign.mapping.space import IMPOSSIBLE, MapSpace, MapState, build_nest, outermost_state, write_nest


def how_many(problem: MappingProblem) -> int:
    """Choices of factors, orders and bypasses, those that come to the same nest included."""
    space = Encoded.of(problem, Reuse.TIMELOOP).space
    orders = math.factorial(len(problem.computation.dims)) ** len(problem.architecture.levels)
    return int(math.prod(int(n) for n in space.factors.most) * orders * 2 ** len(space.free))


def least_of_all(problem: MappingProblem, objective: Objective) -> tuple[float, int]:
    """The least value of the space, infinite where nothing fits, and how many nests were scored."""
    search = Encoded.of(problem, Reuse.TIMELOOP)
    orders = np.array(list(permutations(range(len(problem.computation.dims)))), np.int64)
    least, scored = math.inf, 0
    for choice in product((0, 1), repeat=len(search.space.free)):
        state = outermost_state(search.space)
        for (v, t), kept in zip(search.space.free, choice, strict=True):
            state.keep[v, t] = kept
        value, many = _least(
            search.kernel, search.space, state, search.table, search.nest, orders, OBJECTIVE_CODE[objective]
        )
        least, scored = min(least, float(value)), scored + int(many)
    return least, scored


@njit
def _least(
    kernel: Kernel, space: MapSpace, state: MapState, table: IntArray, nest: Nest, orders: IntArray,
    objective: int,
) -> tuple[float, int]:  # fmt: skip
    """The least value over all factors and orders with the bypasses of `state`, and nests scored."""
    n_open, levels = space.factors.open.shape[0], space.order.shape[0]
    factor = space.factors.least.copy()
    plain = np.empty((levels, orders.shape[0]), np.int64)
    number, at = np.empty(levels, np.int64), np.empty(levels, np.int64)
    least, scored = np.inf, 0
    while True:
        state.slot[:] = factor
        count = build_nest(space, state, table, nest)
        fine = count != 1 or nest.loops[0, FACTOR] != IMPOSSIBLE
        for i in range(n_open):  # a larger factor than was needed is another state's nest
            fine = fine and state.slot[i] == factor[i]
        if fine:
            for v in range(levels):
                number[v], at[v] = _orders_that_differ(table[v], orders, plain[v]), 0
            going = True
            while going:
                for v in range(levels):
                    state.order[v] = orders[plain[v, at[v]]]
                count = write_nest(state.order, state.keep, table, nest)
                status, energy, cycles = score(kernel, nest, count)
                scored += 1
                if status == VALID:
                    least = min(least, value_of(objective, energy, cycles))
                going = _next(at, number)
        i = 0
        while i < n_open:
            factor[i] += 1
            if factor[i] <= space.factors.most[i]:
                break
            factor[i] = space.factors.least[i]
            i += 1
        if i == n_open:
            return least, scored


@njit
def _orders_that_differ(factor: IntArray, orders: IntArray, found: IntArray) -> int:
    """Fill `found` with the orders whose loops of one iteration come first, ascending; returns how many."""
    many = 0
    for p in range(orders.shape[0]):
        fine = True
        for i in range(orders.shape[1] - 1):
            a, b = orders[p, i], orders[p, i + 1]
            if factor[b] == 1 and (factor[a] > 1 or a > b):
                fine = False
        if fine:
            found[many] = p
            many += 1
    return many


@njit
def _next(at: IntArray, number: IntArray) -> bool:
    """The next choice of one order for every level; whether there is one."""
    for v in range(at.shape[0]):
        at[v] += 1
        if at[v] < number[v]:
            return True
        at[v] = 0
    return False
