"""From a design point to its metrics with whole-network scheduling inside: layer fusion and DRAM timing instead of layer by layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from codesign.arch.architecture import Architecture
from codesign.core.goals import Objective
from codesign.core.point import PointValue
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import Evaluation, judged
from codesign.evaluation.detail import FusedDetail
from codesign.evaluation.metrics import Metrics, metrics_of_sums
from codesign.evaluation.records import FusedRecord
from codesign.scheduling.soma.evaluator import Invalid, Problem
from codesign.scheduling.soma.model.cut_layers import cut_wide_layers
from codesign.scheduling.soma.model.hardware import SomaHardware
from codesign.scheduling.soma.model.layer_graph import LayerGraph
from codesign.scheduling.soma.model.rules import DEFAULT
from codesign.scheduling.soma.report import schedule_json
from codesign.scheduling.soma.search.two_stages import SearchOptions, search

CLOCK_HZ = 1e9

_PARTS = {"dram": 0, "gbuf": 1, "local": 2}
"""Parts of a schedule's energy that belong to a level of the template, outermost 0."""


@runtime_checkable
class TemplateSpace(Protocol):
    """A hardware space whose designs the scheduler understands."""

    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        """The storage hierarchy of a point, areas filled in."""

    def hardware(self, point: Mapping[str, PointValue]) -> SomaHardware:
        """The template of a point."""


@dataclass(frozen=True)
class ScheduledEvaluator:
    """Judges designs by scheduling whole networks on them. Plain data, so it can be sent to other processes.

    Args:
        space: Where designs come from.
        graphs: Networks, each with how often it runs.
        batch: Samples per run.
        objective: What each schedule minimises.
        options: How each is searched.
    """

    space: TemplateSpace
    graphs: tuple[tuple[LayerGraph, float], ...]
    batch: int
    objective: Objective
    options: SearchOptions

    def __call__(self, point: Mapping[str, PointValue]) -> Evaluation:
        """Evaluate one design: latency and energy summed over the networks, leakage over that time."""
        hardware = self.space.hardware(point)
        return judged(self.space, point, lambda architecture: self._judge(architecture, hardware))

    def _judge(self, architecture: Architecture, hardware: SomaHardware) -> tuple[Metrics, FusedDetail] | Infeasible:
        cycles, picojoules = 0.0, 0.0
        names = {part: architecture.levels[position].name for part, position in _PARTS.items()}
        names |= {"bus": "network", "op": "MAC"}
        by_level = dict.fromkeys(names.values(), 0.0)
        networks: list[FusedRecord] = []
        for graph, weight in self.graphs:
            problem = Problem(cut_wide_layers(graph, hardware.gbuf.capacity_bytes), self.batch, hardware, DEFAULT)
            found = search(problem, self.objective, self.options)
            if isinstance(found, Invalid):
                needed, limit = float(found.demand_bytes or 0), float(problem.limit_bytes)
                return Infeasible("global buffer", needed, limit, "bytes", found.reason)
            cycles += weight * found.schedule.latency_cycles
            picojoules += weight * found.schedule.energy_pj
            for part, value in found.schedule.parsed.energy_by_part_pj.items():
                by_level[names[part]] += weight * value
            numbers = schedule_json(found.schedule, graph.name)
            networks.append(cast(FusedRecord, {"name": graph.name, "weight": weight, "gap": found.gap, **numbers}))
        metrics = metrics_of_sums(architecture, cycles, CLOCK_HZ, picojoules)
        return metrics, FusedDetail(tuple(networks), by_level)
