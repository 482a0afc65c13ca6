"""Latency over buffer size and DRAM bandwidth with SoMa inside (SoMa paper, Fig. 7): `python -m experiments.soma_fig7`.

Every setting comes with its gaps to what no schedule of the model beats (rules B1 to B5), and with CPU seconds of search and bound.
"""

import csv
import io
import json
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import llvmlite

from codesign.core import clock
from codesign.core.files import write_json
from codesign.core.goals import Budget, Objective
from codesign.scheduling.soma.evaluator import Invalid, Problem
from codesign.scheduling.soma.model.hardware import MIB, PRESETS
from codesign.scheduling.soma.model.load import load_graph
from codesign.scheduling.soma.model.rules import MODES
from codesign.scheduling.soma.search.fusion_bound import fusion_bound
from codesign.scheduling.soma.search.two_stages import SearchOptions, search, search_baseline
from experiments.options import head_parser

GOALS = {"latency": Objective.LATENCY, "energy": Objective.ENERGY, "edp": Objective.EDP}


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        network: Zoo name, `NAME:PHASE` for language models, or a file.
        batches: Samples per run, one map each.
        arch: Platform whose array is kept.
        buffers_mib: Buffer sizes.
        bandwidths: DRAM bandwidths in bytes per cycle.
        scheduler: `soma`, `cocco` or `unfused`.
        seconds: Search time per point.
        evaluations: Fusion schemes per point in place of a time; the same on every machine.
        mode: Model of the hardware.
        seed: Seed of every search.
        out: Folder of results.
    """

    network: str = "resnet50"
    batches: tuple[int, ...] = (1, 16)
    arch: str = "soma-edge"
    buffers_mib: tuple[int, ...] = (2, 4, 8, 16, 32)
    bandwidths: tuple[int, ...] = (8, 16, 32, 64)
    scheduler: str = "soma"
    seconds: float = 2.0
    evaluations: int | None = None
    mode: str = "default"
    seed: int = 0
    out: Path = Path("results/soma_fig7")


def run_point(config: Config, batch: int, buffer_mib: int, bandwidth: int) -> dict[str, Any]:
    """Latency, energy and gaps of one design."""
    name, _, phase = config.network.partition(":")
    hardware = replace(PRESETS[config.arch].with_buffer(buffer_mib * MIB), dram_bytes_per_cycle=bandwidth)
    problem = Problem(load_graph(name, phase=phase or None).graph, batch, hardware, MODES[config.mode])
    began = clock.cpu_seconds()
    budget = SearchOptions(Budget(None if config.evaluations else config.seconds, config.evaluations), seed=config.seed)
    if config.scheduler == "soma":
        found = search(problem, Objective(), budget)
    else:
        found = search_baseline(problem, Objective(), budget, config.scheduler)
    searched = clock.cpu_seconds()
    row: dict[str, Any] = {"batch": batch, "buffer_mib": buffer_mib, "bandwidth": bandwidth}
    if isinstance(found, Invalid):
        return {**row, "status": "infeasible", "reason": found.reason}
    bound = fusion_bound(problem)
    energy, latency = found.schedule.energy_pj, found.schedule.latency_cycles
    return {
        **row,
        "status": "feasible",
        "latency_cycles": latency,
        "energy_pj": energy,
        "bound_cycles": bound.latency_cycles,
        "bound_pj": bound.energy_pj,
        "gaps": {name: bound.gap(goal, energy, latency) for name, goal in GOALS.items()},
        "gap_of_tiles": found.gap,
        "search_cpu_seconds": searched - began,
        "bound_cpu_seconds": clock.cpu_seconds() - searched,
    }


def table(config: Config, rows: list[dict[str, Any]]) -> str:
    """Every setting as a line of CSV."""
    head = ["network, batch", "buffer MiB", "B/cycle", "cycles / mJ", "bound: cycles / mJ"]
    lines = [[*head, "gap: latency, energy, EDP", "CPU s: search, bound"]]
    for r in rows:
        line = [f"{config.network} B{r['batch']}", r["buffer_mib"], r["bandwidth"]]
        if r["status"] == "feasible":
            line += [
                f"{r['latency_cycles']:,} / {r['energy_pj'] / 1e9:.3f}",
                f"{r['bound_cycles']:,} / {r['bound_pj'] / 1e9:.3f}",
                ", ".join(f"{100 * g:.1f} %" for g in r["gaps"].values()),
                f"{r['search_cpu_seconds']:.1f}, {r['bound_cpu_seconds']:.1f}",
            ]
        else:
            line += ["none: " + r["reason"], "", "", ""]
        lines.append([str(cell) for cell in line])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def print_map(config: Config, rows: list[dict[str, Any]]) -> None:
    """Each batch's map as text, millions of cycles."""
    at = {(r["batch"], r["buffer_mib"], r["bandwidth"]): r for r in rows}
    for batch in config.batches:
        print(f"{config.network}, batch {batch}, {config.scheduler}: latency in million cycles")
        print("buffer MiB \\ B/cycle " + " ".join(f"{b:>9}" for b in config.bandwidths))
        for buffer in config.buffers_mib:
            found = (at[batch, buffer, b] for b in config.bandwidths)
            cells = (f"{r['latency_cycles'] / 1e6:9.3f}" if r["status"] == "feasible" else f"{'-':>9}" for r in found)
            print(f"{buffer:>20} " + " ".join(cells))


