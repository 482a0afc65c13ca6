"""The exact fused search behind the `Scheduler` protocol."""

import math
import time
from dataclasses import dataclass
from typing import final

from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Infeasible
from codesign.mapping.looptree import Goal
from codesign.scheduling.fused.loop_tree import Fusion, Schedule
from codesign.scheduling.fused.network_operators import FusedGraph, graph_of
from codesign.scheduling.fused.trace import Part, own_lines
from codesign.scheduling.protocol import ScheduleProblem, ScheduleResult
from codesign.workloads.network import Network

NAME = "fused"
TIME_LIMIT_S = 60.0
"""CPU seconds where no limit is given."""

_GOALS = {Objective.ENERGY: Goal.ENERGY, Objective.LATENCY: Goal.LATENCY, Objective.EDP: Goal.EDP}


@final
@dataclass(frozen=True)
class FusedFound:
    """What the search made.

    Args:
        graph: The operators it ran on.
        schedule: The best schedule; its energy is picojoules, its time cycles.
        cpu_seconds: Of the search.
    """

    graph: FusedGraph
    schedule: Schedule
    cpu_seconds: float


@final
@dataclass(frozen=True)
class FusedScheduler:
    """Which intermediates stay on the chip, shared loops and each operator's mapping inside, with a proof.

    Args:
        kind: ``fused``.
        loops_per_dim: Most shared loops over one dimension of an operator.
    """

    kind: str = NAME
    loops_per_dim: int = 1

    def __post_init__(self) -> None:
        if self.kind != NAME:
            raise unknown_name("scheduler", self.kind, [NAME])
        if self.loops_per_dim < 1:
            raise UserError(f"`loops_per_dim` must be >= 1, got {self.loops_per_dim}")

    @property
    def name(self) -> str:
        """See `Scheduler`."""
        return self.kind

    def schedule(self, problem: ScheduleProblem, objective: Objective, *, budget: Budget, seed: int) -> ScheduleResult:
        """See `Scheduler`. Nothing is drawn at random: the seed is recorded only.

        Raises:
            UserError: Another scheduler's graph, an objective or a limit that is not known here, a rule that is broken.
        """
        if objective not in _GOALS:
            raise UserError(
                f"scheduler 'fused' minimises energy, latency or edp, got {objective.value!r}",
                hint="soma minimises other products",
            )
        graph = self.pose(problem)
        began, cpu = time.perf_counter(), time.process_time()
        search = Fusion(graph.operators, graph.machines, graph.between, _GOALS[objective], self.loops_per_dim)
        unlimited = budget.time_limit_s is None and budget.evaluations is None
        found = search.solve(
            TIME_LIMIT_S if unlimited else budget.time_limit_s or math.inf, budget.evaluations or math.inf, True
        )
        used = time.process_time() - cpu
        return _result(graph, found, _GOALS[objective], search, time.perf_counter() - began, used, seed)

    def pose(self, problem: ScheduleProblem) -> FusedGraph:
        """The operators and machines of a problem.

        Raises:
            UserError: Another scheduler's graph, no architecture, a rule that is broken.
        """
        if not isinstance(problem.network, Network):
            raise UserError(
                f"scheduler 'fused' reads networks, got {type(problem.network).__name__}", where=problem.network.name
            )
        return graph_of(problem.network, problem.machine("scheduler 'fused'"), problem.capacity_bytes)


def _result(
    graph: FusedGraph, found: Schedule, goal: Goal, search: Fusion, seconds: float, cpu_seconds: float, seed: int
) -> ScheduleResult:
    capacity = int(graph.capacity_bits) // 8
    if math.isinf(found.value):
        reason = _too_small(search) or Infeasible(
            "search", math.inf, 0.0, "schedules", "the time limit came before any schedule was found"
        )
        return ScheduleResult(NAME, (), None, None, capacity, infeasible=reason, seconds=seconds, seed=seed)
    gap = max(found.value / found.bound - 1, 0.0) if found.bound > 0 else None
    proof = Proof.OPTIMAL if found.proven else Proof.GAP
    cost = found.cost()
    return ScheduleResult(
        scheduler=NAME,
        order=tuple(o.name for o in graph.operators),
        dram_bytes=math.ceil(cost.outer_bits / 8 - 1e-6),
        peak_buffer_bytes=math.ceil(cost.peak_bits / 8 - 1e-6),
        capacity_bytes=capacity,
        latency_cycles=cost.seconds,
        energy_pj=cost.energy,
        proof=proof,
        gap=0.0 if found.proven else gap,
        seconds=seconds,
        seed=seed,
        detail={
            "objective": goal.value,
            "value": found.value,
            "bound": found.bound,
            "cpu_seconds": cpu_seconds,
            "tree": [part_json(p) for p in found.parts],
        },
        found=FusedFound(graph, found, cpu_seconds),
    )


def part_json(part: Part) -> dict[str, object]:
    """A part of the tree as plain values."""
    record: dict[str, object] = {
        "operators": list(part.operators),
        "loops": [{"dim": d, "steps": n, "tile": t} for d, n, t in part.loops],
        "on_chip": list(part.on_chip),
        "bits": part.bits,
        "energy_pj": part.energy,
        "cycles": part.seconds,
    }
    if part.parts:
        return {**record, "parts": [part_json(p) for p in part.parts]}
    nest = own_lines(part.leaf) if part.leaf is not None else []
    return {**record, "among_shared_loops": [{"tensor": t, "loops_outside": d} for t, d in part.among], "nest": nest}


def _too_small(search: Fusion) -> Infeasible | None:
    """The first operator whose smallest tile does not fit, with the level that it passes most."""
    for front in search.fronts:
        if front.alone(0.0) is None:
            level, demand, limit = front.smallest()
            detail = f"the smallest tile of operator {front.operator.name!r} takes {demand / 8:,g} bytes of level {level!r}, there are {limit / 8:,g}"
            return Infeasible(level, demand / 8, limit / 8, "bytes", detail)
    return None
