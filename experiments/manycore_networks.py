"""The same cores on a mesh, a torus, a ring and a crossbar: `python -m experiments.manycore_networks --table FILE`.

16 of Gemini's cores on one die, or as `--dies` says, run the same networks under our own rules. Every topology is searched with the
same numbers of trees and seeds; the best tree is also run on routers and DRAM queues. The last line is one JSON object.
"""

import argparse
import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from codesign.arch.chiplet_cost import money
from codesign.arch.core_network import ROUTINGS, CoreNetwork, RoutingName, TopologyName
from codesign.arch.many_core import ManyCore
from codesign.arch.many_core_files import load_system
from codesign.arch.many_core_scaling import edge_ports, fitting_stride
from codesign.core import clock
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.contention import ContentionSimulator
from codesign.scheduling.segments.evaluate import OWN_RULES, Evaluator
from codesign.scheduling.segments.layers import SegmentNetwork
from codesign.scheduling.segments.network_layers import segment_network
from codesign.scheduling.segments.search import SearchSettings, TreeSearch
from codesign.scheduling.soma.model.load import load_graph

HEADS = (
    "network", "topology", "routing", "energy x time of the mesh's", "latency of the mesh's", "energy of the mesh's",
    "gap to the bound", "simulated over the same steps without contention", "simulated energy x time of the mesh's", "cost, USD",
)  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        networks: Zoo names or files.
        batch: Samples of each.
        dies: Dies along x and y.
        link_words: Words a cycle of a link.
        steps: Trees tried for each seed.
        seeds: Searches for each network and topology; the best counts.
        table: File for all rows; None for none.
    """

    networks: tuple[str, ...] = ("resnet50", "googlenet", "gpt2-small-block")
    batch: int = 16
    dies: tuple[int, int] = (1, 1)
    link_words: int = 16
    steps: int = 10_000
    seeds: int = 1
    table: Path | None = None


@dataclass(frozen=True)
class Found:
    """The best tree of a network on a topology.

    Attributes:
        network: The layers.
        joined: Topology and routing.
        time: Cycles.
        energy_pj: Of everything.
        gap: To the bound of energy x time.
        simulated: Cycles on routers and DRAM queues.
        free: The same steps without contention.
        simulated_edp: Energy x simulated time.
        cost_usd: Of the system.
    """

    network: str
    joined: CoreNetwork
    time: int
    energy_pj: float
    gap: float
    simulated: int
    free: int
    simulated_edp: float
    cost_usd: float


def sixteen(joined: CoreNetwork, config: Config) -> ManyCore:
    """4 x 4 of Gemini's cores, four controllers beside them."""
    base = load_system("gemini-72t")
    dies = replace(base.dies, x=config.dies[0], y=config.dies[1])
    memories = replace(base.memories, ports=edge_ports(4, 4, 4))
    links, stride = replace(base.links, words_per_cycle=config.link_words), fitting_stride(4, config.dies[0])
    return replace(
        base, name=f"sixteen on a {joined.topology}", width=4, height=4, stride=stride, dies=dies, memories=memories,
        links=links, network=joined,
    )  # fmt: skip


def judge(network: SegmentNetwork, joined: CoreNetwork, config: Config) -> Found:
    """Search a network on a topology, bound it, simulate the best tree."""
    system = sixteen(joined, config)
    evaluator = Evaluator(system, network, OWN_RULES)
    trees = [
        TreeSearch(evaluator, config.batch, SearchSettings(1e9, config.steps, seed, least_use=0.0)).run().evaluation
        for seed in range(config.seeds)
    ]
    best = min(trees, key=lambda tree: tree.edp)
    run = ContentionSimulator(evaluator).simulate(best)
    gap = bound_of(evaluator, config.batch).gap(best.edp)
    whole = best.rows[0]
    cost = money(system).overall_usd
    return Found(network.name, joined, whole.time, whole.energy_pj, gap, run.time, run.free, run.edp, cost)


def row_of(found: Found, mesh: Found) -> list[str]:
    """A line of the table; `mesh` is the same network on the mesh with X-Y routing."""
    return [
        found.network,
        found.joined.topology,
        found.joined.way,
        f"{found.energy_pj * found.time / (mesh.energy_pj * mesh.time):.3f}",
        f"{found.time / mesh.time:.3f}",
        f"{found.energy_pj / mesh.energy_pj:.3f}",
        f"{found.gap:.3f}",
        f"{found.simulated / found.free:.3f}",
        f"{found.simulated_edp / mesh.simulated_edp:.3f}",
        f"{found.cost_usd:.2f}",
    ]


def networks_of(dies: tuple[int, int]) -> list[CoreNetwork]:
    """All topologies with all routings, the mesh with X-Y routing first; a crossbar on one die alone."""
    found = []
    for topology in get_args(TopologyName):
        ways = [way for way in get_args(RoutingName) if way in ROUTINGS[topology]]
        if topology != "crossbar" or dies == (1, 1):
            found += [CoreNetwork(topology, way) for way in ways]
    return found


def run(config: Config) -> dict[str, Any]:
    """Judge all networks on all topologies; prints and writes the table."""
    began = clock.cpu_seconds()
    rows: list[list[str]] = []
    print("| " + " | ".join(HEADS) + " |")
    for name in config.networks:
        network = segment_network(load_graph(name, batch=config.batch).graph)
        judged = [judge(network, joined, config) for joined in networks_of(config.dies)]
        for found in judged:
            rows.append(row_of(found, judged[0]))
            print("| " + " | ".join(rows[-1]) + " |", flush=True)
    if config.table is not None:
        with config.table.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADS, *rows])
    ratios = {
        topology: float(np.exp(np.mean([np.log(float(r[3])) for r in rows if r[1] == topology])))
        for topology in {r[1] for r in rows}
    }
    return {
        "networks": list(config.networks),
        "edp_of_the_mesh": {key: round(value, 4) for key, value in sorted(ratios.items())},
        "gap_worst": max(float(row[6]) for row in rows),
        "cpu_seconds": round(clock.cpu_seconds() - began, 1),
    }


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--network", action="append", help="zoo name or file; several give several rows each")
    parser.add_argument("--batch", type=int, default=Config.batch)
    parser.add_argument("--dies", default="1x1", help="dies along x and y, such as 2x1")
    parser.add_argument("--link-words", type=int, default=Config.link_words)
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--seeds", type=int, default=Config.seeds)
    parser.add_argument("--smoke", action="store_true", help="one small network, few trees")
    parser.add_argument("--table", type=Path, help="CSV file for the rows")
    args = parser.parse_args()
    x, _, y = args.dies.partition("x")
    networks = tuple(args.network or Config.networks)
    config = Config(networks, args.batch, (int(x), int(y)), args.link_words, args.steps, args.seeds, args.table)
    if args.smoke:
        config = replace(config, networks=("squeezenet",), batch=2, steps=50, seeds=1)
    print(json.dumps(run(config)))


if __name__ == "__main__":
    main()
