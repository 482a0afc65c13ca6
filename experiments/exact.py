"""The tables of docs/results/exact-mapper.md: `python -m experiments.exact --study presets|reference|scratchpad`.

`presets` and `reference` (Simba as in the reference data, with its constraints) map every distinct layer of a network for
each objective: the optimum, whether it was proven, CPU seconds. With `--free-bypass` keep sets are searched too. `scratchpad`
maps the whole network on random designs of the space, one per seed, as `codesign explore` does. Writes
`results.json` and `table.md`. Layers are mapped once before they are timed, so that compiling is not counted.
"""

import math
import os
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.arch.presets import load_preset
from codesign.core.errors import unknown_name
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import evaluate_workload
from codesign.formats.load import load_inputs
from codesign.mappers.exact import ExactMapper
from codesign.mappers.registry import create
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.workloads.computation import Computation
from codesign.workloads.load import load_network
from codesign.workloads.network import Network
from experiments.mappers_common import markdown, save
from experiments.options import head_parser
from spaces.scratchpad import SCRATCHPAD

STUDIES = ("presets", "reference", "scratchpad")


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        study: What is mapped: "presets", "reference" or "scratchpad".
        network: Name of a zoo model or a file.
        presets: Architectures of the study of that name.
        objectives: What is minimised; `scratchpad` always minimises EDP.
        designs: Designs of `scratchpad`; their seeds follow `seed`.
        data: Folder of the reference data.
        partial_bits: Width of partial sums of the studies on layers.
        free_bypass: Whether keep sets are searched too.
        time_limit: Seconds for each layer.
        smoke: Three small layers, or one design, only.
        seed: Of the first random design is one more; mapping is not random.
        out: Folder of results.
    """

    study: str = "presets"
    network: str = "resnet50"
    presets: tuple[str, ...] = ("simba", "gemmini")
    objectives: tuple[str, ...] = ("energy", "edp")
    designs: int = 40
    data: Path = Path(os.environ.get("CODESIGN_REFERENCE", "tests/data"))
    partial_bits: int = 24
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


def reference_machine(config: Config) -> tuple[Architecture, Constraints]:
    """Simba of the reference data with its energy table, and which tensors its levels keep."""
    folder = config.data / "timeloop" / "inputs"
    case = folder / "simba_res2_3x3_CK"
    # constraints are read together with a problem
    paths = [case / "arch.yaml", case / "ert.yaml", case / "problem.yaml", folder / "simba_constraints.yaml"]
    inputs = load_inputs(paths)
    architecture = replace(inputs.need_architecture(), name="simba of the reference data")
    constraints = Constraints((), True) if config.free_bypass else replace(inputs.constraints, free_bypass=False)
    return architecture, constraints


def machines(config: Config) -> list[tuple[Architecture, Constraints]]:
    """Architectures of a study on layers, with their constraints."""
    if config.study == "reference":
        return [reference_machine(config)]
    presets = [load_preset(name) for name in config.presets]
    if config.free_bypass:
        return [(freed(preset), Constraints(free_bypass=True)) for preset in presets]
    return [(preset, Constraints()) for preset in presets]


def map_layer(
    config: Config,
    computation: Computation,
    machine: tuple[Architecture, Constraints],
    objective: Objective,
    count: float,
) -> dict[str, Any]:
    """One row of the results."""
    architecture, constraints = machine
    problem = MappingProblem(computation, architecture, constraints)
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


def map_design(config: Config, network: Network, number: int) -> dict[str, Any]:
    """A whole network on one random design of the scratchpad space."""
    space = SCRATCHPAD.space
    point = space.to_points(space.sample(1, np.random.default_rng(config.seed + number)))[0]
    architecture = SCRATCHPAD.build(point)
    started = time.process_time()
    result = evaluate_workload(network, architecture, create("exact"))
    seconds = time.process_time() - started
    row: dict[str, Any] = {"design": config.seed + number, "point": list(point.values()), "cpu_seconds": seconds}
    if isinstance(result, Infeasible):
        return {**row, "infeasible": result.resource, "layers": 0, "proven": 0, "worst_gap": None, "edp": None}
    proofs = [layer.result for layer in result.layers]
    return {
        **row,
        "infeasible": None,
        "layers": len(proofs),
        "proven": sum(r.proof is Proof.OPTIMAL for r in proofs),
        "worst_gap": max(r.gap if r.gap is not None else math.inf for r in proofs),
        "edp": result.metrics.latency_s * result.metrics.energy_j,
    }


def report_designs(rows: list[dict[str, Any]]) -> str:
    """Summary and one line a design, as Markdown."""
    seconds = [r["cpu_seconds"] for r in rows]
    whole = sum(r["layers"] > 0 and r["proven"] == r["layers"] for r in rows)
    return (
        markdown(
            ["designs", "median s", "mean s", "worst s", "all layers proven"],
            [[len(rows), *(f"{f(seconds):.2f}" for f in (statistics.median, statistics.mean, max)), whole]],
        )
        + "\n"
        + markdown(
            ["design", "layers", "proven", "worst gap", "EDP J s", "CPU s"],
            [
                [
                    r["design"],
                    r["layers"] or r["infeasible"],
                    r["proven"],
                    r["worst_gap"],
                    r["edp"],
                    f"{r['cpu_seconds']:.2f}",
                ]
                for r in rows
            ],
        )
    )


def study_layers(config: Config) -> list[dict[str, Any]]:
    """Rows of `presets` and `reference`."""
    groups = load_network(config.network, partial_bits=config.partial_bits).distinct_layers()
    if config.smoke:
        groups = tuple(sorted(groups, key=lambda g: g.computation.macs)[:3])
    rows = []
    for machine in machines(config):
        for name in config.objectives:
            objective = Objective.parse(name)
            map_layer(config, groups[0].computation, machine, objective, 1.0)
            for group in groups:
                if not config.free_bypass:
                    map_layer(config, group.computation, machine, objective, group.count)
                rows.append(map_layer(config, group.computation, machine, objective, group.count))
    return rows


def study_designs(config: Config) -> list[dict[str, Any]]:
    """Rows of `scratchpad`."""
    network = load_network("alexnet" if config.smoke else config.network, partial_bits=SCRATCHPAD.partial_bits)
    numbers = range(1, 2 if config.smoke else config.designs + 1)
    map_design(config, network, 1)
    return [map_design(config, network, number) for number in numbers]


def main(config: Config) -> list[dict[str, Any]]:
    """Run the study and write results.

    Raises:
        UserError: There is no such study.
    """
    if config.study not in STUDIES:
        raise unknown_name("study", config.study, STUDIES)
    rows = study_designs(config) if config.study == "scratchpad" else study_layers(config)
    text = report_designs(rows) if config.study == "scratchpad" else report(rows)
    save(config.out, config, {"rows": rows}, text)
    print(text)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(
        __doc__, out=default.out, seed=default.seed, smoke="three small layers, to see that everything runs"
    )
    parser.add_argument("--study", choices=STUDIES, default=default.study)
    parser.add_argument("--network", default=default.network)
    parser.add_argument("--presets", nargs="+", default=list(default.presets))
    parser.add_argument("--objectives", nargs="+", default=list(default.objectives))
    parser.add_argument("--designs", type=int, default=default.designs, help="random designs of the scratchpad study")
    parser.add_argument("--data", type=Path, default=default.data, help="folder of the reference data")
    parser.add_argument("--partial-bits", type=int, default=default.partial_bits)
    parser.add_argument("--free-bypass", action="store_true", help="search keep sets too")
    parser.add_argument("--time-limit", type=float, default=default.time_limit)
    given = vars(parser.parse_args(arguments))
    given |= {name: tuple(given[name]) for name in ("presets", "objectives")}
    return Config(**given)


if __name__ == "__main__":
    main(parse_args())
