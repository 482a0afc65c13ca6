"""The table "Beside AccelForge" of docs/exact-mapper.md: `python -m experiments.accelforge`.

Reads recorded mapper runs on one GEMM (`head/*.json`) and the same architectures in this project's YAML (`inputs/ARCH.yaml`).
Each is mapped by the exact mapper; the recorded mapping is also scored by the cost model. AccelForge charges a read of the
buffer for every output word that leaves it, which rule O1 does not. The search pays it with the update of the parent (`drained`; too
little where sums meet on the way up), the table counts it exactly (`energy_j`).
Writes `results.json` and `table.md`. Every problem is mapped once before it is timed, so that compiling is not counted.
"""

import argparse
import os
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_from_json
from codesign.core.errors import UserError
from codesign.core.files import read_structured
from codesign.cost.cost import Cost, TensorTraffic, evaluate
from codesign.mappers.base import Budget, Objective, Proof
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import Constraints, Keep, LevelConstraints, MappingProblem
from codesign.mapping.files import constraints_from_json, mapping_from_json
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation
from codesign.workloads.files import computation_from_json
from experiments.mappers_common import markdown, save

OUTPUT = "T1"
INPUTS = Path(__file__).parents[1] / "tests" / "data" / "accelforge" / "inputs"
"""The machines; other folders of reference data hold recorded runs only."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        data: Folder of the reference data.
        time_limit: Seconds for each mapping.
        smoke: Only the smallest problem.
        out: Folder of results.
    """

    data: Path = Path(os.environ.get("CODESIGN_REFERENCE", "tests/data"))
    time_limit: float = 30.0
    smoke: bool = False
    out: Path = Path("results/accelforge")


@dataclass(frozen=True)
class Case:
    """One recorded run and the same problem here.

    Args:
        name: As recorded: architecture, workload, objective.
        recorded: The file.
        computation: The GEMM.
        architecture: Without the charge of draining.
        constraints: What the recorded map space forbids.
    """

    name: str
    recorded: dict[str, Any]
    computation: Computation
    architecture: Architecture
    constraints: Constraints

    @property
    def best(self) -> dict[str, Any]:
        """The recorded optimum."""
        found: dict[str, Any] = self.recorded["results"][0]
        return found


def read_case(path: Path) -> Case:
    """A recorded run, with the architecture of its name."""
    recorded = read_structured(path)
    size = recorded["jinja_parse_data"]
    problem = {
        "notation": f"{OUTPUT}[m,n1] += T0[m,n0] * W0[n0,n1]",
        "bounds": {"m": size["M"], "n0": size["KN"], "n1": size["KN"]},
        "tensors": {"T0": {"role": "input"}, "W0": {"role": "weight"}},
    }
    computation = computation_from_json(problem, str(path))
    file = INPUTS / f"{recorded['arch']}.yaml"
    documents = read_structured(file)
    architecture = architecture_from_json(documents["architecture"], str(file))
    constraints = constraints_from_json(documents["constraints"], str(file))
    return Case(recorded["case"], recorded, computation, architecture, constraints)


def read_cases(data: Path) -> list[Case]:
    """All recorded EDP runs on one GEMM whose architecture is there.

    Raises:
        UserError: There is none.
    """
    cases = []
    for path in sorted((data / "accelforge" / "head").glob("*__gemm*__edp*.json")):
        if (INPUTS / f"{path.name.split('__')[0]}.yaml").exists() and "imperf" not in path.name:
            cases.append(read_case(path))
    if not cases:
        raise UserError("no recorded runs of AccelForge", where=str(data), hint="see tests/data/README.md")
    return sorted(cases, key=lambda c: c.computation.macs)


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


def drains(traffic: TensorTraffic) -> int:
    """Output words that leave a buffer: each was filled or is a first visit, which is an update without a read (rule O2)."""
    return traffic.fills + traffic.updates - traffic.reads


def energy_j(case: Case, cost: Cost) -> float:
    """Energy with draining charged, in joules; in the recorded unit where there is no clock."""
    total_pj = cost.energy_pj
    for level, found in list(zip(case.architecture.levels, cost.levels, strict=True))[1:]:
        read_pj = level.energy.read_pj if level.energy else 0.0
        total_pj += sum(drains(t) * read_pj for t in found.tensors if t.tensor == OUTPUT)
    return total_pj if case.architecture.clock_hz == 1 else total_pj * 1e-12


def mapped(case: Case, objective: Objective, time_limit_s: float) -> dict[str, Any]:
    """The best mapping over all levels that may hold the output, and the CPU seconds of all of them together."""
    output = next(t for t in case.computation.tensors if t.name == OUTPUT)
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
                entries[name] = replace(entry, keep=entry.keep | {OUTPUT})
            else:
                entries[name] = replace(entry, bypass=entry.bypass | {OUTPUT})
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


