"""Layers of a network behind a mesh of routers and DRAM banks: the bound against its simulation, what layouts cost, CPU seconds.

    python -m experiments.mesh_dram --out runs/mesh_dram

Every distinct layer is mapped for latency, once with the mesh in mind and once for buses, and simulated with the global buffer at one node
or spread over several. Then the mappings run with a DRAM device behind the buffer, under several layouts of the tensors. The last line is JSON.
"""

import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from codesign.arch.architecture import Architecture, Links
from codesign.arch.memory_device import DramUse
from codesign.arch.mesh import MeshLinks
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.files import write_json
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.annealing import AnnealingMapper
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.timing.simulate import Run, simulate
from codesign.workloads.computation import Computation
from codesign.workloads.load import load_network
from codesign.workloads.workload import Workload
from experiments.options import head_parser

PARENTS: tuple[tuple[int, ...], ...] = ((0,), (5,), (0, 4, 8, 12))
LAYOUTS = ("tiled", "row-major")


@dataclass(frozen=True)
class Config:
    """What runs.

    Args:
        network: Its distinct layers.
        architecture: Preset.
        buffer: Level whose children the mesh reaches.
        device: Of the DRAM.
        evaluations: Mappings scored by annealing.
        limit: Layers at most.
        seed: Of annealing.
    """

    network: str = "resnet50"
    architecture: str = "simba"
    buffer: str = "GlobalBuffer"
    device: str = "ddr4_2400_x16"
    evaluations: int = 20_000
    limit: int | None = None
    seed: int = 0


def on_mesh(plain: Architecture, buffer: str, parents: tuple[int, ...]) -> Architecture:
    """The architecture with a mesh below the buffer, 64-bit flits."""
    fanout = plain.level(buffer).fanout
    links = MeshLinks(fanout.x, fanout.y, parents=parents, flit_bits=64)
    return plain.with_level(buffer, fanout=replace(fanout, links=Links.MESH, mesh=links))


def map_layer(computation: Computation, architecture: Architecture, config: Config) -> Mapping:
    """The best mapping by annealing."""
    found = AnnealingMapper().map(
        MappingProblem(computation, architecture),
        Objective.LATENCY,
        budget=Budget(evaluations=config.evaluations),
        seed=config.seed,
    )
    if found.mapping is None:
        raise UserError(f"no mapping of {computation} fits {architecture.name!r}")
    return found.mapping


def _run(computation: Computation, architecture: Architecture, mapping: Mapping) -> tuple[Run, float]:
    began = time.process_time()
    run = simulate(computation, architecture, mapping)
    assert isinstance(run, Run)  # the mapper's mappings fit
    return run, time.process_time() - began


def compare_bounds(layers: list[Computation], plain: Architecture, config: Config) -> list[dict[str, Any]]:
    """The bound of rule N9 over the cycles for which transfers hold the mesh, by mapping and by place of the buffer."""
    found = []
    for aware in (True, False):
        for parents in PARENTS:
            meshed = on_mesh(plain, config.buffer, parents)
            shares = []
            for computation in layers:
                mapping = map_layer(computation, meshed if aware else plain, config)
                run, _ = _run(computation, meshed, mapping)
                busy = max(r.busy_cycles for r in run.resources if r.resource.startswith("mesh below"))
                if busy and run.complete:
                    shares.append(run.meshes[0].bound_cycles / busy)
            found.append(
                {
                    "mapped_for": "mesh" if aware else "buses",
                    "parents": list(parents),
                    "layers": len(shares),
                    "bound_over_simulation_mean": statistics.fmean(shares),
                    "bound_over_simulation_least": min(shares),
                    "bound_over_simulation_most": max(shares),
                }
            )
    return found


def compare_layouts(layers: list[Computation], plain: Architecture, config: Config) -> list[dict[str, Any]]:
    """Cycles, share of bursts asked for, and CPU seconds of every layer behind DRAM banks and the mesh."""
    meshed = on_mesh(plain, config.buffer, PARENTS[0])
    rows = []
    mappings = [map_layer(computation, meshed, config) for computation in layers]
    for layout in LAYOUTS:
        layouts = tuple((role, layout) for role in ("input", "weight", "output"))
        target = meshed.with_level(meshed.levels[0].name, dram=DramUse(config.device, layouts=layouts))
        _run(layers[0], target, mappings[0])  # compiles
        for computation, mapping in zip(layers, mappings, strict=True):
            cost = evaluate(computation, target, mapping)
            assert isinstance(cost, Cost)
            run, seconds = _run(computation, target, mapping)
            assert run.memory is not None
            rows.append(
                {
                    "layer": computation.name or str(computation),
                    "layout": layout,
                    "analytic_cycles": cost.latency_cycles,
                    "event_cycles": run.latency_cycles,
                    "complete": run.complete,
                    "bursts_asked_for": run.memory.efficiency,
                    "bursts": run.memory.served.reads + run.memory.served.writes,
                    "rounds": run.memory.rounds,
                    "residual": run.memory.residual,
                    "cpu_seconds": seconds,
                }
            )
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Run both comparisons, print a table and one line of JSON; 2 for a user's mistake."""
    parser = head_parser(
        __doc__, out=None, seed=0, smoke="two layers", about_out="write all rows as JSON to this folder"
    )
    parser.add_argument("--network", default=Config.network)
    parser.add_argument("--device", default=Config.device)
    given = parser.parse_args(arguments)
    config = Config(given.network, device=given.device, seed=given.seed)
    if given.smoke:
        config = replace(config, evaluations=300, limit=2)
    try:
        plain = load_preset(config.architecture)
        network = load_network(config.network, bits=plain.mac.bits)
        layers = [group.computation for group in Workload.of([network]).distinct_layers()][: config.limit]
        bounds, layouts = compare_bounds(layers, plain, config), compare_layouts(layers, plain, config)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for row in bounds:
        where = ", ".join(map(str, row["parents"]))
        mean, least = row["bound_over_simulation_mean"], row["bound_over_simulation_least"]
        print(
            f"mapped for {row['mapped_for']:5} buffer at {where:12} bound over simulation: mean {mean:.3f}, least {least:.3f}"
        )
    for row in layouts:
        print(
            f"{row['layer'][:30]:30} {row['layout']:9} analytical {row['analytic_cycles']:>10,} event {row['event_cycles']:>10,} "
            f"asked for {row['bursts_asked_for']:6.1%} residual {row['residual']:.3f} in {row['rounds']} rounds, {row['cpu_seconds']:.2f} CPU s"
        )
    if given.out is not None:
        document = {"config": asdict(config), "bounds": bounds, "layouts": layouts}
        write_json(given.out / "mesh_dram.json", document)
    seconds = {name: sum(r["cpu_seconds"] for r in layouts if r["layout"] == name) for name in LAYOUTS}
    print(json.dumps({"experiment": "mesh_dram", "layers": len(layers), "bounds": bounds, "cpu_seconds": seconds}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
