"""SALSA Fig. 4: energies of the orders that annealing visits and of random ones: `python -m experiments.salsa_fig4`.

Jung et al., AICAS 2023, layer 2 of AlexNet: the energies visited by SALSA lie far below those of Timeloop's random search. Here random orders of the
same loops, scored by the same cost model, stand for the random search.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.goals import Objective
from codesign.mappers.loop_order.factors import prime_loops
from experiments.mappers_common import draw, save
from experiments.options import parse_config
from experiments.salsa_common import PAPER, layer_of, visited_values


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        network: Whose layer.
        layer: Its number among the distinct layers, from 1.
        runs: Annealing runs of 1,000 orders; as many random orders in all.
        seed: Of both.
        out: Folder of results.
    """

    network: str = "alexnet"
    layer: int = 2
    runs: int = 20
    seed: int = 0
    out: Path = Path("results/salsa_fig4")


def main(config: Config) -> dict[str, Any]:
    """Score both sets of orders, write results and the histogram."""
    layer = layer_of(config.network, config.layer)
    loops = prime_loops(layer)
    salsa = replace(PAPER, restarts=config.runs)
    random = replace(salsa, iterations=1, restarts=config.runs * salsa.iterations)
    sets = {
        "SALSA": visited_values(layer, loops, Objective.ENERGY, salsa, config.seed),
        "random orders": visited_values(layer, loops, Objective.ENERGY, random, config.seed),
    }
    result = {}
    for name, values in sets.items():
        fitting = values[np.isfinite(values)]
        result[name] = {
            "orders": len(values),
            "fitting": len(fitting),
            "least": float(fitting.min()),
            "median": float(np.median(fitting)),
            "mean": float(fitting.mean()),
            "percentiles": np.percentile(fitting, range(0, 101, 5)).tolist(),
        }
    save(config.out, config, {"energies_pj": result})

    def paint(axes: Any) -> None:
        logs = {name: np.log10(values[np.isfinite(values)]) for name, values in sets.items()}
        bins = np.histogram(np.concatenate(list(logs.values())), bins=80)[1]
        for name, energies in logs.items():
            axes[0].hist(energies, bins=bins, alpha=0.6, label=name)
        axes[0].set_xlabel("log10 energy")
        axes[0].set_ylabel("orders")
        axes[0].legend(frameon=False)

    draw(config.out / "figure.svg", 1, paint)
    for name, row in result.items():
        print(f"{name:<14} {row['orders']:,} orders: least {row['least']:.5g}, median {row['median']:.5g}")
    return result


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    return parse_config(__doc__, Config(), {"runs": 2}, arguments)


if __name__ == "__main__":
    main(parse_args())
