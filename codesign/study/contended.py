"""The front of a study of systems of many cores on routers and DRAM queues: recorded trees simulated as they stand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from codesign.core.json_types import JsonObject
from codesign.core.specs import spec_from_json
from codesign.evaluation.metrics import Metrics
from codesign.study.simulated_fronts import still_on_front
from codesign.study.study import Study, Trial

if TYPE_CHECKING:
    from codesign.evaluation.many_cores import SegmentsEvaluator
    from codesign.scheduling.segments.contention import Simulated
    from codesign.scheduling.segments.layers import SegmentNetwork

CONTENTION_FILE = "contention.json"
"""What a study's folder holds the simulated front in."""


@final
@dataclass(frozen=True)
class ContendedNetwork:
    """A network of a design, simulated.

    Args:
        name: Of the network.
        weight: How often it runs.
        analytic: Its time by the rules that it was searched with, cycles of 1 GHz.
        simulated: Its time on routers and DRAM queues.
        energy_pj: Its energy in that time.
        complete: Whether no step was given up.
        run: The simulation, segment by segment.
    """

    name: str
    weight: float
    analytic: int
    simulated: int
    energy_pj: float
    complete: bool
    run: "Simulated"

    def to_json(self) -> JsonObject:
        """The record as `CONTENTION_FILE` holds it."""
        return {
            "network": self.name,
            "weight": self.weight,
            "analytic_cycles": self.analytic,
            "latency_cycles": self.simulated,
            "uncontended_cycles": self.run.free,
            "energy_pj": self.energy_pj,
            "status": "ok" if self.complete else "partial",
        }


@final
@dataclass(frozen=True)
class ContendedDesign:
    """A design of the front, simulated.

    Args:
        trial: Its number.
        networks: What runs on it.
        metrics: Its figures with simulated latency and the energy of that time.
        on_front: Whether it stays on the front of the simulated designs.
    """

    trial: int
    networks: tuple[ContendedNetwork, ...]
    metrics: Mapping[str, float]
    on_front: bool

    @property
    def analytic(self) -> float:
        """Time before simulation, summed over the networks, cycles of 1 GHz."""
        return sum(n.weight * n.analytic for n in self.networks)

    @property
    def simulated(self) -> float:
        """Simulated time, summed over the networks."""
        return sum(n.weight * n.simulated for n in self.networks)

    def to_json(self) -> JsonObject:
        """The record as `CONTENTION_FILE` holds it."""
        return {
            "trial": self.trial,
            "on_front": self.on_front,
            "metrics": dict(self.metrics),
            "analytic_cycles": self.analytic,
            "latency_cycles": self.simulated,
            "status": "ok" if all(n.complete for n in self.networks) else "partial",
            "networks": [n.to_json() for n in self.networks],
        }


def contend_front(study: Study, judged: "SegmentsEvaluator") -> tuple[ContendedDesign, ...]:
    """Simulate every design of a study's front with the trees that it was recorded with.

    Args:
        study: With its trials.
        judged: How they were judged.
    """
    front = study.front()
    simulated = [_networks(study, trial, judged) for trial in front]
    metrics = [_metrics(trial, networks) for trial, networks in zip(front, simulated, strict=True)]
    kept = still_on_front(metrics, study.objectives)
    return tuple(
        ContendedDesign(trial.number, networks, figures, keep)
        for trial, networks, figures, keep in zip(front, simulated, metrics, kept, strict=True)
    )


def _networks(study: Study, trial: Trial, judged: "SegmentsEvaluator") -> tuple[ContendedNetwork, ...]:
    by_name = {network.name: network for network, _ in judged.networks}
    records = study.detail(trial.number)["networks"]
    return tuple(_network(by_name[record["name"]], record, judged.rules, trial.number) for record in records)


def _network(network: "SegmentNetwork", record: Mapping[str, Any], rules: str, trial: int) -> ContendedNetwork:
    from codesign.arch.many_core import ManyCore
    from codesign.scheduling.segments.contention import ContentionSimulator
    from codesign.scheduling.segments.evaluate import SEMANTICS, Evaluator
    from codesign.scheduling.segments.tree_files import tree_from_json

    where, encoding = f"trial {trial}", record["encoding"]
    evaluator = Evaluator(spec_from_json(ManyCore, encoding["system"], where), network, SEMANTICS[rules])
    found = evaluator.evaluate(tree_from_json(encoding["tree"], network, where))
    run = ContentionSimulator(evaluator).simulate(found)
    time = found.rows[0].time
    return ContendedNetwork(network.name, float(record["weight"]), time, run.time, run.energy_pj, run.complete, run)


def _metrics(trial: Trial, networks: tuple[ContendedNetwork, ...]) -> dict[str, float]:
    from codesign.evaluation.many_cores import SECONDS_PER_TICK

    latency = sum(n.weight * n.simulated for n in networks) * SECONDS_PER_TICK
    energy = sum(n.weight * n.energy_pj for n in networks) * 1e-12
    recorded = trial.metrics
    return {**recorded, **Metrics(latency, energy, recorded["area_mm2"], recorded["leakage_w"]).to_dict()}
