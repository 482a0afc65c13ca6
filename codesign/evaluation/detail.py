"""What a trial records beside its metrics: layers with their mappings, or schedules of whole networks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from codesign.evaluation.records import (
    DetailRecord,
    FusedRecord,
    LayerRecord,
    ScenarioRecord,
    ServingRecord,
    TrafficRecord,
    VectorRecord,
)


@final
@dataclass(frozen=True)
class LayersDetail:
    """Of a design judged layer by layer.

    Args:
        metrics: Its figures.
        evaluated: Mappings scored.
        layers: Every distinct layer in the form of `LayerResult.to_json`.
        vector: The other operators together: cycles, pJ, bytes, operations.
    """

    metrics: dict[str, float]
    evaluated: int
    layers: tuple[LayerRecord, ...]
    vector: VectorRecord

    def to_json(self) -> DetailRecord:
        """As a study records it."""
        return {
            "metrics": dict(self.metrics),
            "evaluated": self.evaluated,
            "layers": list(self.layers),
            "vector": self.vector,
        }


@final
@dataclass(frozen=True)
class FusedDetail:
    """Of a design judged by fused schedules.

    Args:
        networks: Every network: name, weight, gap, figures and encoding of its schedule.
        energy_by_level_pj: Of one run of all; None in records of earlier versions.
    """

    networks: tuple[FusedRecord, ...]
    energy_by_level_pj: Mapping[str, float] | None

    def to_json(self) -> DetailRecord:
        """As a study records it."""
        return _with_energy({"networks": list(self.networks)}, self.energy_by_level_pj)


@final
@dataclass(frozen=True)
class TrafficDetail:
    """Of a design judged by off-chip traffic.

    Args:
        scratchpad_bytes: Size of the memory that is scheduled.
        dram_bytes: Off chip in one run of all networks.
        schedules: Every network: traffic, peak, proof, energy and time of its transfers.
        energy_by_level_pj: Of one run of all; None in records of earlier versions.
    """

    scratchpad_bytes: int
    dram_bytes: float
    schedules: tuple[TrafficRecord, ...]
    energy_by_level_pj: Mapping[str, float] | None

    def to_json(self) -> DetailRecord:
        """As a study records it."""
        found: DetailRecord = {
            "scratchpad_bytes": self.scratchpad_bytes,
            "dram_bytes": self.dram_bytes,
            "schedules": list(self.schedules),
        }
        return _with_energy(found, self.energy_by_level_pj)


@final
@dataclass(frozen=True)
class ServingDetail:
    """Of a design judged by the requests it serves.

    Args:
        serving: Times, energies, what binds each phase (docs/reference/serving.md).
        energy_by_level_pj: Not told apart.
    """

    serving: ServingRecord
    energy_by_level_pj: None = None

    def to_json(self) -> DetailRecord:
        """As a study records it."""
        return {"serving": self.serving}


@final
@dataclass(frozen=True)
class ScenariosDetail:
    """Of a design judged by the worst of several scenarios.

    Args:
        scenarios: Names and figures.
        energy_by_level_pj: Not told apart.
    """

    scenarios: tuple[ScenarioRecord, ...]
    energy_by_level_pj: None = None

    def to_json(self) -> DetailRecord:
        """As a study records it."""
        return {"scenarios": list(self.scenarios)}


@final
@dataclass(frozen=True)
class NoDetail:
    """Of a design that cannot run, and of trials that came from a table."""

    def to_json(self) -> DetailRecord:
        """As a study records it."""
        return {}


Detail = LayersDetail | FusedDetail | TrafficDetail | ServingDetail | ScenariosDetail | NoDetail
"""What a design was judged by; a study's reader tells the kinds apart by their types."""


def _with_energy(record: DetailRecord, spent: Mapping[str, float] | None) -> DetailRecord:
    return record if spent is None else {**record, "energy_by_level_pj": dict(spent)}


def detail_of(record: DetailRecord) -> Detail:
    """The detail that a study recorded.

    Args:
        record: Plain values, with or without the architecture.
    """
    if "layers" in record and "metrics" in record:
        return LayersDetail(
            record["metrics"], int(record.get("evaluated", 0)), tuple(record["layers"]), record["vector"]
        )
    spent = record.get("energy_by_level_pj")
    if "networks" in record:
        return FusedDetail(tuple(record["networks"]), spent)
    if "schedules" in record:
        return TrafficDetail(record["scratchpad_bytes"], record["dram_bytes"], tuple(record["schedules"]), spent)
    if "serving" in record:
        return ServingDetail(record["serving"])
    if "scenarios" in record:
        return ScenariosDetail(tuple(record["scenarios"]))
    return NoDetail()
