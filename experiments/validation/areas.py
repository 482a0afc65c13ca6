"""Areas of routed designs beside what the netlist-fitted tables say; how well the node table scales logic; SRAM macros.

Gemmini's mesh is predicted from its generator's parameters alone: elements, widths, flip-flops. No constant is fitted to the folder.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.scaling import NODE_RANGE_NM, area_factor
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError
from experiments.models.cell_libraries import CellLibrary, cell_libraries, mesh_element
from experiments.validation.common import Comparison, Point, read_rows

ELEMENTS, SUM_BITS, FLIP_FLOPS = 1024, 20, 40_000
"""Gemmini's mesh: 16 x 16 tiles of 2 x 2 elements, sums of 20 bits, flip-flops of the generated RTL (HighTide's notes)."""

_COLUMNS = ("platform", "design", "stdcell_um2", "sequential")
_BASE = "nangate45"
_NODE = {"sky130": 130.0, "asap7": 7.0, "nangate45": 45.0}


def compare_areas(folder: Path, smoke: bool) -> Comparison:
    """The mesh at every recorded node, from the node's own cells and scaled from 45 nm; other designs and macros in `more`."""
    path = folder / "routed.csv"
    rows = read_rows(path, _COLUMNS)
    points, missing = _mesh_points(rows, str(path))
    more: dict[str, Any] = {"elements": ELEMENTS, "scaled_from": _BASE}
    if not smoke:
        more["scaling_of_logic"] = _scaling(rows, str(path))
        macros = folder / "sram_macros.csv"
        if macros.exists():
            more["sram_macros"] = _macros(
                read_rows(macros, ("technology", "generator", "bits", "width_bits", "area_um2"))
            )
    return Comparison(
        "areas", points, "standard cells, um2", {}, "nothing of the folder: 98 netlists at 180 nm", more, missing
    )


def _number(row: dict[str, str], column: str, where: str) -> float:
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        raise UserError(f"column `{column}` must hold numbers, got {row[column]!r}", where=where) from None
    if not value > 0 or math.isinf(value):
        raise UserError(f"column `{column}` must be > 0, got {value:g}", where=where)
    return value


def _mesh_points(rows: Sequence[dict[str, str]], where: str) -> tuple[list[Point], dict[str, str]]:
    areas = load_technology("netlist-fitted-22nm").netlists
    assert areas is not None
    element = mesh_element(areas, SUM_BITS, FLIP_FLOPS / ELEMENTS)
    points: list[Point] = []
    missing: dict[str, str] = {}
    for row in rows:
        if row["design"] != "gemmini":
            continue
        library = cell_libraries().get(row["platform"])
        if library is None:
            missing[f"gemmini at {row['platform']}"] = "the cells of this library are not in the tables"
            continue
        measured = _number(row, "stdcell_um2", where)
        for used in (library, *_scaled(library)):
            label = f"gemmini at {library.name}, cells {used.kind.value}"
            points.append(Point(label, ELEMENTS * element.area_um2(used), measured, used.kind.value))
    return points, missing


def _scaled(library: CellLibrary) -> list[CellLibrary]:
    base = cell_libraries()[_BASE]
    within = NODE_RANGE_NM[0] <= library.node_nm <= NODE_RANGE_NM[1]
    return [base.scaled(library.node_nm)] if library.node_nm != base.node_nm and within else []


def _scaling(rows: Sequence[dict[str, str]], where: str) -> dict[str, Any]:
    """How far the area factor of T1 is off, from 45 nm to other nodes, over all designs that were routed at both; the mesh apart."""
    by_design: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["design"] != "gemmini" and row["stdcell_um2"]:
            by_design.setdefault(row["design"], {})[row["platform"]] = _number(row, "stdcell_um2", where)
    found: dict[str, Any] = {}
    for name, library in cell_libraries().items():
        both = [areas for areas in by_design.values() if _BASE in areas and name in areas]
        if name == _BASE or not both or not NODE_RANGE_NM[0] <= library.node_nm <= NODE_RANGE_NM[1]:
            continue
        factor = area_factor(cell_libraries()[_BASE].node_nm, library.node_nm)
        errors = np.array([factor * areas[_BASE] / areas[name] - 1 for areas in both])
        found[f"{_BASE} to {name}"] = {
            "factor": factor,
            "designs": len(both),
            "median_error": float(np.median(errors)),
            "least": float(errors.min()),
            "largest": float(errors.max()),
        }
    return found


def _macros(rows: Sequence[dict[str, str]]) -> dict[str, Any]:
    """OpenRAM's single-port layouts beside S1 scaled to their node; macros of area models are no measurement."""
    found: dict[str, Any] = {}
    for row in rows:
        node = _NODE.get(row["technology"])
        if row["generator"] != "OpenRAM" or node is None:
            continue
        sram = load_technology(f"cmos-{node:g}nm").sram
        bits, width = int(float(row["bits"])), int(float(row["width_bits"]))
        predicted = 1e6 * sram.area_mm2(bits / 8, width, 1)
        label = f"{row['technology']} {row.get('ports', '')} {bits} bits"
        found[label] = {"predicted_um2": predicted, "recorded_um2": float(row["area_um2"])}
    return found
