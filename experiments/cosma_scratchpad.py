"""Scratchpad size as a hardware parameter against off-chip traffic: `python -m experiments.cosma_scratchpad`.

The accelerator of the space `scratchpad` is built with every multiple of 64 KiB from just below the largest working set of
a network to the first size that needs no spill, and judged by the traffic of the best schedule for it (order, addresses,
spills); everything else stays as in the preset. Writes `results.json` and `tables.md`.
"""

import itertools
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.core.files import write_atomic, write_json
from codesign.evaluation.detail import TrafficDetail
from codesign.evaluation.traffic import TrafficEvaluator
from codesign.scheduling.cosma.load import load_graph
from codesign.scheduling.cosma.objective import Quantity
from codesign.scheduling.cosma.solve import Effort
from experiments.options import head_parser
from spaces.scratchpad import SCRATCHPAD, ScratchpadBuilder

NETWORKS = ("densenet121", "transformer", "vit_b_16", "amoebanet_d_18_256")
STEP_KIB = 64


@dataclass(frozen=True)
class FineSizes:
    """The preset of the space `scratchpad` with scratchpads of any size, not only powers of two."""

    def build(self, point: Mapping[str, Any]) -> Architecture:
        """The architecture of a point, which gives ``scratchpad_kib``."""
        return ScratchpadBuilder()({**SCRATCHPAD.space.presets[0], **point})


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        graphs: Folder of the operator graphs.
        objective: What each schedule minimises.
        time_limit: CPU seconds for each schedule that is not solved exactly.
        seed: Of the searches.
        smoke: Two networks only.
        out: Folder of results.
    """

    graphs: Path = Path(__file__).parent.parent / "tests" / "data" / "cosma" / "graphs"
    objective: Quantity = Quantity.BYTES
    time_limit: float = 40.0
    seed: int = 0
    smoke: bool = False
    out: Path = Path("results/cosma-scratchpad")


def sweep(config: Config, name: str) -> list[dict[str, Any]]:
    """One network on ascending scratchpad sizes: one that is too small, then all up to the first without spills."""
    graph = load_graph(config.graphs / f"{name}.json").without_parameters()
    effort = Effort(time_limit_s=config.time_limit, seed=config.seed)
    evaluate = TrafficEvaluator(FineSizes(), ((graph, 1.0),), config.objective, effort)
    points: list[dict[str, Any]] = []
    first = (graph.minimum_bytes - 1) // (STEP_KIB * 1024) * STEP_KIB
    for kib in itertools.count(first, STEP_KIB):
        started = time.process_time()
        found = evaluate({"scratchpad_kib": kib})
        point: dict[str, Any] = {"networks": name, "scratchpad_kib": kib, "feasible": found.metrics is not None}
        if found.metrics is not None:
            assert isinstance(found.detail, TrafficDetail)
            network = found.detail.schedules[0]
            point |= {key: network[key] for key in ("dram_bytes", "noncompulsory_bytes", "proof")}
            point |= {
                "energy_j": found.metrics.energy_j,
                "latency_s": found.metrics.latency_s,
                "area_mm2": found.metrics.area_mm2,
            }
        elif found.infeasible is not None:
            point |= {"demand_bytes": found.infeasible.demand, "reason": found.infeasible.detail}
        points.append(point | {"cpu_seconds": round(time.process_time() - started, 3)})
        if point.get("noncompulsory_bytes") == 0:
            break
    return points


def report(points: Sequence[dict[str, Any]]) -> str:
    """The table as Markdown."""
    lines = [
        "# Off-chip traffic against scratchpad size",
        "",
        "| network | scratchpad KiB | chip mm2 | off-chip MB | of which spills | proof | traffic mJ | busy ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for p in points:
        if not p["feasible"]:
            lines.append(
                f"| {p['networks']} | {p['scratchpad_kib']} | needs {p['demand_bytes']:.0f} bytes | - | - | - | - | - |"
            )
            continue
        lines.append(
            f"| {p['networks']} | {p['scratchpad_kib']} | {p['area_mm2']:.2f} | {p['dram_bytes'] / 1e6:.2f} | "
            f"{p['noncompulsory_bytes'] / 1e6:.2f} | {p['proof']} | {p['energy_j'] * 1e3:.3f} | {p['latency_s'] * 1e3:.3f} |"
        )
    return "\n".join(lines) + "\n"


def main(config: Config) -> list[dict[str, Any]]:
    """Sweep every network and write results."""
    names = ("densenet121", "transformer") if config.smoke else NETWORKS
    sizes = [point for name in names for point in sweep(config, name)]
    versions = {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine()}
    recorded = json.loads(json.dumps(asdict(config), default=str))
    write_json(config.out / "results.json", {"config": recorded, "versions": versions, "points": sizes})
    text = report(sizes)
    write_atomic(config.out / "tables.md", text)
    print(text)
    return sizes


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="two networks, to see that everything runs")
    parser.add_argument("--graphs", type=Path, default=default.graphs)
    parser.add_argument("--objective", choices=[q.value for q in Quantity], default=default.objective.value)
    parser.add_argument("--time-limit", type=float, default=default.time_limit)
    given = parser.parse_args(arguments)
    return Config(given.graphs, Quantity(given.objective), given.time_limit, given.seed, given.smoke, given.out)


if __name__ == "__main__":
    main(parse_args())
