"""SALSA Fig. 5: SALSA, LOMA with seven loops and random search on five networks: `python -m experiments.salsa_fig5`.

Jung et al., AICAS 2023: over AlexNet, ResNet-34, ResNet-50, DarkNet-19 and MobileNetV2 SALSA needs 7.6 % less energy than LOMA-7 and 11.9 % less than
Timeloop's search (the other way round in its abstract) and is 1.7 and 24 times faster. Here Timeloop's search is stood for by random orders
of the same loops under the same cost model, 10,000 a layer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.core.goals import Budget, Objective
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mappers.loop_order.factors import prime_loops
from codesign.mappers.loop_order.loma import LomaMapper
from codesign.mappers.loop_order.salsa import SalsaMapper
from experiments.mappers_common import SALSA_NETWORKS, draw, geometric_mean, markdown, save, timed
from experiments.options import head_parser
from experiments.salsa_common import PAPER, unrolled, visited_values, warm_up


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        networks: Whose layers.
        random_orders: Random orders a layer.
        limit: Layers of each network at most.
        seed: Of SALSA and of random search.
        out: Folder of results.
    """

    networks: tuple[str, ...] = SALSA_NETWORKS
    random_orders: int = 10_000
    limit: int | None = None
    seed: int = 0
    out: Path = Path("results/salsa_fig5")


def searches(layer: UnrolledLayer, config: Config) -> dict[str, Callable[[], float]]:
    """The searches compared, each giving the least energy it finds."""

    def best(mapper: SalsaMapper | LomaMapper) -> float:
        result = mapper.map_orders(layer, Objective.ENERGY, budget=Budget(), seed=config.seed)
        return float("inf") if result.cost is None else result.cost.energy_pj

    def random() -> float:
        mapper = SalsaMapper(iterations=1, restarts=config.random_orders)
        return float(visited_values(layer, prime_loops(layer), Objective.ENERGY, mapper, config.seed).min())

    return {
        "SALSA": lambda: best(SalsaMapper()),
        "SALSA, one run": lambda: best(PAPER),
        "LOMA-7": lambda: best(LomaMapper(lpf_limit=7)),
        "random orders": random,
    }


def main(config: Config) -> dict[str, Any]:
    """Run every layer, write results, table and figure."""
    warm_up()
    found: dict[str, list[dict[str, Any]]] = {}
    for network in config.networks:
        for bounds, count, layer in unrolled(network)[: config.limit]:
            row: dict[str, Any] = {"layer": bounds, "count": count, "methods": {}}
            for name, search in searches(layer, config).items():
                if len(set(prime_loops(layer))) < 2 and name in ("SALSA, one run", "random orders"):
                    search = searches(layer, config)["SALSA"]  # there is one order only
                energy, seconds = timed(search)
                row["methods"][name] = {"energy_pj": energy, "cpu_seconds": seconds}
            found.setdefault(network, []).append(row)
    text, summary = _table(found)
    save(config.out, config, {"networks": found, "summary": summary}, text)

    def paint(axes: Any) -> None:
        for axis, key, label in zip(
            axes, ("energy", "seconds"), ("network energy over SALSA's", "CPU time over SALSA's"), strict=True
        ):
            for m, name in enumerate(("SALSA, one run", "LOMA-7", "random orders")):
                heights = [summary[n][name][key] for n in found]
                axis.bar([i + 0.27 * m for i in range(len(found))], heights, 0.27, label=name)
            axis.set_xticks([i + 0.27 for i in range(len(found))], list(found), rotation=30)
            axis.set_ylabel(label)
            axis.axhline(1.0, color="k", lw=0.6)
        axes[0].legend(frameon=False)

    draw(config.out / "figure.svg", 2, paint)
    print(text)
    return found


def _table(found: dict[str, list[dict[str, Any]]]) -> tuple[str, dict[str, dict[str, dict[str, float]]]]:
    """Energy of the whole network and CPU time, each over SALSA's; the last row is the geometric mean of networks."""
    summary: dict[str, dict[str, dict[str, float]]] = {}
    for network, rows in found.items():
        names = rows[0]["methods"]
        energy = {n: sum(r["count"] * r["methods"][n]["energy_pj"] for r in rows) for n in names}
        seconds = {n: sum(r["methods"][n]["cpu_seconds"] for r in rows) for n in names}
        summary[network] = {
            n: {"energy": energy[n] / energy["SALSA"], "seconds": seconds[n] / seconds["SALSA"]} for n in names
        }
    methods = list(next(iter(summary.values())))
    lines = []
    for network, row in summary.items():
        mean = sum(r["methods"]["SALSA"]["cpu_seconds"] for r in found[network]) / len(found[network])
        cells = [f"{row[m]['energy']:.4f}, {row[m]['seconds']:.2f}" for m in methods[1:]]
        lines.append((network, len(found[network]), f"{mean:.3f}", *cells))
    means = [
        f"{geometric_mean(s[m]['energy'] for s in summary.values()):.4f}, "
        f"{geometric_mean(s[m]['seconds'] for s in summary.values()):.2f}"
        for m in methods[1:]
    ]
    lines.append(("geometric mean", "", "", *means))
    header = ("network", "layers", "SALSA CPU s a layer", *(f"{m}: energy, time" for m in methods[1:]))
    return markdown(header, lines), summary


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="three layers of one network")
    parser.add_argument("--networks", nargs="+", default=default.networks)
    parser.add_argument("--random-orders", type=int, default=default.random_orders)
    parser.add_argument("--limit", type=int, help="layers of each network at most")
    given = parser.parse_args(arguments)
    if given.smoke:
        given.networks, given.random_orders, given.limit = ("resnet34",), 200, 3
    return Config(tuple(given.networks), given.random_orders, given.limit, given.seed, given.out)


if __name__ == "__main__":
    main(parse_args())
