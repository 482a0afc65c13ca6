"""Reads the layer files of the ZigZag data set into the project's values."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from codesign.cost.zigzag.accelerator import Accelerator, accelerator_from_zigzag
from codesign.cost.zigzag.arrays import encode
from codesign.cost.zigzag.cost import AllocatedOrder, Loop, ZigzagCost, evaluate, load_order, make_workspace
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.formats.documents import parse_yaml
from codesign.mappers.loop_order.allocation import FITS, allocate
from codesign.mappers.loop_order.zigzag_search import read_allocation
from experiments.zigzag_optimum import unrolled
from tests.reference_data import REFERENCE, supporting_files

DIRECTIONS = ("rd_out_to_low", "wr_in_by_low", "rd_out_to_high", "wr_in_by_high")


@dataclass(frozen=True)
class ReferenceLayer:
    """One layer file: the layer, and what the program printed for it."""

    layer: UnrolledLayer
    recorded: dict[str, Any]


def layer_files() -> list[Path]:
    """Every layer file of the data set."""
    return sorted((REFERENCE / "zigzag" / "layers").glob("*/*.json"))


def label(path: Path) -> str:
    """A name for the test's report."""
    return f"{path.parent.name}-{path.stem}"


@cache
def read_accelerator(name: str) -> Accelerator:
    """The accelerator of that name, from the data set or from the one kept here."""
    (path,) = supporting_files("zigzag/inputs", f"{name}.yaml")
    (value,) = parse_yaml(path.read_text(), str(path))
    return accelerator_from_zigzag(value, str(path))


def read_layer(path: Path) -> ReferenceLayer:
    """A layer file."""
    recorded = json.loads(path.read_text())
    return ReferenceLayer(unrolled(recorded, REFERENCE / "zigzag" / "inputs"), recorded)


def loops_of(order: list[list[Any]]) -> tuple[tuple[str, int], ...]:
    """A loop order of the file, innermost first."""
    return tuple((dim, factor) for dim, factor in order)


def evaluate_order(
    layer: UnrolledLayer, loops: tuple[Loop, ...], *, even: bool = False
) -> tuple[AllocatedOrder, ZigzagCost]:
    """The allocation that follows from an order (rules Z4, Z5), and its cost.

    Args:
        layer: The layer.
        loops: Innermost first.
        even: Whether tensors that share a memory must cut the order at the same place.
    """
    arrays = encode(layer)
    work = make_workspace(arrays, len(loops))
    load_order(layer, arrays, work, loops)
    assert allocate(arrays, work.order, even, work.allocation) == FITS
    mapping = read_allocation(arrays, work, loops)
    return mapping, evaluate(layer, mapping)