def draw(config: Config, rows: list[dict[str, Any]], path: Path) -> None:
    """One heat map per batch, as a page."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(1, len(config.batches), subplot_titles=[f"batch {b}" for b in config.batches])
    at = {(r["batch"], r["buffer_mib"], r["bandwidth"]): r.get("latency_cycles") for r in rows}
    for column, batch in enumerate(config.batches, 1):
        z = [[at[batch, m, b] for b in config.bandwidths] for m in config.buffers_mib]
        heat = go.Heatmap(
            z=z,
            x=[str(b) for b in config.bandwidths],
            y=[str(m) for m in config.buffers_mib],
            coloraxis=f"coloraxis{column}",
            texttemplate="%{z:.3s}",
        )
        figure.add_trace(heat, 1, column)
        figure.update_xaxes(title_text="DRAM bytes per cycle", row=1, col=column)
    figure.update_yaxes(title_text="buffer MiB", row=1, col=1)
    figure.update_layout(title=f"{config.network}: cycles over buffer and bandwidth ({config.scheduler})")
    figure.write_html(path)


def main(config: Config) -> list[dict[str, Any]]:
    """Run every point and write results."""
    rows = [
        run_point(config, batch, buffer, bandwidth)
        for batch in config.batches
        for buffer in config.buffers_mib
        for bandwidth in config.bandwidths
    ]
    versions = {"python": platform.python_version(), "llvmlite": llvmlite.__version__}
    recorded = json.loads(json.dumps(asdict(config), default=str))
    write_json(config.out / "results.json", {"config": recorded, "versions": versions, "rows": rows})
    (config.out / "table.csv").write_text(table(config, rows))
    draw(config, rows, config.out / "figure.html")
    print_map(config, rows)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(
        __doc__, out=default.out, seed=default.seed, smoke="two tiny points, to see that everything runs"
    )
    parser.add_argument("--network", default=default.network)
    parser.add_argument("--batches", nargs="+", type=int, default=default.batches)
    parser.add_argument("--arch", default=default.arch, choices=sorted(PRESETS))
    parser.add_argument("--buffers-mib", nargs="+", type=int, default=default.buffers_mib)
    parser.add_argument("--bandwidths", nargs="+", type=int, default=default.bandwidths)
    parser.add_argument("--scheduler", default=default.scheduler, choices=("soma", "cocco", "unfused"))
    parser.add_argument("--seconds", type=float, default=default.seconds)
    parser.add_argument("--evaluations", type=int, help="schemes per point in place of --seconds")
    parser.add_argument("--mode", default=default.mode, choices=sorted(MODES))
    given = parser.parse_args(arguments)
    if given.smoke:
        return Config(
            "squeezenet", (1,), given.arch, (1, 8), (16,), given.scheduler, 0.2, None, given.mode, given.seed, given.out
        )
    return Config(
        given.network,
        tuple(given.batches),
        given.arch,
        tuple(given.buffers_mib),
        tuple(given.bandwidths),
        given.scheduler,
        given.seconds,
        given.evaluations,
        given.mode,
        given.seed,
        given.out,
    )


if __name__ == "__main__":
    main(parse_args())
