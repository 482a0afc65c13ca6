"""The options of `codesign schedule`, read."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ScheduleOptions:
    """What was given on the command line; None where nothing was (an empty scheduler until one is implied)."""

    scheduler: str
    output_format: str
    network: str | None = None
    arch: str | None = None
    phase: str | None = None
    seq: int | None = None
    past: int | None = None
    dims: str | None = None
    batch: int | None = None
    capacity: str | None = None
    buffers: Path | None = None
    parameters: bool | None = None
    unfused: bool | None = None
    route: str | None = None
    mode: str | None = None
    tile_cost: str | None = None
    evaluate: Path | None = None
    objective: str | None = None
    time_limit: float | None = None
    evaluations: int | None = None
    prove: float | None = None
    chains: int | None = None
    workers: int | None = None
    seed: int | None = None
    html: Path | None = None
    out: Path | None = None
