"""All mappers on all distinct layers of the CoSA and SALSA papers' networks: `python -m experiments.mappers`.

    python -m experiments.mappers --networks resnet50 alexnet --architectures simba eyeriss   # goes on where it stopped
    python -m experiments.mappers --smoke

For each layer and mapper: energy, latency, energy-delay product, mappings scored, CPU seconds, and the gap to the optimum that the exact
mapper proves. Every finished layer is a line of `rows.jsonl`; layers that stand there are not run again. `results.json`, `table.md`, `layers.csv` and
`figure.svg` are made of all lines.
"""

import csv
import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.core.errors import unknown_name
from codesign.core.goals import Budget, Objective, Proof
from codesign.mappers.protocol import MapResult
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.network import LayerGroup
from experiments.mappers_common import (
    ARCHITECTURES,
    NETWORKS,
    architecture,
    bounds_text,
    draw,
    geometric_mean,
    layers,
    markdown,
    save,
    timed,
)
from experiments.options import head_parser


@dataclass(frozen=True)
class Method:
    """A mapper as it is run here.

    Args:
        mapper: Its registered name.
        options: Its own options.
        evaluations: Mappings scored at most; None: its default.
        time_limit_s: Seconds at most; None: its default.
    """

    mapper: str
    options: tuple[tuple[str, Any], ...] = ()
    evaluations: int | None = None
    time_limit_s: float | None = None


METHODS: dict[str, Method] = {
    "exact": Method("exact", time_limit_s=30.0),
    "cosa one-shot": Method("cosa", (("k", 1),)),
    "cosa k-best": Method("cosa", (("polish", 0),)),
    "cosa": Method("cosa"),
    "salsa": Method("salsa"),
    "loma-7": Method("loma", (("lpf_limit", 7),)),
    "anneal": Method("anneal"),
    "genetic": Method("genetic"),
    "hybrid": Method("hybrid"),
    "random": Method("random", evaluations=2_000),
    "random x5": Method("random", evaluations=5),
}
"""Name in the tables -> how it runs: default options and budgets but where said. `random x5` is the CoSA paper's baseline."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        networks: Of `NETWORKS`.
        architectures: Of `ARCHITECTURES`.
        methods: Of `METHODS`; `exact` always runs, since it gives the optimum.
        objective: energy, latency or edp.
        limit: Layers of each network at most.
        seed: Of the mappers that draw.
        smoke: One layer on one architecture, every mapper.
        out: Folder of results.
    """

    networks: tuple[str, ...] = NETWORKS
    architectures: tuple[str, ...] = tuple(ARCHITECTURES)
    methods: tuple[str, ...] = tuple(METHODS)
    objective: str = "edp"
    limit: int | None = None
    seed: int = 0
    smoke: bool = False
    out: Path = Path("results/mappers")

    def __post_init__(self) -> None:
        Objective.parse(self.objective)
        for what, given, known in (
            ("network", self.networks, NETWORKS),
            ("architecture", self.architectures, tuple(ARCHITECTURES)),
            ("method", self.methods, tuple(METHODS)),
        ):
            for name in given:
                if name not in known:
                    raise unknown_name(what, name, known)


def map_layer(problem: MappingProblem, name: str, objective: Objective, seed: int) -> tuple[MapResult, float]:
    """One mapper on one layer, and its CPU seconds."""
    method = METHODS[name]
    mapper = create(method.mapper, **dict(method.options))
    budget = Budget(method.time_limit_s, method.evaluations)
    return timed(lambda: mapper.map(problem, objective, budget=budget, seed=seed))


