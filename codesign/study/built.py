"""Hardware that was built of a study's designs: what the report shows beside the model's figures."""

from pathlib import Path
from typing import Any

from codesign.core.files import read_structured, write_json

BUILT_FILE = "hardware.json"


def record_built(folder: Path, trial: int, built: dict[str, Any]) -> Path:
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


def read_built(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """By trial, the layers that hardware was built and run for; empty where the folder holds none."""
    path = folder / BUILT_FILE
    if not path.is_file():
        return {}
    found = read_structured(path)
    return dict(found.get("trials", {})) if isinstance(found, dict) else {}
