"""Analytical against event-timed latency of the same mappings: rank correlation, lost optima, simulations a second.

    python -m experiments.timing_rank --out runs/timing_rank

For every distinct layer of a network a pool of mappings is drawn: what annealing for latency finds from several seeds, those with two
neighbouring loops exchanged, and the best of a few random ones each. All are scored by both models. `lost` says how much longer the mapping
that the analytical model ranks first takes, by simulation, than the best mapping known. That is the best of the pool, of what `map --timing event`
chooses with annealing, and of a search with another seed and longer lists. `waits_lost` says the same of the mapping that comes first by the
analytical cycles with waits (rules E12 and E13), `waits_found_lost` of what `map --timing event --timing-table waits` finds. `chosen_lost` says the same of the choice, and `chosen_gap` how far
it is at most from the optimum where `--proof` lets the exact mapper prove what no mapping beats. Times are CPU seconds of one core.
With `--out` it also writes the two tables of the results page, `validation-ranks.csv` and `validation-waits.csv`.
"""

import csv
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.files import write_json
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import encode_problem
from codesign.cost.cost import Cost, evaluate
from codesign.cost.kernel import score
from codesign.cost.packed import make_kernel
from codesign.evaluation.timed import EventMapper, exchanges
from codesign.mappers.annealing import AnnealingMapper
from codesign.mappers.exact.mapper import ExactMapper
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import encode_nest
from codesign.timing.derive import derive
from codesign.timing.engine import run
from codesign.timing.simulate import OPERATION_LIMIT, Run, simulate
from codesign.timing.table import Overlap, encode_timing, timing_for
from codesign.workloads.computation import Computation
from codesign.workloads.load import load_network
from codesign.workloads.workload import Workload
from experiments.models.waits import latency_with_waits
from experiments.options import head_parser
from experiments.validation.common import spearman

_Columns = dict[str, Callable[[dict[str, Any]], str]]
_EXCHANGES, _NO_EVENTS = 8, np.zeros((0, 4))


@dataclass(frozen=True)
class Config:
    """What is compared.

    Args:
        network: Its distinct layers.
        architectures: Presets.
        seeds: Annealing runs a layer.
        moves: Mappings scored in each.
        random: Random mappings a layer, each the best of `tries`.
        tries: See above.
        walks: Annealing runs by simulated cycles at most.
        evaluations: Mappings scored by each of the two searches that a choice consists of; None: their own.
        speed_seconds: CPU seconds for which each architecture's simulations are counted.
        seed: Of every random choice.
        proof: Whether the exact mapper proves what no mapping of a layer beats.
    """

    network: str = "resnet50"
    architectures: tuple[str, ...] = ("eyeriss", "simba", "gemmini")
    seeds: int = 3
    moves: int = 2000
    random: int = 16
    tries: int = 20
    walks: int = 48
    evaluations: int | None = None
    speed_seconds: float = 2.0
    seed: int = 0
    proof: bool = False


def pool(problem: MappingProblem, config: Config) -> list[Mapping]:
    """Different mappings of one layer, good and poor ones."""
    found: list[Mapping | None] = []
    for i in range(config.seeds):
        budget = Budget(evaluations=config.moves)
        best = AnnealingMapper().map(problem, Objective.LATENCY, budget=budget, seed=config.seed + i).mapping
        found += [best, *(() if best is None else islice(exchanges(best), _EXCHANGES))]
    for i in range(config.random):
        budget = Budget(evaluations=config.tries)
        found.append(RandomMapper().map(problem, Objective.LATENCY, budget=budget, seed=config.seed + i).mapping)
    return list(dict.fromkeys(m for m in found if m is not None))


