"""Hardware that was built of a study's designs: what the report shows beside the model's figures."""

from pathlib import Path
from typing import NotRequired, TypedDict

from codesign.core.files import read_kept, write_json
from codesign.core.json_types import JsonObject

BUILT_FILE = "hardware.json"


class RunRecord(TypedDict):
    """A simulated run beside what it should give."""

    simulator: str
    bit_equal: bool
    dram_equal: bool
    accesses_equal: bool
    cycles: int
    predicted_cycles: int
    seconds: float
    cycles_per_second: int


class BuiltRecord(TypedDict):
    """Hardware that was built of a trial's layer, as its study's report shows it."""

    layer: str
    folder: str
    diagram: str
    areas: JsonObject
    predicted_cycles: int
    analytic_cycles: float
    simulation: NotRequired[RunRecord]
    power: NotRequired[JsonObject]


def record_built(folder: Path, trial: int, built: BuiltRecord) -> Path:
    """Keep what was built of a trial's layer, in place of what was kept of that layer before; returns the file.

    Args:
        folder: Of the study.
        trial: Number.
        built: Plain values; `layer` names the layer.
    """
    found = read_built(folder)
    others = [b for b in found.get(str(trial), []) if b["layer"] != built["layer"]]
    found[str(trial)] = [*others, built]
    path = folder / BUILT_FILE
    write_json(path, {"trials": found})
    return path


def read_built(folder: Path) -> dict[str, list[BuiltRecord]]:
    """By trial, the layers that hardware was built and run for; empty where the folder holds none."""
    return dict(read_kept(folder / BUILT_FILE).get("trials", {}))
