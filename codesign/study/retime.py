"""The front of a study in the event tier: recorded mappings simulated as they stand, analytical and event cycles side by side."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from codesign.core.json_types import JsonObject
from codesign.evaluation.detail import LayersDetail, detail_of
from codesign.evaluation.metrics import Metrics
from codesign.evaluation.replay import recorded_space, replay_layers
from codesign.evaluation.timed import TimedNetwork, time_mappings, with_latency
from codesign.hardware.timed import timing_at
from codesign.study.simulated_fronts import still_on_front
from codesign.study.study import Study, Trial
from codesign.timing.table import load_timing, timing_for

TIMING_FILE = "timing.json"
"""What a study's folder holds the simulated front in."""


@final
@dataclass(frozen=True)
class TimedDesign:
    """A design of the front in the event tier.

    Args:
        trial: Its number.
        network: Its layers under both models.
        metrics: Its figures with simulated latency.
        on_front: Whether it stays on the front of the simulated designs.
    """

    trial: int
    network: TimedNetwork
    metrics: Mapping[str, float]
    on_front: bool

    def to_json(self) -> JsonObject:
        """The simulated cycles as `TIMING_FILE` holds them."""
        return {
            "trial": self.trial,
            "on_front": self.on_front,
            "metrics": dict(self.metrics),
            **self.network.page_json(),
        }


def time_front(study: Study, table: str | None = None) -> tuple[TimedDesign, ...]:
    """Simulate every design of a study's front with the mappings it was recorded with.

    Args:
        study: Judged layer by layer.
        table: Timing table by name or path; None for the one named like the architecture.

    Raises:
        UserError: A design cannot be built again, or the table speaks of another architecture.
    """
    front = study.front()
    timed = [_time_design(study, trial, table) for trial in front]
    kept = still_on_front([metrics for _, metrics in timed], study.objectives)
    return tuple(
        TimedDesign(trial.number, network, metrics, keep)
        for trial, (network, metrics), keep in zip(front, timed, kept, strict=True)
    )


def _time_design(study: Study, trial: Trial, table: str | None) -> tuple[TimedNetwork, dict[str, float]]:
    space = recorded_space(study.config)
    architecture = space.build(trial.point)
    timing = timing_for(architecture) if table is None else timing_at(load_timing(table), trial.point)
    record = study.detail(trial.number)
    detail = detail_of(record)
    assert isinstance(detail, LayersDetail)
    layers = replay_layers(space, architecture, record)
    network = time_mappings(layers, detail.vector["latency_cycles"], architecture, timing)
    recorded = trial.metrics
    plain = Metrics(recorded["latency_s"], recorded["energy_j"], recorded["area_mm2"], recorded["leakage_w"])
    figures = with_latency(plain, network.latency_cycles / architecture.clock_hz).to_dict()
    return network, {**recorded, **figures}
