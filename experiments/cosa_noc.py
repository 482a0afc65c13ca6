"""CoSA Fig. 10: schedules on a mesh of routers with DRAM banks behind it: `python -m experiments.cosa_noc`.

    python -m experiments.cosa_noc --parents 0 4 8 12     # the global buffer spread over the first column

Q. Huang et al., ISCA 2021, judge the schedules of their Fig. 6 on a cycle-exact platform: 4 x 4 PEs, X-Y routing with multicast, 64-bit flits,
PEs and off-chip DRAM at the same time. There CoSA is 3.3 times (geometric mean over four networks) faster than the best of five random
schedules, and 2.5 times faster than the hybrid search. Here the event tier is that platform: `links: mesh` below the global buffer and a DDR4
channel behind it. `mesh-aware` searches with the mesh in mind, `event-ranked` (with --event-ranked) also simulates the k best of the exact
mapper on the platform and takes the fastest. All other methods search with the bus of Fig. 6 in mind. Of random schedules the fastest on the mesh counts.

The same runs say how far the analytical bound of the mesh is from its simulation, and how far analytical latency is from simulated.
"""

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codesign.arch.architecture import Architecture, Links
from codesign.arch.memory_device import DramUse
from codesign.arch.mesh import MeshLinks
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Cost, evaluate
from codesign.evaluation.timed import EventMapper
from codesign.mappers.cosa.mapper import CosaMapper
from codesign.mappers.exact.mapper import ExactMapper
from codesign.mappers.hybrid import HybridMapper
from codesign.mappers.protocol import Mapper
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.timing.simulate import Run, simulate
from codesign.workloads.computation import Computation
from experiments.mappers_common import (
    COSA_NETWORKS,
    architecture,
    bounds_text,
    draw,
    geometric_mean,
    layers,
    markdown,
    save,
)
from experiments.options import head_parser

METHODS = ("random x5", "hybrid", "cosa one-shot", "cosa", "exact", "mesh-aware")
EVENT_RANKED = "event-ranked"
_RANDOM = 5


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        networks: Whose layers.
        limit: Layers of each network at most.
        parents: Nodes at which the global buffer sits.
        device: Of the DRAM.
        layout: Of every tensor in it.
        threads: Of the hybrid search.
        operations: Of a simulation, at most.
        event_ranked: Whether the k best of the exact mapper are simulated too.
        seed: Of random and hybrid search.
        out: Folder of results.
        resume: Whether what the folder's results hold already is kept, layer by layer and method by method; it must come from the same options.
    """

    networks: tuple[str, ...] = COSA_NETWORKS
    limit: int | None = None
    parents: tuple[int, ...] = (0,)
    device: str = "ddr4_2400_x16"
    layout: str = "tiled"
    threads: int = 32
    operations: int = 500_000
    event_ranked: bool = False
    seed: int = 0
    out: Path = Path("results/cosa_noc")
    resume: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that are compared."""
        return (*METHODS, EVENT_RANKED) if self.event_ranked else METHODS


def platform(config: Config) -> Architecture:
    """Simba as CoSA's Table V has it, its PEs on a mesh of routers with 64-bit flits, a DRAM device behind."""
    plain = architecture("simba")
    buffer = plain.level("GlobalBuffer")
    links = MeshLinks(buffer.fanout.x, buffer.fanout.y, parents=config.parents, flit_bits=64)
    with_mesh = plain.with_level(buffer.name, fanout=replace(buffer.fanout, links=Links.MESH, mesh=links))
    layouts = tuple((role, config.layout) for role in ("input", "weight", "output"))
    return with_mesh.with_level("DRAM", dram=DramUse(config.device, layouts=layouts))


def _schedules(computation: Computation, config: Config, methods: Sequence[str]) -> dict[str, list[Mapping]]:
    """What every method proposes for a layer; several for random search."""
    plain = MappingProblem(computation, architecture("simba"))
    meshed = MappingProblem(computation, platform(config))
    exact = ExactMapper(effort=1e9)
    found: dict[str, list[Mapping]] = {}
    if "random x5" in methods:
        seeds = range(_RANDOM * config.seed, _RANDOM * (config.seed + 1))
        drawn = [RandomMapper().map(plain, Objective.LATENCY, budget=Budget(evaluations=1), seed=s) for s in seeds]
        found["random x5"] = [result.mapping for result in drawn if result.mapping is not None]
    searches: dict[str, tuple[Mapper, MappingProblem]] = {
        "hybrid": (HybridMapper(threads=config.threads), plain),
        "cosa one-shot": (CosaMapper(k=1), plain),
        "cosa": (CosaMapper(), plain),
        "exact": (exact, plain),
        "mesh-aware": (exact, meshed),
        EVENT_RANKED: (EventMapper(exact), meshed),
    }
    for name in methods:
        if name in searches:
            mapper, problem = searches[name]
            result = mapper.map(problem, Objective.LATENCY, budget=Budget(), seed=config.seed)
            found[name] = [] if result.mapping is None or result.padding is not None else [result.mapping]
    return found


