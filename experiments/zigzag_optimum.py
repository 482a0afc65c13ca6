"""LOMA and SALSA against the proven best order and cuts: `python -m experiments.zigzag_optimum --data tests/data/zigzag`.

For every recorded layer: the recorded optima of LOMA (6, 7 and 8 loops) and runs of SALSA, the mappers here, and the optimum over all orders
and all cuts that `codesign map --semantics zigzag --mapper exact` proves. Gaps are of energy.
"""

import json
import statistics
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from codesign.core.errors import UserError
from codesign.core.files import read_text
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.zigzag.layer import UnrolledLayer, unrolling_of
from codesign.formats.zigzag.problem import computation_from_zigzag
from codesign.mappers.loop_order.exact_orders import ExactOrders
from codesign.mappers.loop_order.factors import count_orders, prime_loops
from codesign.mappers.loop_order.loma import LomaMapper
from codesign.mappers.loop_order.salsa import SalsaMapper
from experiments.mappers_common import markdown, save, timed
from experiments.options import head_parser
from experiments.salsa_common import PAPER, accelerator

KEPT = Path(__file__).parents[1] / "tests" / "data" / "zigzag"
RECORDED = ("loma6_best", "loma7_best", "loma8_best")
ROUNDING = 1e-9
"""Energies closer than this are equal."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        data: Folder of recorded layers: `layers/ACCELERATOR/LAYER.json`, `inputs/ACCELERATOR.yaml`.
        only: Part of a layer's name; empty: all.
        objective: Of the mappers here; recorded energies are compared where it is energy.
        seed: Of SALSA.
        out: Folder of results.
    """

    data: Path = KEPT
    only: str = ""
    objective: str = "energy"
    seed: int = 0
    out: Path = Path("results/zigzag_optimum")


def workload(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    """The workload file of a recorded layer."""
    entry = {
        "name": recorded["layer"],
        "equation": recorded["equation"],
        "dimension_relations": [f"{i}={recorded['stride']}*o{i[1]}+1*f{i[1]}" for i in ("ix", "iy")],
        "loop_dims": list(recorded["loop_dims"]),
        "loop_sizes": list(recorded["loop_dims"].values()),
        "operand_precision": recorded["precision_bits"],
    }
    return [entry]


def unrolled(recorded: dict[str, Any], inputs: Path) -> UnrolledLayer:
    """The layer of a recorded file; its accelerator is in `inputs`, or in the folder kept here."""
    name = f"{recorded['accelerator']}.yaml"
    path = inputs / name if (inputs / name).is_file() else KEPT / "inputs" / name
    return UnrolledLayer(
        computation_from_zigzag(workload(recorded)), accelerator(path), unrolling_of(recorded["spatial_used"])
    )


@cache
def warm_up(path: Path) -> None:
    """Compile what is timed."""
    layer = unrolled(json.loads(read_text(path)), path.parents[2] / "inputs")
    for mapper in (PAPER, LomaMapper(lpf_limit=3), ExactOrders()):
        for objective in (Objective.ENERGY, Objective.EDP):
            mapper.map_orders(layer, objective, budget=Budget(), seed=0)


def main(config: Config) -> list[dict[str, Any]]:
    """Map every layer, write results and table."""
    files = [f for f in sorted((config.data / "layers").glob("*/*.json")) if config.only in f"{f.parent.name}/{f.stem}"]
    if not files:
        raise UserError(f"no recorded layers match '{config.only}'", where=str(config.data / "layers"))
    warm_up(files[0])
    rows = [measure(json.loads(read_text(path)), path, config) for path in files]
    text = table(rows)
    save(config.out, config, {"layers": rows}, text)
    print(text)
    print(json.dumps(summary(rows)))
    return rows


def measure(recorded: dict[str, Any], path: Path, config: Config) -> dict[str, Any]:
    """One layer: values of every search over the optimum."""
    layer = unrolled(recorded, config.data / "inputs")
    objective = Objective.parse(config.objective)
    found, seconds = timed(lambda: ExactOrders().map_orders(layer, objective, budget=Budget(), seed=config.seed))
    if found.cost is None:
        raise UserError("no order fits", where=str(path))
    least = objective.score(energy_pj=found.cost.energy_pj, latency_cycles=found.cost.latency_cycles)
    row: dict[str, Any] = {
        "accelerator": recorded["accelerator"],
        "layer": path.stem,
        "orders": count_orders(prime_loops(layer)),
        "optimum": least,
        "proof": found.proof.value,
        "certified_gap": found.gap,
        "cpu_seconds": seconds,
        "gaps": {},
    }
    if objective == Objective.ENERGY:
        row["gaps"] |= {f"recorded {k[:5]}": recorded[k]["energy_total"] / least - 1 for k in RECORDED if k in recorded}
        runs = [
            run["best"]["energy_total"]
            for k, group in recorded.items()
            if k.startswith("salsa")
            for run in group.values()
        ]
        if runs:
            row["gaps"]["recorded salsa"] = statistics.fmean(runs) / least - 1
        row["gaps"]["best known"] = recorded["best"]["energy_total"] / least - 1
    searches = {"loma-8": LomaMapper(), "salsa, one run": replace(PAPER), "salsa": SalsaMapper()}
    for name, mapper in searches.items():
        result, spent = timed(lambda m=mapper: m.map_orders(layer, objective, budget=Budget(), seed=config.seed))  # type: ignore[misc]
        row[f"{name} cpu_seconds"] = spent
        if result.cost is not None:
            value = objective.score(energy_pj=result.cost.energy_pj, latency_cycles=result.cost.latency_cycles)
            row["gaps"][name] = value / least - 1
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the last line says."""
    names = list(dict.fromkeys(name for row in rows for name in row["gaps"]))
    return {
        "layers": len(rows),
        "proven": sum(row["proof"] == Proof.OPTIMAL.value for row in rows),
        "cpu_seconds": sum(row["cpu_seconds"] for row in rows),
        "worst_cpu_seconds": max(row["cpu_seconds"] for row in rows),
        "mean_gaps": {n: statistics.fmean(r["gaps"][n] for r in rows if n in r["gaps"]) for n in names},
        "at_optimum": {n: sum(r["gaps"].get(n, 1.0) < ROUNDING for r in rows) for n in names},
    }


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each layer."""
    names = list(dict.fromkeys(name for row in rows for name in row["gaps"]))
    lines = []
    for row in rows:
        gaps = [f"{100 * row['gaps'][n]:.3f} %" if n in row["gaps"] else "-" for n in names]
        proof = row["proof"] if row["certified_gap"] == 0.0 else f"{row['proof']} {100 * row['certified_gap']:.1f} %"
        head = (row["accelerator"], row["layer"], f"{row['orders']:,}", f"{row['optimum']:.10g}", proof)
        lines.append((*head, f"{row['cpu_seconds']:.3f}", *gaps))
    return markdown(("accelerator", "layer", "orders", "found", "proof", "CPU s", *names), lines)


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="a few small layers")
    parser.add_argument("--data", type=Path, default=default.data, help="folder of recorded layers")
    parser.add_argument("--only", default=default.only, help="part of a layer's name")
    parser.add_argument("--objective", default=default.objective, choices=("energy", "latency", "edp"))
    given = parser.parse_args(arguments)
    smoke, values = given.smoke, {k: v for k, v in vars(given).items() if k != "smoke"}
    return Config(**(values | {"only": "mbv2_dw"} if smoke else values))


if __name__ == "__main__":
    main(parse_args())