def compare_layer(computation: Computation, architecture: Architecture, config: Config) -> dict[str, Any]:
    """Both latencies of a pool of mappings: how they correlate, and what the analytical optimum loses."""
    timing = timing_for(architecture)
    analytic, waits, events, bounds, kept = [], [], [], [], []
    for mapping in pool(MappingProblem(computation, architecture), config):
        cost, timed = (
            evaluate(computation, architecture, mapping),
            simulate(computation, architecture, mapping, timing),
        )
        if isinstance(cost, Cost) and isinstance(timed, Run) and timed.complete:
            analytic.append((cost.latency_cycles, cost.energy_pj))
            least = latency_with_waits(computation, architecture, mapping, timing)
            assert isinstance(least, int)
            waits.append((least, cost.energy_pj))
            events.append(timed.latency_cycles)
            bounds.append((timed.bound_by, timed.waits_for))
            kept.append(mapping)
    first = min(range(len(kept)), key=lambda i: analytic[i])
    second = min(range(len(kept)), key=lambda i: waits[i])
    best = min(range(len(kept)), key=lambda i: (events[i], analytic[i]))
    problem, budget = MappingProblem(computation, architecture), Budget(evaluations=config.evaluations)
    started = time.process_time()
    chosen = chosen_cycles(problem, EventMapper(AnnealingMapper(), timing, walks=config.walks), budget, config.seed)
    seconds = time.process_time() - started
    other = EventMapper(AnnealingMapper(), timing, candidates=32, walks=2 * config.walks)
    known = min(events[best], chosen, chosen_cycles(problem, other, budget, config.seed + 100))
    started = time.process_time()
    waiting = EventMapper(AnnealingMapper(), replace(timing, overlap=Overlap.WAITS), walks=config.walks)
    by_waits = chosen_cycles(problem, waiting, budget, config.seed)
    waits_seconds = time.process_time() - started
    return {
        "layer": computation.name or str(computation),
        "mappings": len(kept),
        "spearman": spearman([a[0] for a in analytic], events) if len(kept) > 2 else None,
        "analytical_optimum": {"analytic_cycles": analytic[first][0], "event_cycles": events[first]},
        "event_optimum": {"analytic_cycles": analytic[best][0], "event_cycles": events[best]},
        "lost": events[first] / known - 1.0,
        "lost_in_pool": events[first] / events[best] - 1.0,
        "spearman_waits": spearman([w[0] for w in waits], events) if len(kept) > 2 else None,
        "waits_over_event": [w[0] / e for w, e in zip(waits, events, strict=True)],
        "waits_lost_in_pool": events[second] / events[best] - 1.0,
        "waits_lost": events[second] / known - 1.0,
        "waits_found_lost": by_waits / min(known, by_waits) - 1.0,
        "waits_found_seconds": waits_seconds,
        "chosen_cycles": chosen,
        "chosen_lost": chosen / known - 1.0,
        "chosen_seconds": seconds,
        "chosen_gap": proven_gap(problem, chosen) if config.proof else None,
        "bound_by": bounds[first][0],
        "waits_for": bounds[first][1],
        "mapping": kept[first],
    }


def chosen_cycles(problem: MappingProblem, mapper: EventMapper, budget: Budget, seed: int) -> int:
    """Simulated cycles of the mapping that a search by simulated cycles chooses."""
    found = mapper.map(problem, Objective.LATENCY, budget=budget, seed=seed).mapping
    assert found is not None
    run = simulate(problem.computation, problem.architecture, found)
    assert isinstance(run, Run)
    return run.latency_cycles


def proven_gap(problem: MappingProblem, cycles: int) -> float | None:
    """How far cycles are above the least analytical ones of any mapping; None where they are not proven."""
    found = ExactMapper().map(problem, Objective.LATENCY, budget=Budget(), seed=0)
    return cycles / found.cost.latency_cycles - 1.0 if found.cost is not None and found.proof is Proof.OPTIMAL else None


def simulations_per_second(
    pairs: list[tuple[Computation, Mapping]], architecture: Architecture, seconds: float
) -> float:
    """Layers scored, their plans derived and run, in a CPU second."""
    machine = encode_timing(timing_for(architecture), architecture)
    ready = []
    for computation, mapping in pairs:
        nest = encode_nest(computation, architecture, mapping)
        count = nest.loops.shape[0]
        kernel = make_kernel(encode_problem(computation, architecture), count)
        ready.append((kernel, nest, count))
    done, started = 0, time.process_time()
    while time.process_time() - started < seconds:
        for kernel, nest, count in ready:
            score(kernel, nest, count)
            plan, _ = derive(kernel, nest, count, machine)
            run(plan, True, OPERATION_LIMIT, _NO_EVENTS)
        done += len(ready)
    return done / (time.process_time() - started)


