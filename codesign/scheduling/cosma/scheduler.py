"""COSMA and what frameworks do, behind the `Scheduler` protocol: operator order, scratchpad addresses, spills."""

from dataclasses import dataclass, replace
from typing import final

from codesign.core import clock
from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Infeasible
from codesign.scheduling.cosma.baselines import Replacement, baseline_orders, schedule_baseline
from codesign.scheduling.cosma.capacity import resolve_capacity
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.load import graph_of
from codesign.scheduling.cosma.objective import BYTES, Quantity, TrafficWeights, weights_on
from codesign.scheduling.cosma.result import Schedule, TooSmall, Unplaced, schedule_to_dict
from codesign.scheduling.cosma.solve import DEFAULT_EFFORT, Effort, Route, schedule_cosma
from codesign.scheduling.protocol import ScheduleProblem, ScheduleResult
from codesign.workloads.network import Network

_ORDERS = {"": "default", "-mpmf": "minimum-peak"}
BASELINES = {f"{policy.value}{suffix}": (policy, order) for policy in Replacement for suffix, order in _ORDERS.items()}
"""Name -> replacement rule and order (mpmf: minimum peak memory footprint)."""

_QUANTITIES = {Objective.ENERGY: Quantity.ENERGY, Objective.LATENCY: Quantity.LATENCY, Objective.EDP: Quantity.BYTES}
"""What traffic is weighed by: of the product of energy and latency both factors grow with the bytes."""


@final
@dataclass(frozen=True)
class CosmaScheduler:
    """Order, addresses and spills of least traffic (COSMA), or a framework's rule.

    Args:
        kind: ``cosma``, or a replacement rule (``belady``, ``lru``, ``greedy``) on the order as loaded or, with
            ``-mpmf``, on that of least peak.
        parameters: Whether weights take part in the scratchpad.
        fused: Whether normalisation and activations run within the operator before them.
        quantity: What the traffic of ``cosma`` is weighed by: ``bytes``, ``energy`` or ``latency``; None for what the objective says.
        route: How to solve: ``decomposed`` or ``monolithic``.
        capacity: Of the scratchpad, as text: a size, or the graph's own M_R, M_H, M_P; None for what the problem says.
    """

    kind: str = "cosma"
    parameters: bool = False
    fused: bool = True
    quantity: str | None = None
    route: str = Route.DECOMPOSED.value
    capacity: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in {"cosma", *BASELINES}:
            raise unknown_name("scheduler", self.kind, {"cosma", *BASELINES})
        for what, given, known in (("objective", self.quantity, Quantity), ("route", self.route, Route)):
            values = [member.value for member in known]
            if given is not None and given not in values:
                raise unknown_name(what, given, values)

    @property
    def name(self) -> str:
        """See `Scheduler`."""
        return self.kind

    def schedule(self, problem: ScheduleProblem, objective: Objective, *, budget: Budget, seed: int) -> ScheduleResult:
        """See `Scheduler`."""
        if objective not in _QUANTITIES:
            raise unknown_name("objective", objective.value, [o.value for o in _QUANTITIES])
        check_least(0, seed=seed)
        graph = self._graph(problem)
        limit = problem.limit_bytes if self.capacity is None else resolve_capacity(self.capacity, graph)
        quantity = _QUANTITIES[objective] if self.quantity is None else Quantity(self.quantity)
        weights = BYTES
        if quantity is not Quantity.BYTES:
            weights = weights_on(problem.machine(f"--objective {quantity.value}"), quantity)
        started = clock.wall_seconds()
        found = self._solve(graph, limit, weights, budget, seed)
        return _result(found, self.kind, limit, clock.wall_seconds() - started, seed)

    def _graph(self, problem: ScheduleProblem) -> OperatorGraph:
        if not isinstance(problem.network, Network | OperatorGraph):
            raise UserError(
                f"scheduler {self.kind!r} reads networks and graphs of whole tensors, got {type(problem.network).__name__}",
                where=problem.network.name,
            )
        graph = graph_of(problem.network, fused=self.fused)
        return graph if self.parameters else graph.without_parameters()

    def _solve(
        self, graph: OperatorGraph, limit_bytes: int, weights: TrafficWeights, budget: Budget, seed: int
    ) -> Schedule | TooSmall | Unplaced:
        if self.kind in BASELINES:
            policy, order = BASELINES[self.kind]
            return schedule_baseline(graph, limit_bytes, baseline_orders(graph)[order], policy, weights=weights)
        effort: Effort = replace(DEFAULT_EFFORT, seed=seed)
        if budget.time_limit_s is not None:
            effort = replace(effort, time_limit_s=budget.time_limit_s)
        if budget.evaluations is not None:
            effort = replace(
                effort, states=budget.evaluations, window_states=min(effort.window_states, budget.evaluations)
            )
        return schedule_cosma(graph, limit_bytes, weights=weights, route=Route(self.route), effort=effort)


def _result(
    found: Schedule | TooSmall | Unplaced, name: str, limit_bytes: int, seconds: float, seed: int
) -> ScheduleResult:
    if isinstance(found, Schedule):
        gap = (found.value - found.bound) / found.bound if found.proof is Proof.GAP and found.bound else None
        return ScheduleResult(
            scheduler=name,
            order=found.order,
            dram_bytes=found.dram_bytes,
            noncompulsory_bytes=found.noncompulsory_bytes,
            peak_buffer_bytes=found.peak_buffer_bytes,
            capacity_bytes=limit_bytes,
            proof=found.proof,
            gap=0.0 if found.proof is Proof.OPTIMAL else gap,
            seconds=seconds,
            seed=seed,
            detail={**schedule_to_dict(found, seconds)},
            found=found,
        )
    if isinstance(found, TooSmall):
        detail = f"operator {found.operator!r} alone needs more"
        reason = Infeasible("scratchpad", float(found.demand_bytes), float(limit_bytes), "bytes", detail)
        proof = Proof.OPTIMAL
    else:
        detail = "no schedule has addresses" if found.proven else "no addresses were found in time"
        reason = Infeasible("scratchpad addresses", float(limit_bytes + 1), float(limit_bytes), "bytes", detail)
        proof = Proof.OPTIMAL if found.proven else Proof.NONE
    return ScheduleResult(
        name, (), None, None, limit_bytes, infeasible=reason, proof=proof, seconds=seconds, seed=seed, found=found
    )
