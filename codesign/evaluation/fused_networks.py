"""From a design point to its metrics with exact fusion inside: which tensors stay on the chip, shared loops, every operator's own nest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from codesign.arch.architecture import Architecture
from codesign.core.goals import Budget, Objective
from codesign.core.point import PointValue
from codesign.cost.cost import Infeasible
from codesign.cost.looptree import Loop
from codesign.cost.looptree_graph import GraphCost, Leaf, leaves
from codesign.evaluation.design import BuildsArchitectures, Evaluation, judged
from codesign.evaluation.detail import FusedDetail
from codesign.evaluation.metrics import Metrics, metrics_of_sums
from codesign.evaluation.records import FusedRecord
from codesign.scheduling.fused.scheduler import FusedScheduler
from codesign.scheduling.protocol import ScheduleProblem, ScheduleResult
from codesign.workloads.network import Network


@dataclass(frozen=True)
class FusedEvaluator:
    """Judges designs by proven fused schedules of whole networks. Plain data, so it can be sent to other processes.

    Args:
        space: Where designs come from.
        networks: As loaded, nothing fused, each with how often it runs.
        objective: What each schedule minimises.
        budget: Of each schedule.
    """

    space: BuildsArchitectures
    networks: tuple[tuple[Network, float], ...]
    objective: Objective
    budget: Budget

    def __call__(self, point: Mapping[str, PointValue]) -> Evaluation:
        """Evaluate one design: latency and energy summed over the networks, leakage over that time."""
        return judged(self.space, point, self._judge)

    def _judge(self, architecture: Architecture) -> tuple[Metrics, FusedDetail] | Infeasible:
        cycles, picojoules = 0.0, 0.0
        by_level: dict[str, float] = {}
        records: list[FusedRecord] = []
        for network, weight in self.networks:
            problem = ScheduleProblem(network, architecture)
            result = FusedScheduler().schedule(problem, self.objective, budget=self.budget, seed=0)
            if result.infeasible is not None:
                return result.infeasible
            cost = result.found.schedule.cost()
            cycles += weight * cost.seconds
            picojoules += weight * cost.energy
            for level, spent in cost.energy_by_level.items():
                by_level[level] = by_level.get(level, 0.0) + weight * spent
            records.append(_record(result, cost, network, weight, architecture))
        metrics = metrics_of_sums(architecture, cycles, architecture.clock_hz, picojoules)
        return metrics, FusedDetail(tuple(records), by_level)


def _record(
    result: ScheduleResult, cost: GraphCost, network: Network, weight: float, architecture: Architecture
) -> FusedRecord:
    assert result.dram_bytes is not None and result.peak_buffer_bytes is not None  # it is feasible
    parts = result.found.schedule.parts
    every = [leaf for part in parts for group in part.costed() for leaf in leaves([group])]
    return {
        "name": network.name,
        "scheduler": "fused",
        "utilisation": network.macs / (architecture.mac_units * cost.seconds),
        "lgs": len(parts),
        "flgs": len(every),
        "tiles": sum(_tiles(leaf) for leaf in every),
        "weight": weight,
        "gap": result.gap or 0.0,
        "latency_cycles": math.ceil(cost.seconds),
        "energy_pj": cost.energy,
        "dram_bytes": result.dram_bytes,
        "peak_buffer_bytes": result.peak_buffer_bytes,
        "channel_cycles": math.ceil(cost.outer_seconds),
        "compute_cycles": math.ceil(cost.compute_seconds),
        "bound_cycles": math.ceil(max(cost.outer_seconds, cost.compute_seconds)),
    }


def _tiles(leaf: Leaf) -> int:
    """Iterations of the shared loops around an operator."""
    loops = [x for x in leaf.nest if isinstance(x, Loop)]
    return math.prod(x.steps for x in loops[: leaf.shared])
