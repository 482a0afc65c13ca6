"""The exact fused search behind the `Scheduler` protocol."""

import math
from dataclasses import dataclass, replace
from typing import final

from codesign.core import clock
from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Infeasible
from codesign.mapping.looptree import Goal
from codesign.scheduling.fused.cut_search import CutSearch
from codesign.scheduling.fused.halos import HaloTiling
from codesign.scheduling.fused.loop_tree import Fusion
from codesign.scheduling.fused.network_operators import FusedGraph, graph_of
from codesign.scheduling.fused.schedule import Part, Schedule, own_lines
from codesign.scheduling.protocol import ScheduleProblem, ScheduleResult
from codesign.workloads.network import Network

NAME = "fused"
TIME_LIMIT_S = 60.0
"""CPU seconds where no limit is given."""

PLAIN_SHARE = 0.15
"""Share of the time limit that the search without cuts takes at most before them: it is quick where cuts are many."""

PROVE_SHARE = 0.6
"""Share of the time limit after which cuts that are still open get good schedules from part of their space."""

GOOD_SHARE = 0.8
"""Share after which the proof goes on."""

BOUNDED_BY = 0.7
"""Share of the time limit after which no further cut is posed; no bound is claimed then."""

_GOALS = {Objective.ENERGY: Goal.ENERGY, Objective.LATENCY: Goal.LATENCY, Objective.EDP: Goal.EDP}


@final
@dataclass(frozen=True)
class FusedFound:
    """What the search made.

    Args:
        graph: The operators it ran on.
        schedule: The best schedule; its energy is picojoules, its time cycles.
        cpu_seconds: Of the search.
        halos: The run whose windows share loops, and what becomes of its halos; none where no window does.
        tilings: Ways of cutting a run that were searched or shown to be no better.
        aside_bits: Of kept halos, in the shared level all the time.
        misfit: An operator that fits nowhere; none where every one does.
    """

    graph: FusedGraph
    schedule: Schedule
    cpu_seconds: float
    halos: HaloTiling | None = None
    tilings: int = 0
    aside_bits: float = 0.0
    misfit: Infeasible | None = None


@final
@dataclass(frozen=True)
class FusedScheduler:
    """Which intermediates stay on the chip, shared loops and each operator's mapping inside, with a proof.

    Args:
        kind: ``fused``.
        loops_per_dim: Most shared loops over one dimension of an operator.
        halos: Whether windows may share loops, halos being computed again or kept (H1-H6).
    """

    kind: str = NAME
    loops_per_dim: int = 1
    halos: bool = False

    def __post_init__(self) -> None:
        if self.kind != NAME:
            raise unknown_name("scheduler", self.kind, [NAME])
        check_least(1, loops_per_dim=self.loops_per_dim)

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
        goal = _GOALS[objective]
        began, cpu = clock.wall_seconds(), clock.cpu_seconds()
        unlimited = budget.time_limit_s is None and budget.evaluations is None
        limit = TIME_LIMIT_S if unlimited else budget.time_limit_s or math.inf
        found = best_with_halos(
            graph, goal, self.loops_per_dim, limit, budget.evaluations or math.inf, halos=self.halos
        )
        found = replace(found, cpu_seconds=clock.cpu_seconds() - cpu)
        return _result(found, goal, clock.wall_seconds() - began, seed)

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


def best_with_halos(
    graph: FusedGraph,
    goal: Goal,
    loops_per_dim: int = 1,
    time_limit: float = math.inf,
    sequences: float = math.inf,
    *,
    halos: bool = True,
) -> FusedFound:
    """The best schedule; with `halos` at most one run is cut along a window's axis (H6).

    Args:
        graph: The operators.
        goal: What is minimised.
        loops_per_dim: As of `Fusion`.
        time_limit: CPU seconds.
        sequences: Sequences of operators that each search joins at most.
        halos: Whether windows may share loops.
    """
    began = clock.cpu_seconds()
    plain = Fusion(graph.operators, graph.machines, graph.between, goal, loops_per_dim)
    found = plain.solve(PLAIN_SHARE * time_limit if halos else time_limit, sequences, True)
    misfit = _misfit(plain) if math.isinf(found.value) else None
    if not halos or misfit is not None:
        return FusedFound(graph, found, 0.0, misfit=misfit)
    if math.isinf(found.value):
        found = replace(plain.separate(began + time_limit), bound=found.bound)
    search = CutSearch(graph, goal, loops_per_dim, sequences, found)
    search.pose(began + BOUNDED_BY * time_limit)
    search.prove(began + PROVE_SHARE * time_limit)
    search.improve(began + GOOD_SHARE * time_limit)
    search.prove(began + time_limit)
    best = search.result()
    aside = graph.capacity_bits - best.graph.capacity_bits
    return FusedFound(best.graph, best.schedule, 0.0, best.tiling, best.posed, aside)


def _result(made: FusedFound, goal: Goal, seconds: float, seed: int) -> ScheduleResult:
    graph, found = made.graph, made.schedule
    capacity = int(graph.capacity_bits + made.aside_bits) // 8
    if math.isinf(found.value):
        ended = math.isinf(found.bound)
        detail = "no schedule fits" if ended else "the time limit came before any schedule was found"
        reason = made.misfit or Infeasible("search", math.inf, 0.0, "schedules", detail)
        return ScheduleResult(NAME, (), None, None, capacity, infeasible=reason, seconds=seconds, seed=seed)
    gap = max(found.value / found.bound - 1, 0.0) if found.bound > 0 else None
    proof = Proof.OPTIMAL if found.proven else Proof.GAP
    cost = found.cost()
    return ScheduleResult(
        scheduler=NAME,
        order=tuple(o.name for o in graph.operators),
        dram_bytes=math.ceil(cost.outer_bits / 8 - 1e-6),
        peak_buffer_bytes=math.ceil((cost.peak_bits + made.aside_bits) / 8 - 1e-6),
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
            "cpu_seconds": made.cpu_seconds,
            "tree": [part_json(p) for p in found.parts],
            **halos_json(made),
        },
        found=made,
    )


def halos_json(found: FusedFound) -> dict[str, object]:
    """The run that is cut along a window's axis, as plain values."""
    if found.halos is None:
        return {"halo_tilings": found.tilings}
    run, links = found.halos.run, found.halos.run.links
    return {
        "halo_tilings": found.tilings,
        "halos": {
            "operators": [o.name for o in found.graph.operators[run.first : run.last + 1]],
            "dim": run.last_dim,
            "steps": found.halos.steps,
            "kept": {x.tensor: kept for x, kept in zip(links, found.halos.kept, strict=True) if x.span > x.stride},
        },
    }


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


def _misfit(search: Fusion) -> Infeasible | None:
    """The first operator that fits nowhere, with the level that its smallest tile passes most."""
    for front in search.fronts:
        if math.isinf(sum(front.least())):
            level, demand, limit = front.smallest()
            detail = f"the smallest tile of operator {front.operator.name!r} takes {demand / 8:,g} bytes of level {level!r}, there are {limit / 8:,g}"
            return Infeasible(level, demand / 8, limit / 8, "bytes", detail)
    return None
