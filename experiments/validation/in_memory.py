"""Chips that compute in memory: area, cycle and energy beside what was measured and what zigzag-imc predicts; macros by scaling rules.

The gate and converter constants are the published ones: zigzag-imc's documentation says that its model extraction "will extract the best fitting
value" for energy, area and delay from these chips. The area of a cell is fitted on four chips, and the rules for stages, Booth gates, whole products and
bit lines were chosen with five in view. So no error of either model is blind; `left_out` fits the constants on all chips but the one predicted.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.core.fields import Fields
from experiments.models.in_memory import (
    InMemoryArray,
    InMemoryTechnology,
    array_area_mm2,
    array_cycle_ns,
    in_memory_technology,
    mac_energy_fj,
    tops_per_watt,
)
from experiments.validation.common import Comparison, Point, read_json, read_rows

_QUANTITIES = (("area", "area_mm2"), ("clock", "clock_ns"), ("energy", "energy_fJ_per_mac"))


def compare_imc(folder: Path, smoke: bool) -> Comparison:
    """Every chip of `zigzag_imc_chips.json`; macros of `cimloop_references.csv` in `more`."""
    path = folder / "zigzag_imc_chips.json"
    chips = read_json(path)
    if not isinstance(chips, list):
        raise UserError("expected a list of chips", where=str(path))
    points: list[Point] = []
    theirs: list[float] = []
    missing: dict[str, str] = {}
    apart: dict[str, Any] = {}
    for chip in chips[: 2 if smoke else None]:
        name = Fields(chip, str(path)).text("chip", "?")
        given = Fields(chip, f"{path}: {name}")
        recorded, modelled = given.child("measured"), given.child("zigzag_imc_model")
        remark = given.text("remark", "")
        try:
            array = array_of_chip(given)
        except UserError as error:
            missing[name] = str(error)
            continue
        mine = predictions(array)
        for quantity, field in _QUANTITIES:
            measured, other = (part.number(field, None, above=0) for part in (recorded, modelled))
            label = f"{name} {quantity}"
            if measured is None:
                missing[label] = "not measured"
            elif quantity == "energy" and any(w in remark for w in ("sparsity", "not comparable")):
                missing[label] = "the sparsity of the measurement is unknown"
                apart[name] = {"predicted_fj": mine[quantity], "measured_fj": measured, "zigzag_imc_fj": other}
            else:
                points.append(Point(label, mine[quantity], measured, quantity))
                theirs.append(abs(other / measured - 1) if other else float("nan"))
        apart.setdefault("tops_per_w", {})[name] = tops_per_watt(array)
    if not points and missing:
        raise UserError(f"no chip can be compared: {next(iter(missing.values()))}", where=str(path))
    left_out = [chip for chip in chips if Fields(chip, str(path)).text("chip", "?") not in missing]
    more = {"beside": _beside(points, theirs), "left_out": _left_out(left_out, path), "energies_not_comparable": apart}
    macros = folder / "cimloop_references.csv"
    if macros.exists() and not smoke:
        more["macros"] = _macros(macros)
    constants = {k: v for k, v in vars(in_memory_technology()).items() if k != "source"}
    fitted = "published constants; cell area fitted on, and five rules chosen with, AIMC1, AIMC2, DIMC1, DIMC2, DIMC4 in view"
    return Comparison("imc", points, "mm2, ns, fJ", constants, fitted, more, missing)


def array_of_chip(chip: Fields) -> InMemoryArray:
    """The array that a chip's recorded parameters describe.

    Raises:
        UserError: A parameter is missing, no number, or contradicts another.
    """
    p = chip.child("parameters")
    try:
        return InMemoryArray(
            node_nm=chip.number("node_nm"),
            volt=p.number("vdd"),
            rows=p.integer("rows"),
            columns=p.integer("cols"),
            banks=p.integer("banks"),
            inputs=p.integer("input_channel"),
            outputs=p.integer("output_channel"),
            input_bits=p.integer("activation_precision"),
            bits_per_cycle=p.integer("input_precision"),
            weight_bits=p.integer("weight_precision"),
            adder_bits=p.integer("adder_input_precision", None),
            accumulator_bits=p.integer("accumulator_precision", 0),
            adc_bits=p.integer("adc_resolution", None),
            dac_bits=p.integer("dac_resolution", 1) or 1,
            booth=p.flag("booth_encoding"),
            toggle=p.number("input_toggle_rate"),
            zero_weights=p.number("weight_sparsity"),
        )
    except UserError as error:
        raise error.within(chip.where) from None


def predictions(array: InMemoryArray, technology: InMemoryTechnology | None = None) -> dict[str, float]:
    """Area in mm2, cycle in ns, energy of a MAC in fJ."""
    return {
        "area": array_area_mm2(array, technology),
        "clock": array_cycle_ns(array, technology),
        "energy": mac_energy_fj(array, technology),
    }


def _beside(points: Sequence[Point], theirs: Sequence[float]) -> dict[str, Any]:
    """Median errors without their signs by quantity, ours and zigzag-imc's, on the same rows."""
    found: dict[str, Any] = {}
    for quantity in ("area", "clock", "energy", "all"):
        rows = [(abs(p.error), t) for p, t in zip(points, theirs, strict=True) if quantity in ("all", p.group)]
        if rows:
            predicted = [r[1] for r in rows if not np.isnan(r[1])]
            found[quantity] = {
                "rows": len(rows),
                "median_error": float(np.median([r[0] for r in rows])),
                "zigzag_imc_median_error": float(np.median(predicted)) if predicted else None,
            }
    return found


