"""CoSA Fig. 1: latencies of 40,000 valid schedules of one ResNet-50 layer: `python -m experiments.cosa_fig1`.

Q. Huang et al., ISCA 2021: 256 input and output channels, 14 x 14 outputs, five levels of memory; the paper's best valid schedule is 7.2 times
faster than its worst, half of its samples do not fit. Here mappings are drawn uniformly from the map space.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.goals import Budget, Objective
from codesign.mappers.exact.mapper import ExactMapper
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.layer_string import parse_layer
from experiments.mappers_common import architecture, draw, save, timed
from experiments.options import head_parser
from experiments.random_costs import sample_costs


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        layer: The layer.
        architecture: See `mappers_common.ARCHITECTURES`.
        schedules: Valid schedules to draw.
        seed: Of the draws.
        out: Folder of results.
    """

    layer: str = "conv K=256 C=256 P=14 Q=14 R=3 S=3"
    architecture: str = "simba"
    schedules: int = 40_000
    seed: int = 0
    out: Path = Path("results/cosa_fig1")


def main(config: Config) -> dict[str, Any]:
    """Draw, compare with the least latency there is, write results and the histogram."""
    problem = MappingProblem(parse_layer(config.layer), architecture(config.architecture))
    (costs, drawn), seconds = timed(lambda: sample_costs(problem, config.schedules, seed=config.seed))
    optimum = ExactMapper().map(problem, Objective.LATENCY, budget=Budget(time_limit_s=60.0), seed=config.seed)
    cycles = costs[:, 1]
    least = None if optimum.cost is None else optimum.cost.latency_cycles
    result = {
        "valid": len(cycles),
        "drawn": drawn,
        "cpu_seconds": seconds,
        "fastest_cycles": float(cycles.min()),
        "median_cycles": float(np.median(cycles)),
        "slowest_cycles": float(cycles.max()),
        "slowest_over_fastest": float(cycles.max() / cycles.min()),
        "fastest_over_90_percent": float(np.percentile(cycles, 90) / cycles.min()),
        "least_cycles": least,
        "proof": optimum.proof.value,
        "percentiles_cycles": np.percentile(cycles, range(0, 101, 5)).tolist(),
    }
    save(config.out, config, result)

    def paint(axes: Any) -> None:
        axes[0].hist(np.log10(cycles), bins=120, color="#1f6feb")
        if least is not None:
            axes[0].axvline(
                np.log10(least), color="k", lw=0.8, ls="--", label=f"least possible ({optimum.proof.value})"
            )
            axes[0].legend(frameon=False)
        axes[0].set_xlabel("log10 latency [cycles]")
        axes[0].set_ylabel("valid schedules")
        axes[0].set_title(f"{len(cycles):,} valid of {drawn:,} drawn, {config.architecture}")

    draw(config.out / "figure.svg", 1, paint)
    print(
        f"{len(cycles):,} valid of {drawn:,} drawn in {seconds:.1f} CPU s; slowest / fastest {result['slowest_over_fastest']:.1f}, "
        f"fastest {cycles.min():,.0f} cycles, least possible {least}"
    )
    return result


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="500 schedules")
    parser.add_argument("--layer", default=default.layer)
    parser.add_argument("--architecture", default=default.architecture)
    parser.add_argument("--schedules", type=int, default=default.schedules)
    given = parser.parse_args(arguments)
    schedules = 500 if given.smoke else given.schedules
    return Config(given.layer, given.architecture, schedules, given.seed, given.out)


if __name__ == "__main__":
    main(parse_args())