def _lost(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
    """Mean and worst of a loss over the layers."""
    lost = [row[key] for row in rows]
    return {f"{key}_mean": float(np.mean(lost)), f"{key}_worst": float(max(lost))}


def compare_architecture(name: str, config: Config) -> dict[str, Any]:
    """All layers of the network on one preset."""
    architecture = load_preset(name)
    network = load_network(config.network, bits=architecture.mac.bits)
    layers = [group.computation for group in Workload.of([network]).distinct_layers()]
    rows = [compare_layer(computation, architecture, config) for computation in layers]
    pairs = [(computation, row.pop("mapping")) for computation, row in zip(layers, rows, strict=True)]
    lost = np.array([row["lost"] for row in rows])
    found = [row["spearman"] for row in rows if row["spearman"] is not None]
    gaps = [row["chosen_gap"] for row in rows if row["chosen_gap"] is not None]
    everything = [row["analytical_optimum"] for row in rows]
    shares = np.concatenate([row.pop("waits_over_event") for row in rows])
    more = np.array([e["event_cycles"] / e["analytic_cycles"] - 1 for e in everything])
    return {
        "architecture": name,
        "layers": len(rows),
        "mappings": sum(row["mappings"] for row in rows),
        "spearman_median": float(np.median(found)),
        "spearman_least": float(min(found)),
        "event_over_analytic_median": float(np.median(more)),
        "event_over_analytic_worst": float(more.max()),
        "spearman_waits_median": float(np.median([row["spearman_waits"] or 1.0 for row in rows])),
        "spearman_waits_least": float(min(row["spearman_waits"] or 1.0 for row in rows)),
        "waits_over_event_median": float(np.median(shares)),
        "waits_over_event_largest": float(shares.max()),
        **_lost(rows, "waits_lost_in_pool"),
        **_lost(rows, "waits_lost"),
        **_lost(rows, "waits_found_lost"),
        "waits_below_3_percent": int(sum(row["waits_lost_in_pool"] <= 0.03 for row in rows)),
        "waits_found_seconds": float(sum(row["waits_found_seconds"] for row in rows)),
        "optima_lost": int((lost > 0).sum()),
        "lost_mean": float(lost.mean()),
        "lost_worst": float(lost.max()),
        "lost_in_pool_mean": float(np.mean([row["lost_in_pool"] for row in rows])),
        "lost_in_pool_worst": float(max(row["lost_in_pool"] for row in rows)),
        "chosen_lost_mean": float(np.mean([row["chosen_lost"] for row in rows])),
        "chosen_lost_worst": float(max(row["chosen_lost"] for row in rows)),
        "chosen_seconds": float(sum(row["chosen_seconds"] for row in rows)),
        "chosen_gap_mean": float(np.mean(gaps)) if gaps else None,
        "chosen_gap_worst": max(gaps, default=None),
        "simulations_per_cpu_second": simulations_per_second(pairs, architecture, config.speed_seconds),
        "rows": rows,
    }


def write_tables(found: list[dict[str, Any]], folder: Path) -> None:
    """The tables of the results page."""

    def both(item: dict[str, Any], first: str, second: str, form: str) -> str:
        return f"{item[first]:{form}}, {item[second]:{form}}".replace("%", " %")

    def lost(item: dict[str, Any], key: str) -> str:
        return both(item, f"{key}_mean", f"{key}_worst", ".1%")

    ranks: _Columns = {
        "architecture": lambda item: str(item["architecture"]),
        "rank correlation, median and least layer": lambda item: both(item, "spearman_median", "spearman_least", ".3f"),
        "event over analytical cycles, median and worst": lambda item: ", ".join(
            f"{1 + item[f'event_over_analytic_{key}']:.2f}" for key in ("median", "worst")
        ),
        "analytical optimum lost in its pool, mean and worst": lambda item: lost(item, "lost_in_pool"),
        "lost against the best known, mean and worst": lambda item: lost(item, "lost"),
        "`map --timing event` lost, mean and worst": lambda item: lost(item, "chosen_lost"),
        "CPU s of its searches": lambda item: f"{item['chosen_seconds']:.0f}",
    }
    waits: _Columns = {
        "architecture": lambda item: str(item["architecture"]),
        "rank correlation, median and least layer": lambda item: both(
            item, "spearman_waits_median", "spearman_waits_least", ".3f"
        ),
        "cycles with waits over event cycles, median": lambda item: f"{item['waits_over_event_median']:.2f}",
        "its optimum lost in its pool, mean and worst": lambda item: lost(item, "waits_lost_in_pool"),
        "layers up to 3 %": lambda item: f"{item['waits_below_3_percent']} of {item['layers']}",
        "`--timing-table waits` lost, mean and worst": lambda item: lost(item, "waits_found_lost"),
        "CPU s of its searches": lambda item: f"{item['waits_found_seconds']:.0f}",
    }
    for name, columns in (("validation-ranks", ranks), ("validation-waits", waits)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([value(item) for value in columns.values()] for item in found)


def main(arguments: list[str] | None = None) -> int:
    """Compare and print a table and one line of JSON; 2 for a user's mistake."""
    parser = head_parser(
        __doc__, out=None, seed=0, smoke="a run of seconds", about_out="write all rows as JSON to this folder"
    )
    parser.add_argument("--network", default=Config.network)
    parser.add_argument("--arch", nargs="+", default=list(Config.architectures), help="presets")
    parser.add_argument("--proof", action="store_true", help="prove what no mapping beats (minutes on eyeriss)")
    given = parser.parse_args(arguments)
    config = Config(given.network, tuple(given.arch), seed=given.seed, proof=given.proof)
    if given.smoke:
        config = Config(given.network, tuple(given.arch[:1]), 1, 100, 4, 3, 2, 200, 0.05, given.seed)
    try:
        found = [compare_architecture(name, config) for name in config.architectures]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for item in found:
        for row in sorted(item["rows"], key=lambda r: -r["lost"])[:5]:
            print(
                f"{item['architecture']:10} {row['layer'][:40]:40} lost {row['lost']:7.2%}  {row['bound_by']} waits for {row['waits_for']}"
            )
    if given.out is not None:
        write_json(given.out / "timing_rank.json", {"config": asdict(config), "architectures": found})
        write_tables(found, given.out)
    short = [{k: v for k, v in item.items() if k != "rows"} for item in found]
    print(json.dumps({"experiment": "timing_rank", "network": config.network, "architectures": short}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
