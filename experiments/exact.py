"""Proven optimal mappings of every distinct layer of a network: `python -m experiments.exact`.

For each architecture and objective: the optimum, whether it was proven, CPU seconds. Writes `results.json` and `table.md`.
The first run compiles; layers are mapped once before they are timed, so that neither compiling nor the tables shared by
equal problems' architectures are hidden: the figures are those of a warm process.
"""

import argparse
import json
import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.arch.presets import load_preset
from codesign.core.files import write_atomic, write_json
from codesign.mappers.base import Budget, Objective
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.workloads.computation import Computation
from codesign.workloads.load import load_network


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        network: Name of a zoo model or a file.
        presets: Architectures.
        free_bypass: Whether keep sets are searched too.
        time_limit: Seconds for each layer.
        smoke: Three small layers only.
        seed: Recorded; nothing here is random.
        out: Folder of results.
    """

    network: str = "resnet50"
    presets: tuple[str, ...] = ("simba", "gemmini")
    free_bypass: bool = False
    time_limit: float = 60.0
    smoke: bool = False
    seed: int = 0
    out: Path = Path("results/exact")


def freed(architecture: Architecture) -> Architecture:
    """The architecture with every level between the outermost and the innermost open to all tensors."""
    everything = frozenset({"input", "weight", "output"})
    inner = architecture.levels[-1]
    levels = tuple(v if v is inner else replace(v, keep=everything) for v in architecture.levels)
    return replace(architecture, levels=levels)


def map_layer(
    config: Config, computation: Computation, architecture: Architecture, objective: Objective, count: float
) -> dict[str, Any]:
    """One row of the results."""
    problem = MappingProblem(computation, architecture, Constraints(free_bypass=config.free_bypass))
    started = time.process_time()
    result = ExactMapper().map(problem, objective, budget=Budget(time_limit_s=config.time_limit), seed=config.seed)
    seconds = time.process_time() - started
    return {
        "architecture": architecture.name,
        "layer": computation.name or str(computation),
        "bounds": computation.sizes,
        "occurrences": count,
        "objective": objective.value,
        "energy_pj": result.cost.energy_pj if result.cost else None,
        "latency_cycles": result.cost.latency_cycles if result.cost else None,
        "proof": result.proof.value,
        "gap": result.gap,
        "evaluated": result.evaluated,
        "cpu_seconds": seconds,
    }


def report(rows: list[dict[str, Any]]) -> str:
    """Summary and one line a layer, as Markdown."""
    lines = [
        "| architecture | objective | layers | proven | median s | worst s | sum s |",
        "|---|---|---|---|---|---|---|",
    ]
    for key in dict.fromkeys((r["architecture"], r["objective"]) for r in rows):
        chosen = [r for r in rows if (r["architecture"], r["objective"]) == key]
        seconds = [r["cpu_seconds"] for r in chosen]
        proven = sum(r["proof"] == "optimal" for r in chosen)
        lines.append(
            f"| {key[0]} | {key[1]} | {len(chosen)} | {proven} | {statistics.median(seconds):.3f} | {max(seconds):.3f} "
            f"| {sum(seconds):.2f} |"
        )
    lines += [
        "",
        "| architecture | objective | bounds | energy pJ | cycles | proof | gap | CPU s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        bounds = " ".join(f"{d}{b}" for d, b in r["bounds"].items() if b > 1)
        gap = "" if r["gap"] is None else f"{r['gap']:.4f}"
        energy = "-" if r["energy_pj"] is None else f"{r['energy_pj']:.5e}"
        lines.append(
            f"| {r['architecture']} | {r['objective']} | {bounds} | {energy} | {r['latency_cycles']} | {r['proof']} "
            f"| {gap} | {r['cpu_seconds']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def main(config: Config) -> list[dict[str, Any]]:
    """Map every layer and write results."""
    groups = load_network(config.network).distinct_layers()
    if config.smoke:
        groups = tuple(sorted(groups, key=lambda g: g.computation.macs)[:3])
    rows = []
    for name in config.presets:
        architecture = freed(load_preset(name)) if config.free_bypass else load_preset(name)
        for objective in (Objective.ENERGY, Objective.EDP):
            for group in groups:
                if not config.free_bypass:
                    map_layer(config, group.computation, architecture, objective, group.count)
                rows.append(map_layer(config, group.computation, architecture, objective, group.count))
    versions = {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine()}
    recorded = json.loads(json.dumps(asdict(config), default=str))
    write_json(config.out / "results.json", {"config": recorded, "versions": versions, "rows": rows})
    text = report(rows)
    write_atomic(config.out / "table.md", text)
    print(text)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default=default.network)
    parser.add_argument("--presets", nargs="+", default=list(default.presets))
    parser.add_argument("--free-bypass", action="store_true", help="search keep sets too")
    parser.add_argument("--time-limit", type=float, default=default.time_limit)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--out", type=Path, default=default.out)
    parser.add_argument("--smoke", action="store_true", help="three small layers, to see that everything runs")
    given = parser.parse_args(arguments)
    return Config(
        given.network, tuple(given.presets), given.free_bypass, given.time_limit, given.smoke, given.seed, given.out
    )


if __name__ == "__main__":
    main(parse_args())
