"""Utilisation of GPT-2 decoding over the batch (SoMa paper, Section VI-B): `python -m experiments.soma_decode`."""

import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import llvmlite

from codesign.core.files import write_json
from codesign.core.goals import Budget, Objective
from codesign.scheduling.soma.evaluator import Invalid, Problem
from codesign.scheduling.soma.model.decoder_block import decoder_block
from codesign.scheduling.soma.model.hardware import PRESETS
from codesign.scheduling.soma.model.rules import MODES
from codesign.scheduling.soma.search.two_stages import SearchOptions, search
from codesign.workloads.zoo.transformers import GPT2
from experiments.options import head_parser

# Utilisation in per cent at batch 1, 4, 16, 64, from the paper: small on edge, XL on cloud.
PAPER = {"gpt2-small": (0.66, 2.03, 4.26, 5.84), "gpt2-xl": (0.60, 1.90, 4.13, 5.83)}
CACHED = {"gpt2-small": 512, "gpt2-xl": 1024}
ARCH = {"gpt2-small": "soma-edge", "gpt2-xl": "soma-cloud"}


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        models: Which GPT-2.
        batches: Samples decoded together.
        seconds: Search time per point.
        mode: Model of the hardware.
        seed: Seed of every search.
        out: Folder of results.
    """

    models: tuple[str, ...] = ("gpt2-small", "gpt2-xl")
    batches: tuple[int, ...] = (1, 4, 16, 64)
    seconds: float = 3.0
    mode: str = "reference"
    seed: int = 0
    out: Path = Path("results/soma_decode")


def run_point(config: Config, model: str, batch: int) -> dict[str, Any]:
    """Utilisation of one model and batch."""
    cached = CACHED[model]
    graph = decoder_block(f"{model} decode {cached}", GPT2[model.removeprefix("gpt2-")], 1, cached)
    problem = Problem(graph, batch, PRESETS[ARCH[model]], MODES[config.mode])
    found = search(problem, Objective(), SearchOptions(Budget(time_limit_s=config.seconds), seed=config.seed))
    row: dict[str, Any] = {"model": model, "batch": batch, "arch": ARCH[model]}
    if isinstance(found, Invalid):
        return {**row, "status": "infeasible", "reason": found.reason}
    schedule = found.schedule
    weights = schedule.parsed.dram_bytes["weights"]
    return {
        **row,
        "status": "feasible",
        "utilisation_percent": 100 * schedule.utilisation,
        "bound_percent": 100 * problem.ideal_engine_cycles / schedule.parsed.bound_cycles,
        "latency_cycles": schedule.latency_cycles,
        "dram_bytes": schedule.parsed.dram_bytes["total"],
        "weight_share": weights / schedule.parsed.dram_bytes["total"],
        "gap": found.gap,
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Measured beside the paper's."""
    paper_batches = (1, 4, 16, 64)
    print(
        f"{'model':12} {'batch':>5} {'cycles':>12} {'util %':>8} {'paper %':>8} {'bound %':>8} {'weights of DRAM':>16}"
    )
    for r in rows:
        if r["status"] != "feasible":
            print(f"{r['model']:12} {r['batch']:>5} infeasible: {r['reason']}")
            continue
        known = r["batch"] in paper_batches
        paper = f"{PAPER[r['model']][paper_batches.index(r['batch'])]:.2f}" if known else "-"
        print(
            f"{r['model']:12} {r['batch']:>5} {r['latency_cycles']:>12,} {r['utilisation_percent']:>8.2f} {paper:>8} "
            f"{r['bound_percent']:>8.2f} {100 * r['weight_share']:>15.1f}%"
        )


def main(config: Config) -> list[dict[str, Any]]:
    """Run every point and write results."""
    rows = [run_point(config, model, batch) for model in config.models for batch in config.batches]
    versions = {"python": platform.python_version(), "llvmlite": llvmlite.__version__}
    recorded = json.loads(json.dumps(asdict(config), default=str))
    write_json(
        config.out / "results.json", {"config": recorded, "versions": versions, "rows": rows, "paper_percent": PAPER}
    )
    print_table(rows)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(
        __doc__, out=default.out, seed=default.seed, smoke="one tiny point, to see that everything runs"
    )
    parser.add_argument("--models", nargs="+", default=default.models, choices=sorted(PAPER))
    parser.add_argument("--batches", nargs="+", type=int, default=default.batches)
    parser.add_argument("--seconds", type=float, default=default.seconds)
    parser.add_argument("--mode", default=default.mode, choices=sorted(MODES))
    given = parser.parse_args(arguments)
    if given.smoke:
        return Config(("gpt2-small",), (1,), 0.2, given.mode, given.seed, given.out)
    return Config(tuple(given.models), tuple(given.batches), given.seconds, given.mode, given.seed, given.out)


if __name__ == "__main__":
    main(parse_args())
