"""SALSA: loop orders by annealing, or all of them where that is no more work.

Jung, Symons, Mei, Verhelst, Benini, "SALSA: Simulated Annealing based Loop-Ordering Scheduler for DNN
Accelerators", AICAS 2023. Under the zigzag semantics the order alone is searched, as in the paper. On any other
architecture (`map`) the spatial unrolling is part of the search.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codesign.core import clock
from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective
from codesign.core.rng import make_state
from codesign.cost.arrays import Reuse
from codesign.cost.zigzag.cost import Loop
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mappers.driver import Encoded
from codesign.mappers.loop_order.compiled_orders import anneal_orders
from codesign.mappers.loop_order.even_search import EvenSearch, anneal_even
from codesign.mappers.loop_order.factors import count_orders, prime_loops
from codesign.mappers.loop_order.zigzag_search import OrderResult, OrderSearch, result_of, search_exhaustively
from codesign.mappers.moves import Cooling
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem

_UNRECORDED = np.empty(0)

_ENGINES = ("auto", "annealing", "exhaustive")


@dataclass(frozen=True)
class SalsaMapper:
    """Annealing by swaps of loop prime factors, with restarts, and the choice of engine.

    Args:
        iterations: Orders of one run (I).
        restarts: Runs when the budget sets no limit.
        temperature: The first one (T0), relative: a worsening by that fraction is accepted with probability about 1/e.
        rho: Cooling factor of each iteration.
        engine: ``annealing``, ``exhaustive``, or ``auto``: exhaustive where it scores no more orders (rule Z18).
        even: Under the zigzag semantics, whether tensors that share a memory cut the order at the same place.
    """

    iterations: int = 1_000
    restarts: int = 100
    temperature: float = 0.05
    rho: float = 0.995
    engine: str = "auto"
    even: bool = False
    name: ClassVar[str] = "salsa"

    def __post_init__(self) -> None:
        check_least(1, iterations=self.iterations, restarts=self.restarts)
        if not self.temperature > 0 or not 0 < self.rho <= 1:
            raise UserError(
                f"the temperature must be > 0 and rho within 0..1, got {self.temperature} and {self.rho}",
                hint="the paper's are 0.05 and 0.999",
            )
        if self.engine not in _ENGINES:
            raise unknown_name("engine", self.engine, _ENGINES)

    def map_orders(self, layer: UnrolledLayer, objective: Objective, *, budget: Budget, seed: int) -> OrderResult:
        """The best order found of an unrolled layer under the zigzag semantics."""
        loops = prime_loops(layer)
        if self._takes_all_orders(loops, budget):
            return search_exhaustively(layer, loops, objective, budget, even=self.even, whole_space=True)
        return self._anneal(layer, loops, objective, budget, seed)

    def _takes_all_orders(self, loops: Sequence[Loop], budget: Budget) -> bool:
        """Whether the engine is the exhaustive one, by choice if it scores no more orders than annealing (rule Z18).

        Both engines score an order in the same time tau, so n! / prod(k_i!) is compared with the orders that annealing scores,
        and the choice does not depend on the machine.
        """
        if self.engine == "exhaustive" or len(set(loops)) < 2:
            return True
        annealed = self.iterations * self.restarts if budget.evaluations is None else budget.evaluations
        return self.engine == "auto" and count_orders(loops) <= annealed

    def _anneal(
        self, layer: UnrolledLayer, loops: Sequence[Loop], objective: Objective, budget: Budget, seed: int
    ) -> OrderResult:
        """Anneal from random orders; with a budget, as many runs as it allows."""
        started = clock.wall_seconds()
        search = OrderSearch.of(layer, loops, objective, even=self.even)
        symbols, best, value = search.symbols.copy(), search.symbols.copy(), math.inf
        evaluated = run = 0
        while run < self.restarts or budget.evaluations is not None or budget.time_limit_s is not None:
            iterations = self.iterations
            if budget.evaluations is not None:
                iterations = min(iterations, budget.evaluations - evaluated)
            cooling = Cooling(iterations, float(self.temperature), float(self.rho))
            random = make_state(seed, run)
            value = anneal_orders(search.scorer, symbols, best, value, cooling, random, _UNRECORDED)
            evaluated += iterations
            run += 1
            if clock.is_spent(budget, started, evaluated):
                break
        return result_of(search, best, evaluated, started, seed, "annealing")

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`. Without a budget, ``restarts * iterations`` mappings are scored."""
        if self.engine == "exhaustive":
            raise UserError("on this architecture SALSA anneals; the exhaustive engine is the mapper 'loma'")
        problem.need_perfect(self.name)
        problem.need_any_utilization(self.name)
        started = clock.wall_seconds()
        encoded = Encoded.of(problem, reuse)
        search = EvenSearch.of(encoded)
        orders = search.orders(objective)
        state = search.order.copy(), search.loops.slot, search.room.keep
        best = search.order.copy(), search.loops.slot.copy(), search.room.keep.copy()
        value, evaluated, run = math.inf, 0, 0
        wanted = budget.scored_or(self.iterations * self.restarts)
        while wanted is None or evaluated < wanted:
            generator = np.random.default_rng((seed, run))
            state[0][:] = generator.permutation(search.order)
            search.room.keep[:] = encoded.space.keep
            search.unroll(generator)
            iterations = self.iterations if wanted is None else min(self.iterations, wanted - evaluated)
            cooling = Cooling(iterations, float(self.temperature), float(self.rho))
            value = anneal_even(orders, state, best, value, cooling, make_state(seed, run))
            evaluated += iterations
            run += 1
            if clock.is_spent(budget, started):
                break
        if math.isfinite(value):
            search.loops.slot[:] = best[1]
            search.room.keep[:] = best[2]
            return search.result(best[0], evaluated, started, seed)
        return encoded.result(None, evaluated, started, seed)