def _left_out(chips: Sequence[dict[str, Any]], path: Path) -> dict[str, Any]:
    """Errors on digital chips where the constants are fitted on the other chips, for both models: a gate's area and delay, here a cell's area too.

    A prediction is a sum of constants times counts and of parts that hold neither: converters, and CACTI's array there. A chip of whose area
    the record says that parts are not modelled takes no part.
    """
    table = in_memory_technology()
    bare = replace(table, gate_um2=0.0, gate_ns=0.0, cell_um2=0.0)
    with_gates = replace(bare, gate_um2=table.gate_um2, gate_ns=table.gate_ns)
    found: dict[str, Any] = {}
    for quantity, field in _QUANTITIES[:2]:
        mine, other, names = [], [], []
        for chip in (Fields(row, str(path)) for row in chips):
            measured = chip.child("measured").number(field, None, above=0)
            theirs = chip.child("zigzag_imc_model").number(field, None, above=0)
            cacti = chip.child("sram_array_cacti").number("area", None)
            array = array_of_chip(chip)
            unlike = array.analogue if quantity == "clock" else "not modelled" in chip.text("remark", "")
            if measured is None or theirs is None or cacti is None or unlike:
                continue
            rest, gates, whole = (predictions(array, t)[quantity] for t in (bare, with_gates, table))
            fixed = rest + (cacti * array.banks if quantity == "area" else 0.0)
            mine.append((*(x / measured for x in (gates - rest, whole - gates) if x), rest / measured))
            other.append(((theirs - fixed) / measured, fixed / measured))
            names.append(None if array.analogue else chip.text("chip", "?"))
        if mine and len(mine) >= len(mine[0]):
            found[quantity] = {
                name: {"here": a, "zigzag_imc": b}
                for name, a, b in zip(names, errors_left_out(mine), errors_left_out(other), strict=True)
                if name is not None
            }
    errors = [row for rows in found.values() for row in rows.values()]
    for model in ("here", "zigzag_imc"):
        if errors:
            found[f"median_error_{model}"] = float(np.median([abs(row[model]) for row in errors]))
    return found


def errors_left_out(parts: Sequence[Sequence[float]]) -> list[float]:
    """Relative errors of predictions ``u . a + b``, all parts ``(*a, b)`` over the measured figure, u fitted on the others (least squares)."""
    table = np.array(parts)
    errors = []
    for i in range(len(table)):
        others = np.delete(table, i, axis=0)
        factors = np.linalg.lstsq(others[:, :-1], 1 - others[:, -1], rcond=None)[0]
        errors.append(float(table[i, :-1] @ factors + table[i, -1] - 1))
    return errors


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
