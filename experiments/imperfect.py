"""The table of docs/results/imperfect-factors.md: `python -m experiments.imperfect`.

Maps layers whose bounds divide badly (primes, 7, 14, 197, 1500), or with `--network` every distinct layer of a network, by the exact
mapper with perfect and with imperfect factors, and says what is gained and how far the result may be from the best. Writes `results.json` and
`table.md`. Layers are mapped once before they are timed, so that compiling is not counted.
"""

import math
import resource
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget, Objective
from codesign.library.inputs import as_computation
from codesign.mappers.exact import ExactMapper
from codesign.mappers.padded_bounds import PaddingMapper
from codesign.mappers.protocol import Mapper
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.computation import Computation
from codesign.workloads.load import load_network
from experiments.mappers_common import bounds_text, markdown, save
from experiments.options import head_parser

LAYERS = (
    "gemm M=127 N=127 K=127",
    "gemm M=197 N=64 K=197",
    "gemm M=197 N=768 K=768",
    "gemm M=1500 N=384 K=384",
    "gemm M=1500 N=1500 K=64",
    "conv K=64 C=3 P=112 Q=112 R=7 S=7 stride=2",
    "conv K=64 C=3 P=224 Q=224 R=3 S=3",
    "conv K=256 C=256 P=14 Q=14 R=3 S=3",
    "conv K=1024 C=256 P=14 Q=14",
    "conv K=512 C=512 P=7 Q=7 R=3 S=3",
    "conv K=2048 C=512 P=7 Q=7",
    "conv K=192 C=64 P=27 Q=27 R=5 S=5",
)


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        presets: Architectures.
        network: A zoo model or file whose layers are mapped instead of the list.
        objective: What is minimised.
        padded: Whether padded bounds are mapped too, which takes longest.
        time_limit: Seconds for each mapping; None: the effort that the mapper has by itself.
        seed: Of annealing.
        smoke: The first layer only.
        out: Folder of results.
    """

    presets: tuple[str, ...] = ("simba", "eyeriss")
    network: str | None = None
    objective: str = "edp"
    padded: bool = False
    time_limit: float | None = None
    seed: int = 0
    smoke: bool = False
    out: Path = Path("results/imperfect")


def layers(config: Config) -> list[tuple[str, Computation, float]]:
    """Names, computations and how often each occurs."""
    if config.network is None:
        return [(text, as_computation(text), 1) for text in (LAYERS[:1] if config.smoke else LAYERS)]
    groups = load_network(config.network).distinct_layers()
    found = [(bounds_text(g), g.computation, g.count) for g in groups]
    return found[:1] if config.smoke else found


def compare(name: str, computation: Computation, count: float, preset: str, config: Config) -> dict[str, Any]:
    """One row: perfect, padded and imperfect factors."""
    architecture, objective = load_preset(preset), Objective.parse(config.objective)
    budget = Budget(time_limit_s=config.time_limit)
    row: dict[str, Any] = {"layer": name, "architecture": preset, "count": count}
    plain, ragged = (MappingProblem(computation, architecture, imperfect=flag) for flag in (False, True))
    searches: list[tuple[str, Mapper, MappingProblem]] = [("perfect", ExactMapper(), plain)]
    searches += [("padded", PaddingMapper(ExactMapper()), plain)] if config.padded else []
    for key, mapper, problem in (*searches, ("imperfect", ExactMapper(), ragged)):
        started = time.process_time()
        found = mapper.map(problem, objective, budget=budget, seed=config.seed)
        value = math.inf if found.cost is None else objective.of(found.cost)
        row[key] = {
            "value": value,
            "proof": found.proof.value,
            "gap": found.gap,
            "cycles": math.inf if found.cost is None else found.cost.latency_cycles,
            "energy_pj": math.inf if found.cost is None else found.cost.energy_pj,
            "cpu_seconds": time.process_time() - started,
        }
    row["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return row


def _percent(gap: float | None) -> str:
    """A gap as text."""
    if gap is None:
        return "none"
    return "< 0.01 %" if gap < 1e-4 else f"{100 * gap:.2g} %"


def report(rows: list[dict[str, Any]]) -> str:
    """The table and the means, as Markdown."""
    head = [
        "layer",
        "architecture",
        "perfect",
        "padded / perfect",
        "imperfect / perfect",
        "gap",
        "CPU s",
        "perfect, CPU s",
    ]
    lines = []
    for row in rows:
        base = row["perfect"]["value"]
        gap = row["imperfect"]["gap"]
        ratios = [f"{row[key]['value'] / base:.3f}" if key in row else "" for key in ("padded", "imperfect")]
        seconds = [f"{row[key]['cpu_seconds']:.2f}" for key in ("imperfect", "perfect")]
        shown = "proven" if row["imperfect"]["proof"] == "optimal" else _percent(gap)
        lines.append([row["layer"], row["architecture"], f"{base:.4g}", *ratios, shown, *seconds])
    text = markdown(head, lines)
    for preset in dict.fromkeys(row["architecture"] for row in rows):
        here = [row for row in rows if row["architecture"] == preset]
        gain = statistics.geometric_mean(row["imperfect"]["value"] / row["perfect"]["value"] for row in here)
        found = [row["imperfect"] for row in here]
        proven = sum(f["proof"] == "optimal" for f in found)
        close = sum(f["gap"] is not None and f["gap"] < 0.01 for f in found)
        spent = sorted(f["cpu_seconds"] for f in found)
        text += (
            f"\n{preset}: geometric mean of imperfect / perfect {gain:.3f} over {len(here)} layers, {proven} proven, "
            f"{close} within 1 %; CPU s median {statistics.median(spent):.2f}, worst {spent[-1]:.2f}"
        )
        gains = ", ".join(f"{name} {gain:.3f}" for name, gain in _of_network(here).items())
        text += f"\n{preset}: all layers one after another, imperfect / perfect: {gains}"
    if rows:
        text += f"\npeak memory of the whole run {max(row['peak_mib'] for row in rows):.0f} MiB"
    return text


def _of_network(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Energy, cycles and their product of all layers with imperfect factors, each as often as it occurs, over those with perfect ones."""
    total = {
        key: {what: sum(row["count"] * row[key][what] for row in rows) for what in ("energy_pj", "cycles")}
        for key in ("perfect", "imperfect")
    }
    ratio = {what: total["imperfect"][what] / total["perfect"][what] for what in ("energy_pj", "cycles")}
    return {"energy": ratio["energy_pj"], "latency": ratio["cycles"], "EDP": ratio["energy_pj"] * ratio["cycles"]}


def main(config: Config) -> list[dict[str, Any]]:
    """Run the comparison and write results."""
    warm = as_computation("gemm M=7 N=5 K=3")
    for preset in config.presets:
        compare("warm", warm, 1, preset, config)
    rows = []
    for name, computation, count in layers(config):
        for preset in config.presets:
            rows.append(compare(name, computation, count, preset, config))
            print(report(rows[-1:]).splitlines()[2], flush=True)
    text = report(rows)
    save(config.out, config, {"rows": rows}, text)
    print(text)
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="the first layer only")
    parser.add_argument("--presets", nargs="+", default=default.presets)
    parser.add_argument("--network", help="a zoo model or file instead of the list of layers")
    parser.add_argument("--objective", default=default.objective, choices=["energy", "latency", "edp"])
    parser.add_argument("--padded", action="store_true", help="map padded bounds too")
    parser.add_argument("--time-limit", type=float, default=default.time_limit)
    return Config(**{**vars(parser.parse_args(arguments)), "presets": tuple(parser.parse_args(arguments).presets)})


if __name__ == "__main__":
    main(parse_args())
