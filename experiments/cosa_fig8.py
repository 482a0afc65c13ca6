"""CoSA Fig. 8: the parts of the program's objective for one layer, by method: `python -m experiments.cosa_fig8`.

Q. Huang et al., ISCA 2021: layer 3_7_512_512_1 of ResNet-50; CoSA's schedule has the lowest utilisation, compute and traffic terms of all. The
best of five random schedules, the hybrid search's and the latency optimum of the exact mapper are priced by the same program here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.core.goals import Budget, Objective
from codesign.mappers.cosa.integer_program import PUBLISHED, Settings
from codesign.mappers.cosa.mapper import CosaMapper
from codesign.mappers.exact.mapper import ExactMapper
from codesign.mappers.hybrid import HybridMapper
from codesign.mappers.protocol import Mapper
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.layer_string import parse_layer
from experiments.cosa_fit import mapping_terms
from experiments.mappers_common import architecture, draw, markdown, save
from experiments.options import head_parser


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        layer: The layer.
        architecture: See `mappers_common.ARCHITECTURES`.
        threads: Of the hybrid search.
        seed: Of random and hybrid search.
        out: Folder of results.
    """

    layer: str = "conv K=512 C=512 P=7 Q=7 R=3 S=3"
    architecture: str = "simba"
    threads: int = 32
    seed: int = 0
    out: Path = Path("results/cosa_fig8")


def main(config: Config) -> dict[str, dict[str, float]]:
    """Price the schedule of every method, write results and the figure."""
    problem = MappingProblem(parse_layer(config.layer), architecture(config.architecture))
    mappers: dict[str, tuple[Mapper, Budget]] = {
        "random x5": (RandomMapper(), Budget(evaluations=5)),
        "hybrid": (HybridMapper(threads=config.threads), Budget()),
        "cosa one-shot": (CosaMapper(k=1), Budget()),
        "cosa": (CosaMapper(), Budget()),
        "optimum": (ExactMapper(), Budget(time_limit_s=60.0)),
    }
    rows: dict[str, dict[str, float]] = {}
    for name, (mapper, budget) in mappers.items():
        result = mapper.map(problem, Objective.LATENCY, budget=budget, seed=config.seed)
        if result.mapping is None or result.cost is None:
            continue
        use, compute, traffic = mapping_terms(problem, result.mapping, Settings())
        parts = {
            "wU*Util": -use * PUBLISHED.utilization,
            "wC*Comp": compute * PUBLISHED.compute,
            "wT*Traf": traffic * PUBLISHED.traffic,
        }
        total = parts["wC*Comp"] + parts["wT*Traf"] - parts["wU*Util"]
        rows[name] = {**parts, "total": total, "latency_cycles": result.cost.latency_cycles}
    text = markdown(
        ("method", "wU*Util", "wC*Comp", "wT*Traf", "total", "cycles"),
        ((n, *(f"{v:.2f}" for v in list(r.values())[:4]), f"{r['latency_cycles']:,.0f}") for n, r in rows.items()),
    )
    save(config.out, config, {"methods": rows}, text)

    def paint(axes: Any) -> None:
        for m, (name, row) in enumerate(rows.items()):
            heights = [row[key] for key in ("wU*Util", "wC*Comp", "wT*Traf", "total")]
            axes[0].bar([i + 0.16 * m for i in range(4)], heights, 0.16, label=name)
        axes[0].set_xticks([i + 0.32 for i in range(4)], ["wU*Util", "wC*Comp", "wT*Traf", "total"])
        axes[0].legend(frameon=False)
        axes[0].set_title(config.layer)

    draw(config.out / "figure.svg", 1, paint)
    print(text)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="a small layer, two threads")
    parser.add_argument("--layer", default=default.layer)
    parser.add_argument("--architecture", default=default.architecture)
    parser.add_argument("--threads", type=int, default=default.threads)
    given = parser.parse_args(arguments)
    layer = "conv K=32 C=16 P=7 Q=7 R=3 S=3" if given.smoke else given.layer
    threads = 2 if given.smoke else given.threads
    return Config(layer, given.architecture, threads, given.seed, given.out)


if __name__ == "__main__":
    main(parse_args())
