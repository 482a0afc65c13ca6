"""The peers of `experiments.head_to_head`: what each recorded, and our search of the same problem under the same rules."""

import csv
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from codesign.core.errors import UserError
from codesign.core.files import read_text
from codesign.core.goals import Budget, Objective, Proof
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Cost
from codesign.cost.cost import evaluate as cost_of
from codesign.mappers.exact import ExactMapper
from codesign.mappers.loop_order.exact_orders import ExactOrders
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Axis, Mapping, Node, Spatial, Storage, Temporal
from codesign.workloads.operators import conv2d
from experiments import accelforge_runs, exact, zigzag_optimum
from experiments.airchitect_rules import read_label
from experiments.factorflow_rules import Machine, Recorded, evaluate, read_machines, read_recorded
from experiments.factorflow_search import prepare, solve

REPRODUCED = 1e-9
"""Relative; how near the rules must come to a recorded figure."""

PRINTED = 1e-6
"""Relative; of figures that were printed with seven digits."""


@final
@dataclass(frozen=True)
class HeadToHeadConfig:
    """What is compared.

    Args:
        peer: One of `PEERS`.
        data: Folder of what they recorded.
        time_limit: CPU seconds of each of our searches.
        only: Only problems whose name contains this.
        smoke: Only the first problem of each machine or file.
        out: Folder of results.
        table: CSV table that the row of this comparison goes into.
    """

    peer: str
    data: Path
    time_limit: float = 120.0
    only: str = ""
    smoke: bool = False
    out: Path = Path("results/head_to_head")
    table: Path | None = None


@final
@dataclass(frozen=True)
class Row:
    """One problem.

    Args:
        name: Of the problem.
        ratio: Ours over theirs, of what they minimise.
        proven: Whether ours is proven the least.
        cpu_seconds: Of ours.
        their_cpu_seconds: Of theirs; None where none are recorded.
        more: Further figures by name.
    """

    name: str
    ratio: float
    proven: bool
    cpu_seconds: float
    their_cpu_seconds: float | None
    more: JsonObject


def factorflow(config: HeadToHeadConfig) -> Iterator[Row]:
    """Every recorded product, searched under FactorFlow's rules for what FactorFlow minimises, and for the product alone.

    Raises:
        UserError: A file is missing or of another form.
    """
    machines = read_machines(config.data)
    seen: set[str] = set()
    _warm_up(next(iter(machines.values())))
    for run in read_recorded(config.data):
        name = f"{run.machine} {run.name}"
        if config.only not in name or (config.smoke and run.machine in seen):
            continue
        if run.machine not in machines:
            raise UserError(f"machine {run.machine!r} is not in architectures.json", where=str(config.data))
        seen.add(run.machine)
        yield _against_factorflow(machines[run.machine], run, name, config.time_limit)


def _warm_up(machine: Machine) -> None:
    """Load the compiled code, so that it is not counted."""
    solve(machine, (16, 16, 16), by_use=True, time_limit_s=10.0)


def _against_factorflow(machine: Machine, run: Recorded, name: str, time_limit: float) -> Row:
    started = time.process_time()
    ready = prepare(machine, run.sizes)
    found = solve(machine, run.sizes, by_use=True, time_limit_s=time_limit, prepared=ready)
    spent = time.process_time() - started
    plain = solve(machine, run.sizes, by_use=False, time_limit_s=time_limit, prepared=ready)
    more: JsonObject = {"sizes": list(run.sizes), "reproduced": _reproduced(machine, run)}
    if found.figures is None:
        return Row(name, float("inf"), False, spent, run.cpu_seconds, more)
    more["edp_ratio"] = None if plain.figures is None else plain.figures.edp / run.figures.edp
    more["edp_proven"] = plain.proven
    more["edp_cpu_seconds"] = time.process_time() - started - spent
    return Row(name, found.figures.goal / run.figures.goal, found.proven, spent, run.cpu_seconds, more)


def _reproduced(machine: Machine, run: Recorded) -> bool | None:
    """Whether the rules give what was recorded; None where no mapping was."""
    if run.loops is None:
        return None
    try:
        found = evaluate(machine, run.sizes, run.loops)
    except UserError:
        return False
    pairs = (
        (found.energy_pj, run.figures.energy_pj),
        (found.latency_cycles, run.figures.latency_cycles),
        (found.utilisation, run.figures.utilisation),
    )
    return all(abs(a - b) <= REPRODUCED * abs(b) for a, b in pairs)


def accelforge(config: HeadToHeadConfig) -> Iterator[Row]:
    """Every recorded run under AccelForge's rules.

    Raises:
        UserError: No run is there.
    """
    folders = [config.data] if _holds_runs(config.data) else sorted(p for p in config.data.iterdir() if _holds_runs(p))
    if not folders:
        raise UserError("no recorded runs (*.json, or results.csv) there or in folders there", where=str(config.data))
    accelforge_runs.warm_up()
    for folder in folders:
        kind = "regression" if (folder / "results.csv").exists() else "head"
        for name, run in accelforge_runs.read_runs(accelforge_runs.Config(kind, folder)):
            if config.only not in name:
                continue
            yield _against_accelforge(f"{folder.name} {name}", run, config.time_limit)
            if config.smoke:
                break


