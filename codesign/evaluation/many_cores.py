"""From a system of many cores to its metrics: networks scheduled on it as trees of segments (docs/explanation/many-cores.md, rules M81 to M83)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.arch.chiplet_cost import money, system_provenance
from codesign.arch.many_core import ManyCore
from codesign.core.json_types import JsonObject
from codesign.core.point import PointValue
from codesign.core.specs import spec_to_json
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import Evaluation, judged
from codesign.evaluation.detail import FusedDetail
from codesign.evaluation.metrics import JudgedMetric, Metrics, area_of
from codesign.evaluation.records import FusedRecord
from codesign.scheduling.segments.bound import SegmentBound, bound_of
from codesign.scheduling.segments.energy_parts import energy_parts_pj
from codesign.scheduling.segments.evaluate import SEMANTICS, Evaluator
from codesign.scheduling.segments.kernels import fabric
from codesign.scheduling.segments.layers import SegmentNetwork
from codesign.scheduling.segments.scheduler import nothing_fits, peak_bytes
from codesign.scheduling.segments.search import NothingFitsError, Searched, SearchSettings, TreeSearch
from codesign.scheduling.segments.timeline import timeline_of
from codesign.scheduling.segments.tree_files import tree_to_json

SECONDS_PER_TICK = 1e-9
"""Times of trees are cycles of 1 GHz, or nanoseconds at any other clock."""

COST_USD = "cost_usd"
SYSTEM_METRICS = {COST_USD: JudgedMetric(COST_USD)}
"""Metrics that systems have besides those of every design."""


@runtime_checkable
class SystemSpace(Protocol):
    """A hardware space whose designs are systems of many cores."""

    def build(self, point: Mapping[str, PointValue]) -> Architecture:
        """The levels of a design with areas, for reports."""

    def system(self, point: Mapping[str, PointValue]) -> ManyCore:
        """The system of a design."""


@dataclass(frozen=True)
class SegmentsEvaluator:
    """Judges systems by trees of segments of whole networks. Plain data, so it can be sent to other processes.

    Args:
        space: Where designs come from.
        networks: Layers, each with how often it runs.
        batch: Samples per run.
        settings: How each tree is searched.
        rules: Whose rules hold, a name of `SEMANTICS`.
    """

    space: SystemSpace
    networks: tuple[tuple[SegmentNetwork, float], ...]
    batch: int
    settings: SearchSettings
    rules: str = "own"

    def __call__(self, point: Mapping[str, PointValue]) -> Evaluation:
        """Evaluate one design: time and energy summed over the networks, cost and area of its dies (rule M81)."""
        system = self.space.system(point)
        found = judged(self.space, point, lambda architecture: self._judge(architecture, system))
        found.architecture["provenance"] = system_provenance(system)
        return found

    def _judge(self, architecture: Architecture, system: ManyCore) -> tuple[Metrics, FusedDetail] | Infeasible:
        time, picojoules = 0.0, 0.0
        parts: dict[str, float] = {}
        records: list[FusedRecord] = []
        for network, weight in self.networks:
            evaluator = Evaluator(system, network, SEMANTICS[self.rules])
            try:
                found = TreeSearch(evaluator, self.batch, self.settings).run()
            except NothingFitsError as error:
                return nothing_fits(system, network, error.message)
            whole = found.evaluation.rows[0]
            time += weight * whole.time
            picojoules += weight * whole.energy_pj
            for name, value in energy_parts_pj(evaluator, found.evaluation).items():
                parts[name] = parts.get(name, 0.0) + weight * value
            records.append(_record(evaluator, found, bound_of(evaluator, self.batch), weight))
        own = ((COST_USD, money(system).overall_usd),)
        metrics = Metrics(time * SECONDS_PER_TICK, picojoules * 1e-12, area_of(architecture), 0.0, own)
        return metrics, FusedDetail(tuple(records), parts)


def _least_cycles(evaluator: Evaluator, batch: int) -> float:
    """Cycles of a batch if all cores compute all the time, each at the pace of its kind for the layer."""
    if evaluator.kinds == 1:
        return float(sum(evaluator.unit_times[:, 0])) * batch / evaluator.system.cores
    counts = np.diff(evaluator.kind_start)
    return float((1.0 / (counts / evaluator.unit_times).sum(axis=1)).sum()) * batch


def _record(evaluator: Evaluator, found: Searched, bound: SegmentBound, weight: float) -> FusedRecord:
    """A schedule as a study records it, with the system and the tree, from which it can be made again."""
    whole, system, network = found.evaluation.rows[0], evaluator.system, evaluator.network
    moved = fabric.dram_cycles(evaluator.fabric, whole.counter)
    computed = _least_cycles(evaluator, found.evaluation.root.batch)
    runs = timeline_of(network, found.evaluation)
    encoding: JsonObject = {"system": spec_to_json(system), "tree": tree_to_json(found.evaluation.root, network)}
    return {
        "name": network.name,
        "scheduler": "segments",
        "weight": weight,
        "gap": bound.gap(found.evaluation.edp),
        "latency_cycles": whole.time,
        "energy_pj": whole.energy_pj,
        "dram_bytes": whole.dram_words,
        "peak_buffer_bytes": peak_bytes(found.evaluation),
        "channel_cycles": moved,
        "compute_cycles": round(computed),
        "bound_cycles": math.ceil(bound.time),
        "utilisation": computed / max(whole.time, 1),
        "lgs": 1 + max(run.segment for run in runs),
        "flgs": len(runs),
        "tiles": sum(run.runs for run in runs),
        "encoding": encoding,
    }
