"""SoMa's gap to its bound with and without the bound's fusion as a start: `python -m experiments.soma_start`.

Default mode, a fixed number of fusion schemes, so that a seed gives the same schedule on every machine.
"""

import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.scheduling.protocol import ScheduleProblem
from codesign.scheduling.soma.model.hardware import PRESETS
from codesign.scheduling.soma.model.load import Source, load_graph
from codesign.scheduling.soma.scheduler import SomaScheduler
from codesign.scheduling.soma.search.two_stages import STARTS, warm_up
from experiments.mappers_common import markdown, save, timed
from experiments.options import head_parser

Case = tuple[str, dict[str, Any], tuple[int, ...], str]

CASES: tuple[Case, ...] = (
    ("resnet50", {}, (1, 4, 16), "soma-edge"),
    ("resnet50", {}, (16,), "soma-cloud"),
    ("gpt2-small-block", {"phase": "prefill", "seq": 512}, (1, 4), "soma-edge"),
    ("gpt2-small-block", {"phase": "decode", "seq": 513}, (1, 4), "soma-edge"),
    ("gpt2-xl-block", {"phase": "prefill", "seq": 1024}, (1, 16), "soma-cloud"),
    ("gpt2-xl-block", {"phase": "decode", "seq": 1025}, (1, 16), "soma-cloud"),
    ("randwire-small", {}, (1, 4), "soma-edge"),
    ("mobilenet_v2", {}, (4,), "soma-edge"),
)


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        evaluations: Fusion schemes of a search.
        seeds: Searches a case and start.
        only: Part of a network's name; empty: all.
        out: Folder of results.
    """

    evaluations: int = 30_000
    seeds: int = 2
    only: str = ""
    out: Path = Path("results/soma_start")


def source(name: str, options: dict[str, Any], batch: int) -> Source:
    """A network for SoMa."""
    given = {"phase": None, "seq": None, "past": None, "dims": None, **options}
    return replace(load_graph(name, batch=batch, **given), batch=batch)


def main(config: Config) -> list[dict[str, Any]]:
    """Search every case from both starts, write results and table."""
    warm_up()
    cases = [(n, o, b, m) for n, o, batches, m in CASES for b in batches if config.only in n]
    if not cases:
        raise UserError(f"no network matches '{config.only}'")
    rows = []
    for name, options, batch, machine in cases:
        problem = ScheduleProblem(source(name, options, batch), None, None)
        row: dict[str, Any] = {
            "network": " ".join((name, *map(str, options.values()))),
            "batch": batch,
            "machine": machine,
            "status": "feasible",
            "starts": {},
        }
        for start in STARTS:
            scheduler = SomaScheduler(platform=PRESETS[machine], start=start)
            runs = [
                timed(
                    lambda s=scheduler, p=problem, seed=seed: s.schedule(  # type: ignore[misc]
                        p, Objective.EDP, budget=Budget(evaluations=config.evaluations), seed=seed
                    )
                )
                for seed in range(config.seeds)
            ]
            row["starts"][start] = {
                "gaps": [r.gap for r, _ in runs],
                "latency_cycles": [r.latency_cycles for r, _ in runs],
                "energy_pj": [r.energy_pj for r, _ in runs],
                "dram_bytes": [r.dram_bytes for r, _ in runs],
                "cpu_seconds": statistics.fmean(s for _, s in runs),
            }
            row["bound"] = runs[0][0].detail["fusion_bound"]
        rows.append(row)
        print(_cells(row), flush=True)
    text = table(rows)
    save(config.out, config, {"rows": rows}, text)
    print(text)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each case."""
    per_start = [f"{s}: {what}" for s in reversed(STARTS) for what in ("gap by seed", "DRAM MB", "CPU s")]
    return markdown(("network", "batch", "machine", "bound, DRAM MB", *per_start), [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    cells = []
    for start in reversed(STARTS):
        found = row["starts"][start]
        shown = ", ".join(f"{100 * g:.2f} %" for g in found["gaps"])
        cells += [shown, f"{min(found['dram_bytes']) / 1e6:.2f}", f"{found['cpu_seconds']:.1f}"]
    return row["network"], str(row["batch"]), row["machine"], f"{row['bound']['dram_bytes'] / 1e6:.2f}", *cells


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, smoke="one network, few schemes")
    parser.add_argument("--evaluations", type=int, default=default.evaluations)
    parser.add_argument("--seeds", type=int, default=default.seeds)
    parser.add_argument("--only", default=default.only, help="part of a network's name")
    given = parser.parse_args(arguments)
    if given.smoke:
        given.evaluations, given.seeds, given.only = 300, 1, "gpt2-small"
    return Config(given.evaluations, given.seeds, given.only, given.out)


if __name__ == "__main__":
    main(parse_args())
