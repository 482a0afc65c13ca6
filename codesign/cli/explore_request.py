"""The options of `codesign explore`, read."""

from dataclasses import dataclass
from pathlib import Path

from codesign.evaluation.own_metrics import MetricFunction


@dataclass(frozen=True)
class ExploreRequest:
    """The options of the command, read."""

    networks: tuple[str, ...]
    weights: tuple[float, ...]
    batch: int | None
    seq: int | None
    past: int | None
    dims: dict[str, int] | None
    phase: str | None
    space: str
    optimizer: str
    trials: int | None
    epsilon: float | None
    objectives: tuple[str, ...]
    constraints: tuple[str, ...]
    scheduler: str
    dram_ports: str | None
    mapper: str | None
    map_objective: str | None
    time_limit_s: float | None
    evaluations: int | None
    activations: str
    activation_bytes: int
    resident_weights: bool
    fidelity: str
    cheap_mapper: str | None
    cheap_evaluations: int | None
    cheap_cost: float | None
    executor: str
    workers: int | None
    ray_address: str | None
    seed: int
    out: Path
    storage: str | None
    study: str | None
    metrics: tuple[tuple[str, MetricFunction], ...] = ()
    workload: Path | None = None
