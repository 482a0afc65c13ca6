"""What a study records of a design, key by key: the shapes that evaluation writes and reports read."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypeAlias, TypedDict

from codesign.core.json_types import Json, JsonObject
from codesign.core.point import Point

LoopNest: TypeAlias = Sequence[Mapping[str, object]]
"""A mapping in the form of its files, which `mapping_from_json` reads and checks."""


class LevelRecord(TypedDict):
    """A storage level; areas, leakage and instances are of all of them together."""

    name: str
    kind: str
    instances: int
    capacity_bytes: float | None
    word_bits: int
    banks: int
    keep: list[str]
    area_mm2: float | None
    leakage_mw: float | None
    read_pj: float | None
    read_bandwidth_bytes_per_cycle: float | None
    write_bandwidth_bytes_per_cycle: NotRequired[float | None]
    ports: NotRequired[str]
    fanout: list[int]
    links: str


class MacRecord(TypedDict):
    """The MACs of a design: width, number, energy and area."""

    bits: int
    units: int
    energy_pj: float | None
    area_mm2: float


class ArchitectureRecord(TypedDict):
    """An architecture: sizes, areas, fan-outs by level, outermost first."""

    name: str
    technology: str | None
    clock_hz: float
    levels: list[LevelRecord]
    mac: MacRecord
    extra_area_mm2: float
    area_mm2: float | None
    leakage_w: float
    provenance: NotRequired[JsonObject]


class LayerRecord(TypedDict):
    """A distinct layer; earlier records name one resource that bounds it and no busy cycles."""

    name: str
    notation: str
    bounds: dict[str, int]
    count: float
    macs: int
    latency_cycles: float
    energy_pj: float
    utilization: float
    bottleneck: str
    bottlenecks: NotRequired[list[str]]
    busy_cycles: NotRequired[dict[str, float]]
    dram_bytes: float
    energy_by_level_pj: dict[str, float]
    proof: str
    gap: float | None
    loopnest: str
    mapping: LoopNest
    widths: NotRequired[JsonObject]
    event_cycles: NotRequired[float]
    event_bound_by: NotRequired[str]
    event_waits_for: NotRequired[str]
    event_complete: NotRequired[bool]


class VectorRecord(TypedDict):
    """All operators that are no multiply-accumulates, together."""

    latency_cycles: float
    energy_pj: float
    dram_bytes: float
    operations: float


class FusedRecord(TypedDict):
    """A network that was scheduled as a whole, and the figures of its schedule."""

    name: str
    weight: float
    gap: float
    latency_cycles: int
    energy_pj: float
    dram_bytes: int
    peak_buffer_bytes: int
    channel_cycles: int
    compute_cycles: int
    bound_cycles: int
    utilisation: NotRequired[float]
    lgs: NotRequired[int]
    flgs: NotRequired[int]
    tiles: NotRequired[int]
    scheduler: NotRequired[str]
    encoding: NotRequired[JsonObject]


class TrafficRecord(TypedDict):
    """Off-chip traffic of a network."""

    name: str
    weight: float
    dram_bytes: int
    noncompulsory_bytes: int
    peak_buffer_bytes: int
    proof: str
    value: float
    bound: float | None
    unit: str
    traffic_energy_j: float
    traffic_latency_s: float


class ServingRecord(TypedDict):
    """What a design does for requests to a language model: phases as `Phase.to_json` writes them, stages by what a chip keeps."""

    model: str
    batch: int
    chips: int
    stages: NotRequired[list[JsonObject]]
    mean_context: int
    mean_output: float
    compute_bound_batch: int | None
    evaluated: int
    ttft_s: float
    tpot_s: float
    tokens_per_s: float
    tokens_per_j: float
    prefill: list[JsonObject]
    decode: JsonObject


class ScenarioRecord(TypedDict):
    """One of the scenarios that a design is judged by the worst of."""

    name: str
    metrics: dict[str, float]


class DetailRecord(TypedDict, total=False):
    """Beside a trial's metrics; which keys are there says how it was judged (see `codesign.evaluation.detail`)."""

    architecture: ArchitectureRecord
    metrics: dict[str, float]
    evaluated: int
    layers: Sequence[LayerRecord]
    vector: VectorRecord
    networks: Sequence[FusedRecord]
    schedules: Sequence[TrafficRecord]
    scratchpad_bytes: int
    dram_bytes: float
    serving: ServingRecord
    scenarios: Sequence[ScenarioRecord]
    energy_by_level_pj: dict[str, float]
    traceback: str


class ParameterRecord(TypedDict, total=False):
    """A parameter of a space."""

    name: str
    kind: str
    values: list[int | float | str]
    low: int
    high: int


class ParametersRecord(TypedDict, total=False):
    """The parameters of a space."""

    parameters: list[ParameterRecord]
    constraints: list[dict[str, str | None]]


class SpaceRecord(TypedDict, total=False):
    """A space: where it comes from, and its parameters."""

    name: str
    source: str
    definition: JsonObject
    bits: int
    space: ParametersRecord
    choices: JsonObject


class WorkloadRecord(TypedDict, total=False):
    """Networks, how they were loaded, and what they are known by."""

    networks: list[str]
    names: list[str]
    hashes: list[str]
    weights: list[float]
    batch: int | None
    seq: int | None
    past: int | None
    phase: str | None
    dims: dict[str, int] | None
    serving: str


class LowFidelityRecord(TypedDict):
    """Low-fidelity evaluations."""

    mapper: str | None
    evaluations: int
    cost: float


class EvaluationRecord(TypedDict, total=False):
    """How designs were judged."""

    scheduler: str
    asked: str
    passed_over: list[str]
    objective: str
    time_limit_s: float | None
    evaluations: int | None
    dram_ports: str
    activations: str
    activation_bytes: int
    resident_weights: bool
    timing: str
    timing_table: str | None
    robust: bool
    vary: list[str]
    low_fidelity: LowFidelityRecord


class ConfigRecord(TypedDict):
    """What a study searches and how."""

    space: SpaceRecord
    workload: WorkloadRecord
    objectives: list[str]
    constraints: list[str]
    optimizer: str
    mapper: dict[str, Json]
    evaluation: EvaluationRecord
    seed: int


class HeadRecord(TypedDict):
    """What a study is recorded under: its configuration, and the versions it was made with."""

    config: ConfigRecord
    versions: NotRequired[dict[str, str]]
    format: NotRequired[int]


class TrialRecord(TypedDict):
    """A trial, its detail apart."""

    number: int
    point: Point
    metrics: dict[str, float]
    infeasible: dict[str, Json] | None
    seconds: float
    elapsed_s: float
