"""Recorded runs of AccelForge's mapper against the exact mappers under its own rules: `python -m experiments.accelforge --kind KIND --data FOLDER`.

Kinds: `head`, `uneven`, `imperfect`, `fused` (a folder of JSON files, one a run) and `regression` (tables and YAML). The last line printed is one
JSON object: `runs`, `equal_or_better` (to 1e-6, the recorded values are single precision), `proven`, `worst_ratio` (ours / theirs),
`cpu_seconds`, `their_cpu_seconds` (null where none are recorded). A run that uses what is not supported counts as a run that is neither equal nor proven.
CPU seconds are those of the search; reading files and compiling are not counted.
"""

import csv
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codesign.core.errors import UserError
from codesign.formats.accelforge import Costs, Workload, load, machines, read_workload
from codesign.formats.accelforge.expressions import evaluate
from codesign.mappers.uneven.search import solve
from codesign.mapping.looptree import Factors, Goal, Machine, Memory, Operand, Operator
from codesign.scheduling.fused.loop_tree import schedule
from experiments.mappers_common import markdown, save

KINDS = ("head", "uneven", "imperfect", "fused", "regression")
GOALS = {"energy": Goal.ENERGY, "latency": Goal.LATENCY, "edp": Goal.EDP, "energy x delay": Goal.EDP}
BROKEN = (LookupError, TypeError, ValueError, ArithmeticError, OSError)
"""What a recorded file of another form may raise; such a run is counted, not a reason to stop."""

SAME = 1 + 1e-6
"""Their values are single precision."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        kind: Which set.
        data: Its folder.
        time_limit: CPU seconds for each run.
        smoke: Only the first run.
        only: Only runs whose name contains this.
        out: Folder of results.
    """

    kind: str
    data: Path
    time_limit: float = 45.0
    smoke: bool = False
    only: str = ""
    out: Path = Path("results/accelforge_runs")


@dataclass(frozen=True)
class Point:
    """A recorded result: objectives, and the part of each memory in use where that was an objective too."""

    energy: float
    seconds: float
    value: float
    usage: dict[str, float] | None = None


@dataclass(frozen=True)
class Run:
    """One recorded run.

    Args:
        name: Case.
        goal: What was minimised; none for a Pareto front.
        points: What was found, the optimum alone or the front.
        arch, workload: The parsed files.
        costs: Numbers of component models.
        factors: Which loops may leave remainders.
        unfused: The outermost memory keeps all.
        loops_per_dim, loops: Most shared loops over one dimension and in all.
        cpu_seconds: Of their mapper, if recorded.
    """

    name: str
    goal: Goal | None
    points: tuple[Point, ...]
    arch: dict[str, Any]
    workload: Workload
    costs: Costs = field(default_factory=Costs)
    factors: Factors = field(default_factory=Factors)
    unfused: bool = False
    loops_per_dim: int = 1
    loops: float = math.inf
    cpu_seconds: float | None = None


def templates(folder: Path) -> tuple[Path, ...]:
    """Where included workload files may stand: near the data, else in the tests."""
    near = [folder, *(p / "measured" / "accelforge_regression" / "yaml" for p in folder.resolve().parents[:3])]
    here = Path(__file__).parents[1] / "tests" / "data" / "measured" / "accelforge_regression" / "yaml"
    return tuple(p for p in (*near, here) if p.is_dir())


