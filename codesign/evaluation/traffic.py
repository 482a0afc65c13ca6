"""From a design point to its metrics by off-chip traffic alone: order, addresses and spills optimal for its scratchpad.

The scratchpad, the level inside DRAM, is the parameter that matters. What is judged is what it saves: the bytes between
it and DRAM, their energy, and the time the DRAM interface is busy. Arithmetic is not in it; time is that of a run that
hides all of it behind the transfers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from codesign.arch.architecture import Architecture
from codesign.core.point import PointValue
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import BuildsArchitectures, Evaluation, judged
from codesign.evaluation.detail import TrafficDetail
from codesign.evaluation.metrics import Metrics, metrics_of_sums
from codesign.evaluation.records import TrafficRecord
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.objective import (
    Quantity,
    TrafficWeights,
    cycles_per_byte,
    dram_energy_per_byte_pj,
    energy_per_byte_pj,
    weights_on,
)
from codesign.scheduling.cosma.result import Schedule, TooSmall, Unplaced
from codesign.scheduling.cosma.solve import DEFAULT_EFFORT, Effort, schedule_cosma
from codesign.scheduling.protocol import buffer_bytes

Outcome = Schedule | TooSmall | Unplaced


@dataclass(frozen=True)
class TrafficEvaluator:
    """Judges designs by the off-chip traffic of whole networks. Plain data, so it can be sent to other processes.

    Args:
        space: Where designs come from.
        graphs: Networks, each with how often it runs; with parameters if these share the scratchpad.
        objective: What each schedule minimises; bytes are the same for all designs of one scratchpad size.
        effort: Limits of each schedule.
        solved: Schedules found before, by network, bytes and weights: designs that differ elsewhere share them.
    """

    space: BuildsArchitectures
    graphs: tuple[tuple[OperatorGraph, float], ...]
    objective: Quantity = Quantity.BYTES
    effort: Effort = DEFAULT_EFFORT
    solved: dict[tuple[int, int, TrafficWeights], Outcome] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, point: Mapping[str, PointValue]) -> Evaluation:
        """Evaluate one design: traffic, its energy and its time summed over the networks, leakage over that time."""
        return judged(self.space, point, self._judge)

    def _judge(self, architecture: Architecture) -> tuple[Metrics, TrafficDetail] | Infeasible:
        capacity = buffer_bytes(architecture)
        weights = weights_on(architecture, self.objective)
        energy, cycles = energy_per_byte_pj(architecture), cycles_per_byte(architecture)
        dram_pj = dram_energy_per_byte_pj(architecture)
        total_bytes, total_pj, off_chip_pj, total_cycles = 0.0, 0.0, 0.0, 0.0
        networks = []
        for position, (graph, weight) in enumerate(self.graphs):
            found = self._schedule(position, capacity, weights)
            if not isinstance(found, Schedule):
                return _reason(found, architecture.levels[1].name)
            written = found.written_bytes + graph.stored_bytes
            read = found.read_bytes + graph.loaded_bytes
            picojoules = written * energy[0] + read * energy[1]
            busy = written * cycles[0] + read * cycles[1]
            total_bytes += weight * (written + read)
            total_pj += weight * picojoules
            off_chip_pj += weight * (written * dram_pj[0] + read * dram_pj[1])
            total_cycles += weight * busy
            networks.append(_network_json(found, weight, picojoules, busy / architecture.clock_hz))
        metrics = metrics_of_sums(architecture, total_cycles, architecture.clock_hz, total_pj)
        dram, scratchpad = architecture.levels[:2]
        parts = {dram.name: off_chip_pj, scratchpad.name: total_pj - off_chip_pj}
        return metrics, TrafficDetail(capacity, total_bytes, tuple(networks), parts)

    def _schedule(self, position: int, capacity: int, weights: TrafficWeights) -> Outcome:
        key = (position, capacity, weights)
        if key not in self.solved:
            graph = self.graphs[position][0]
            self.solved[key] = schedule_cosma(graph, capacity, weights=weights, effort=self.effort)
        return self.solved[key]


def _reason(found: TooSmall | Unplaced, level: str) -> Infeasible:
    if isinstance(found, TooSmall):
        need = f"operator {found.operator!r} alone needs more"
        return Infeasible(level, float(found.demand_bytes), float(found.capacity_bytes), "bytes", need)
    detail = "no schedule has addresses" if found.proven else "no addresses were found in time"
    return Infeasible(level, float(found.capacity_bytes + 1), float(found.capacity_bytes), "bytes", detail)


def _network_json(found: Schedule, weight: float, picojoules: float, seconds: float) -> TrafficRecord:
    return {
        "name": found.graph.name,
        "weight": weight,
        "dram_bytes": found.dram_bytes,
        "noncompulsory_bytes": found.noncompulsory_bytes,
        "peak_buffer_bytes": found.peak_buffer_bytes,
        "proof": found.proof.value,
        "value": found.value,
        "bound": found.bound,
        "unit": found.unit,
        "traffic_energy_j": picojoules * 1e-12,
        "traffic_latency_s": seconds,
    }
