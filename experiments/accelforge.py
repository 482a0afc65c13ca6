"""The table "Beside AccelForge" of docs/results/exact-mapper.md: `python -m experiments.accelforge`.

Reads recorded mapper runs on one GEMM or convolution (`head/*.json`) and the same architectures in this project's YAML (`inputs/ARCH.yaml`).
Each is mapped by the exact mapper; the recorded mapping is also scored by the cost model. AccelForge charges a read of the
buffer for every output word that leaves it, which rule O1 does not. The search pays it with the update of the parent (`drained`; too
little where sums meet on the way up), the table counts it exactly (`experiments.accelforge_rules`).
Convolutions are also mapped on the machines they were not recorded on, alone.
Writes `results.json` and `table.md`. Every problem is mapped once before it is timed, so that compiling is not counted.

With `--kind` all recorded runs of a folder are compared under AccelForge's own rules (`experiments.accelforge_runs`); `--kind head` prints both.
"""

import os
import sys
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.core.goals import OBJECTIVES, Budget, Objective, Proof
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import Keep, LevelConstraints, MappingProblem
from codesign.mapping.mapping import Mapping
from experiments import accelforge_runs
from experiments.accelforge_cases import Case, elsewhere, read_cases, recorded_mapping
from experiments.accelforge_rules import accesses, energy_j, entering, latency_s, refilled, refilled_where_held
from experiments.mappers_common import markdown, save
from experiments.options import head_parser


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        data: Folder of the reference data.
        time_limit: Seconds for each mapping.
        smoke: Only the smallest problem.
        out: Folder of results.
        kind: Set of recorded runs to compare under their rules.
        only: Part of the names of the runs wanted.
    """

    data: Path = Path(os.environ.get("CODESIGN_REFERENCE", "tests/data"))
    time_limit: float = 30.0
    smoke: bool = False
    out: Path = Path("results/accelforge")
    kind: str | None = None
    only: str = ""


def drained(architecture: Architecture, keeping: list[str]) -> Architecture:
    """The architecture where an update also pays the read of the next level in of `keeping`, those that hold the output."""
    levels = {level.name: level for level in architecture.levels}
    for outer, inner in pairwise(keeping):
        parent, child = levels[outer].energy, levels[inner].energy
        if parent is not None and child is not None:
            energy = replace(parent, update_pj=parent.update_pj + child.read_pj)
            levels[outer] = replace(levels[outer], energy=energy)
    return replace(architecture, levels=tuple(levels.values()))


def scored(case: Case, mapping: Mapping) -> Cost:
    """A mapping in the cost model, draining not charged."""
    cost = evaluate(case.computation, case.architecture, mapping)
    if not isinstance(cost, Cost):
        raise UserError(f"the mapping of {case.name} does not fit: {cost}")
    return cost


def mapped(case: Case, objective: Objective, time_limit_s: float) -> dict[str, Any]:
    """The best mapping over all levels that may hold the output, and the CPU seconds of all of them together."""
    output = case.computation.output
    said = {v.name: case.constraints.decision(case.architecture, v.name, output) for v in case.architecture.levels}
    free = [name for name, decision in said.items() if decision is Keep.FREE]
    fixed = [name for name, decision in said.items() if decision is Keep.YES]
    best: dict[str, Any] | None = None
    seconds, proven = 0.0, True
    for bits in range(2 ** len(free)):
        kept = {name for i, name in enumerate(free) if bits >> i & 1} | set(fixed)
        chain = [v.name for v in case.architecture.levels if v.name in kept]
        entries = dict(case.constraints.by_level)
        for name in free:
            entry = entries.get(name, LevelConstraints(name))
            if name in kept:
                entries[name] = replace(entry, keep=entry.keep | {output.name})
            else:
                entries[name] = replace(entry, bypass=entry.bypass | {output.name})
        constraints = replace(case.constraints, levels=tuple(entries.values()))
        problem = MappingProblem(case.computation, drained(case.architecture, chain), constraints)
        started = time.process_time()
        result = ExactMapper().map(problem, objective, budget=Budget(time_limit_s=time_limit_s), seed=0)
        seconds += time.process_time() - started
        proven &= result.proof is Proof.OPTIMAL
        if result.cost and result.mapping:
            value = (objective.of(result.cost), result.cost.energy_pj)
            if best is None or value < best["value"]:
                best = {"value": value, "mapping": result.mapping}
    if best is None:
        raise UserError(f"no mapping of {case.name} was found", hint="give a longer --time-limit")
    return {"cost": scored(case, best["mapping"]), "cpu_seconds": seconds, "proven": proven}


def dynamic_energy_j(case: Case) -> float:
    """Recorded energy without leakage, which the mapper does not charge, in joules (or the file's unit)."""
    parts: dict[str, float] = case.best["energy_per_component_J"]
    return sum(energy for name, energy in parts.items() if not name.endswith("/leak"))


def refills(case: Case, cost: Cost) -> list[dict[str, Any]]:
    """Where the words that enter a buffer depend on whose rule counts them; `in_full`: no tile keeps anything of the one before."""
    here, theirs, in_full = entering(case, cost), refilled(case), refilled_where_held(case)
    return [
        {"level": key[0], "tensor": key[1], "here": here[key], "accelforge": theirs[key], "in_full": in_full[key]}
        for key in here
        if not here[key] == theirs[key] == in_full[key]
    ]


def figures(case: Case, cost: Cost) -> dict[str, float]:
    """Energy with drains charged, latency by this project's rule and by AccelForge's."""
    counted = accesses(case, cost)
    return {
        "energy_j": energy_j(case, cost, counted),
        "latency_s": cost.latency_cycles / case.architecture.clock_hz,
        "shared_port_latency_s": latency_s(case, cost, counted),
    }


def optimum(case: Case, objective: Objective, config: Config) -> dict[str, Any]:
    """The optimum here; mapped twice, the second time for the CPU seconds."""
    mapped(case, objective, config.time_limit)
    found = mapped(case, objective, config.time_limit)
    return {
        **figures(case, found["cost"]),
        "proven": found["proven"],
        "cpu_seconds": found["cpu_seconds"],
        "loop_nest": found["cost"].loop_nest,
    }


def compare(case: Case, config: Config) -> dict[str, Any]:
    """One row: the recorded optimum, its mapping here, and the optimum here."""
    again = scored(case, recorded_mapping(case))
    row: dict[str, Any] = {
        "case": case.name,
        "recorded": {
            "energy_j": dynamic_energy_j(case),
            "latency_s": case.best["latency_s"],
            "cpu_seconds": case.recorded["runs"][-1]["make_cpu_s"],
            "evaluated": sum(case.recorded["counts"]["evaluated"].values()),
        },
        "recorded_mapping_here": {**figures(case, again), "refills": refills(case, again)},
    }
    row |= {objective.value: optimum(case, objective, config) for objective in OBJECTIVES}
    return row


def report(rows: list[dict[str, Any]]) -> str:
    """The table, as Markdown."""
    head = ["run", "what", "energy", "latency", "EDP", "EDP ratio", "latency, one port", "EDP ratio, one port", "CPU s"]
    lines = []
    for row in rows:
        theirs = row["recorded"]
        edp = theirs["energy_j"] * theirs["latency_s"]
        parts = [theirs["energy_j"], theirs["latency_s"], edp]
        cells = [*(f"{v:.4g}" for v in parts), "", f"{theirs['latency_s']:.4g}", "", f"{theirs['cpu_seconds']:.2f}"]
        lines.append([row["case"], "AccelForge's optimum", *cells])
        for key, label in [("recorded_mapping_here", "its mapping, scored here")] + [
            (o.value, f"exact mapper, {o.value}") for o in OBJECTIVES
        ]:
            ours = row[key]
            energy, latency, shared = ours["energy_j"], ours["latency_s"], ours["shared_port_latency_s"]
            values = [f"{v:.4g}" for v in (energy, latency, energy * latency)]
            values += [f"{energy * latency / edp:.3f}", f"{shared:.4g}", f"{energy * shared / edp:.3f}"]
            proof = "" if ours.get("proven", True) else " (not proven)"
            seconds = f"{ours['cpu_seconds']:.3f}" if "cpu_seconds" in ours else ""
            lines.append([row["case"], label + proof, *values, seconds])
    return markdown(head, lines)


def report_alone(rows: list[dict[str, Any]]) -> str:
    """The table of what was not recorded, as Markdown."""
    head = ["not recorded", "proven", "energy", "latency", "latency, one port", "CPU s"]
    keys = ("energy_j", "latency_s", "shared_port_latency_s")
    lines = [
        [r["case"], "yes" if r["proven"] else "no", *(f"{r[k]:.4g}" for k in keys), f"{r['cpu_seconds']:.3f}"]
        for r in rows
    ]
    return markdown(head, lines)


def main(config: Config) -> list[dict[str, Any]]:
    """Run the comparison and write results."""
    if config.kind is not None and config.kind != "head":
        accelforge_runs.main(_of_kind(config, config.kind))
        return []
    if config.kind is None:
        return even(config)
    rows: list[dict[str, Any]] = []
    try:
        rows = even(config)
    except (UserError, *accelforge_runs.BROKEN) as error:  # a folder may hold runs that this table does not know
        print(f"no table of even mappings: {error}", file=sys.stderr)
    accelforge_runs.main(_of_kind(config, config.kind))
    return rows


def _of_kind(config: Config, kind: str) -> accelforge_runs.Config:
    default = Config()
    folder = config.data if config.data != default.data else default.data / "accelforge" / kind
    limit = config.time_limit if config.time_limit != default.time_limit else accelforge_runs.Config.time_limit
    return accelforge_runs.Config(kind, folder, limit, config.smoke, config.only, config.out)


def even(config: Config) -> list[dict[str, Any]]:
    """The comparison of even mappings under this project's rules with the recorded optima."""
    cases = read_cases(config.data)
    rows = [compare(case, config) for case in (cases[:1] if config.smoke else cases)]
    text = report(rows)
    alone: list[dict[str, Any]] = []
    if not config.smoke:
        alone = [{"case": case.name, **optimum(case, Objective.EDP, config)} for case in elsewhere(cases)]
        text += "\n" + report_alone(alone)
    save(config.out, config, {"rows": rows, "not_recorded": alone}, text)
    print(text)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, smoke="the smallest problem only")
    parser.add_argument("--data", type=Path, default=default.data, help="folder of the reference data")
    parser.add_argument("--time-limit", type=float, default=default.time_limit)
    parser.add_argument(
        "--kind",
        choices=accelforge_runs.KINDS,
        help="all runs of a folder under AccelForge's rules; DATA is the kind's own folder",
    )
    parser.add_argument("--only", default="", help="with --kind: runs whose name contains this")
    return Config(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    main(parse_args())
