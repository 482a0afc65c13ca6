"""CoSA Figs. 6, 7 and 9 and Table VI: random search, Timeloop's hybrid search and CoSA: `python -m experiments.cosa_fig6`.

    python -m experiments.cosa_fig6 --objective energy                    # Fig. 7; latency is Fig. 6
    python -m experiments.cosa_fig6 --architecture simba-8x8              # Fig. 9a; simba-large: Fig. 9b

Q. Huang et al., ISCA 2021: on its four networks CoSA is 5.2 times (geometric mean) faster than the best of five valid random schedules and 1.5
times faster than the hybrid search (8 x 8: 4.4 and 1.1; larger buffers: 5.7 and 1.4), needs 3.3 times less energy than random (hybrid: 2.7), and
takes 4.2 s a layer against 4.6 s and 379.9 s. Both CoSA's one shot and the best of its schedules are shown here. Hybrid runs 32 threads.
"""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.core.goals import Budget, Objective
from codesign.mappers.cosa.mapper import CosaMapper
from codesign.mappers.hybrid import HybridMapper
from codesign.mappers.protocol import Mapper
from codesign.mapping.constraints import MappingProblem
from experiments.mappers_common import (
    COSA_NETWORKS,
    architecture,
    bounds_text,
    draw,
    geometric_mean,
    layers,
    markdown,
    save,
    timed,
)
from experiments.options import head_parser
from experiments.random_costs import sample_costs

METHODS = ("random x5", "hybrid", "cosa one-shot", "cosa")


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        networks: Whose layers.
        architecture: See `mappers_common.ARCHITECTURES`.
        objective: latency (Fig. 6, 9), energy (Fig. 7) or edp.
        limit: Layers of each network at most.
        threads: Of the hybrid search.
        seed: Of random and hybrid search.
        out: Folder of results; one folder inside for each architecture and objective.
    """

    networks: tuple[str, ...] = COSA_NETWORKS
    architecture: str = "simba"
    objective: str = "latency"
    limit: int | None = None
    threads: int = 32
    seed: int = 0
    out: Path = Path("results/cosa_fig6")


def best_of_five(problem: MappingProblem, objective: Objective, seed: int) -> tuple[float | None, int, int]:
    """The best of five valid random mappings: value, mappings drawn, mappings scored."""
    costs, drawn = sample_costs(problem, 5, seed=seed)
    values = {Objective.ENERGY: costs[:, 0], Objective.LATENCY: costs[:, 1], Objective.EDP: costs.prod(axis=1)}[
        objective
    ]
    return (float(values.min()) if len(values) else None), drawn, len(values)


def run_layer(problem: MappingProblem, config: Config) -> dict[str, dict[str, Any]]:
    """All methods on one layer."""
    objective = Objective.parse(config.objective)
    (value, drawn, scored), seconds = timed(lambda: best_of_five(problem, objective, config.seed))
    rows = {"random x5": {"value": value, "drawn": drawn, "scored": scored, "cpu_seconds": seconds}}
    mappers: dict[str, Mapper] = {
        "hybrid": HybridMapper(threads=config.threads),
        "cosa one-shot": CosaMapper(k=1),
        "cosa": CosaMapper(),
    }
    for name, mapper in mappers.items():
        result, seconds = timed(lambda m=mapper: m.map(problem, objective, budget=Budget(), seed=config.seed))  # type: ignore[misc]
        found = None if result.cost is None else objective.of(result.cost)
        rows[name] = {"value": found, "scored": result.evaluated, "cpu_seconds": seconds}
        if result.mip is not None:
            rows[name]["mip_seconds"] = result.mip.seconds
    return rows


def tables(found: dict[str, list[dict[str, Any]]]) -> str:
    """Improvement over random by network, then time to solution (Table VI)."""
    lines = []
    every = [row for rows in found.values() for row in rows]
    for network, rows in (*found.items(), ("all", every)):
        complete = [r for r in rows if all(r["methods"][m]["value"] for m in METHODS)]
        cells = []
        for method in METHODS:
            gain = (r["methods"]["random x5"]["value"] / r["methods"][method]["value"] for r in complete)
            cells.append(f"{geometric_mean(gain):.2f}")
        lines.append((network, f"{len(complete)}/{len(rows)}", *cells))
    text = markdown(("network", "layers", *METHODS), lines) + "\n"
    times = []
    for method in METHODS:
        rows = [r["methods"][method] for r in every]
        seconds, scored = (statistics.fmean(r[key] for r in rows) for key in ("cpu_seconds", "scored"))
        times.append((method, f"{seconds:.3f}", f"{max(r['cpu_seconds'] for r in rows):.3f}", f"{scored:,.0f}"))
    return text + markdown(("method", "CPU s a layer", "worst", "valid mappings scored"), times)


def main(config: Config) -> dict[str, Any]:
    """Run every layer, write results, figure and tables."""
    arch = architecture(config.architecture)
    warm = MappingProblem(layers(config.networks[0])[-1].computation, arch)
    run_layer(warm, config)
    found: dict[str, list[dict[str, Any]]] = {}
    for network in config.networks:
        for group in layers(network)[: config.limit]:
            rows = run_layer(MappingProblem(group.computation, arch), config)
            found.setdefault(network, []).append({"layer": bounds_text(group), "methods": rows})
    text = tables(found)
    out = config.out / f"{config.architecture}-{config.objective}"
    save(out, config, {"networks": found}, text)

    def paint(axes: Any) -> None:
        for axis, (network, rows) in zip(axes, found.items(), strict=True):
            for m, method in enumerate(METHODS):
                gains = []
                for r in rows:
                    base, value = r["methods"]["random x5"]["value"], r["methods"][method]["value"]
                    gains.append(base / value if base and value else 0.0)
                axis.bar([i + 0.2 * m for i in range(len(rows))], gains, 0.2, label=method)
            axis.set_title(network)
            axis.set_xticks([i + 0.3 for i in range(len(rows))], [r["layer"] for r in rows], rotation=90, fontsize=4)
        axes[0].set_ylabel(f"{config.objective}: improvement over random x5")
        axes[0].legend(frameon=False)

    draw(out / "figure.svg", len(found), paint)
    print(text)
    return {"networks": found}


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="two layers, two threads")
    parser.add_argument("--networks", nargs="+", default=default.networks)
    parser.add_argument("--architecture", default=default.architecture)
    parser.add_argument("--objective", default=default.objective, help="latency, energy or edp")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--threads", type=int, default=default.threads)
    given = parser.parse_args(arguments)
    if given.smoke:
        given.networks, given.limit, given.threads = ("deepbench",), 2, 2
    return Config(
        tuple(given.networks), given.architecture, given.objective, given.limit, given.threads, given.seed, given.out
    )


if __name__ == "__main__":
    main(parse_args())