def compare(group: LayerGroup, arch: str, names: tuple[str, ...], config: Config) -> list[dict[str, Any]]:
    """Rows of all mappers on one layer. The gap is to the bound that the exact mapper proves, equal to its value if optimal."""
    problem = MappingProblem(group.computation, architecture(arch))
    objective = Objective.parse(config.objective)
    rows, bound = [], None
    for name in ("exact", *(n for n in names if n != "exact")):
        result, seconds = map_layer(problem, name, objective, config.seed)
        value = None if result.cost is None else objective.of(result.cost)
        if name == "exact" and value is not None and result.proof is not Proof.NONE:
            bound = value / (1.0 + (result.gap or 0.0))
        row = {
            "architecture": arch,
            "layer": bounds_text(group),
            "method": name,
            "objective": objective.value,
            "energy_pj": None if result.cost is None else result.cost.energy_pj,
            "latency_cycles": None if result.cost is None else result.cost.latency_cycles,
            "edp": None if result.cost is None else result.cost.edp,
            "scored": result.evaluated,
            "cpu_seconds": seconds,
            "proof": result.proof.value,
            "gap": None if value is None or bound is None else value / bound - 1.0,
        }
        if result.mip is not None:
            row["mip_seconds"] = result.mip.seconds
        rows.append(row)
    return rows


def warm_up(config: Config) -> None:
    """Compile, so that no row counts it."""
    group = min(layers("resnet50"), key=lambda g: g.computation.macs)
    for arch in config.architectures[:1]:
        compare(group, arch, ("exact", *config.methods), config)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of earlier runs; a line that a crash left unfinished is dropped."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            rows.extend(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def run(config: Config) -> list[dict[str, Any]]:
    """Map what is not in `rows.jsonl` yet; all rows of the networks and architectures asked for, in order."""
    path = config.out / "rows.jsonl"
    config.out.mkdir(parents=True, exist_ok=True)
    known = {(r["architecture"], r["layer"], r["method"], r["objective"], r["seed"]): r for r in read_rows(path)}
    rows, warm = [], False
    for arch in config.architectures:
        for network in config.networks:
            for group in layers(network)[: config.limit]:
                key = (arch, f"{bounds_text(group)} {group.computation}")
                wanted = [(*key, m, config.objective, config.seed) for m in ("exact", *config.methods)]
                if not all(w in known for w in wanted):
                    if not warm:
                        warm_up(config)
                        warm = True
                    made = compare(group, arch, config.methods, config)
                    made = [{**r, "layer": key[1], "bounds": r["layer"], "seed": config.seed} for r in made]
                    with path.open("a") as stream:
                        stream.write(json.dumps(made) + "\n")
                    known |= {(*key, r["method"], config.objective, config.seed): r for r in made}
                rows += [{**known[w], "network": network, "count": group.count} for w in dict.fromkeys(wanted)]
    return rows


