"""Into how many dies should 72 TOPS be cut? `python -m experiments.manycore_dies`, Gemini's question (HPCA 2024).

36 cores of 1,024 MACs on one die, two, four, nine or 36 (or as `--dies` says) run the same networks. Each system is judged twice: under
Gemini's rules with the costs of its release, and under our own rules with mended costs. Gemini minimises cost x energy x delay;
its published answer is two dies. The last line is one JSON object.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.chiplet_cost import GEMINI_MONEY, MoneyRules, money
from codesign.arch.many_core import ManyCore
from codesign.arch.many_core_files import load_system
from codesign.arch.many_core_scaling import fitting_stride
from codesign.core import clock
from codesign.core.files import write_json
from codesign.optim.pareto import nondominated
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.evaluate import SEMANTICS, Evaluator
from codesign.scheduling.segments.layers import SegmentNetwork
from codesign.scheduling.segments.network_layers import segment_network
from codesign.scheduling.segments.search import SearchSettings, TreeSearch
from codesign.scheduling.soma.model.load import load_graph

PUBLISHED_DIES = 2
"""The best of Gemini's search at 72 TOPS (HPCA 2024, its architecture of 36 cores)."""

WAYS: dict[str, tuple[str, MoneyRules]] = {"gemini": ("gemini", GEMINI_MONEY), "own": ("own", MoneyRules())}
"""Rules of trees and of costs by the name of the way."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        networks: Zoo names or files.
        batch: Samples of each.
        dies: Dies along x and y of each system.
        steps: Trees tried for each network and seed.
        seeds: Searches for each network; the best counts.
        out: File for all results as JSON; None for none.
    """

    networks: tuple[str, ...] = ("resnet50", "googlenet")
    batch: int = 16
    dies: tuple[tuple[int, int], ...] = ((1, 1), (2, 1), (2, 2), (3, 3), (6, 6))
    steps: int = 4000
    seeds: int = 2
    out: Path | None = field(default=None)


@dataclass(frozen=True)
class Point:
    """A system judged one way.

    Attributes:
        dies: With cores.
        way: Of `WAYS`.
        latency_s: Geometric mean over the networks.
        energy_j: Geometric mean over the networks.
        cost_usd: Of the system.
        gap: Largest of the networks' gaps to the bound of energy x time; None where the bound is not shown.
    """

    dies: int
    way: str
    latency_s: float
    energy_j: float
    cost_usd: float
    gap: float | None

    @property
    def product(self) -> float:
        """What Gemini minimises: cost x energy x delay."""
        return self.cost_usd * self.energy_j * self.latency_s


def cut_into(system: ManyCore, x: int, y: int) -> ManyCore:
    """The same system on x times y dies."""
    dies = replace(system.dies, x=x, y=y)
    name = f"{system.name} on {x * y}"
    return replace(system, name=name, dies=dies, stride=fitting_stride(system.width, x))


def judge(system: ManyCore, networks: Sequence[SegmentNetwork], way: str, config: Config) -> Point:
    """Search every network on a system one way."""
    mode, rules = WAYS[way]
    times, energies, gaps = [], [], []
    for network in networks:
        evaluator = Evaluator(system, network, SEMANTICS[mode])
        trees = [
            TreeSearch(evaluator, config.batch, SearchSettings(1e9, config.steps, seed, least_use=0.0)).run().evaluation
            for seed in range(config.seeds)
        ]
        best = min(trees, key=lambda tree: tree.edp)
        times.append(best.rows[0].time * 1e-9)
        energies.append(best.rows[0].energy_pj * 1e-12)
        gaps.append(bound_of(evaluator, config.batch).gap(best.edp))
    count = len(networks)
    latency, energy = prod(times) ** (1 / count), prod(energies) ** (1 / count)
    gap = max(gaps) if mode == "own" else None
    return Point(system.dies.count, way, latency, energy, money(system, rules).overall_usd, gap)


def summary(points: Sequence[Point]) -> dict[str, Any]:
    """The best number of dies and the front of one way."""
    values = np.array([[p.latency_s, p.energy_j, p.cost_usd] for p in points])
    best = min(points, key=lambda p: p.product)
    on_front = [p.dies for p, kept in zip(points, nondominated(values), strict=True) if kept]
    return {
        "best_dies": best.dies,
        "front_dies": on_front,
        "points": [
            {**vars(p), "product_over_best": p.product / best.product} for p in sorted(points, key=lambda p: p.dies)
        ],
    }


def run(config: Config) -> dict[str, Any]:
    """Judge all systems both ways; prints a table."""
    began = clock.cpu_seconds()
    graphs = [load_graph(name, batch=config.batch) for name in config.networks]
    networks = [segment_network(source.graph) for source in graphs]
    base = load_system("gemini-72t")
    found: dict[str, Any] = {"networks": list(config.networks), "batch": config.batch}
    print("| way | dies | latency, ms | energy, mJ | cost, USD | cost x energy x delay over the best | gap |")
    print("|---|---|---|---|---|---|---|")
    for way in WAYS:
        points = [judge(cut_into(base, x, y), networks, way, config) for x, y in config.dies]
        found[way] = summary(points)
        for p in found[way]["points"]:
            gap = "" if p["gap"] is None else f"{p['gap']:.2f}"
            print(
                f"| {way} | {p['dies']} | {p['latency_s'] * 1e3:.3f} | {p['energy_j'] * 1e3:.2f} | {p['cost_usd']:.2f} | "
                f"{p['product_over_best']:.3f} | {gap} |"
            )
    return {**found, "published_best_dies": PUBLISHED_DIES, "cpu_seconds": round(clock.cpu_seconds() - began, 1)}


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--network", action="append", help="zoo name or file; several are averaged")
    parser.add_argument("--batch", type=int, default=Config.batch)
    parser.add_argument("--dies", nargs="+", help="cuts such as 1x1 2x1 6x6")
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--seeds", type=int, default=Config.seeds)
    parser.add_argument("--smoke", action="store_true", help="one small network, few trees")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    dies = tuple((int(x), int(y)) for x, _, y in (cut.partition("x") for cut in args.dies or ())) or Config.dies
    config = Config(tuple(args.network or Config.networks), args.batch, dies, args.steps, args.seeds, args.out)
    if args.smoke:
        config = replace(config, networks=("squeezenet",), batch=2, steps=50, seeds=1, dies=((1, 1), (2, 1), (6, 6)))
    found = run(config)
    if config.out is not None:
        write_json(config.out, found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
