"""SALSA against the proven optimum on ResNet-34, 500 runs a layer: `python -m experiments.salsa_resnet34`.

Jung et al., AICAS 2023: the optimum in 99.9 % of runs, energies 0.007 % above it on average (the paper gives neither unrollings nor memories). The paper's single run is
compared with the published program's cooling (0.995) and with the defaults here (restarts; fewer runs, as they are longer).
"""

import math
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codesign.core.goals import Budget, Objective
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mappers.loop_order.exact_orders import ExactOrders
from codesign.mappers.loop_order.factors import count_orders, prime_loops
from codesign.mappers.loop_order.salsa import SalsaMapper
from experiments.mappers_common import draw, markdown, save, timed
from experiments.options import head_parser
from experiments.salsa_common import PAPER, unrolled, warm_up

SETTINGS: dict[str, SalsaMapper] = {
    "one run, rho 0.999": PAPER,
    "one run, rho 0.995": replace(PAPER, rho=0.995),
    "defaults, annealing only": SalsaMapper(engine="annealing"),
}


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        network: Whose layers.
        runs: Runs a layer and setting; a hundredth of it, at least 2, of the defaults.
        limit: Layers at most.
        seed: Of the first run; the others follow.
        out: Folder of results.
    """

    network: str = "resnet34"
    runs: int = 500
    limit: int | None = None
    seed: int = 0
    out: Path = Path("results/salsa_resnet34")


def reference(layer: UnrolledLayer, config: Config) -> tuple[float, str, float]:
    """The least energy over all orders and cuts, its proof, CPU seconds."""
    result, seconds = timed(
        lambda: ExactOrders().map_orders(layer, Objective.ENERGY, budget=Budget(), seed=config.seed + 1_000_000)
    )
    return math.inf if result.cost is None else result.cost.energy_pj, result.proof.value, seconds


def energies_of(mapper: SalsaMapper, layer: UnrolledLayer, runs: int, seed: int) -> list[float]:
    """The energy that each run finds; infinite where no order fits."""
    found = [mapper.map_orders(layer, Objective.ENERGY, budget=Budget(), seed=seed + run).cost for run in range(runs)]
    return [math.inf if cost is None else cost.energy_pj for cost in found]


def main(config: Config) -> list[dict[str, Any]]:
    """Run every layer and setting, write results, table and figure."""
    warm_up()
    rows = []
    for bounds, _, layer in unrolled(config.network)[: config.limit]:
        least, proof, seconds = reference(layer, config)
        row: dict[str, Any] = {
            "layer": bounds,
            "orders": count_orders(prime_loops(layer)),
            "proof": proof,
            "optimum_cpu_seconds": seconds,
            "settings": {},
        }
        for name, mapper in SETTINGS.items():
            runs = config.runs if mapper.restarts == 1 else max(2, config.runs // 100)
            energies, seconds = timed(lambda m=mapper, n=runs, x=layer: energies_of(m, x, n, config.seed))  # type: ignore[misc]
            row["settings"][name] = {"energies_pj": energies, "cpu_seconds": seconds / runs}
            least = min(least, *energies)
        row["least_pj"] = least
        for setting in row["settings"].values():
            excess = [e / least - 1 for e in setting.pop("energies_pj")]
            setting["hits"] = sum(e < 1e-9 for e in excess) / len(excess)
            setting["mean_excess"] = statistics.fmean(excess)
            setting["worst_excess"] = max(excess)
        rows.append(row)
    text = _table(rows)
    save(config.out, config, {"layers": rows}, text)

    def paint(axes: Any) -> None:
        for n, name in enumerate(SETTINGS):
            x = [i + 0.27 * n for i in range(len(rows))]
            axes[0].bar(x, [100 * r["settings"][name]["hits"] for r in rows], 0.27, label=name)
            axes[1].bar(x, [100 * r["settings"][name]["mean_excess"] for r in rows], 0.27)
        for axis, label in zip(axes, ("runs at the least energy [%]", "mean excess energy [%]"), strict=True):
            axis.set_ylabel(label)
            axis.set_xticks(range(len(rows)), [r["layer"] for r in rows], rotation=90, fontsize=5)
        axes[0].legend(frameon=False)

    draw(config.out / "figure.svg", 2, paint)
    print(text)
    return rows


def _table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for r in rows:
        cells = [
            f"{100 * s['hits']:.1f} %, {100 * s['mean_excess']:.3f} %, {s['cpu_seconds']:.3f} s"
            for s in r["settings"].values()
        ]
        lines.append((r["layer"], f"{r['orders']:,}", r["proof"], *cells))
    means = []
    for name in SETTINGS:
        chosen = [r["settings"][name] for r in rows]
        hits, excess, seconds = (statistics.fmean(s[k] for s in chosen) for k in ("hits", "mean_excess", "cpu_seconds"))
        means.append(f"{100 * hits:.1f} %, {100 * excess:.3f} %, {seconds:.3f} s")
    lines.append(("all layers", "", "", *means))
    header = ("layer", "orders", "proof", *(f"{n}: hits, mean excess, CPU s" for n in SETTINGS))
    return markdown(header, lines)


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="one layer, three runs")
    parser.add_argument("--network", default=default.network)
    parser.add_argument("--runs", type=int, default=default.runs)
    parser.add_argument("--limit", type=int, help="layers at most")
    given = parser.parse_args(arguments)
    if given.smoke:
        given.runs, given.limit = 3, 1
    return Config(given.network, given.runs, given.limit, given.seed, given.out)


if __name__ == "__main__":
    main(parse_args())