def read_json(path: Path) -> Run:
    """A recorded run of the folders `head`, `uneven`, `imperfect` or `fused`."""
    data = json.loads(path.read_text())
    parameters = data.get("jinja_parse_data") or {}
    folders = templates(path.parent)
    options = {**_opts(data.get("opts") or []), **(data.get("mapper_options") or {})}
    metric = str(data["metric"])
    goal = GOALS.get(metric)
    if goal is None and not metric.startswith("pareto"):
        raise UserError(f"metric '{metric}' is not known", where=str(path))
    points = tuple(_point(r, goal, metric) for r in data["results"])
    unknown = set(options) - {
        "explore_imperfect_temporal_loops",
        "explore_imperfect_spatial_loops",
        "max_fused_loops_per_rank_variable",
        "max_fused_loops",
        "unfused",
        "reps",
    }
    if unknown:
        raise UserError(f"mapper option '{sorted(unknown)[0]}' is not supported", where=str(path))
    return Run(
        name=str(data.get("case", path.stem)),
        goal=goal,
        points=points if goal is None else points[:1],
        arch=load(data["arch_yaml"], parameters, folders)["arch"],
        workload=read_workload(load(data["workload_yaml"], parameters, folders)),
        costs=_costs(data),
        factors=Factors(
            bool(options.get("explore_imperfect_temporal_loops")), bool(options.get("explore_imperfect_spatial_loops"))
        ),
        unfused=bool(options.get("unfused")),
        loops_per_dim=int(options.get("max_fused_loops_per_rank_variable", 1)),
        loops=float(options.get("max_fused_loops", math.inf)),
        cpu_seconds=sum(data["runs"][0][k] for k in ("make_cpu_s", "join_cpu_s")),
    )


def _opts(options: list[str]) -> dict[str, Any]:
    known: dict[str, dict[str, Any]] = {
        "mfl1": {"max_fused_loops": 1},
        "mfl0": {"max_fused_loops": 0},
        "unfused": {"unfused": True},
        "imperfspatial": {"explore_imperfect_spatial_loops": True},
        "imperftemporal": {"explore_imperfect_temporal_loops": True},
        "imperf": {"explore_imperfect_spatial_loops": True, "explore_imperfect_temporal_loops": True},
    }
    found: dict[str, Any] = {}
    for option in options:
        if option.startswith("reps"):
            continue
        if "=" in option:
            key, value = option.split("=", 1)
            found[key] = evaluate(value, {}, "opts")
        elif option.startswith("mfl") and option[3:].isdigit():
            found["max_fused_loops"] = int(option[3:])
        else:
            found |= known.get(option, {option: True})
    return found


def _point(result: dict[str, Any], goal: Goal | None, metric: str) -> Point:
    energy, seconds = float(result["energy_J"]), float(result["latency_s"])
    leak = sum(v for k, v in result.get("energy_per_component_J", {}).items() if k.endswith("/leak"))
    if "energy_J_from_actions" in result and leak == 0:
        energy = float(result["energy_J_from_actions"])
    value = {None: 0.0, Goal.ENERGY: energy, Goal.LATENCY: seconds, Goal.EDP: energy * seconds}[goal]
    usage = result.get("resource_usage_fraction") if metric != "pareto" and goal is None else None
    return Point(energy, seconds, value, usage)


def _costs(data: dict[str, Any]) -> Costs:
    actions: dict[str, dict[str, Any]] = {}
    sizes: dict[str, float] = {}
    for name, entry in (data.get("component_actions") or {}).items():
        actions[name] = {
            a: {"energy": v["energy_J"], "throughput": float(v["throughput"]), "bits_per_action": v["bits_per_action"]}
            for a, v in entry.items()
            if isinstance(v, dict) and "energy_J" in v
        }
    leak = data.get("leak_W")
    return Costs(actions, sizes=sizes, leak_w=float(leak) if leak is not None else None)