def _judge(computation: Computation, target: Architecture, mapping: Mapping, config: Config) -> dict[str, Any] | None:
    """A schedule on the platform; None where its simulation was cut short."""
    cost = evaluate(computation, target, mapping)
    assert isinstance(cost, Cost)
    run = simulate(computation, target, mapping, operation_limit=config.operations)
    assert isinstance(run, Run)
    if not run.complete:
        return None
    mesh = [r for r in run.resources if r.resource.startswith("mesh below")]
    bus = evaluate(computation, architecture("simba"), mapping)
    assert isinstance(bus, Cost)
    return {
        "cycles": run.latency_cycles,
        "analytical": bus.latency_cycles,
        "analytical_with_mesh": cost.latency_cycles,
        "mesh_bound": run.meshes[0].bound_cycles,
        "mesh_busy": max((r.busy_cycles for r in mesh), default=0.0),
        "bound_by": run.bound_by,
        "dram_residual": 0.0 if run.memory is None else run.memory.residual,
    }


def run_layer(computation: Computation, target: Architecture, config: Config, methods: Sequence[str]) -> dict[str, Any]:
    """Those methods on one layer."""
    rows: dict[str, Any] = {}
    for name, mappings in _schedules(computation, config, methods).items():
        began = time.process_time()
        judged = [_judge(computation, target, mapping, config) for mapping in mappings]
        complete = [j for j in judged if j is not None]
        best = min(complete, key=lambda j: j["cycles"], default=None)
        rows[name] = {
            **(best or {"cycles": None}),
            "cut_short": len(judged) - len(complete),
            "cpu_seconds": time.process_time() - began,
        }
    return rows


def speedups(rows: list[dict[str, Any]], method: str, base: str) -> list[float]:
    """Of the layers on which both were simulated to their end."""
    pairs = [(r["methods"][base]["cycles"], r["methods"][method]["cycles"]) for r in rows]
    return [a / b for a, b in pairs if a and b]


def tables(found: dict[str, list[dict[str, Any]]], methods: Sequence[str] = METHODS) -> str:
    """Speed-up over random and over hybrid by network, beside the paper's; then bound and analytical latency against simulation."""
    text = ""
    networks = list(found)
    for base, paper in (("random x5", "3.3"), ("hybrid", "2.5")):
        lines = []
        means: dict[str, list[float]] = {m: [] for m in methods}
        for network, rows in found.items():
            cells = []
            for method in methods:
                mean = geometric_mean(speedups(rows, method, base))
                means[method].append(mean)
                cells.append(f"{mean:.2f}")
            lines.append((network, len(speedups(rows, "cosa one-shot", base)), *cells))
        lines.append((f"geometric mean of {len(networks)}", "", *(f"{geometric_mean(means[m]):.2f}" for m in methods)))
        text += markdown((f"speed-up over {base}", "layers", *methods), lines) + f"\nThe paper's CoSA: {paper}.\n\n"
    judged = [r["methods"][m] for rows in found.values() for r in rows for m in methods if r["methods"][m]["cycles"]]
    lines = []
    for method in (*methods, "all"):
        mine = judged
        if method != "all":
            each = [r["methods"][method] for rows in found.values() for r in rows]
            mine = [j for j in each if j["cycles"]]
        if not mine:
            continue
        tight = [j["mesh_bound"] / j["mesh_busy"] for j in mine if j["mesh_busy"]]
        whole = [j["analytical_with_mesh"] / j["cycles"] for j in mine]
        plain = [j["analytical"] / j["cycles"] for j in mine]
        shares = [f"{statistics.fmean(x):.3f}" for x in (tight, whole, plain)]
        lines.append((method, len(mine), *shares, f"{_spearman(mine):.3f}"))
    header = (
        "schedules of",
        "runs",
        "mesh bound over simulated mesh",
        "analytical with mesh over event cycles",
        "analytical over event cycles",
        "rank correlation",
    )
    return text + markdown(header, lines)


