"""What simulated fronts of a study share: which designs stay on the front, and the file that holds them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from codesign.core.files import read_kept, write_json
from codesign.core.json_types import JsonObject
from codesign.optim.pareto import nondominated


class SimulatedDesign(Protocol):
    """A design of a front that was simulated."""

    def to_json(self) -> JsonObject:
        """As its file holds it."""


def still_on_front(metrics: Sequence[Mapping[str, float]], objectives: Sequence[str]) -> list[bool]:
    """Which of some designs no other one beats by their simulated figures."""
    if not metrics:
        return []
    return [bool(keep) for keep in nondominated(np.array([[m[o] for o in objectives] for m in metrics]))]


def write_front(designs: Sequence[SimulatedDesign], path: Path) -> Path:
    """Write a simulated front; returns the path."""
    write_json(path, {"front": [design.to_json() for design in designs]})
    return path


def read_front(path: Path) -> list[JsonObject]:
    """The simulated front that a file holds; empty where there is none."""
    return list(read_kept(path).get("front", ()))
