"""Uneven against even mappings under the default rules: `python -m experiments.uneven` (tables of docs/results/uneven-mapping.md).

Maps every distinct layer of a network on presets with the exact mapper, even and uneven. `--divide N` gives every buffer 1/N of its capacity: where
buffers are small, uneven mappings gain. `--recorded FOLDER` takes AccelForge's recorded products of matrices and scores its mappings beside.
The first problem is mapped once before, so that compiling is not counted.
"""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.arch.presets import load_preset
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.workloads.load import load_network
from experiments.accelforge_cases import read_cases, recorded_mapping
from experiments.mappers_common import bounds_text, markdown, save
from experiments.options import head_parser


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        presets: Architectures.
        network: A zoo model or file.
        objectives: What is minimised, one row each.
        divide: What the capacity of every buffer is divided by.
        free_bypass: Whether keep sets are free.
        recorded: Folder of AccelForge's recorded runs, mapped in place of the network.
        time_limit: Seconds for each mapping.
        smoke: The first layer only.
        out: Folder of results.
    """

    presets: tuple[str, ...] = ("eyeriss", "simba", "gemmini", "tpu", "soma-edge")
    network: str = "resnet50"
    objectives: tuple[str, ...] = ("energy", "edp")
    divide: float = 1.0
    free_bypass: bool = False
    recorded: Path | None = None
    time_limit: float = 60.0
    smoke: bool = False
    out: Path = Path("results/uneven")


def divided(architecture: Architecture, divide: float) -> Architecture:
    """The machine with smaller buffers; one of fewer than two words stays."""
    for level in architecture.levels[1:]:
        if level.capacity_bytes is not None and level.capacity_bytes * 8 >= divide * level.word_bits:
            architecture = architecture.with_level(level.name, capacity_bytes=level.capacity_bytes / divide)
    return architecture


@dataclass(frozen=True)
class Given:
    """What one row maps.

    Args:
        group: Rows that are counted together.
        name: Of the operator.
        problem: What is mapped.
        recorded: Cost of a recorded mapping, if there is one.
    """

    group: str
    name: str
    problem: MappingProblem
    recorded: Cost | None = None


def given(config: Config) -> list[Given]:
    """All that is mapped."""
    found = []
    if config.recorded is not None:
        for case in read_cases(config.recorded):
            theirs = evaluate(case.computation, case.architecture, recorded_mapping(case))
            assert isinstance(theirs, Cost)  # it ran there
            problem = MappingProblem(case.computation, case.architecture, case.constraints)
            found.append(Given("recorded", case.name, problem, theirs))
    else:
        layers = load_network(config.network).distinct_layers()
        for preset in config.presets:
            machine = divided(load_preset(preset), config.divide)
            for layer in layers:
                problem = MappingProblem(layer.computation, machine, Constraints(free_bypass=config.free_bypass))
                found.append(Given(preset, bounds_text(layer), problem))
    return found[:1] if config.smoke else found


def compare(item: Given, objective: Objective, config: Config) -> dict[str, Any]:
    """One row: the even and the uneven optimum."""
    row: dict[str, Any] = {"group": item.group, "layer": item.name, "objective": objective.value}
    row["recorded"] = None if item.recorded is None else objective.of(item.recorded)
    for key in ("even", "uneven"):
        mapper = ExactMapper(uneven=key == "uneven")
        started = time.process_time()
        found = mapper.map(item.problem, objective, budget=Budget(time_limit_s=config.time_limit), seed=0)
        row[key] = {
            "value": None if found.cost is None else objective.of(found.cost),
            "proof": found.proof.value,
            "gap": found.gap,
            "cpu_seconds": time.process_time() - started,
        }
    return row


def _ratio(row: dict[str, Any]) -> float:
    even, uneven = row["even"]["value"], row["uneven"]["value"]
    return 1.0 if even is None or uneven is None else float(uneven / even)


def report(rows: list[dict[str, Any]]) -> str:
    """Both tables, as Markdown."""
    head = [
        "architecture",
        "objective",
        "layers",
        "uneven better",
        "uneven / even: mean, best",
        "proven",
        "largest gap",
        "CPU s: sum, worst",
        "even, CPU s",
    ]
    lines = []
    for key in dict.fromkeys((row["group"], row["objective"]) for row in rows):
        here = [row for row in rows if (row["group"], row["objective"]) == key]
        ratios, found = [_ratio(row) for row in here], [row["uneven"] for row in here]
        spent = [f["cpu_seconds"] for f in found]
        lines.append([
            *key, str(len(here)), str(sum(r < 1 - 1e-9 for r in ratios)), f"{statistics.geometric_mean(ratios):.4f}, {min(ratios):.4f}",
            str(sum(f["proof"] == "optimal" for f in found)), f"{100 * max(f['gap'] or 0.0 for f in found):.2g} %",
            f"{sum(spent):.1f}, {max(spent):.2f}", f"{sum(row['even']['cpu_seconds'] for row in here):.1f}",
        ])  # fmt: skip
    text = markdown(head, lines)
    each = ["operator", "architecture", "objective", "recorded / uneven", "even / uneven", "proof", "CPU s"]
    lines = []
    for row in rows:
        value, theirs = row["uneven"]["value"], row["recorded"]
        lines.append([
            row["layer"], row["group"], row["objective"], "" if theirs is None else f"{theirs / value:.4f}",
            f"{1 / _ratio(row):.4f}", row["uneven"]["proof"], f"{row['uneven']['cpu_seconds']:.2f}",
        ])  # fmt: skip
    return f"{text}\n\n{markdown(each, lines)}"


def main(config: Config) -> list[dict[str, Any]]:
    """Run the comparison and write results."""
    rows: list[dict[str, Any]] = []
    items = given(config)
    objectives = [Objective.parse(name) for name in config.objectives]
    for objective in objectives:  # compiled code is loaded first
        compare(items[0], objective, config)
    for item in items:
        for objective in objectives:
            rows.append(compare(item, objective, config))
            text = report(rows)
            save(config.out, config, {"rows": rows}, text)
    print(text)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, smoke="the first layer only")
    parser.add_argument("--presets", nargs="+", default=default.presets)
    parser.add_argument("--network", default=default.network, help="a zoo model or file")
    parser.add_argument("--objectives", nargs="+", default=default.objectives, choices=["energy", "latency", "edp"])
    parser.add_argument("--divide", type=float, default=default.divide, help="capacities are divided by this")
    parser.add_argument("--free-bypass", action="store_true")
    parser.add_argument("--recorded", type=Path, help="folder of AccelForge's recorded runs")
    parser.add_argument("--time-limit", type=float, default=default.time_limit)
    options = vars(parser.parse_args(arguments))
    return Config(**{**options, "presets": tuple(options["presets"]), "objectives": tuple(options["objectives"])})


if __name__ == "__main__":
    main(parse_args())
