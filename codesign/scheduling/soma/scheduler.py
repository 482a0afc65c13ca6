"""SoMa and its baselines behind the `Scheduler` protocol: fusion and DRAM timing of a whole network."""

from dataclasses import dataclass, replace
from typing import final

from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Infeasible
from codesign.mappers.protocol import Mapper
from codesign.mappers.registry import create
from codesign.scheduling.protocol import Interval, ScheduleProblem, ScheduleResult
from codesign.scheduling.soma.evaluator import KIND, LAYER, Invalid, Problem, Schedule, TensorKind
from codesign.scheduling.soma.model.cut_layers import cut_wide_layers
from codesign.scheduling.soma.model.hardware import PRESETS, hardware_from_constants
from codesign.scheduling.soma.model.load import Source, source_of
from codesign.scheduling.soma.model.mapped_tiles import MappedPlatform, Platform
from codesign.scheduling.soma.model.rules import MODES
from codesign.scheduling.soma.report import bound_json, schedule_json
from codesign.scheduling.soma.search.fusion_bound import fusion_bound
from codesign.scheduling.soma.search.two_stages import (
    DEFAULT_CHAINS,
    STARTS,
    Found,
    SearchOptions,
    prove,
    search,
    search_baseline,
    search_paper,
)
from codesign.workloads.network import Network

KINDS = ("soma", "soma-paper", "cocco", "unfused")
TILE_EVALUATIONS = 2000
"""Mappings scored for each tile where a mapper prices them."""

PROVEN = 1e-9
"""Relative distance from the bound below which a schedule is optimal."""

EXACT_TILE_S = 1.0
"""Seconds for each tile that the exact mapper prices."""


@final
@dataclass(frozen=True)
class Unscheduled:
    """A problem without a schedule.

    Args:
        problem: In SoMa's own terms.
        reason: Why.
    """

    problem: Problem
    reason: Invalid


@final
@dataclass(frozen=True)
class SomaScheduler:
    """Layer fusion and DRAM timing (SoMa, HPCA 2025), the paper's own search, Cocco, or no fusion.

    Tiles are priced by the paper's template on `soma-edge` and `soma-cloud`, by a mapper on any other architecture.

    Args:
        kind: ``soma``, ``soma-paper``, ``cocco`` or ``unfused``.
        chains: Independent annealing chains of ``soma``.
        workers: Threads they run on.
        tile_mapper: What prices tiles: it scores 2,000 mappings each (``exact``: 1 s); None for the template where there is one, else ``anneal``.
        platform: The machine and what a tile costs on it, instead of the problem's architecture.
        mode: ``default``, or ``reference``: the published model with its defects.
        prove_s: Seconds of constraint programming that improve the DRAM attributes or prove their gap; None for none.
        start: ``bound`` or ``greedy``: whether ``soma`` tries the bound's fusion as a start (`SearchOptions`).
    """

    kind: str = "soma"
    chains: int = DEFAULT_CHAINS
    workers: int = 1
    tile_mapper: str | None = None
    platform: Platform | None = None
    mode: str = "default"
    prove_s: float | None = None
    start: str = STARTS[0]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown_name("scheduler", self.kind, KINDS)
        if self.mode not in MODES:
            raise unknown_name("mode", self.mode, MODES)
        if self.prove_s is not None and not self.prove_s > 0:
            raise UserError(f"--prove must be > 0 seconds, got {self.prove_s:g}")
        if self.start not in STARTS:
            raise unknown_name("start", self.start, STARTS)
        if self.kind != "soma" and self.start != STARTS[0]:
            raise UserError(f"--start plays no part with scheduler {self.kind!r}")

    @property
    def name(self) -> str:
        """See `Scheduler`."""
        return self.kind

    def schedule(self, problem: ScheduleProblem, objective: Objective, *, budget: Budget, seed: int) -> ScheduleResult:
        """See `Scheduler`."""
        check_least(0, seed=seed)
        posed = self.pose(problem)
        if self.mode != "reference":  # the published model has no such layers
            posed = replace(posed, graph=cut_wide_layers(posed.graph, posed.limit_bytes))
        options = SearchOptions(budget, seed, self.chains, self.workers, self.start)
        found = self._search(posed, objective, options)
        if self.prove_s is not None and isinstance(found, Found):
            found = prove(found, self.prove_s, options)
        if isinstance(found, Invalid):
            demand = float(found.demand_bytes or posed.limit_bytes + 1)
            reason = Infeasible("global buffer", demand, float(posed.limit_bytes), "bytes", found.reason)
            return ScheduleResult(
                self.kind,
                (),
                None,
                None,
                posed.limit_bytes,
                proof=Proof.NONE,
                infeasible=reason,
                seed=seed,
                found=Unscheduled(posed, found),
            )
        return _result(found, self.kind, posed, objective, seed)

    def pose(self, problem: ScheduleProblem) -> Problem:
        """The problem in SoMa's own terms, no layer cut yet.

        Raises:
            UserError: Another scheduler's graph, or no machine.
        """
        if not isinstance(problem.network, Network | Source):
            raise UserError(
                f"scheduler {self.kind!r} reads networks and layer graphs, got {type(problem.network).__name__}",
                where=problem.network.name,
            )
        source = source_of(problem.network)
        platform = self.platform or self._platform(problem, source)
        return Problem(source.graph, source.batch, platform, MODES[self.mode], problem.capacity_bytes)

    def _platform(self, problem: ScheduleProblem, source: Source) -> Platform:
        if problem.architecture is None and source.constants is not None:
            return hardware_from_constants(source.constants, source.name)
        architecture = problem.machine(f"scheduler {self.kind!r}")
        if self.tile_mapper is None and architecture.name in PRESETS:
            return PRESETS[architecture.name]
        name = self.tile_mapper or "anneal"
        mapper: Mapper = create(name)
        budget = Budget(time_limit_s=EXACT_TILE_S) if name == "exact" else Budget(evaluations=TILE_EVALUATIONS)
        return MappedPlatform(architecture, mapper, budget)

    def _search(self, posed: Problem, objective: Objective, options: SearchOptions) -> Found | Invalid:
        if self.kind == "soma":
            return search(posed, objective, options)
        if self.kind == "soma-paper":
            return search_paper(posed, objective, options)
        return search_baseline(posed, objective, options, self.kind)


