"""COSMA beside its paper (arXiv 2311.18246): Fig. 3, Table II and Fig. 4: `python -m experiments.cosma`.

Writes `results.json`, `tables.md`, and the bars of both figures as SVG. `--parts` runs one of them; what the folder holds
of the other is kept. The paper's figures give no numbers except the mean reductions (84 % over ten
networks at M_R, 85 % over four found by architecture search) and the seconds of Table II, which stand beside ours.
"""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from codesign.core.errors import UserError
from codesign.core.files import write_atomic, write_json
from codesign.scheduling.cosma.addresses import place
from codesign.scheduling.cosma.baselines import Replacement, schedule_baseline
from codesign.scheduling.cosma.divide import conquer
from codesign.scheduling.cosma.graph import GraphIndex, OperatorGraph
from codesign.scheduling.cosma.load import load_graph
from codesign.scheduling.cosma.objective import BYTES
from codesign.scheduling.cosma.peak import lowest_peak_order
from codesign.scheduling.cosma.plan import Plan, noncompulsory_bytes
from codesign.scheduling.cosma.replacement import best_replacement
from codesign.scheduling.cosma.result import Schedule
from codesign.scheduling.cosma.segments import narrow_segments
from codesign.scheduling.cosma.solve import Effort, schedule_cosma
from experiments.options import head_parser

T = TypeVar("T")
HUMAN = (
    "resnet50",
    "densenet121",
    "resnext50",
    "r2plus1d_18",
    "s3d",
    "fcn_resnet50",
    "lraspp_mbv3",
    "deeplabv3_resnet50",
    "transformer",
    "vit_b_16",
)
SEARCHED = ("pnasnet5_large", "amoebanet_d_18_256", "nasnet_a_large", "darts_v2")
BUDGETS = ("M_R", "M_H", "M_P")
PARTS = ("human", "searched")
SCHEMES = tuple((order, policy) for order in ("default", "mpmf") for policy in (Replacement.BELADY, Replacement.GREEDY))
"""The four the paper compares with."""
PAPER_MEAN_REDUCTION = {"human": 0.84, "searched": 0.85}
PAPER_SECONDS = {
    "pnasnet5_large": ((12.2, 12.3, 12.2), (24.2, 22.4, 23.5), (65.9, 63.5, 58.0)),
    "amoebanet_d_18_256": ((8.1, 8.3, 8.1), (84.4, 8.2, 8.5), (62.1, 59.9, 112.8)),
    "nasnet_a_large": ((19.8, 20.0, 19.7), (22.4, 22.4, 21.6), (37.5, 22.9, 39.2)),
    "darts_v2": ((5.0, 5.0, 5.0), (5.2, 5.2, 5.2), (19.1, 19.1, 19.1)),
}
"""Table II: fixed default order, fixed minimum-peak order, divide and conquer; each at M_R, M_H, M_P (Gurobi, M1 Pro)."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        graphs: Folder of the operator graphs.
        time_limit: CPU seconds for each schedule of a network that is not solved exactly.
        seed: Of the searches.
        parts: Of `PARTS`, those to run.
        smoke: Three small networks only.
        out: Folder of results.
    """

    graphs: Path = Path(__file__).parent.parent / "tests" / "data" / "cosma" / "graphs"
    time_limit: float = 40.0
    seed: int = 0
    parts: tuple[str, ...] = PARTS
    smoke: bool = False
    out: Path = Path("results/cosma")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """A result and the CPU seconds it took."""
    started = time.process_time()
    result = work()
    return result, round(time.process_time() - started, 3)


def run_budget(
    config: Config, graph: OperatorGraph, lowest: Sequence[int], budget: str, capacity: int
) -> dict[str, Any]:
    """Baselines and COSMA for one network and scratchpad."""
    effort = Effort(time_limit_s=config.time_limit, seed=config.seed)
    found, seconds = timed(lambda: schedule_cosma(graph, capacity, effort=effort))
    if not isinstance(found, Schedule):
        raise UserError(f"{graph.name} has no schedule in {capacity} bytes: {found}")
    row: dict[str, Any] = {
        "network": graph.name,
        "budget": budget,
        "capacity_bytes": capacity,
        "cosma": found.noncompulsory_bytes,
        "proof": found.proof.value,
        "bound": found.bound,
        "cpu_seconds": seconds,
    }
    orders = {"default": tuple(range(len(graph.operators))), "mpmf": tuple(lowest)}
    for order, policy in SCHEMES:
        done = schedule_baseline(graph, capacity, orders[order], policy)
        if isinstance(done, Schedule):
            row[f"{order}+{policy.value}"] = done.noncompulsory_bytes
    return row