def summaries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each architecture, network and method."""
    found = []
    keys = dict.fromkeys((r["architecture"], r["network"], r["method"]) for r in rows)
    for arch, network, method in keys:
        chosen = [r for r in rows if (r["architecture"], r["network"], r["method"]) == (arch, network, method)]
        gaps = [r["gap"] for r in chosen if r["gap"] is not None]
        found.append(
            {
                "architecture": arch,
                "network": network,
                "method": method,
                "layers": len(chosen),
                "proven": sum(r["proof"] == Proof.OPTIMAL.value for r in chosen),
                "geometric_mean_gap": geometric_mean(1.0 + g for g in gaps) - 1.0,
                "worst_gap": max(gaps, default=math.nan),
                "at_optimum": sum(g < 1e-9 for g in gaps),
                "median_cpu_seconds": statistics.median(r["cpu_seconds"] for r in chosen),
                "mean_scored": statistics.fmean(r["scored"] for r in chosen),
                "energy_pj": sum(r["count"] * (r["energy_pj"] or math.nan) for r in chosen),
                "latency_cycles": sum(r["count"] * (r["latency_cycles"] or math.nan) for r in chosen),
            }
        )
    return found


def percent(gap: float | None) -> str:
    """``12.3 %``, or ``x 4.5`` above 10."""
    if gap is None or math.isnan(gap):
        return "-"
    return f"x {1 + gap:.3g}" if gap >= 10 else f"{100 * gap:.2f} %"


def tables(rows: list[dict[str, Any]]) -> str:
    """A summary for each architecture, network and mapper."""
    return markdown(
        ("architecture", "network", "mapper", "at optimum / layers", "mean gap", "worst gap", "CPU s", "scored"),
        (
            (
                s["architecture"],
                s["network"],
                s["method"],
                f"{s['at_optimum']}/{s['layers']}",
                percent(s["geometric_mean_gap"]),
                percent(s["worst_gap"]),
                f"{s['median_cpu_seconds']:.3f}",
                f"{s['mean_scored']:,.0f}",
            )
            for s in summaries(rows)
        ),
    )


def layer_table(rows: list[dict[str, Any]], methods: tuple[str, ...]) -> list[dict[str, Any]]:
    """A row for each architecture, network and layer: the optimum, its proof, the relative gap of every other mapper (empty: none found)."""
    by_layer: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for r in rows:
        by_layer.setdefault((r["architecture"], r["network"], r["layer"]), {})[r["method"]] = r
    found = []
    for (arch, network, _), results in by_layer.items():
        best = results["exact"]
        row = {"architecture": arch, "network": network, "layer": best["bounds"]}
        row |= {"optimum": best[_COLUMN[best["objective"]]], "proof": best["proof"]}
        row |= {f"{m} gap": results[m]["gap"] for m in methods if m != "exact"}
        found.append(row)
    return found


def write_layers(rows: list[dict[str, Any]], methods: tuple[str, ...], path: Path) -> None:
    """`layer_table` as CSV."""
    table = layer_table(rows, methods)
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


_COLUMN = {"energy": "energy_pj", "latency": "latency_cycles", "edp": "edp"}


def figure(rows: list[dict[str, Any]], methods: tuple[str, ...], path: Path) -> None:
    """Geometric mean gap of every mapper, a panel for each architecture, a bar for each network."""
    found = {(s["architecture"], s["network"], s["method"]): s["geometric_mean_gap"] for s in summaries(rows)}
    archs = list(dict.fromkeys(r["architecture"] for r in rows))
    networks = list(dict.fromkeys(r["network"] for r in rows))
    others = [m for m in methods if m != "exact"]

    def paint(axes: Any) -> None:
        for axis, arch in zip(axes, archs, strict=True):
            width = 0.8 / len(networks)
            for n, network in enumerate(networks):
                heights = [max(100 * found.get((arch, network, m), math.nan), 1e-2) for m in others]
                axis.bar([i + n * width for i in range(len(others))], heights, width, label=network)
            axis.set_yscale("log")
            axis.set_xticks([i + 0.4 for i in range(len(others))], others, rotation=60, ha="right")
            axis.set_title(arch)
            axis.grid(axis="y", alpha=0.3)
            axis.set_ylabel("gap to the proven optimum [%]")
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, labels, loc="outside upper center", ncols=len(networks), frameon=False)

    draw(path, len(archs), paint, columns=2)


def main(config: Config) -> list[dict[str, Any]]:
    """Run, write results, print the tables."""
    rows = run(config)
    text = tables(rows)
    save(config.out, config, {"summaries": summaries(rows), "rows": rows}, text)
    write_layers(rows, config.methods, config.out / "layers.csv")
    figure(rows, config.methods, config.out / "figure.svg")
    print(text)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="one layer, every mapper")
    parser.add_argument("--networks", nargs="+", default=default.networks, metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument(
        "--architectures", nargs="+", default=default.architectures, metavar="NAME", help=", ".join(ARCHITECTURES)
    )
    parser.add_argument("--methods", nargs="+", default=default.methods, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("--objective", default=default.objective, help="energy, latency or edp")
    parser.add_argument("--limit", type=int, help="layers of each network at most")
    given = parser.parse_args(arguments)
    if given.smoke:
        given.networks, given.architectures, given.limit = ("alexnet",), ("simba",), 1
    return Config(
        tuple(given.networks),
        tuple(given.architectures),
        tuple(given.methods),
        given.objective,
        given.limit,
        given.seed,
        given.smoke,
        given.out,
    )


if __name__ == "__main__":
    main(parse_args())
