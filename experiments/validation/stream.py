"""Chips that Stream describes (DepFiN, DIANA, Verma): measured cycles beside layers run core by core."""

import math
from pathlib import Path
from typing import Any

from experiments.models.output_tiles import DrainedLayer, drained_cycles
from experiments.validation.common import Comparison, Point, read_json

_REDUCED = ("C", "FX", "FY")
_CLOSES_NOT = {
    "verma_ocn": "its 66,302 cycles do not follow from its files: five layers of 1,568 array steps on five cores; "
    "the cycles of one evaluation of the analogue arrays are not stated",
}


def chip_layer(core: dict[str, Any], layer: dict[str, Any]) -> DrainedLayer:
    """What a layer asks of its core: unrolled dimensions in space, the others in time."""
    size = layer["loop_dim_size"]
    unrolled: dict[str, int] = {}
    for entry in core["spatial_unrolling"][0].values():
        unrolled[entry[0]] = min(int(entry[1]), size.get(entry[0], 1))
    times = {d: -(-n // unrolled.get(d, 1)) for d, n in size.items()}
    precision = layer["operand_precision"]
    outputs = math.prod(unrolled.get(d, 1) for d in size if d not in _REDUCED)
    # a window that is unrolled slides: of its columns only the next one is new
    window = math.prod(unrolled.get(d, 1) for d in ("C", "G", "FY"))
    wide = unrolled.get("OX", 1)
    above, register = _memories(core)
    inputs = max((n for d, n in precision.items() if d not in ("O", "O_final", "W")), default=8)
    return DrainedLayer(
        tiles=math.prod(n for d, n in times.items() if d not in _REDUCED),
        steps=math.prod(n for d, n in times.items() if d in _REDUCED),
        input_bits=max(1, wide * window * inputs),
        input_bits_per_cycle=above["r_bw"],
        output_bits=outputs * precision["O_final"],
        output_bits_per_cycle=above["w_bw"],
        result_slots=2 if register is None else max(1, register["size"] // precision["O"]),
    )


def _memories(core: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The memory that all units share for outputs, and the register each unit sums in, if it has one."""
    holders = [m for m in core["memories"] if "O" in m["operands"]]
    shared = [m for m in holders if m["served_dimensions"] == "all"]
    own = [m for m in holders if m["served_dimensions"] != "all"]
    return (shared or holders)[-1], own[0] if own else None


def chip_cycles(chip: dict[str, Any]) -> int:
    """Layers after each other, or as long as their data take off chip."""
    cores = {core["id"]: core for core in chip["cores"]}
    off_chip = chip["offchip"]["memories"][0]
    sources = {s for layer in chip["layers"] for ids in layer["operand_source"].values() for s in ids}
    total = 0
    for layer in chip["layers"]:
        size, precision = layer["loop_dim_size"], layer["operand_precision"]
        outputs = math.prod(n for d, n in size.items() if d not in _REDUCED) * precision["O_final"]
        outward = -(-outputs // off_chip["w_bw"]) if layer["id"] not in sources else 0
        total += max(drained_cycles(chip_layer(cores[layer["core"]], layer)), outward)
    return total


def compare_stream(folder: Path, smoke: bool) -> Comparison:
    """Every chip of `chips*.json` that has a measured number."""
    path = next(iter(sorted(folder.glob("chips*.json"))), folder / "chips.json")
    points, missing, predicted = [], dict[str, str](), {}
    for name, chip in read_json(path).items():
        cycles = chip_cycles(chip)
        predicted[name] = cycles
        if name in _CLOSES_NOT:
            missing[name] = _CLOSES_NOT[name]
        elif not chip["measured_cycles"]:
            missing[name] = "no measured cycles in this folder"
        else:
            points.append(Point(name, cycles, chip["measured_cycles"], "chip"))
    more = {"predicted_cycles": predicted}
    return Comparison("stream", points, "cycles", {}, "nothing: the chips' descriptions alone", more, missing)
