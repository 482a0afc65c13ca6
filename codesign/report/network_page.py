"""The page of one network on one accelerator: figures, the machine, where time and energy go, every layer's loop nest."""

from pathlib import Path

from codesign.core.files import write_atomic
from codesign.core.json_types import JsonObject
from codesign.evaluation.design import describe_architecture
from codesign.evaluation.metrics import UNITS
from codesign.evaluation.timed import TimedNetwork
from codesign.evaluation.whole_network import NetworkResult
from codesign.report.design_data import area_parts, energy_parts, layer_rows, roofline
from codesign.report.html_page import asset, build_page
from codesign.report.recommend import LABELS

SCRIPTS = ("scene.js", "drawing.js", "design.js", "network.js")


def write_network_page(result: NetworkResult, path: Path, events: TimedNetwork | None = None) -> Path:
    """Write the page, with simulated cycles beside analytical ones where they are given; returns its path."""
    title = f"{result.network.name} on {result.architecture.name}"
    write_atomic(path, build_page(title, asset("network.html"), network_page_data(result, events), SCRIPTS))
    return path


def network_page_data(result: NetworkResult, events: TimedNetwork | None = None) -> JsonObject:
    """Everything the page shows, as plain values."""
    metrics, vector = result.metrics(), result.vector.to_json()
    layers = [layer.to_json() for layer in result.layers]
    architecture = describe_architecture(result.architecture)
    return {
        "network": result.network.name,
        "mapper": result.mapper,
        "objective": result.options.objective.value,
        "operators": len(result.network.operators),
        "macs": result.network.macs,
        "weight_bytes": result.network.weight_bytes,
        "dram_bytes": result.dram_bytes,
        "utilization": result.utilization,
        "metrics": metrics,
        "units": UNITS,
        "labels": LABELS,
        "design": {
            "architecture": architecture,
            "area": area_parts(architecture),
            "energy": energy_parts(layers, vector, metrics),
            "layers": layer_rows(layers, [layer.mapped for layer in result.layers]),
            "vector": vector,
            "roofline": roofline(architecture),
            **({} if events is None else {"events": events.page_json()}),
        },
    }
