"""What the report shows of one design: breakdowns, layers with what bounds each, roofline; plain values."""

from collections.abc import Mapping, Sequence

from codesign.arch.architecture import Ports
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.cost.cost import COMPUTE, Cost
from codesign.evaluation.design import DesignSpace
from codesign.evaluation.detail import FusedDetail, LayersDetail, ServingDetail, TrafficDetail, detail_of
from codesign.evaluation.network import MappedLayer
from codesign.evaluation.records import ArchitectureRecord, DetailRecord, LayerRecord, VectorRecord
from codesign.evaluation.replay import recorded_space, replay_layers
from codesign.study.study import Study, Trial

NESTS_SHOWN = 8
"""Heaviest layers whose loop nests are kept in the page."""


class DesignData:
    """Makes the page's data of a study's designs; loads the study's space once, if it can be had."""

    def __init__(self, study: Study, space: str | None = None) -> None:
        self._study = study
        self._space: DesignSpace | None = None
        self.note = ""
        try:
            self._space = recorded_space(study.config, space)
        except UserError as error:
            self.note = f"Designs could not be built again, so what memories hold is left out: {error}."

    @property
    def space_size(self) -> int | None:
        """Designs that the study's space can have at most; None if the space cannot be had."""
        return None if self._space is None else int(self._space.space.cardinality_bound)

    def of(self, trial: Trial) -> JsonObject | None:
        """The data of a trial; None when nothing is recorded of it."""
        detail = self._study.detail(trial.number)
        if "architecture" not in detail:
            return None
        architecture = detail["architecture"]
        data: JsonObject = {"architecture": architecture, "area": area_parts(architecture)}
        found = detail_of(detail)
        if isinstance(found, LayersDetail):
            data["layers"] = layer_rows(found.layers, self._replay(trial, detail))
            data["energy"] = energy_parts(found.layers, found.vector, found.metrics)
            data["vector"] = found.vector
            data["roofline"] = roofline(architecture)
        elif isinstance(found, ServingDetail):
            data["serving"] = found.serving
            data["roofline"] = roofline(architecture)
        elif isinstance(found, FusedDetail):
            data["networks"] = [{k: v for k, v in network.items() if k != "encoding"} for network in found.networks]
        elif isinstance(found, TrafficDetail):
            data["schedules"] = found.schedules
        if isinstance(found, FusedDetail | TrafficDetail) and found.energy_by_level_pj is not None:
            data["energy"] = scheduled_energy_parts(found.energy_by_level_pj, trial.metrics)
        return data

    def _replay(self, trial: Trial, detail: DetailRecord) -> tuple[MappedLayer, ...]:
        if self._space is None:
            return ()
        try:
            architecture = self._space.build(trial.point)
            return replay_layers(self._space, architecture, detail)
        except UserError as error:
            self.note = f"Some designs could not be built again, so what memories hold is left out: {error}."
            return ()


def energy_parts(
    layers: Sequence[LayerRecord], vector: VectorRecord, metrics: Mapping[str, float | None]
) -> list[tuple[str, float]]:
    """Joules of one run of the workload by where they are spent."""
    parts: dict[str, float] = {}
    corrected = 0.0
    for layer in layers:
        for part, energy_pj in layer["energy_by_level_pj"].items():
            parts[part] = parts.get(part, 0.0) + energy_pj * layer["count"] * 1e-12
        saved = layer["energy_pj"] - sum(layer["energy_by_level_pj"].values())
        corrected += saved * layer["count"] * 1e-12
    named = [("interconnect" if part == "network" else part, joules) for part, joules in parts.items()]
    named.append(("vector operators", vector["energy_pj"] * 1e-12))
    named.append(("leakage", (metrics["leakage_w"] or 0.0) * (metrics["latency_s"] or 0.0)))
    if abs(corrected) > 1e-9 * sum(parts.values()):
        named.append(("kept on chip", corrected))  # rule E5: DRAM accesses that did not happen
    return [(name, joules) for name, joules in named if joules != 0.0]


def scheduled_energy_parts(by_level_pj: Mapping[str, float], metrics: Mapping[str, float]) -> list[tuple[str, float]]:
    """Joules of one run of a workload that was scheduled as a whole, by where they are spent."""
    parts = [("interconnect" if name == "network" else name, pj * 1e-12) for name, pj in by_level_pj.items()]
    parts.append(("leakage", metrics["leakage_w"] * metrics["latency_s"]))
    return [(name, joules) for name, joules in parts if joules]


def area_parts(architecture: ArchitectureRecord) -> list[tuple[str, float]]:
    """Square millimetres by part of the chip."""
    parts = [(v["name"], v["area_mm2"] or 0.0) for v in architecture["levels"] if v["kind"] != "dram"]
    parts.append(("MAC units", architecture["mac"]["area_mm2"] or 0.0))
    parts.append(("interconnect and DMA", architecture["extra_area_mm2"]))
    return [(name, area) for name, area in parts if area]


def busy_cycles(cost: Cost) -> dict[str, int]:
    """Cycles of computing and of every level's ports, by name."""
    return {COMPUTE: cost.compute_cycles, **{v.level: v.busy_cycles for v in cost.levels}}


def bottlenecks_of(layer: LayerRecord) -> list[str]:
    """All that bounds a recorded layer; records made before there could be several name one."""
    return list(layer.get("bottlenecks") or [layer["bottleneck"]])


def layer_rows(layers: Sequence[LayerRecord], replayed: Sequence[MappedLayer]) -> list[JsonObject]:
    """Every distinct layer, in the order of the network."""
    by_weight = sorted(range(len(layers)), key=lambda i: -layers[i]["latency_cycles"] * layers[i]["count"])
    shown = set(by_weight[:NESTS_SHOWN])
    rows = []
    for i, layer in enumerate(layers):
        row: JsonObject = {
            key: layer[key]
            for key in (
                "name",
                "notation",
                "bounds",
                "count",
                "macs",
                "latency_cycles",
                "energy_pj",
                "utilization",
                "dram_bytes",
                "proof",
                "gap",
            )
        }
        row["energy_by_part"] = layer["energy_by_level_pj"]
        row["bottlenecks"] = bottlenecks_of(layer)
        row["busy_cycles"] = layer.get("busy_cycles")
        if row["busy_cycles"] is None and replayed:
            row["busy_cycles"] = busy_cycles(replayed[i].cost)
        if replayed:
            cost = replayed[i].cost
            row["occupancy"] = {v.level: v.used_bytes / v.capacity_bytes for v in cost.levels if v.capacity_bytes}
        if "event_cycles" in layer:
            row["event_cycles"] = layer["event_cycles"]
        if i in shown:
            row["nest"] = layer["loopnest"]
        rows.append(row)
    return rows


def roofline(architecture: ArchitectureRecord) -> JsonObject:
    """Peak MACs per cycle and the most bytes per cycle that can cross the port of the outermost level (rules L2 and L4).

    Records made before levels could have one port for both directions name the read bandwidth alone; the other was equal.
    """
    dram = architecture["levels"][0]
    read = dram["read_bandwidth_bytes_per_cycle"]
    write = dram.get("write_bandwidth_bytes_per_cycle", read)
    one_port = dram.get("ports") == Ports.SHARED.value
    most = None if read is None or write is None else max(read, write) if one_port else read + write
    return {"macs_per_cycle": architecture["mac"]["units"], "bytes_per_cycle": most, "level": dram["name"]}