def read_regression(folder: Path) -> Iterator[tuple[str, Run | UserError]]:
    """The runs of AccelForge's own regression test."""
    costs = json.loads((folder / "component_costs.json").read_text())
    workloads = json.loads((folder / "workloads_expanded.json").read_text())
    with (folder / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        try:
            yield row["case"], _regression_run(row, folder, costs.get(row["arch"], {}), workloads)
        except UserError as error:
            yield row["case"], error
        except BROKEN as error:
            yield row["case"], UserError(f"the run lacks something: {type(error).__name__} {error}", where=str(folder))


def _regression_run(row: dict[str, str], folder: Path, models: dict[str, Any], workloads: dict[str, Any]) -> Run:
    text = (folder / "yaml" / "arches" / f"{row['arch']}.yaml").read_text()
    goal = GOALS[row["metric"]]
    energy, seconds = float(row["energy_J"]), float(row["latency_s"])
    value = {Goal.ENERGY: energy, Goal.LATENCY: seconds, Goal.EDP: energy * seconds}[goal]
    actions = {n: m["actions"] for n, m in models.items()}
    return Run(
        name=row["case"],
        goal=goal,
        points=(Point(energy, seconds, value),),
        arch=load(text)["arch"],
        workload=read_workload(workloads[f"{row['workload']}|{row['parameters']}"]),
        costs=Costs(actions, {n: float(m["leak_power"]) for n, m in models.items()}),
        unfused=row["fusion"] == "unfused",
        loops=1,
    )


def read_runs(config: Config) -> Iterator[tuple[str, Run | UserError]]:
    """All runs of a folder; what cannot be read is given as its error.

    Raises:
        UserError: The folder holds no runs.
    """
    if config.kind == "regression":
        if not (config.data / "results.csv").exists():
            raise UserError("no results.csv there", where=str(config.data))
        yield from read_regression(config.data)
        return
    paths = sorted(config.data.glob("*.json"))
    if not paths:
        raise UserError("no recorded runs (*.json) there", where=str(config.data))
    for path in paths:
        try:
            yield path.stem, read_json(path)
        except UserError as error:
            yield path.stem, error
        except BROKEN as error:
            yield path.stem, UserError(f"the file lacks something: {type(error).__name__} {error}", where=str(path))


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    value: float
    proven: bool
    energy: float | None
    seconds: float


def best_mapping(run: Run, goal: Goal, time_limit: float, bounds: Point | None = None) -> Outcome:
    """The optimum of a run under AccelForge's rules; with `bounds` of all mappings that are no slower and use no more."""
    options = [machines(run.arch, run.workload, i, run.costs, run.unfused) for i in range(len(run.workload.operators))]
    if len(options) > 1:
        plan = schedule(run.workload, options, goal, run.loops_per_dim, run.loops, time_limit)
        return Outcome(plan.value, plan.proven, plan.energy, plan.seconds)
    (operator,) = run.workload.operators
    answers = []
    for machine in options[0]:
        if bounds is not None and bounds.usage is not None:
            machine = _limited(machine, bounds.usage)
        slowest = bounds.seconds * SAME if bounds is not None else math.inf
        answers.append((machine, solve(operator, machine, goal, run.factors, time_limit, slowest)))
    machine, found = min(answers, key=lambda a: a[1].value)
    proven = all(a.bound >= found.value * (1 - 1e-9) for _, a in answers)
    return Outcome(found.value, proven, found.energy + machine.leak_w * found.seconds, found.seconds)


def _limited(machine: Machine, usage: dict[str, float]) -> Machine:
    memories = tuple(
        replace(m, capacity=m.capacity * min(usage.get(m.name, 1.0) * SAME, 1.0)) if math.isfinite(m.capacity) else m
        for m in machine.memories
    )
    return replace(machine, memories=memories)


def compare(run: Run, time_limit: float) -> dict[str, Any]:
    """One row of the table."""
    started = time.process_time()
    if run.goal is not None:
        found = best_mapping(run, run.goal, time_limit)
        ratio = found.value / run.points[0].value if run.points[0].value else 1.0
        proven = found.proven
    else:
        outcomes = [(p, best_mapping(run, Goal.ENERGY, time_limit, p)) for p in run.points]
        ratio = max(o.value / p.energy for p, o in outcomes)
        proven = all(o.proven for _, o in outcomes)
        found = outcomes[0][1]
    return {
        "case": run.name,
        "status": "mapped",
        "goal": run.goal.value if run.goal else "pareto",
        "theirs": {"energy": run.points[0].energy, "seconds": run.points[0].seconds, "cpu_seconds": run.cpu_seconds},
        "ours": {"energy": found.energy, "seconds": found.seconds, "cpu_seconds": time.process_time() - started},
        "ratio": ratio,
        "equal_or_better": ratio <= SAME,
        "proven": proven,
    }


def warm_up() -> None:
    """Load the compiled code, so that it is not counted."""
    axes = {"A": "mk", "B": "kn", "Z": "mn"}
    operands = tuple(Operand(t, tuple(((d, 1),) for d in ds), t == "Z") for t, ds in axes.items())
    operator = Operator("warm", operands, {"m": 4, "n": 4, "k": 4})
    everything = frozenset("ABZ")
    memories = (Memory("outer", math.inf, 8, 9, ((1.0, 1.0),)), Memory("inner", 100.0, 1, 1, ((2.0, 2.0),)))
    machine = Machine(memories, ((), (), ()), 1.0, 1.0, 1.0, ((everything, everything),))
    for goal in Goal:
        solve(operator, machine, goal, Factors(True, True))


def report(rows: list[dict[str, Any]]) -> str:
    """The table, as Markdown."""
    head = [
        "run",
        "goal",
        "their energy",
        "their latency",
        "our energy",
        "our latency",
        "ratio",
        "proven",
        "CPU s",
        "their CPU s",
    ]
    lines = []
    for r in rows:
        if r["status"] != "mapped":
            lines.append([r["case"], "", "", "", "", "", r["status"], "no", "", ""])
            continue
        theirs, ours = r["theirs"], r["ours"]
        cells = [
            f"{theirs['energy']:.6g}",
            f"{theirs['seconds']:.6g}",
            "" if ours["energy"] is None else f"{ours['energy']:.6g}",
            f"{ours['seconds']:.6g}",
            f"{r['ratio']:.6f}",
        ]
        cpu = "" if theirs["cpu_seconds"] is None else f"{theirs['cpu_seconds']:.2f}"
        lines.append([r["case"], r["goal"], *cells, "yes" if r["proven"] else "no", f"{ours['cpu_seconds']:.4f}", cpu])
    return markdown(head, lines)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The object of the last line."""
    mapped = [r for r in rows if r["status"] == "mapped"]
    theirs = [r["theirs"]["cpu_seconds"] for r in mapped if r["theirs"]["cpu_seconds"] is not None]
    return {
        "runs": len(rows),
        "equal_or_better": sum(r["equal_or_better"] for r in mapped),
        "proven": sum(r["proven"] for r in mapped),
        "worst_ratio": max((r["ratio"] for r in mapped), default=None),
        "cpu_seconds": sum(r["ours"]["cpu_seconds"] for r in mapped),
        "their_cpu_seconds": sum(theirs) if theirs else None,
        "worst_cpu_seconds": max((r["ours"]["cpu_seconds"] for r in mapped), default=None),
        "not_supported": len(rows) - len(mapped),
    }


def main(config: Config) -> dict[str, Any]:
    """Run the comparison, write `results.json` and `table.md`, print the table and the summary."""
    warm_up()
    rows: list[dict[str, Any]] = []
    for name, run in read_runs(config):
        if config.only not in name:
            continue
        try:
            if isinstance(run, UserError):
                raise run
            row = compare(run, config.time_limit)
            if not math.isfinite(row["ratio"]):
                raise UserError("no mapping was found within the limits")
            rows.append(row)
            print(
                f"{name}: ratio {rows[-1]['ratio']:.6f}, {rows[-1]['ours']['cpu_seconds']:.2f} CPU s",
                file=sys.stderr,
                flush=True,
            )
        except UserError as error:
            rows.append({"case": name, "status": f"not supported: {error}"})
        except BROKEN as error:
            rows.append({"case": name, "status": f"not supported: {type(error).__name__} {error}"})
        if config.smoke:
            break
    text = report(rows)
    found = summary(rows)
    save(config.out / config.kind, config, {"rows": rows, "summary": found}, text)
    print(text)
    print(json.dumps(found))
    return found
