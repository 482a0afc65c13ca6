"""SoMa against Cocco and no fusion over networks, batches and platforms (SoMa paper, Fig. 6): `python -m experiments.soma_fig6`.

For every case: latency and energy of Cocco, of SoMa's fusion stage alone (double-buffered), of the whole search, and the no-stall bound.
"""

import json
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import llvmlite
import numpy

from codesign.core.files import write_json
from codesign.core.goals import Budget, Objective
from codesign.scheduling.soma.evaluator import Invalid, Problem
from codesign.scheduling.soma.model.hardware import PRESETS
from codesign.scheduling.soma.model.load import load_graph
from codesign.scheduling.soma.model.rules import MODES
from codesign.scheduling.soma.report import schedule_json
from codesign.scheduling.soma.search.two_stages import Found, SearchOptions, search, search_baseline
from experiments.options import head_parser

SCHEDULERS = ("unfused", "cocco", "soma")


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        networks: Zoo names, `NAME:PHASE` for language models, or files.
        batches: Samples per run.
        platforms: Architectures.
        seconds: Search time per case and scheduler.
        mode: Model of the hardware.
        seeds: Runs per case; the table shows the median of energy x delay.
        out: Folder of results.
    """

    networks: tuple[str, ...] = (
        "resnet50",
        "resnet101",
        "inception_resnet_v1",
        "gpt2-small-block:prefill",
        "gpt2-small-block:decode",
    )
    batches: tuple[int, ...] = (1, 4, 16, 64)
    platforms: tuple[str, ...] = ("soma-edge", "soma-cloud")
    seconds: float = 10.0
    mode: str = "reference"
    seeds: int = 1
    out: Path = Path("results/soma_fig6")


def run_case(config: Config, network: str, batch: int, arch: str, scheduler: str, seed: int) -> dict[str, Any]:
    """One search; the numbers the figure shows."""
    name, _, phase = network.partition(":")
    source = load_graph(name, phase=phase or None)
    problem = Problem(source.graph, batch, PRESETS[arch], MODES[config.mode])
    budget = SearchOptions(Budget(time_limit_s=config.seconds), seed=seed)
    found = (
        search(problem, Objective(), budget)
        if scheduler == "soma"
        else search_baseline(problem, Objective(), budget, scheduler)
    )
    row: dict[str, Any] = {"network": network, "batch": batch, "arch": arch, "scheduler": scheduler, "seed": seed}
    if isinstance(found, Invalid):
        return {**row, "status": "infeasible", "reason": found.reason}
    return {**row, "status": "feasible", **_numbers(found)}


def _numbers(found: Found) -> dict[str, Any]:
    numbers = schedule_json(found.schedule)
    plain = found.double_buffer
    return {
        **numbers,
        "stage1_cycles": None if plain is None else plain.latency_cycles,
        "dram_bound_cycles": found.dram_bound_cycles,
        "gap": found.gap,
        "seconds": found.seconds,
        "cpu_seconds": found.cpu_seconds,
    }


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per case: median cycles and energy of each scheduler and the ratios to Cocco."""
    cases: dict[tuple[str, int, str], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        if row["status"] == "feasible":
            cases.setdefault((row["network"], row["batch"], row["arch"]), {}).setdefault(row["scheduler"], []).append(
                row
            )
    table = []
    for (network, batch, arch), by in cases.items():
        entry: dict[str, Any] = {"network": network, "batch": batch, "arch": arch}
        for scheduler, found in by.items():
            middle = sorted(found, key=lambda r: r["edp"])[len(found) // 2]
            entry[scheduler] = {
                k: middle[k] for k in ("latency_cycles", "energy_pj", "bound_cycles", "stage1_cycles", "gap")
            }
        if "cocco" in entry and "soma" in entry:
            entry["speedup"] = entry["cocco"]["latency_cycles"] / entry["soma"]["latency_cycles"]
            entry["energy_saved"] = 1 - entry["soma"]["energy_pj"] / entry["cocco"]["energy_pj"]
        table.append(entry)
    return table


def print_table(table: list[dict[str, Any]]) -> None:
    """The figure as text."""
    print(
        f"{'network':24} {'B':>3} {'platform':10} {'unfused':>12} {'cocco':>12} {'stage 1':>12} {'soma':>12} {'bound':>12} {'speedup':>8} {'energy':>8}"
    )
    for e in table:
        cells = [f"{e[s]['latency_cycles']:>12,}" if s in e else f"{'-':>12}" for s in ("unfused", "cocco")]
        stage1 = e.get("soma", {}).get("stage1_cycles")
        cells += [f"{stage1:>12,}" if stage1 else f"{'-':>12}"]
        cells += [f"{e['soma'][k]:>12,}" if "soma" in e else f"{'-':>12}" for k in ("latency_cycles", "bound_cycles")]
        ratio = f"{e['speedup']:>7.2f}x {-100 * e['energy_saved']:>7.1f}%" if "speedup" in e else ""
        print(f"{e['network']:24} {e['batch']:>3} {e['arch']:10} {' '.join(cells)} {ratio}")
    ratios = [e["speedup"] for e in table if "speedup" in e]
    if ratios:
        saved = [e["energy_saved"] for e in table if "speedup" in e]
        print(
            f"mean over {len(ratios)} cases: {sum(ratios) / len(ratios):.2f}x faster, {100 * sum(saved) / len(saved):.1f} % less energy"
        )


def draw(table: list[dict[str, Any]], path: Path) -> None:
    """Latency of each scheduler relative to Cocco, as a page."""
    import plotly.graph_objects as go

    kept = [e for e in table if "speedup" in e]
    names = [f"{e['network']} B{e['batch']} {e['arch'].removeprefix('soma-')}" for e in kept]
    base = [e["cocco"]["latency_cycles"] for e in kept]
    figure = go.Figure()
    series = {
        "Cocco": base,
        "SoMa stage 1": [e["soma"]["stage1_cycles"] for e in kept],
        "SoMa": [e["soma"]["latency_cycles"] for e in kept],
        "no-stall bound": [e["soma"]["bound_cycles"] for e in kept],
    }
    for label, values in series.items():
        figure.add_bar(name=label, x=names, y=[None if v is None else v / b for v, b in zip(values, base, strict=True)])
    figure.update_layout(title="Latency relative to Cocco", yaxis_title="latency / Cocco", barmode="group")
    figure.write_html(path)


def main(config: Config) -> list[dict[str, Any]]:
    """Run every case and write results."""
    rows = []
    for network in config.networks:
        for batch in config.batches:
            for arch in config.platforms:
                for scheduler in SCHEDULERS:
                    for seed in range(config.seeds):
                        rows.append(run_case(config, network, batch, arch, scheduler, seed))
    table = summarise(rows)
    stamp = {
        "python": platform.python_version(),
        "llvmlite": llvmlite.__version__,
        "numpy": numpy.__version__,
        "time": time.time(),
    }
    write_json(
        config.out / "results.json",
        {
            "config": json.loads(json.dumps(asdict(config), default=str)),
            "versions": stamp,
            "rows": rows,
            "table": table,
        },
    )
    draw(table, config.out / "figure.html")
    print_table(table)
    return table


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, smoke="one tiny case, to see that everything runs")
    parser.add_argument("--networks", nargs="+", default=default.networks)
    parser.add_argument("--batches", nargs="+", type=int, default=default.batches)
    parser.add_argument("--platforms", nargs="+", default=default.platforms, choices=sorted(PRESETS))
    parser.add_argument("--seconds", type=float, default=default.seconds)
    parser.add_argument("--mode", default=default.mode, choices=sorted(MODES))
    parser.add_argument("--seeds", type=int, default=default.seeds)
    given = parser.parse_args(arguments)
    if given.smoke:
        return Config(("squeezenet",), (1,), ("soma-edge",), 0.2, given.mode, 1, given.out)
    return Config(
        tuple(given.networks),
        tuple(given.batches),
        tuple(given.platforms),
        given.seconds,
        given.mode,
        given.seeds,
        given.out,
    )


if __name__ == "__main__":
    main(parse_args())
