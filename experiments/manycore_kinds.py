"""Equal cores against two kinds at equal area: `python -m experiments.manycore_kinds`, MobileNetV2 unless it is told otherwise.

`tpu-quad` has four matrix cores, `tpu-duo` two of them and two arrays that use depthwise layers whole. `split-quad` is `tpu-quad`
with its cores said to be of two kinds, so that it follows the rules of kinds. The best of some seeds counts. Each seed searches
without and with the loads of links in view (rule M33); the best simulated tree of all stands beside. The last line is one JSON
object.
"""

import argparse
import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path

from codesign.arch.chiplet_cost import money
from codesign.arch.many_core import CoreKind, ManyCore
from codesign.arch.many_core_files import load_system
from codesign.core import clock
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.contention import ContentionSimulator, Simulated
from codesign.scheduling.segments.evaluate import MESH_RULES, OWN_RULES, Evaluator
from codesign.scheduling.segments.network_layers import segment_network
from codesign.scheduling.segments.search import SearchSettings, TreeSearch
from codesign.scheduling.segments.segment_tree import Cut
from codesign.scheduling.soma.model.load import load_graph


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        network: Zoo name or file.
        batches: Samples of the whole, one search each.
        steps: Trees tried for each seed.
        seeds: Searches; the best counts.
        table: CSV file for the table; None for none.
    """

    network: str = "mobilenet_v2"
    batches: tuple[int, ...] = (1, 4, 16)
    steps: int = 20000
    seeds: int = 3
    table: Path | None = None


@dataclass(frozen=True)
class Point:
    """One network on one system.

    Attributes:
        batch: Samples.
        system: Its name.
        area_mm2: Of all dies.
        cost_usd: Of dies, package and DRAM.
        cycles: Of the best tree.
        energy_uj: Of the best tree.
        gap: To the bound of energy x time.
        simulated: Cycles on routers and DRAM queues.
        in_view: Simulated cycles of the tree that is best there, with loads in view or without.
        in_view_product: Its energy x simulated time.
        over_equal: Energy x time over that of equal cores.
        simulated_over_equal: The same of the trees that are best on routers.
    """

    batch: int
    system: str
    area_mm2: float
    cost_usd: float
    cycles: int
    energy_uj: float
    gap: float
    simulated: int
    in_view: int
    in_view_product: float
    over_equal: float = 1.0
    simulated_over_equal: float = 1.0

    @property
    def product(self) -> float:
        """Energy x time."""
        return self.cycles * self.energy_uj


def systems() -> list[ManyCore]:
    """Equal cores first."""
    quad = load_system("tpu-quad")
    split = replace(quad, name="split-quad", kinds=(CoreKind("other", quad.core),), places=(("core", "other"),) * 2)
    return [quad, split, load_system("tpu-duo")]


def judge(system: ManyCore, batch: int, config: Config) -> Point:
    """Search a network on a system, without and with loads in view, and simulate the best trees."""
    network = segment_network(load_graph(config.network, batch=batch).graph)
    evaluator, in_view = (Evaluator(system, network, rules) for rules in (OWN_RULES, MESH_RULES))
    plain, aware = (
        [
            TreeSearch(of, batch, SearchSettings(1e9, config.steps, seed, least_use=0.0)).run().evaluation
            for seed in range(config.seeds)
        ]
        for of in (evaluator, in_view)
    )
    simulator = ContentionSimulator(evaluator)

    def simulated(root: Cut) -> Simulated:
        return simulator.simulate(evaluator.evaluate(root))

    best, seen = (min(trees, key=lambda tree: tree.edp) for trees in (plain, aware))
    of_best = simulated(best.root)
    on_mesh = min(of_best, simulated(seen.root), key=lambda run: run.edp)
    cost, whole = money(system), best.rows[0]
    return Point(
        batch,
        system.name,
        cost.total_mm2,
        cost.overall_usd,
        whole.time,
        whole.energy_pj / 1e6,
        bound_of(evaluator, batch).gap(best.edp),
        of_best.time,
        on_mesh.time,
        on_mesh.edp,
    )


def run(config: Config) -> list[Point]:
    """Judge all systems for all batches."""
    found: list[Point] = []
    for batch in config.batches:
        points = [judge(system, batch, config) for system in systems()]
        equal = points[0]
        found += [
            replace(
                point,
                over_equal=point.product / equal.product,
                simulated_over_equal=point.in_view_product / equal.in_view_product,
            )
            for point in points
        ]
        for point in found[-len(points) :]:
            print(
                f"batch {point.batch}, {point.system}: {point.cycles:,} cycles, {point.energy_uj:.1f} uJ, "
                f"{point.over_equal:.3f} of equal cores, {point.simulated_over_equal:.3f} on routers",
                flush=True,
            )
    return found


def write_table(points: list[Point], path: Path) -> None:
    """The table of the results."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        titles = ("area, mm2", "cost, USD", "cycles", "energy, uJ", "energy x time, of equal cores", "gap to the bound")
        routers = ("simulated cycles", "with loads in view", "energy x simulated time, of equal cores")
        writer.writerow(("batch", "system", *titles, *routers))
        for p in points:
            figures = (f"{p.area_mm2:.1f}", f"{p.cost_usd:.2f}", f"{p.cycles:,}", f"{p.energy_uj:.1f}")
            simulated = (f"{p.simulated:,}", f"{p.in_view:,}", f"{p.simulated_over_equal:.3f}")
            writer.writerow((p.batch, p.system, *figures, f"{p.over_equal:.3f}", f"{p.gap:.2f}", *simulated))


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--network", default=Config.network)
    parser.add_argument("--batch", type=int, nargs="+", default=list(Config.batches))
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--seeds", type=int, default=Config.seeds)
    parser.add_argument("--smoke", action="store_true", help="few trees")
    parser.add_argument("--table", type=Path)
    args = parser.parse_args()
    config = Config(args.network, tuple(args.batch), args.steps, args.seeds, args.table)
    if args.smoke:
        config = replace(config, batches=(1,), steps=50, seeds=1)
    began = clock.cpu_seconds()
    points = run(config)
    if config.table is not None:
        write_table(points, config.table)
    print(
        json.dumps({"points": [vars(point) for point in points], "cpu_seconds": round(clock.cpu_seconds() - began, 1)})
    )


if __name__ == "__main__":
    main()
