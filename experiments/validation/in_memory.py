"""Chips that compute in memory: area, cycle and energy beside what was measured and what zigzag-imc predicts; macros by scaling rules.

The gate and converter constants are the published ones; the area of a cell and the two rules for stages and Booth gates were chosen with five
of the chips in view, so their errors are not blind.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.in_memory import (
    InMemoryArray,
    array_area_mm2,
    array_cycle_ns,
    in_memory_technology,
    mac_energy_fj,
    tops_per_watt,
)
from codesign.core.errors import UserError
from experiments.validation.common import Comparison, Point, read_json, read_rows

_QUANTITIES = (("area", "area_mm2"), ("clock", "clock_ns"), ("energy", "energy_fJ_per_mac"))


def compare_imc(folder: Path, smoke: bool) -> Comparison:
    """Every chip of `zigzag_imc_chips.json`; macros of `cimloop_references.csv` in `more`."""
    path = folder / "zigzag_imc_chips.json"
    chips = read_json(path)
    points: list[Point] = []
    theirs: list[float] = []
    missing: dict[str, str] = {}
    apart: dict[str, Any] = {}
    for chip in chips[: 2 if smoke else None]:
        name, where = str(chip.get("chip", "?")), f"{path}: {chip.get('chip', '?')}"
        try:
            array = array_of_chip(chip, where)
        except UserError as error:
            missing[name] = str(error)
            continue
        mine = predictions(array)
        for quantity, field in _QUANTITIES:
            measured, other = chip["measured"].get(field), chip["zigzag_imc_model"].get(field)
            label = f"{name} {quantity}"
            if not measured:
                missing[label] = "not measured"
            elif quantity == "energy" and any(w in chip.get("remark", "") for w in ("sparsity", "not comparable")):
                missing[label] = "the sparsity of the measurement is unknown"
                apart[name] = {"predicted_fj": mine[quantity], "measured_fj": measured, "zigzag_imc_fj": other}
            else:
                points.append(Point(label, mine[quantity], float(measured), quantity))
                theirs.append(abs(float(other) / float(measured) - 1) if other else float("nan"))
        apart.setdefault("tops_per_w", {})[name] = tops_per_watt(array)
    more = {"beside": _beside(points, theirs), "energies_not_comparable": apart}
    macros = folder / "cimloop_references.csv"
    if macros.exists() and not smoke:
        more["macros"] = _macros(macros)
    constants = {k: v for k, v in vars(in_memory_technology()).items() if k != "source"}
    fitted = "published constants; cell area and two rules chosen with AIMC1, AIMC2, DIMC1, DIMC2, DIMC4 in view"
    return Comparison("imc", points, "mm2, ns, fJ", constants, fitted, more, missing)


def array_of_chip(chip: dict[str, Any], where: str) -> InMemoryArray:
    """The array that a chip's recorded parameters describe.

    Raises:
        UserError: A parameter is missing or contradicts another.
    """
    try:
        p = chip["parameters"]
        return InMemoryArray(
            node_nm=chip["node_nm"],
            volt=p["vdd"],
            rows=p["rows"],
            columns=p["cols"],
            banks=p["banks"],
            inputs=p["input_channel"],
            outputs=p["output_channel"],
            input_bits=p["activation_precision"],
            bits_per_cycle=p["input_precision"],
            weight_bits=p["weight_precision"],
            adder_bits=p["adder_input_precision"],
            accumulator_bits=p["accumulator_precision"] or 0,
            adc_bits=p.get("adc_resolution"),
            dac_bits=p.get("dac_resolution") or 1,
            booth=p["booth_encoding"],
            toggle=p["input_toggle_rate"],
            zero_weights=p["weight_sparsity"],
        )
    except KeyError as error:
        raise UserError(f"parameter {error} is missing", where=where) from None
    except UserError as error:
        raise error.within(where) from None


def predictions(array: InMemoryArray) -> dict[str, float]:
    """Area in mm2, cycle in ns, energy of a MAC in fJ."""
    return {"area": array_area_mm2(array), "clock": array_cycle_ns(array), "energy": mac_energy_fj(array)}


def _beside(points: Sequence[Point], theirs: Sequence[float]) -> dict[str, Any]:
    """Median errors without their signs by quantity, ours and zigzag-imc's, on the same rows."""
    found: dict[str, Any] = {}
    for quantity in ("area", "clock", "energy", "all"):
        rows = [(abs(p.error), t) for p, t in zip(points, theirs, strict=True) if quantity in ("all", p.group)]
        if rows:
            mine, other = (float(np.nanmedian([r[k] for r in rows])) for k in (0, 1))
            found[quantity] = {"rows": len(rows), "median_error": mine, "zigzag_imc_median_error": other}
    return found


_ENERGY_POWER = {"energy": 2.0, "tops_per_w": -2.0, "tops_per_w_1b": -2.0}
_INPUT_POWER = {"tops": -1.0, "latency": 1.0}


def _macros(path: Path) -> dict[str, Any]:
    """Macros predicted from their own row at the highest supply (I5: energy by its square), or the fewest input bits (I1)."""
    rows = read_rows(path, ("macro", "test", "quantity", "value", "variables"))
    found: dict[str, Any] = {}
    for name, variable, powers in (("supply", "VOLTAGE", _ENERGY_POWER), ("input bits", "INPUT_BITS", _INPUT_POWER)):
        groups: dict[tuple[str, ...], list[tuple[float, float]]] = {}
        for row in rows:
            values = dict(part.split("=", 1) for part in row["variables"].split(";") if "=" in part)
            if variable not in values or row["quantity"].partition(":")[0] not in powers:
                continue
            at = float(values.pop(variable))
            rest = ";".join(f"{k}={v}" for k, v in sorted(values.items()))
            groups.setdefault((row["macro"], row["test"], row["quantity"], rest), []).append((at, float(row["value"])))
        errors = []
        for key, pairs in groups.items():
            anchor = max(pairs) if variable == "VOLTAGE" else min(pairs)
            power = powers[key[2].partition(":")[0]]
            errors += [anchor[1] * (at / anchor[0]) ** power / value - 1 for at, value in pairs if at != anchor[0]]
        if errors:
            sizes = np.abs(errors)
            found[name] = {
                "rows": len(errors),
                "median_error": float(np.median(sizes)),
                "worst_error": float(sizes.max()),
            }
    return found