def recorded_mapping(case: Case) -> Mapping:
    """The recorded nest; fan-outs are met from outside to inside, outputs are summed along x, inputs are shared along y."""
    fanouts = [v.name for v in case.architecture.levels if v.fanout.size > 1]
    seen: list[str] = []
    nodes: list[dict[str, Any]] = []
    for node in case.best["mapping"]["nodes"]:
        if node["type"] == "Storage":
            nodes.append({"store": node["component"], "tensors": node["tensors"]})
            continue
        if node["type"] not in ("Temporal", "Spatial"):
            continue
        loop = {"factor": round(node["n_iterations"])}
        if node["type"] == "Temporal":
            nodes.append({"for": node["rank_variable"], **loop})
            continue
        if node["component"] not in seen:
            seen.append(node["component"])
        level = fanouts[seen.index(node["component"])]
        axis = "y" if node["dim"] == "reuse_input" else "x"
        nodes.append({"parallel": node["rank_variable"], **loop, "axis": axis, "level": level})
    return mapping_from_json(nodes, case.name)


def dynamic_energy_j(case: Case) -> float:
    """Recorded energy without leakage, which the mapper does not charge, in joules (or the file's unit)."""
    parts: dict[str, float] = case.best["energy_per_component_J"]
    return sum(energy for name, energy in parts.items() if not name.endswith("/leak"))


def latency_s(case: Case, cost: Cost) -> float:
    """Seconds by the recorded rule: a level with one bandwidth reads and writes through one port, and drained words are read.

    A level with two different bandwidths has two ports, as in this project.
    """
    cycles = [float(cost.compute_cycles)]
    for position, (level, found) in enumerate(zip(case.architecture.levels, cost.levels, strict=True)):
        drained_words = sum(drains(t) for t in found.tensors if t.tensor == OUTPUT and position > 0)
        reads = sum(t.reads for t in found.tensors) + drained_words
        writes = sum(t.fills + t.updates for t in found.tensors)
        into, out_of = level.write_bandwidth_words_per_cycle, level.read_bandwidth_words_per_cycle
        if into is not None and out_of is not None:
            both = [(reads + writes) / into] if into == out_of else [reads / out_of, writes / into]
            cycles += [port / found.instances for port in both]
    return max(cycles) / case.architecture.clock_hz


def compare(case: Case, config: Config) -> dict[str, Any]:
    """One row: the recorded optimum, its mapping here, and the optimum here."""
    clock = case.architecture.clock_hz
    again = scored(case, recorded_mapping(case))
    row: dict[str, Any] = {
        "case": case.name,
        "recorded": {
            "energy_j": dynamic_energy_j(case),
            "latency_s": case.best["latency_s"],
            "cpu_seconds": case.recorded["runs"][-1]["make_cpu_s"],
            "evaluated": sum(case.recorded["counts"]["evaluated"].values()),
        },
        "recorded_mapping_here": {
            "energy_j": energy_j(case, again),
            "latency_s": again.latency_cycles / clock,
            "shared_port_latency_s": latency_s(case, again),
        },
    }
    for objective in Objective:
        mapped(case, objective, config.time_limit)
        found = mapped(case, objective, config.time_limit)
        cost = found["cost"]
        row[objective.value] = {
            "energy_j": energy_j(case, cost),
            "latency_s": cost.latency_cycles / clock,
            "shared_port_latency_s": latency_s(case, cost),
            "proven": found["proven"],
            "cpu_seconds": found["cpu_seconds"],
            "loop_nest": cost.loop_nest,
        }
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
            (o.value, f"exact mapper, {o.value}") for o in Objective
        ]:
            ours = row[key]
            energy, latency, shared = ours["energy_j"], ours["latency_s"], ours["shared_port_latency_s"]
            values = [f"{v:.4g}" for v in (energy, latency, energy * latency)]
            values += [f"{energy * latency / edp:.3f}", f"{shared:.4g}", f"{energy * shared / edp:.3f}"]
            proof = "" if ours.get("proven", True) else " (not proven)"
            seconds = f"{ours['cpu_seconds']:.3f}" if "cpu_seconds" in ours else ""
            lines.append([row["case"], label + proof, *values, seconds])
    return markdown(head, lines)


def main(config: Config) -> list[dict[str, Any]]:
    """Run the comparison and write results."""
    cases = read_cases(config.data)
    rows = [compare(case, config) for case in (cases[:1] if config.smoke else cases)]
    text = report(rows)
    save(config.out, config, {"rows": rows}, text)
    print(text)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=default.data, help="folder of the reference data")
    parser.add_argument("--time-limit", type=float, default=default.time_limit)
    parser.add_argument("--out", type=Path, default=default.out)
    parser.add_argument("--smoke", action="store_true", help="the smallest problem only")
    return Config(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    main(parse_args())