def _result(found: Found, name: str, posed: Problem, objective: Objective, seed: int) -> ScheduleResult:
    schedule = found.schedule
    bound = fusion_bound(posed)
    gap: float | None = bound.gap(objective, schedule.energy_pj, schedule.latency_cycles)
    proof = Proof.GAP
    if gap is not None and gap <= PROVEN:  # a schedule below its bound proves nothing
        proof, gap = (Proof.OPTIMAL, 0.0) if gap >= -PROVEN else (Proof.NONE, None)
    return ScheduleResult(
        scheduler=name,
        order=tuple(posed.graph.layers[layer].name for layer in schedule.parsed.fusion.order),
        dram_bytes=int(schedule.parsed.dram_bytes["total"]),
        peak_buffer_bytes=int(schedule.peak_buffer_bytes),
        capacity_bytes=posed.limit_bytes,
        latency_cycles=float(schedule.latency_cycles),
        energy_pj=float(schedule.energy_pj),
        timeline=_timeline(schedule),
        proof=proof,
        gap=gap,
        evaluated=found.stage1.evaluations + found.dram_evaluations,
        seconds=found.seconds,
        seed=seed,
        detail={**schedule_json(schedule, name), "dram_bound_cycles": found.dram_bound_cycles, **bound_json(bound)},
        found=found,
    )


def _timeline(schedule: Schedule) -> tuple[Interval, ...]:
    parsed = schedule.parsed
    layers = parsed.problem.graph.layers
    compute = [
        Interval("compute", f"{layers[layer].name} tile {tile}", float(start), float(start + cycles))
        for start, layer, tile, cycles in schedule.tile_runs
    ]
    transfers = [
        Interval(
            "DRAM",
            f"{layers[int(parsed.tensors[t][LAYER])].name} {TensorKind(int(parsed.tensors[t][KIND])).name.lower()}",
            float(schedule.transfer_start[t]),
            float(schedule.transfer_start[t] + parsed.transfer_cycles[t]),
        )
        for t in schedule.order
    ]
    return (*compute, *transfers)
