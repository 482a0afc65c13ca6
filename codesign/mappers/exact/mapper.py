"""The exact mapper: the best mapping there is, with a proof."""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.goals import OBJECTIVES, Budget, Objective, Proof, proof_of
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, Infeasible, evaluate
from codesign.cost.imperfect import refuse_imperfect
from codesign.cost.packed import make_kernel
from codesign.cost.sparse.bounds import is_rescaled, least_value
from codesign.mappers.annealing import AnnealingMapper, helping_budget
from codesign.mappers.driver import Encoded
from codesign.mappers.exact.even.best_first import search_even
from codesign.mappers.exact.incumbent import TOLERANCE, Goal, Incumbent
from codesign.mappers.exact.mesh import has_mesh, map_on_mesh
from codesign.mappers.exact.problem.instance import Instance, make_instance
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import Nest, decode_nest, encode_nest

_EVEN_SHARE = 0.3
"""Of a time limit, what the even mapping that an uneven search begins with may take."""

_ROUNDING = 1e-9
"""Relative rounding of sums of energies."""


@dataclass(frozen=True)
class ExactMapper:
    """Minimises over all mappings with perfect factors: tilings, loop orders, spatial choices, free bypasses; even ones by default.

    The method and its proof are in docs/explanation/exact-mapper.md. `proof` is OPTIMAL when the search ended, GAP
    with the proven distance when time or effort ran out. Nothing is random: the seed is not used.

    Args:
        effort: Cells of the dynamic program to fill at most, about 10^8 a second; None: no limit, or a second and a half
            with imperfect factors. Unlike a time limit it gives the same result on every machine.
        threads: Profiles to bound at a time in searches that take long (section D11); the optimum found is the same.
        start: A mapping that obeys the constraints, to begin with in place of annealing; one that does not fit is left out.
        annealed: Whether a search that takes long is helped by annealing.
        tolerance: Relative; the search ends when nothing can be better by more than this. The gap says so.
        cycle_pj: With objective energy: what every cycle counts beside it; the gap is that of the sum.
        uneven: Whether every tensor may have its own place among a level's loops (docs/explanation/exact-mapper.md).
    """

    effort: float | None = None
    threads: int = 1
    start: Mapping | None = field(default=None, metadata={"recorded": False})
    annealed: bool = field(default=True, metadata={"recorded": False})
    tolerance: float = field(default=0.0, metadata={"recorded": False})
    cycle_pj: float = field(default=0.0, metadata={"recorded": False})
    uneven: bool = field(default=False, metadata={"recorded": "set"})
    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        if self.effort is not None and not self.effort > 0:
            raise UserError(f"effort must be > 0 cells, got {self.effort}")
        if self.threads < 1:
            raise UserError(f"threads must be >= 1, got {self.threads}")
        if not 0.0 <= self.tolerance < 1.0:
            raise UserError(f"tolerance must be at least 0 and below 1, got {self.tolerance}")
        if self.cycle_pj < 0.0:
            raise UserError(f"cycle_pj must be at least 0, got {self.cycle_pj}")
        if self.uneven and (self.cycle_pj or self.tolerance):
            raise UserError("uneven search takes neither cycle_pj nor tolerance")

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`. Without a budget it runs until the optimum is proven."""
        started = clock.wall_seconds()
        _refuse_uncovered(objective, reuse)
        if self.uneven:
            return self._map_uneven(problem, objective, budget=budget, seed=seed, reuse=reuse)
        if self.cycle_pj:
            self._refuse_weight(problem)

        def search(plain: MappingProblem, left: Budget) -> MapResult:
            return self.map(plain, objective, budget=left, seed=seed, reuse=reuse)

        if problem.imperfect:
            refuse_imperfect(problem.computation, problem.architecture, reuse)
        if has_mesh(problem.architecture):
            return map_on_mesh(search, problem, objective, budget=budget, seed=seed, reuse=reuse)
        if problem.imperfect:
            from codesign.mappers.imperfect.proof import EFFORT, map_imperfect_exactly

            effort = self.effort or EFFORT
            return map_imperfect_exactly(
                search, problem, objective, budget=budget, seed=seed, reuse=reuse, effort=effort
            )
        problem.need_exact_factors()
        if problem.least_units > 1:
            return self._map_utilized(problem, objective, budget=budget, seed=seed, reuse=reuse)
        instance = make_instance(problem, reuse)
        goal = Goal(objective, cycle_pj=self.cycle_pj if objective == Objective.ENERGY else 0.0)
        best = new_incumbent(instance, goal, started, budget, self.effort or math.inf)
        if not self.annealed:
            best.second_opinion = None
        best.tolerance = max(self.tolerance, TOLERANCE)
        if self.start is not None:
            _begin_with(self.start, instance, best)
        unsearched = search_even(instance, best, self.threads)
        if best.nest is not None and unsearched < best.value and best.evaluated < best.scored:
            best.ask(at_once=True)  # stopped: at least as good as annealing
        return to_result(instance, best, min(unsearched, best.floor), started, seed)

    def _map_uneven(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse
    ) -> MapResult:
        """The best mapping with a place of its own for every tensor; the search begins with the even optimum."""
        from codesign.mappers.exact.uneven.place_search import refuse_uncovered, refuse_windows, search_places

        started = clock.wall_seconds()
        refuse_uncovered(problem, reuse)
        instance = make_instance(problem, reuse)
        refuse_windows(instance)
        share = budget.part(_EVEN_SHARE, budget.evaluations)
        even = replace(self, uneven=False).map(problem, objective, budget=share, seed=seed, reuse=reuse)
        best = new_incumbent(instance, Goal(objective), started, budget, self.effort or math.inf)
        best.second_opinion = None
        best.take(_nest_of(even, instance), even.evaluated)
        return to_result(instance, best, search_places(instance, best), started, seed)

    @staticmethod
    def _refuse_weight(problem: MappingProblem) -> None:
        """What is searched by way of another problem has no weight of cycles."""
        rescaled = is_rescaled(problem.computation, problem.architecture)
        if has_mesh(problem.architecture) or problem.imperfect or problem.least_units > 1 or rescaled:
            raise UserError(
                "cycle_pj: meshes, imperfect factors, zeros and a least utilization are searched without it"
            )

    def _map_utilized(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse
    ) -> MapResult:
        """With a least utilisation: the optimum without it if it uses enough units, else annealing, its gap to that optimum."""
        plain = replace(problem, constraints=replace(problem.constraints, min_utilization=0.0))
        limit, scored = budget.time_limit_s, budget.evaluations
        if scored == 1:
            return AnnealingMapper().map(problem, objective, budget=budget, seed=seed, reuse=reuse)
        half = Budget(limit, None if scored is None else scored // 2)
        free = self.map(plain, objective, budget=half, seed=seed, reuse=reuse)
        if free.mapping is None or free.cost is None or free.mapping.spatial_iterations >= problem.least_units:
            return free
        rest = Budget(
            None if limit is None else max(1e-9, limit - free.seconds),
            None if scored is None else scored - free.evaluated,
        )
        found = AnnealingMapper().map(problem, objective, budget=rest, seed=seed, reuse=reuse)
        evaluated, seconds = free.evaluated + found.evaluated, free.seconds + found.seconds
        proof, gap = proof_of(found.value(objective), free.bound(objective), _ROUNDING)
        return replace(found, evaluated=evaluated, seconds=seconds, proof=proof, gap=gap)


def _refuse_uncovered(objective: Objective, reuse: Reuse) -> None:
    """Refuse goals and rules that there is no proof for."""
    if objective not in OBJECTIVES:
        raise UserError(
            f"the exact mapper minimises {', '.join(o.value for o in OBJECTIVES)}, got {objective.value}",
            hint="use one of them, or search with anneal",
        )
    if reuse is Reuse.WHOLE:
        raise UserError(
            "the exact mapper does not search under reuse rule 'whole'", hint="use anneal, genetic or random"
        )


def new_incumbent(
    instance: Instance, goal: Goal, started: float, budget: Budget, effort: float = math.inf
) -> Incumbent:
    """An incumbent before any mapping is found."""
    scored = math.inf if budget.evaluations is None else budget.evaluations
    opinion = None if math.isfinite(goal.latency_limit) else partial(_annealed, instance, goal.objective)
    kernel = make_kernel(instance.problem, instance.most_loops)
    return Incumbent(kernel, goal, budget.deadline(started), effort, scored, opinion)


def _begin_with(mapping: Mapping, instance: Instance, best: Incumbent) -> None:
    """Offer a mapping if it fits; a good one spares annealing."""
    source = instance.source
    try:
        cost = evaluate(source.computation, source.architecture, mapping, reuse=Reuse(instance.problem.reuse))
    except UserError:  # more children than the machine has
        return
    if not isinstance(cost, Infeasible):
        best.offer(encode_nest(source.computation, source.architecture, mapping))
        best.second_opinion = None


def _annealed(instance: Instance, objective: Objective, scored: float, deadline: float) -> tuple[Nest | None, int]:
    """What annealing finds with its own settings, in one run at least: a stopped exact search is never worse than that."""
    source, reuse = instance.source, Reuse(instance.problem.reuse)
    mapper = AnnealingMapper()
    budget = helping_budget(mapper, scored, deadline)
    if budget is None:
        return None, 0
    try:
        found = mapper.map(source, objective, budget=budget, seed=0, reuse=reuse)
    except UserError:  # its first state may crowd a fan-out; the exact search has states of its own
        return None, 0
    return _nest_of(found, instance), found.evaluated


def _nest_of(found: MapResult, instance: Instance) -> Nest | None:
    """The nest of the mapping that another search found, if it found one."""
    if found.mapping is None:
        return None
    return encode_nest(instance.source.computation, instance.source.architecture, found.mapping)


def to_result(instance: Instance, best: Incumbent, unsearched: float, started: float, seed: int) -> MapResult:
    """What the search found, evaluated in full."""
    source, reuse = instance.source, Reuse(instance.problem.reuse)
    if best.nest is None:
        reason = _why_nothing(source, reuse, stopped=math.isfinite(unsearched))
        proof = Proof.OPTIMAL if math.isinf(unsearched) else Proof.NONE
        return MapResult(None, None, reason, best.evaluated, clock.wall_seconds() - started, proof, None, seed)
    mapping = decode_nest(source.computation, source.architecture, best.nest, len(best.nest.loops))
    cost = evaluate(source.computation, source.architecture, mapping, reuse=reuse)
    if isinstance(cost, Infeasible):
        raise AssertionError(f"the exact mapper built a mapping that does not fit: {cost}")
    gap: float | None
    proof, gap = Proof.OPTIMAL, 0.0
    if is_rescaled(source.computation, source.architecture):
        proof, gap = _sparse_proof(source, best, cost, min(unsearched, best.value))
    elif unsearched < best.value:
        proof, gap = Proof.GAP, float((best.value - unsearched) / unsearched) if unsearched > 0.0 else math.inf
    if instance.problem.peers.any():  # forwarding between neighbours is scored but not bounded
        proof, gap = Proof.NONE, None
    return MapResult(mapping, cost, None, best.evaluated, clock.wall_seconds() - started, proof, gap, seed)


def _sparse_proof(source: MappingProblem, best: Incumbent, cost: Cost, score: float) -> tuple[Proof, float]:
    """What the bound of the rescaled problem says of the mapping's true cost (law E8)."""
    objective = best.goal.objective
    bound = least_value(source, objective, score)
    value = objective.of(cost)
    # cycles are whole here and in the rescaled problem, each rounded up in its own unit
    rounded = objective.score(cost.energy_pj, max(0.0, cost.latency_cycles - 1.0))
    if min(value, rounded) <= bound * (1.0 + _ROUNDING):
        return Proof.OPTIMAL, 0.0
    return Proof.GAP, (value - bound) / bound if bound > 0.0 else math.inf


def _why_nothing(source: MappingProblem, reuse: Reuse, *, stopped: bool) -> Infeasible:
    """What even the smallest tiles exceed; a stopped search knows no more."""
    encoded = Encoded.of(source, reuse)
    reason = encoded.result(None, 0, clock.wall_seconds(), None).infeasible
    if reason is not None and reason.resource != "mappings drawn":
        return reason
    if stopped:
        return Infeasible("mappings found", 1, 0, "mappings", "the budget ended before a mapping that fits was found")
    return Infeasible(
        "mappings that obey the constraints", 1, 0, "mappings", "no tiling obeys constraints and capacities"
    )
