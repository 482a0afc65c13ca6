"""DOSA's protocol: the least energy-delay product of a network after so many designs, beside the proven optimum of the whole space.

    python -m experiments.dosa_contest --network bert --designs 10 100 --seeds 3 --out runs/dosa
    python -m experiments.dosa_contest --smoke

Contestants: `random` draws powers of two as the published random search does (`spaces.dosa.POWERS`); `mobo:black` is Bayesian optimisation of
the same 792 designs, `mobo` the same with bounds, `exact:powers` proves the best of them; `exact` searches all 33,554,432 designs by boxes. Every
design is judged by proven mappings, so contestants differ in the hardware they look at alone. A budget of 792 designs or more ends at the best
power of two whoever draws: it is what `exact:powers` proves. The last line is one JSON object: for each contestant the median of its best designs, and their
ratio to the optimum where it is proven (`experiments/data/dosa_optima.json`). Designs already judged are kept in the folder `--out`.
"""

import argparse
import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import codesign.optim
from codesign.bounds import DesignBounds
from codesign.core.errors import UserError
from codesign.core.files import write_json
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact import ExactMapper
from codesign.workloads.network import Network
from experiments.dosa_networks import dosa_network
from experiments.options import head_parser
from spaces.dosa import DOSA, POWERS

OPTIMA = Path(__file__).parent / "data" / "dosa_optima.json"

ALL_POWERS = "exact:powers"
"""Contestant that proves the best of the powers of two."""

CONTESTANTS = (ALL_POWERS, "random", "mobo:black", "mobo", "exact")

METRIC = "edp_js"


_BOUNDED = ("mobo", "exact", ALL_POWERS)


@dataclass
class Judged:
    """Designs of one network by their parameters; each is judged once.

    Args:
        network: What they run.
        file: Where their energy-delay products are kept.
        known: By parameters; None for a design that nothing fits.
    """

    network: Network
    file: Path
    known: dict[str, float | None]

    @classmethod
    def of(cls, network: Network, file: Path) -> "Judged":
        """With what an earlier run kept."""
        return cls(network, file, json.loads(file.read_text()) if file.exists() else {})

    def edp_js(self, point: Any) -> float | None:
        """The energy-delay product with proven mappings."""
        key = " ".join(f"{name}={point[name]}" for name in sorted(point))
        if key not in self.known:
            found = evaluate_workload(self.network, DOSA.build(point), ExactMapper(), EvaluationOptions())
            self.known[key] = None if isinstance(found, Infeasible) else found.metrics.edp_js
            write_json(self.file, self.known)
        return self.known[key]


def run(name: str, judged: Judged, designs: int, seed: int, bounds: dict[str, DesignBounds]) -> list[float]:
    """The best product after 1, 2, ... designs; shorter where the contestant was done before."""
    space = DOSA if name == "exact" else POWERS
    known = bounds.setdefault(space.name, DesignBounds(space, judged.network)) if name in _BOUNDED else None
    optimizer = codesign.optim.create(name.split(":powers")[0], space.space, [METRIC], seed=seed, bounds=known)
    best: list[float] = []
    while len(best) < designs and (points := optimizer.ask(1)):
        value = judged.edp_js(points[0])
        optimizer.tell(points[0], None if value is None else {METRIC: value}, feasible=value is not None)
        best.append(min([*best[-1:], float("inf") if value is None else value]))
    return best


def contest(options: argparse.Namespace) -> dict[str, Any]:
    """All contestants, all seeds: the line."""
    network = dosa_network(options.network)
    options.out.mkdir(parents=True, exist_ok=True)
    judged = Judged.of(network, options.out / f"{options.network}.json")
    optimum = json.loads(OPTIMA.read_text())["optima"].get(options.network, {})
    bounds: dict[str, DesignBounds] = {}
    line: dict[str, Any] = {
        "network": options.network,
        "designs": options.designs,
        "optimum_edp_js": optimum.get(METRIC),
    }
    every = POWERS.space.cardinality_bound
    best_power = math.inf
    names = [*dict.fromkeys([*([ALL_POWERS] if max(options.designs) >= every else []), *options.contestants])]
    for name in names:
        started = time.process_time()
        whole = name in (ALL_POWERS, "exact")
        most = max([d for d in options.designs if whole or d < every], default=0)
        seeds = 1 if whole else options.seeds  # their choices do not depend on the seed
        curves = [run(name, judged, every if name == ALL_POWERS else most, seed, bounds) for seed in range(seeds)]
        if name == ALL_POWERS:
            best_power = curves[0][-1]
        found = [
            best_power
            if count >= every and name != "exact"
            else median(curve[min(count, len(curve)) - 1] for curve in curves)
            for count in options.designs
        ]
        ratios = [value / optimum[METRIC] if optimum else None for value in found]
        line[name] = {
            "best_edp_js": found,
            "over_optimum": ratios,
            "evaluated": max(map(len, curves)),
            "cpu_seconds": round(time.process_time() - started, 1),
        }
        print(f"{options.network}, {name}: {line[name]}", file=sys.stderr, flush=True)
    return line


def main(arguments: list[str]) -> None:
    """Run the contest and print the line."""
    parser = head_parser(__doc__, out=Path("runs/dosa_contest"), smoke="bert, 2 designs of two contestants")
    parser.add_argument("--network", default="bert", help="resnet50, bert, unet or retinanet")
    parser.add_argument("--designs", type=int, nargs="+", default=[10, 100], help="budgets at which the best is told")
    parser.add_argument("--contestants", nargs="+", default=list(CONTESTANTS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    if options.smoke:
        options.network, options.designs, options.contestants, options.seeds = "bert", [2], ["random", "mobo"], 1
    if min(options.designs) < 1 or options.seeds < 1:
        raise UserError("--designs and --seeds must be at least 1")
    print(json.dumps(contest(options)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"dosa_contest: {error}")