def run_heuristics(index: GraphIndex, lowest: Sequence[int], capacity: int) -> dict[str, Any]:
    """The paper's three ways for networks found by search, addresses included, with CPU seconds."""

    def fixed(order: Sequence[int]) -> Plan | None:
        found = best_replacement(index, order, capacity)
        return None if found is None else found.plan

    def divided() -> Plan | None:
        found = conquer(index, narrow_segments(index, range(len(index.inputs)), 2), capacity, BYTES, state_limit=20_000)
        return None if found is None else found.plan

    ways: dict[str, Callable[[], Plan | None]] = {
        "fs_default": lambda: fixed(range(len(index.inputs))),
        "fs_mpmf": lambda: fixed(lowest),
        "dnc": divided,
    }
    row: dict[str, Any] = {}
    for name, way in ways.items():
        plan, seconds = timed(way)
        if plan is None:
            continue
        placed, more = timed(lambda plan=plan: place(index, plan, capacity, time_limit_s=10.0, seed=0))  # type: ignore[misc]
        row[name] = {
            "bytes": noncompulsory_bytes(index, plan),
            "placed": placed.offsets is not None,
            "cpu_seconds": round(seconds + more, 3),
        }
    return row


def run_network(config: Config, name: str, parameters: bool, heuristics: bool) -> list[dict[str, Any]]:
    """One network at its three budgets."""
    graph = load_graph(config.graphs / f"{name}.json")
    if not parameters:
        graph = graph.without_parameters()
    peak = lowest_peak_order(graph.index)
    least = graph.minimum_bytes
    rows = []
    for budget, capacity in zip(BUDGETS, (least, (least + peak.peak_bytes) // 2, peak.peak_bytes), strict=True):
        row = run_budget(config, graph, peak.order, budget, capacity)
        if heuristics:
            row |= run_heuristics(graph.index, peak.order, capacity)
        rows.append(row | {"parameters": parameters, "peak_proven": peak.peak_bytes == peak.bound_bytes})
        print(
            f"{name}{' + parameters' if parameters else ''} {budget}: {row['cosma']} bytes, {row['cpu_seconds']} s",
            flush=True,
        )
    return rows


def mean_reduction(rows: Sequence[dict[str, Any]], budget: str | None) -> float | None:
    """Mean of 1 - ours / theirs over networks and the four schemes that move anything."""
    cuts = [
        1 - row["cosma"] / row[f"{order}+{policy.value}"]
        for row in rows
        for order, policy in SCHEMES
        if row["budget"] == (budget or row["budget"]) and row[f"{order}+{policy.value}"]
    ]
    return statistics.fmean(cuts) if cuts else None


def traffic_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Non-compulsory MB per scheme, a line per network and budget."""
    names = [f"{order}+{policy.value}" for order, policy in SCHEMES]
    lines = [
        "| network | budget | bytes | " + " | ".join(names) + " | COSMA | proof | CPU s |",
        "|" + "---|" * (len(names) + 6),
    ]
    for row in rows:
        label = row["network"] + (" + parameters" if row["parameters"] else "")
        figures = " | ".join(f"{row[n] / 1e6:.2f}" for n in (*names, "cosma"))
        lines.append(
            f"| {label} | {row['budget']} | {row['capacity_bytes']} | {figures} | {row['proof']} | {row['cpu_seconds']:.2f} |"
        )
    return lines


def seconds_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Table II: CPU seconds of the three heuristics, ours / the paper's, and the traffic of each."""
    lines = ["| network | budget | FS default | FS mpmf | DnC | COSMA (whole) |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = []
        for column, name in enumerate(("fs_default", "fs_mpmf", "dnc")):
            paper = PAPER_SECONDS[row["network"]][column][BUDGETS.index(row["budget"])]
            ours = row.get(name)
            cells.append(
                "-" if ours is None else f"{ours['cpu_seconds']:.2f} / {paper} s, {ours['bytes'] / 1e6:.2f} MB"
            )
        lines.append(
            f"| {row['network']} | {row['budget']} | "
            + " | ".join(cells)
            + f" | {row['cpu_seconds']:.2f} s, {row['cosma'] / 1e6:.2f} MB |"
        )
    return lines


def report(human: Sequence[dict[str, Any]], searched: Sequence[dict[str, Any]]) -> str:
    """All tables as Markdown."""
    text = ["# Non-compulsory traffic, human-designed networks (paper: Fig. 3), MB", "", *traffic_table(human), ""]
    text += ["# Networks found by architecture search (paper: Fig. 4), MB", "", *traffic_table(searched), ""]
    text += [
        "# Time to solution (paper: Table II), ours / paper",
        "",
        *seconds_table(searched),
        "",
        "# Mean reduction",
        "",
    ]
    for label, rows in (("human", human), ("searched", searched)):
        for budget in (*BUDGETS, None):
            value = mean_reduction(rows, budget)
            if value is not None:
                paper = (
                    f" (paper: {PAPER_MEAN_REDUCTION[label]:.0%})"
                    if budget == "M_R" or (label == "searched" and budget is None)
                    else ""
                )
                text.append(f"- {label}, {budget or 'all budgets'}: {value:.1%}{paper}")
    return "\n".join(text) + "\n"


def draw(rows: Sequence[dict[str, Any]], title: str, path: Path) -> None:
    """Bars of non-compulsory traffic at M_R as SVG: every scheme, a group per network that moves anything.

    ``+ p``: with parameters.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "codesign"
    names = [f"{order}+{policy.value}" for order, policy in SCHEMES] + ["cosma"]
    shown = [row for row in rows if row["budget"] == "M_R" and any(row[name] for name in names)]
    figure, axis = pyplot.subplots(figsize=(9, 3.6), constrained_layout=True)
    for slot, (name, color) in enumerate(
        zip(names, ("#b8c0cf", "#8a96ab", "#9fc5e8", "#4c86c6", "#d9722e"), strict=True)
    ):
        spots = [group + (slot - 2) * 0.16 for group in range(len(shown))]
        axis.bar(spots, [row[name] / 1e6 for row in shown], 0.16, label=name, color=color)
    labels = [row["network"].replace("_", " ") + (" + p" if row["parameters"] else "") for row in shown]
    axis.set_xticks(range(len(shown)), labels, rotation=35, ha="right", fontsize=8)
    axis.set_yscale("symlog", linthresh=0.1)
    axis.set_ylim(0, 2 * max((row[name] / 1e6 for row in shown for name in names), default=1))
    axis.set_ylabel("non-compulsory MB")
    axis.set_title(title, fontsize=10)
    axis.grid(visible=True, axis="y", alpha=0.25)
    figure.legend(loc="outside lower center", frameon=False, fontsize=8, ncols=5)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main(config: Config) -> dict[str, list[dict[str, Any]]]:
    """Run the networks of the chosen parts and write results."""
    names = {"human": HUMAN, "searched": SEARCHED}
    if config.smoke:
        names = {"human": ("resnet50", "vit_b_16"), "searched": ("darts_v2",)}
    before = config.out / "results.json"
    rows: dict[str, list[dict[str, Any]]] = {part: [] for part in PARTS}
    if before.is_file():
        held = json.loads(before.read_text(encoding="utf-8"))
        rows = {part: held[part] for part in PARTS}
    if "human" in config.parts:
        rows["human"] = [
            row for name in names["human"] for p in (False, True) for row in run_network(config, name, p, False)
        ]
    if "searched" in config.parts:
        rows["searched"] = [row for name in names["searched"] for row in run_network(config, name, False, True)]
    versions = {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine()}
    recorded = json.loads(json.dumps(asdict(config), default=str))
    write_json(before, {"config": recorded, "versions": versions, **rows})
    draw(rows["human"], "Networks designed by hand, scratchpad of M_R (paper: Fig. 3)", config.out / "fig3.svg")
    draw(rows["searched"], "Networks found by search, scratchpad of M_R (paper: Fig. 4)", config.out / "fig4.svg")
    text = report(rows["human"], rows["searched"])
    write_atomic(config.out / "tables.md", text)
    print(text)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(
        __doc__, out=default.out, seed=default.seed, smoke="three small networks, to see that everything runs"
    )
    parser.add_argument("--graphs", type=Path, default=default.graphs)
    parser.add_argument("--time-limit", type=float, default=default.time_limit)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    given = parser.parse_args(arguments)
    return Config(given.graphs, given.time_limit, given.seed, tuple(given.parts), given.smoke, given.out)


if __name__ == "__main__":
    main(parse_args())