def _spearman(judged: list[dict[str, Any]]) -> float:
    """Rank correlation of analytical and simulated latency."""
    if len(judged) < 3:
        return float("nan")
    from scipy.stats import spearmanr

    return float(spearmanr([j["analytical"] for j in judged], [j["cycles"] for j in judged]).statistic)


def _known(config: Config) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Layers whose results the folder holds, where they are to be kept: by network, place in it and bounds.

    Bounds alone do not tell layers apart, for strides differ.
    """
    path = config.out / "results.json"
    if not config.resume or not path.exists():
        return {}
    networks = json.loads(path.read_text(encoding="utf-8"))["networks"]
    return {
        (network, i, row["layer"]): row["methods"] for network, rows in networks.items() for i, row in enumerate(rows)
    }


def main(config: Config) -> dict[str, Any]:
    """Run every layer, write results, figure and tables."""
    target = platform(config)
    found: dict[str, list[dict[str, Any]]] = {}
    began = time.process_time()
    known = _known(config)
    for network in config.networks:
        for i, group in enumerate(layers(network)[: config.limit]):
            rows = dict(known.get((network, i, bounds_text(group)), {}))
            missing = [name for name in config.methods if name not in rows]
            rows |= run_layer(group.computation, target, config, missing) if missing else {}
            found.setdefault(network, []).append({"layer": bounds_text(group), "methods": rows})
            save(config.out, config, {"networks": found, "cpu_seconds": time.process_time() - began})
            cells = "  ".join(f"{m} {rows[m]['cycles']}" for m in config.methods)
            print(f"{network} {bounds_text(group)}: {cells}", flush=True)
    if not found:
        raise UserError("`--networks` must name at least one network, got none")
    text = tables(found, config.methods)
    save(config.out, config, {"networks": found, "cpu_seconds": time.process_time() - began}, text)

    shown = config.methods[1:]
    wide = 0.8 / len(shown)

    def paint(axes: Any) -> None:
        for axis, (network, rows) in zip(axes, found.items(), strict=True):
            for m, method in enumerate(shown):
                gains = []
                for r in rows:
                    base, cycles = r["methods"]["random x5"]["cycles"], r["methods"][method]["cycles"]
                    gains.append(base / cycles if base and cycles else 0.0)
                mean = geometric_mean(speedups(rows, method, "random x5"))
                axis.bar([i + wide * m for i in range(len(rows))], gains, wide, label=f"{method}: {mean:.2f}")
            axis.axhline(1.0, color="black", linewidth=0.6)
            axis.set_yscale("log")
            axis.set_title(f"{network}; beside the names: geometric means")
            axis.set_xticks([i + 0.4 for i in range(len(rows))], [r["layer"] for r in rows], rotation=90, fontsize=5)
            axis.set_ylabel("speed-up over random x5")
            axis.legend(frameon=False, fontsize=6, ncols=len(shown), loc="upper right")
            axis.set_ylim(0.2, 100)

    draw(config.out / "figure.svg", len(found), paint, width=9.0, height=3.0, columns=1)
    print(text)
    return {"networks": found}


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="two layers, two threads")
    parser.add_argument("--networks", nargs="+", default=default.networks)
    parser.add_argument("--limit", type=int, help="layers of each network at most")
    parser.add_argument("--parents", type=int, nargs="+", default=default.parents, help="nodes of the global buffer")
    parser.add_argument("--device", default=default.device)
    parser.add_argument("--layout", default=default.layout, help="row-major, tiled, or digits of the axes")
    parser.add_argument("--threads", type=int, default=default.threads, help="of the hybrid search")
    parser.add_argument("--operations", type=int, default=default.operations, help="of a simulation at most")
    parser.add_argument("--event-ranked", action="store_true", help="simulate the k best of the exact mapper too")
    parser.add_argument("--resume", action="store_true", help="keep the layers that the folder's results hold")
    given = parser.parse_args(arguments)
    if given.smoke:
        given.networks, given.limit, given.threads = ("deepbench",), 2, 2
    return Config(
        tuple(given.networks),
        given.limit,
        tuple(given.parents),
        given.device,
        given.layout,
        given.threads,
        given.operations,
        given.event_ranked,
        given.seed,
        given.out,
        given.resume,
    )


if __name__ == "__main__":
    main(parse_args())