def _holds_runs(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    if (folder / "results.csv").exists():
        return True
    return any('"metric"' in p.read_text(encoding="utf-8", errors="replace") for p in sorted(folder.glob("*.json"))[:3])


def _against_accelforge(name: str, run: accelforge_runs.Run | UserError, time_limit: float) -> Row:
    try:
        if isinstance(run, UserError):
            raise run
        found = accelforge_runs.compare(run, time_limit)
    except (UserError, *accelforge_runs.BROKEN) as error:
        return Row(name, float("inf"), False, 0.0, None, {"status": f"not supported: {error}"})
    theirs = found["theirs"]["cpu_seconds"]
    return Row(name, found["ratio"], found["proven"], found["ours"]["cpu_seconds"], theirs, {"goal": found["goal"]})


def airchitect(config: HeadToHeadConfig) -> Iterator[Row]:
    """Every label against the best of all designs.

    Raises:
        UserError: No table is there, or a row is of another form.
    """
    paths = sorted(config.data.glob("*.csv"))
    if not paths:
        raise UserError("no label tables (*.csv) there", where=str(config.data))
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.DictReader(file)):
                if config.smoke and number:
                    break
                name = f"{path.stem} {number + 1}"
                if config.only not in name:
                    continue
                started = time.process_time()
                try:
                    label = read_label(row)
                except (UserError, KeyError, ValueError, TypeError) as error:
                    raise UserError(f"row {number + 1}: {type(error).__name__} {error}", where=str(path)) from error
                ratios = [label.ratio_of(v) for v in label.convolutions] or [float("inf")]
                more: JsonObject = {
                    "reproduced": label.reproduced,
                    "optimal": label.reproduced and min(ratios) == 1.0,
                }
                if label.product is not None:
                    more["as_product"] = label.ratio_of(label.product)
                yield Row(name, max(ratios), label.reproduced, time.process_time() - started, None, more)


_LOOP = re.compile(r"for (\w) in \[0:(\d+)\)(?: \(Spatial-([XY])\))?")


def timeloop(config: HeadToHeadConfig) -> Iterator[Row]:
    """Every recorded search of Timeloop's mapper for the energy-delay product of a layer.

    Raises:
        UserError: No such file, or one of another form.
    """
    path = config.data / "mapper_speed.json"
    architecture, constraints = exact.reference_machine(exact.Config(data=config.data.parent))
    try:
        runs = [run for run in json.loads(read_text(path))["runs"] if run["best"] and config.only in run["tag"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"no searches could be read: {type(error).__name__} {error}", where=str(path)) from error
    for run in runs[:1] if config.smoke else runs:
        sizes, strides = run["problem"]["dims"], (run["problem"]["Wstride"], run["problem"]["Hstride"])
        layer = conv2d(**sizes, stride=strides, name=run["layer"])
        problem = MappingProblem(layer, architecture, constraints)
        started = time.process_time()
        found = ExactMapper().map(problem, Objective.EDP, budget=Budget(time_limit_s=config.time_limit), seed=0)
        spent = time.process_time() - started
        theirs = cost_of(layer, architecture, _timeloop_mapping(problem, run["best_map"]))
        same = isinstance(theirs, Cost) and abs(theirs.edp - run["best"]["edp_pj_cycles"]) <= PRINTED * theirs.edp
        ratio = float("inf") if found.cost is None else found.cost.edp / run["best"]["edp_pj_cycles"]
        yield Row(run["tag"], ratio, found.proof is Proof.OPTIMAL, spent, run["cpu_s"], {"reproduced": same})


def _timeloop_mapping(problem: MappingProblem, text: str) -> Mapping:
    """The nest that Timeloop printed."""
    nodes: list[Node] = []
    level, kept = "", {v.level: v.keep for v in problem.constraints.levels}
    for line in text.splitlines():
        name = line.split(" [")[0]
        if name in problem.architecture.level_index:
            level = name
            nodes += [
                Storage(t.name, level)
                for t in problem.computation.tensors
                if {t.name, t.role.value} & (kept.get(level) or {t.name})
            ]
        elif loop := _LOOP.search(line):
            dim, factor, axis = loop[1], int(loop[2]), loop[3]
            nodes.append(Temporal(dim, factor) if axis is None else Spatial(dim, factor, _axis(axis), level))
    return Mapping(tuple(nodes))


def _axis(name: str) -> Axis:
    return "x" if name == "X" else "y"


def zigzag(config: HeadToHeadConfig) -> Iterator[Row]:
    """Every recorded search of ZigZag, LOMA with six to eight loops and runs of SALSA, for the energy of a layer.

    Raises:
        UserError: No layer is there, or no order fits.
    """
    files = sorted((config.data / "layers").glob("*/*.json"))
    if not files:
        raise UserError("no recorded layers (layers/*/*.json) there", where=str(config.data))
    zigzag_optimum.warm_up(files[0])
    for path in files[:1] if config.smoke else files:
        recorded = json.loads(read_text(path))
        layer = zigzag_optimum.unrolled(recorded, config.data / "inputs")
        started = time.process_time()
        found = ExactOrders().map_orders(layer, Objective.ENERGY, budget=Budget(), seed=0)
        spent = time.process_time() - started
        if found.cost is None:
            raise UserError("no order fits", where=str(path))
        for search, energy_pj, seconds in _zigzag_searches(recorded):
            name = f"{path.parent.name} {path.stem} {search}"
            if config.only in name:
                yield Row(name, found.cost.energy_pj / energy_pj, found.proof is Proof.OPTIMAL, spent, seconds, {})


def _zigzag_searches(recorded: dict[str, Any]) -> Iterator[tuple[str, float, float | None]]:
    """Name, energy and CPU seconds of every recorded search of a layer."""
    for key in zigzag_optimum.RECORDED:
        if key in recorded:
            timed = recorded.get(f"loma_lpf{key[4]}", {}).get("search", {})
            yield key[:5], recorded[key]["energy_total"], timed.get("cpu_s")
    for key in [k for k in recorded if k.startswith("salsa")]:
        for seed, run in recorded[key].items():
            yield f"{key} {seed}", run["best"]["energy_total"], run["search"].get("cpu_s")
