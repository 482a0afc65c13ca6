"""Gemmini: FireSim cycles of 222 mappings (DOSA, MICRO 2023), leaving one hardware point out."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.mapping.mapping import Mapping, Spatial, Storage, Temporal
from codesign.mapping.nest import FloatArray
from codesign.timing.calibrate import FitProblem, leave_one_group_out
from codesign.timing.table import Timing, load_timing, with_constants
from experiments.models.loop_unit import LoopNest, TileWork, loop_cycles, nest_of_mapping, tile_work
from experiments.validation.common import Comparison, Point, read_json

FITTED = (
    "input_hit_cycles",
    "weight_hit_cycles",
    "llc_line_cycles",
    "dram_line_cycles",
    "store_row_cycles",
    "store_miss_cycles",
    "accumulator_share",
    "matrix_run_cycles",
    "convolution_run_cycles",
)
"""The constants of the table that no source states."""

_LEVELS = {"L3": "DRAM", "L2": "Scratchpad", "L1": "Accumulator", "L0": "Registers"}
_TENSORS = {"W": "weight", "I": "input", "O": "output"}


def parse_mapping(text: str, where: str) -> Mapping:
    """The nest of a recorded mapping: ``L3[WIO] C2 Q7 - L2[WI] ... X``, factors from outer to inner, X in space.

    Raises:
        UserError: It does not have this form.
    """
    nodes: list[Storage | Temporal | Spatial] = []
    for part in text.split(" - "):
        head, *factors = part.split()
        if head[:2] not in _LEVELS:
            raise UserError(f"`mapping.mapping` must name levels L3 to L0, got {head!r}", where=where)
        level = _LEVELS[head[:2]]
        nodes += [Storage(_TENSORS[t], level) for t in head[2:].strip("[]") if t in _TENSORS]
        for factor in factors:
            dim, number = factor[0].lower(), factor[1:].rstrip("X")
            if not number.isdigit():
                raise UserError(f"`mapping.mapping` must give factors as C16, got {factor!r}", where=where)
            nodes.append(Spatial(dim, int(number), "x", level) if factor.endswith("X") else Temporal(dim, int(number)))
    return Mapping(tuple(nodes))


def nest_of_row(row: dict[str, Any], timing: Timing, where: str) -> LoopNest:
    """The tiles that ran."""
    try:
        bounds = {d: int(float(row[f"prob.{d.upper()}"])) for d in "cknpqrs"}
        stride = int(float(row["prob.Wstride"]))
        text = row["mapping.mapping"]
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"a problem column is missing or no number: {error}", where=where) from None
    return nest_of_mapping(bounds, parse_mapping(text, where), stride, int(timing.constant("array_side")))


@cache
def _table() -> Timing:
    return load_timing("gemmini-rtl")


def compare_dosa(folder: Path, smoke: bool) -> Comparison:
    """Every row of `firesim_test*.json`; each hardware point predicted with constants fitted on the others."""
    path = next(iter(sorted(folder.glob("firesim_test*.json"))), folder / "firesim_test.json")
    rows = read_json(path)
    if smoke:
        rows = rows[::8]
    timing = _table()
    works = [tile_work(nest_of_row(row, timing, f"{path}: row {i}"), timing) for i, row in enumerate(rows)]
    try:
        measured = np.array([float(row["target.gemmini_cycle"]) for row in rows])
        groups = [f"{row['arch.mem1_entries']}/{row['arch.mem2_entries']}" for row in rows]
    except KeyError as error:
        raise UserError(f"column {error} is missing", where=str(path)) from None

    def predict(constants: dict[str, float], chosen: list[int]) -> FloatArray:
        table = with_constants(timing, constants)
        return np.array([predicted_cycles(works[i], table) for i in chosen])

    start = {name: timing.constant(name) for name in FITTED}
    problem = FitProblem(FITTED, start, predict, measured)
    folds = leave_one_group_out(problem, groups)
    points = [
        Point(f"row {i}", float(folds.predicted[i]), float(measured[i]), "matrix" if works[i].matrix else "convolution")
        for i in range(len(rows))
    ]
    return Comparison(
        "dosa",
        points,
        "FireSim cycles",
        {name: {"table": start[name], "over_folds": folds.spread(name)} for name in FITTED},
        f"the other {len(set(groups)) - 1} hardware points, {len(set(groups))} times over",
        {"hardware_points": len(set(groups)), "residuals": _residuals(works, folds.predicted, measured)},
    )


def predicted_cycles(work: TileWork, timing: Timing) -> float:
    """Cycles of a recorded mapping."""
    return loop_cycles(work, timing)


def _residuals(works: list[TileWork], predicted: FloatArray, measured: FloatArray) -> dict[str, Any]:
    """Mean error by what binds: load over execution of the tiles."""
    from experiments.models.loop_unit import load_cycles

    error = np.abs(predicted / measured - 1)
    ratio = np.array([load_cycles(w, _table()).sum() / w.execute.sum() for w in works])
    found: dict[str, Any] = {}
    for name, low, high in (("load below half of execute", 0, 0.5), ("half to one", 0.5, 1), ("above", 1, np.inf)):
        those = (ratio >= low) & (ratio < high)
        found[name] = {"rows": int(those.sum()), "mean_error": float(error[those].mean()) if those.any() else None}
    return found
