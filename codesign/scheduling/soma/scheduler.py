"""SoMa and its baselines behind the `Scheduler` protocol: fusion and DRAM timing of a whole network."""

from dataclasses import dataclass, replace
from typing import final

from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Infeasible
from codesign.mappers.protocol import Mapper
from codesign.mappers.registry import create
from codesign.scheduling.protocol import Interval, ScheduleProblem, ScheduleResult
from codesign.scheduling.soma.evaluator import KIND, LAYER, Invalid, Problem, Schedule, TensorKind
from codesign.scheduling.soma.model.cut_layers import cut_wide_layers
from codesign.scheduling.soma.model.from_network import graph_from_network
from codesign.scheduling.soma.model.hardware import PRESETS, SomaHardware
from codesign.scheduling.soma.model.mapped_tiles import MappedPlatform
from codesign.scheduling.soma.model.rules import DEFAULT
from codesign.scheduling.soma.report import schedule_json
from codesign.scheduling.soma.search.two_stages import (
    DEFAULT_CHAINS,
    Found,
    SearchOptions,
    search,
    search_baseline,
    search_paper,
)
from codesign.workloads.fuse import fuse

KINDS = ("soma", "soma-paper", "cocco", "unfused")
TILE_EVALUATIONS = 2000
"""Mappings scored for each tile where a mapper prices them."""


@final
@dataclass(frozen=True)
class SomaScheduler:
    """Layer fusion and DRAM timing (SoMa, HPCA 2025), the paper's own search, Cocco, or no fusion.

    Tiles are priced by the paper's template on `soma-edge` and `soma-cloud`, by a mapper on any other architecture.

    Args:
        kind: ``soma``, ``soma-paper``, ``cocco`` or ``unfused``.
        chains: Independent annealing chains of ``soma``.
        workers: Threads they run on.
        tile_mapper: Of tiles on other architectures; it scores 2,000 mappings each.
    """

    kind: str = "soma"
    chains: int = DEFAULT_CHAINS
    workers: int = 1
    tile_mapper: str = "anneal"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown_name("scheduler", self.kind, KINDS)

    @property
    def name(self) -> str:
        """See `Scheduler`."""
        return self.kind

    def schedule(self, problem: ScheduleProblem, objective: Objective, *, budget: Budget, seed: int) -> ScheduleResult:
        """See `Scheduler`."""
        if seed < 0:
            raise UserError(f"`seed` must be >= 0, got {seed}")
        graph = graph_from_network(fuse(problem.network))
        posed = Problem(graph, problem.network.batch, self._platform(problem), DEFAULT, problem.capacity_bytes)
        posed = replace(posed, graph=cut_wide_layers(graph, posed.limit_bytes))
        options = SearchOptions(budget, seed, self.chains, self.workers)
        found = self._search(posed, objective, options)
        if isinstance(found, Invalid):
            demand = float(found.demand_bytes or posed.limit_bytes + 1)
            reason = Infeasible("global buffer", demand, float(posed.limit_bytes), "bytes", found.reason)
            return ScheduleResult(
                self.kind, (), None, None, posed.limit_bytes, proof=Proof.NONE, infeasible=reason, seed=seed
            )
        return _result(found, self.kind, posed, seed)

    def _platform(self, problem: ScheduleProblem) -> SomaHardware | MappedPlatform:
        if problem.architecture.name in PRESETS:
            return PRESETS[problem.architecture.name]
        mapper: Mapper = create(self.tile_mapper)
        return MappedPlatform(problem.architecture, mapper, Budget(evaluations=TILE_EVALUATIONS))

    def _search(self, posed: Problem, objective: Objective, options: SearchOptions) -> Found | Invalid:
        if self.kind == "soma":
            return search(posed, objective, options)
        if self.kind == "soma-paper":
            return search_paper(posed, objective, options)
        return search_baseline(posed, objective, options, self.kind)


def _result(found: Found, name: str, posed: Problem, seed: int) -> ScheduleResult:
    schedule = found.schedule
    return ScheduleResult(
        scheduler=name,
        order=tuple(posed.graph.layers[layer].name for layer in schedule.parsed.fusion.order),
        dram_bytes=int(schedule.parsed.dram_bytes["total"]),
        peak_buffer_bytes=int(schedule.peak_buffer_bytes),
        capacity_bytes=posed.limit_bytes,
        latency_cycles=float(schedule.latency_cycles),
        energy_pj=float(schedule.energy_pj),
        timeline=_timeline(schedule),
        proof=Proof.NONE,  # the bound that is known holds for these tiles alone, see `dram_bound_cycles`
        evaluated=found.stage1.evaluations + found.dram_evaluations,
        seconds=found.seconds,
        seed=seed,
        detail={**schedule_json(schedule, name), "dram_bound_cycles": found.dram_bound_cycles},
    )


def _timeline(schedule: Schedule) -> tuple[Interval, ...]:
    parsed = schedule.parsed
    layers = parsed.problem.graph.layers
    compute = [
        Interval("compute", f"{layers[int(layer)].name} tile {int(tile)}", float(start), float(start + cycles))
        for start, layer, tile, cycles in zip(
            schedule.tile_start, parsed.tile_layer, parsed.tile_index, parsed.tile_cycles, strict=True
        )
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
