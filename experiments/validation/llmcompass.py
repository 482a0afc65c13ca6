"""A100 and MI210: measured latencies of operators and of a transformer layer, beside LLMCompass' own predictions."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.timing.cores.system import CoreSystem, load_system, system_names
from experiments.validation.common import Comparison, Point, read_rows
from experiments.validation.llmcompass_rows import Case, read_cases

_DIES = {"GA100": "a100", "Aldebaran": "mi210"}
_WHOLE = {"GA100": (128, 48.0), "Aldebaran": (112, 8.0)}
"""Cores and megabytes of cache on a whole die, of which products enable a part (LLMCompass' description)."""

LONG_S = 0.2e-3
"""Rows from here on say little about launch overheads."""


def compare_llmcompass(folder: Path, smoke: bool) -> Comparison:
    """Every row of `latency.csv` and `transformer_layer.csv`; nothing is fitted here, and rows that constants were fitted on are named."""
    cases = read_cases(folder)
    if smoke:
        cases = cases[::6]
    if not cases:
        raise UserError("no rows", where=str(folder))
    systems = {name: load_system(name) for name in system_names()}
    seconds = [case.predict(systems[case.system]) for case in cases]
    fitted = {row for system in systems.values() for c in system.constants for row in c.fitted_on}
    points = [
        Point(case.name, 1e6 * second, 1e6 * case.measured_s, f"{case.operator} {case.device}")
        for case, second in zip(cases, seconds, strict=True)
    ]
    judged = [i for i, case in enumerate(cases) if case.name not in fitted]
    more: dict[str, Any] = {
        "by_operator": by_operator(cases, points, judged),
        "judged": _errors([points[i].error for i in judged]),
        "from_200_us": _errors([points[i].error for i in judged if cases[i].measured_s >= LONG_S]),
        "fitted_rows": len(cases) - len(judged),
        "layers": layer_sums(cases, points),
    }
    dies = folder / "die_area.csv"
    if dies.is_file():
        more["die_area"] = die_blocks(dies)
    return Comparison(
        "llmcompass",
        points,
        "microseconds",
        {name: constants_of(system) for name, system in systems.items()},
        "single rows, named with each constant; they are left out of `judged` and of `by_operator`",
        more,
    )


def die_blocks(path: Path) -> dict[str, Any]:
    """Blocks of measured dies beside what the levels and MACs of the preset of that chip come to; control and wires are in the measured ones alone.

    Raises:
        UserError: A row lacks a column or holds no number.
    """
    found: dict[str, Any] = {}
    for number, row in enumerate(read_rows(path, ("chip", "block", "measured_mm2", "llmcompass_mm2")), 2):
        preset = _DIES.get(row["chip"])
        if preset is None or not row["measured_mm2"]:
            continue
        measured = _area(row["measured_mm2"], f"{path}: row {number}")
        predicted = _block_mm2(load_preset(preset), row["chip"], row["block"])
        if predicted is not None and measured > 0:
            theirs = _area(row["llmcompass_mm2"] or "nan", f"{path}: row {number}")
            found[f"{row['chip']} {row['block']}"] = {
                "predicted_mm2": predicted,
                "measured_mm2": measured,
                "error": predicted / measured - 1,
                "llmcompass_error": theirs / measured - 1 if math.isfinite(theirs) else None,
            }
    return found


def _block_mm2(architecture: Architecture, chip: str, block: str) -> float | None:
    """The cache of a whole die, one core, or all its cores, by the preset's areas; None for blocks that have no level here."""
    cache, *inner = architecture.levels[1:]
    cores, megabytes = _WHOLE[chip]
    if block == "Global buffer":
        assert cache.area_mm2 is not None and cache.capacity_bytes is not None
        return cache.area_mm2 * megabytes * 2**20 / cache.capacity_bytes
    count, parts = architecture.instances, 0.0
    for v, level in enumerate(inner, 2):
        parts += (level.area_mm2 or 0.0) * count[v] / count[2]
    units = math.prod((inner[-1].fanout.x, inner[-1].fanout.y)) * count[-1] / count[2]
    core = parts + units * (architecture.mac.area_mm2 or 0.0)
    return {"one core": core, "Cores": core * cores}.get(block)


def _area(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"areas must be numbers, got {text!r}", where=where) from None


def constants_of(system: CoreSystem) -> dict[str, Any]:
    """The fitted constants, with the rows they were fitted on, and how many come from a source."""
    found: dict[str, Any] = {
        c.name: {"value": c.value, "fitted_on": list(c.fitted_on)} for c in system.constants if c.fitted_on
    }
    found["from_sources"] = sum(not c.fitted_on for c in system.constants)
    return found


def by_operator(cases: Sequence[Case], points: Sequence[Point], judged: Sequence[int]) -> dict[str, Any]:
    """Errors by operator, machine and sweep, of rows that nothing was fitted on, beside LLMCompass' on the same rows."""
    groups: dict[str, list[int]] = {}
    for i in judged:
        groups.setdefault(f"{cases[i].operator} {cases[i].device}", []).append(i)
        groups.setdefault(f"{cases[i].operator} {cases[i].device}, {cases[i].sweep}", []).append(i)
    found: dict[str, Any] = {}
    for name, those in sorted(groups.items()):
        found[name] = _errors([points[i].error for i in those])
        for key, values in (
            ("llmcompass_sim", [cases[i].simulated_s for i in those]),
            ("llmcompass_roofline", [cases[i].roofline_s for i in those]),
        ):
            paired = [(i, v) for i, v in zip(those, values, strict=True) if v is not None]
            if paired:
                theirs = _errors([v / cases[i].measured_s - 1 for i, v in paired])
                theirs["ours_on_these"] = _errors([points[i].error for i, _ in paired])["mean_error"]
                found[name][key] = theirs
    return found


def layer_sums(cases: Sequence[Case], points: Sequence[Point]) -> dict[str, Any]:
    """Whole layers, by phase: the parts added up, and LLMCompass' where it has every part."""
    found: dict[str, Any] = {}
    for phase in dict.fromkeys(case.sweep for case in cases if case.operator == "layer"):
        those = [i for i, case in enumerate(cases) if case.operator == "layer" and case.sweep == phase]
        measured = sum(points[i].measured for i in those)
        predicted = sum(points[i].predicted for i in those)
        found[phase] = {
            "parts": len(those),
            "predicted_us": predicted,
            "measured_us": measured,
            "error": predicted / measured - 1,
        }
        for key in ("roofline_s", "simulated_s"):
            theirs = [getattr(cases[i], key) for i in those]
            if all(v is not None for v in theirs):
                found[phase][f"llmcompass_{key[:-2]}_error"] = 1e6 * sum(theirs) / measured - 1
    if found:
        found["mean_error"] = float(np.mean([abs(v["error"]) for v in found.values()]))
    return found


def _errors(errors: Sequence[float]) -> dict[str, Any]:
    if not errors:
        return {"rows": 0, "mean_error": None, "median_error": None, "worst_error": None}
    size = np.abs(errors)
    return {
        "rows": len(errors),
        "mean_error": float(size.mean()),
        "median_error": float(np.median(size)),
        "worst_error": float(size.max()),
    }
