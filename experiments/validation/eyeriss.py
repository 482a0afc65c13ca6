"""The Eyeriss chip: measured latency of AlexNet's convolutions (ISSCC 2016, JSSC 2017)."""

from pathlib import Path
from typing import Any

from codesign.timing.table import load_timing
from experiments.models.row_stationary import ConvLayer, RowStationary, pass_cycles
from experiments.validation.common import Comparison, Point, integer, read_rows
from experiments.validation.eyeriss_power import power_bands

PASSES = {
    "conv1": RowStationary(n=1, e=7, p=16, q=1, r=1, t=2),
    "conv2": RowStationary(n=1, e=27, p=16, q=2, r=1, t=1),
    "conv3": RowStationary(n=4, e=13, p=16, q=4, r=1, t=4),
    "conv4": RowStationary(n=4, e=13, p=16, q=3, r=2, t=2),
    "conv5": RowStationary(n=4, e=13, p=16, q=3, r=2, t=2),
}
"""What a pass holds: JSSC 2017, Table III. The active PEs it implies are the recorded ones (conv1: the paper's 154)."""

_COLUMNS = ("layer", "groups", "batch", "C_per_group", "K_per_group", "output_side", "filter_side", "latency_ms")
_CLOCK_HZ = 200e6


def compare_eyeriss(folder: Path, smoke: bool) -> Comparison:
    """Every layer of `alexnet.csv`."""
    path = folder / "alexnet.csv"
    timing = load_timing("eyeriss-chip")
    points, missing = [], {}
    for row in read_rows(path, _COLUMNS)[: 2 if smoke else None]:
        name = row["layer"]
        if name not in PASSES:
            missing[name] = "its mapping on the chip is not published"
            continue
        layer = ConvLayer(*(integer(row, c, f"{path}: {name}") for c in _COLUMNS[1:7]))
        # conv1 has three channels that both groups share: the chip runs its 96 filters as one group
        if name == "conv1":
            layer = ConvLayer(
                1, layer.batch, layer.channels, layer.filters * layer.groups, layer.output_side, layer.filter_side
            )
        measured = float(row["latency_ms"]) * 1e-3 * _CLOCK_HZ
        points.append(Point(name, pass_cycles(layer, PASSES[name], timing), measured, "layer"))
    more: dict[str, Any] = {
        "power_mw": {} if smoke else power_bands(read_rows(path, _COLUMNS), str(path)),
        "power_note": "chip without DRAM; the clock network, the largest part by the paper, is not in the model",
        "unexplained": "conv4 and conv5 run equal passes, yet take 8,333 and 7,812 cycles a pass",
    }
    constants = {"filter_words_per_cycle": timing.constant("filter_words_per_cycle")}
    return Comparison("eyeriss", points, "cycles at 200 MHz", constants, timing.fitted_on, more, missing)
