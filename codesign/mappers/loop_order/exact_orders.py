"""The loop order and uneven allocation of least energy under the zigzag semantics, with a proof (rules Z21-Z24).

LOMA and SALSA let the allocation follow from the order. Here every tensor cuts the order where it likes, as long as tiles fit, so that the
optimum is at most theirs.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, proof_of
from codesign.core.labels.program import LabelProgram, Link, Move
from codesign.core.labels.sweep import ENERGY, Limits
from codesign.cost.zigzag.cost import AllocatedOrder, Loop, evaluate
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mappers.loop_order.order_lattice import SLACK, OrderLattice, Placing, stage_of
from codesign.mappers.loop_order.salsa import SalsaMapper
from codesign.mappers.loop_order.zigzag_search import OrderResult

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class ExactOrders:
    """Energy: the optimum, proven, its sweep limited by the best of annealing runs. Other objectives: the better of SALSA's mapping and the optimum's, with a gap."""

    restarts: int = 3
    name: ClassVar[str] = "exact"

    def map_orders(self, layer: UnrolledLayer, objective: Objective, *, budget: Budget, seed: int) -> OrderResult:
        """The best order and cuts of an unrolled layer.

        Raises:
            UserError: A budget is given: the sweep has none.
        """
        if budget.evaluations is not None or budget.time_limit_s is not None:
            raise UserError("the sweep over loop orders takes no --evaluations and no --time-limit")
        started = clock.wall_seconds()
        salsa = SalsaMapper(restarts=self.restarts, engine="annealing")
        first = salsa.map_orders(layer, Objective.ENERGY, budget=Budget(), seed=seed)
        limit = math.inf if first.cost is None else first.cost.energy_pj
        found = best_energy(layer, limit)
        first = replace(first, mapping=None, cost=None, engine="sweep", complete=False)
        if found is None:
            return replace(first, seconds=clock.wall_seconds() - started)
        mapping, cost = found, evaluate(layer, found)
        bound = objective.score(energy_pj=cost.energy_pj, latency_cycles=float(cost.compute_cycles))
        if objective != Objective.ENERGY:
            other = SalsaMapper().map_orders(layer, objective, budget=Budget(), seed=seed)
            first = replace(first, evaluated=first.evaluated + other.evaluated)
            if other.cost is not None and other.mapping is not None and objective.of(other.cost) < objective.of(cost):
                mapping, cost = other.mapping, other.cost
        value = objective.of(cost)
        proof, gap = proof_of(value, bound, _TOLERANCE)
        seconds = clock.wall_seconds() - started
        return replace(first, mapping=mapping, cost=cost, infeasible=None, seconds=seconds, proof=proof, gap=gap)


def best_energy(layer: UnrolledLayer, limit: float = math.inf) -> AllocatedOrder | None:
    """The order and cuts of least energy, given an energy that some mapping has; None where no tiles fit."""
    lattice = OrderLattice(layer)
    stage, placed = stage_of(lattice)
    kinds, into = stage.charge.shape[2], np.full(len(stage.mask), -1, np.int64)
    into[-1] = 0
    program = LabelProgram(lattice.graph, [stage], [Link(np.ones(lattice.cells, np.bool_), into)], kinds)
    charges = np.zeros((1, kinds))
    charges[0, 0] = lattice.fixed
    begin, _ = program.begin(np.zeros(1, np.int64), charges)
    highest = min(limit * (1 + _TOLERANCE), float(np.finfo(np.float64).max))
    sweeps = program.run(begin, Limits(kinds, 0.0, 0.0, SLACK, ENERGY, 0.0, highest))
    numbers, rows = program.complete(sweeps)
    if not len(numbers):
        return None
    best = int(numbers[np.argmin(rows[:, 0])])
    return _order_of(lattice, placed, program.trace(sweeps, best)[0])


def _order_of(lattice: OrderLattice, actions: tuple[Placing, ...], moves: list[Move]) -> AllocatedOrder:
    """The loops and cuts of a walk, outermost first."""
    loops: list[Loop] = []
    cuts: dict[tuple[int, int], int] = {}
    for move in moves:
        if move.transition is not None:
            placed = actions[int(move.transition[3])]
            if placed.cut >= 0:
                cuts[placed.tensor, placed.cut] = len(loops)
        elif move.inner >= 0:
            loops.append(_loop_between(lattice, move.inner, move.cell))
    n = len(loops)
    levels = [int(v) for v in lattice.arrays.n_levels]
    return AllocatedOrder(
        tuple(reversed(loops)),
        tuple(tuple(n - cuts.get((t, v), 0) for v in range(levels[t])) for t in range(len(levels))),
    )


def _loop_between(lattice: OrderLattice, inner: int, outer: int) -> Loop:
    for d, name in enumerate(lattice.layer.computation.dims):
        factor = round(float(lattice.tiles[d, outer] / lattice.tiles[d, inner]))
        if factor > 1:
            return name, factor
    raise AssertionError("a loop leads from one tile to another")
