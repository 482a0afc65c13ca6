"""The search against the recorded runs of the published SoMa program, and its speed: `python -m experiments.soma_reference`.

Every network, batch and platform recorded in the reference data (the folder that CODESIGN_REFERENCE names, else `tests/data`) is searched
in `reference` mode on one thread in a share of the published program's CPU time, once per seed.
"""

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import llvmlite

from codesign.core.files import read_structured, write_json
from codesign.core.goals import Budget, Objective
from codesign.scheduling.soma.evaluator import Invalid, Parsed, Problem, Schedule, parse
from codesign.scheduling.soma.kernels.score_scheme import DOUBLE_BUFFER, PREFETCH
from codesign.scheduling.soma.model.hardware import hardware_from_constants
from codesign.scheduling.soma.model.layer_graph import LayerGraph
from codesign.scheduling.soma.model.load import load_graph
from codesign.scheduling.soma.model.notation import FusionScheme, encoding_from_json
from codesign.scheduling.soma.model.rules import REFERENCE
from codesign.scheduling.soma.search.dram_search import DramChain, greedy
from codesign.scheduling.soma.search.fusion_search import FusionChain
from codesign.scheduling.soma.search.two_stages import SearchOptions, search, warm_up
from experiments.options import head_parser

# Complete runs of the published program (six allocator passes, one thread) on the edge platform: cycles, mJ, CPU seconds (spec.md, section 9).
COMPLETE = {
    ("resnet50", 1): (1_624_151, 2.823051, 8.4),
    ("resnet50", 4): (2_639_194, 4.707439, 103.5),
    ("gpt2_small_prefill_512", 1): (656_448, 1.399484, 31.7),
    ("gpt2_small_prefill_512", 4): (2_476_224, 3.773532, 156.7),
    ("gpt2_small_decode_513", 1): (500_895, 0.682124, 0.9),
    ("gpt2_small_decode_513", 4): (648_828, 0.902137, 20.0),
}
EDGE_BUFFER = 8 << 20


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        data: Folder of the reference data.
        share: Of the published CPU time.
        floor_seconds: Shortest search.
        single_pass: Measure the share by the CPU time of a single recorded pass, where one is recorded, not by the complete run's.
        seeds: Runs per case.
        only: Part of the case's name; empty: all.
        speed: Measure evaluations per second instead.
        out: Folder of results.
    """

    data: Path = Path(os.environ.get("CODESIGN_REFERENCE", "tests/data")) / "soma"
    share: float = 0.1
    floor_seconds: float = 1.0
    single_pass: bool = False
    seeds: int = 10
    only: str = ""
    speed: bool = False
    out: Path = Path("results/soma_reference")


@dataclass(frozen=True)
class Case:
    """The best recorded outcome for one network, batch and platform.

    Args:
        name: Network, batch and buffer.
        problem: What is searched.
        cycles: Latency of the best recorded seed.
        energy_pj: Energy of it.
        cpu_seconds: Of the published program; None where it is not recorded.
        source: Which file, or the complete run.
    """

    name: str
    problem: Problem
    cycles: int
    energy_pj: float
    cpu_seconds: float | None
    source: str


def _graphs(data: Path) -> dict[int, tuple[str, LayerGraph]]:
    found = {}
    for path in sorted((data / "networks").glob("*.json")):
        found[int(read_structured(path)["config"]["net_id"])] = (path.stem, load_graph(str(path)).graph)
    return found


def recorded_cases(config: Config) -> list[Case]:
    """One case for every network, batch and platform with recorded runs: the seed with the smallest energy x delay."""
    graphs = _graphs(config.data)
    cases: dict[tuple[str, int, int, int], Case] = {}
    passes: dict[tuple[str, int, int, int], list[float]] = {}
    for path in sorted((config.data / "runs").glob("*.json")):
        document = read_structured(path)
        if "stage2" not in document:
            continue
        setting = document["config"]
        stem, graph = graphs[int(setting["net_id"])]
        key = (stem, int(setting["batch"]), int(setting["gbuf_bytes"]), int(setting["dram_bw"]))
        hardware = hardware_from_constants(document["constants"], path.name)
        problem = Problem(graph, key[1], hardware, REFERENCE, key[2])
        spent = [document[s].get(k) for s, k in (("stage1", "cpu_s"), ("stage2", "cpu_s_incl_buffer_opt"))]
        if None not in spent:
            passes.setdefault(key, []).append(sum(spent))
        real = document["stage2"]["real"]
        case = Case(
            f"{stem} B{key[1]} {key[2] >> 20} MiB", problem, real["time_cycles"], real["energy_pJ"], None, path.name
        )
        if key not in cases or case.cycles * case.energy_pj < cases[key].cycles * cases[key].energy_pj:
            cases[key] = case
    return [_with_complete_run(cases[key], key, passes.get(key), config) for key in sorted(cases)]


def _with_complete_run(case: Case, key: tuple[str, int, int, int], passes: list[float] | None, config: Config) -> Case:
    cycles, energy, source, cpu = case.cycles, case.energy_pj, case.source, min(passes) if passes else None
    complete = COMPLETE.get(key[:2]) if key[2] == EDGE_BUFFER else None
    if complete is not None:
        if complete[0] * complete[1] * 1e9 < cycles * energy:
            cycles, energy, source = complete[0], complete[1] * 1e9, "complete run"
        if cpu is None or not config.single_pass:
            cpu = complete[2]
    return Case(case.name, case.problem, cycles, energy, cpu, source)


def run_case(config: Config, case: Case, seed: int) -> dict[str, Any]:
    """One search in the case's time."""
    seconds = max(config.floor_seconds, config.share * (case.cpu_seconds or 0.0))
    found = search(case.problem, Objective(), SearchOptions(Budget(time_limit_s=seconds), seed=seed))
    row: dict[str, Any] = {"case": case.name, "seed": seed, "limit_seconds": seconds}
    if isinstance(found, Invalid):
        return {**row, "status": "infeasible", "reason": found.reason}
    return {
        **row,
        "status": "feasible",
        "latency_cycles": found.schedule.latency_cycles,
        "energy_pj": found.schedule.energy_pj,
        "ratio": found.schedule.edp / (case.cycles * case.energy_pj),
        "gap": found.gap,
        "cpu_seconds": found.cpu_seconds,
    }


def print_case(case: Case, rows: list[dict[str, Any]]) -> None:
    """One line: published, best and worst seed here, ratios, gap to the bound of the tiles."""
    good = sorted((r for r in rows if r["status"] == "feasible"), key=lambda r: r["ratio"])
    if not good:
        print(f"{case.name}: infeasible, {rows[0]['reason']}")
        return
    best, worst = good[0], good[-1]
    cpu = f"{case.cpu_seconds:.1f} s" if case.cpu_seconds is not None else "not recorded"
    print(
        f"{case.name:36} published {case.cycles:>10,} / {case.energy_pj / 1e9:.3f} mJ ({cpu}, {case.source}) | limit {best['limit_seconds']:.1f} s, "
        f"at most {max(r['cpu_seconds'] for r in good):.1f} CPU s | best {best['latency_cycles']:>10,} / {best['energy_pj'] / 1e9:.3f} | "
        f"ratio {best['ratio']:.4f}..{worst['ratio']:.4f} over {len(good)} seeds | gap {100 * min(r['gap'] for r in good):.2f}..{100 * max(r['gap'] for r in good):.2f} %",
        flush=True,
    )


def measure_speed(config: Config) -> list[dict[str, Any]]:
    """Evaluations per CPU second and core on the recorded ResNet-50 batch 1 scheme (72 tiles, 58 DRAM tensors)."""
    path = config.data / "runs" / "resnet50_b1_edge_r100.json"
    document = read_structured(path)
    graph = next(graph for stem, graph in _graphs(config.data).values() if stem == "resnet50")
    problem = Problem(graph, 1, hardware_from_constants(document["constants"], path.name), REFERENCE)
    fusion = encoding_from_json(document["stage1"], graph, path.name).fusion
    parsed = parse(problem, fusion)
    begin = greedy(parsed) if isinstance(parsed, Parsed) else parsed
    if not isinstance(begin, Schedule):
        raise RuntimeError("the recorded scheme must run")
    chains = {"DRAM attributes (stage 2)": DramChain(begin, seed=config.seeds)}
    rows = [_speed(name, chain, 400_000) for name, chain in chains.items()]
    for name, timing in (
        ("fusion attributes, double-buffered (stage 1)", DOUBLE_BUFFER),
        ("with greedy prefetching", PREFETCH),
    ):
        rows.append(_speed(name, _fusion_chain(problem, fusion, timing), 40_000))
    return rows


def _fusion_chain(problem: Problem, fusion: FusionScheme, timing: int) -> FusionChain:
    return FusionChain(problem, fusion, Objective(), seed=1, timing=timing, start_temperature=0.02)


def _speed(name: str, chain: DramChain | FusionChain, rounds: int) -> dict[str, Any]:
    chain.advance(0.0, 0.1, rounds // 10)
    before = chain.result()
    started = time.process_time()
    chain.advance(0.1, 0.8, rounds)
    seconds = time.process_time() - started
    after = chain.result()
    legal = sum(row[1] for row in after.moves.values()) - sum(row[1] for row in before.moves.values())
    return {"what": name, "proposals_per_second": rounds / seconds, "scored_in_full_per_second": legal / seconds}


def main(config: Config) -> list[dict[str, Any]]:
    """Run every case and write results."""
    warm_up()
    rows: list[dict[str, Any]] = []
    if config.speed:
        rows = measure_speed(config)
        for row in rows:
            print(
                f"{row['what']:46} {row['proposals_per_second']:>12,.0f} proposals/s, {row['scored_in_full_per_second']:>12,.0f} scored/s"
            )
    else:
        for case in recorded_cases(config):
            if config.only in case.name:
                mine = [run_case(config, case, seed) for seed in range(config.seeds)]
                print_case(case, mine)
                rows += mine
    versions = {"python": platform.python_version(), "llvmlite": llvmlite.__version__}
    recorded = json.loads(json.dumps(asdict(config), default=str))
    write_json(config.out / "results.json", {"config": recorded, "versions": versions, "rows": rows})
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, smoke="one short case, to see that everything runs")
    parser.add_argument("--data", type=Path, default=default.data, help="folder of the reference data")
    parser.add_argument("--share", type=float, default=default.share)
    parser.add_argument("--floor-seconds", type=float, default=default.floor_seconds)
    parser.add_argument("--single-pass", action="store_true", help="share of one recorded pass, where there is one")
    parser.add_argument("--seeds", type=int, default=default.seeds)
    parser.add_argument("--only", default=default.only, help="part of the case's name")
    parser.add_argument("--speed", action="store_true", help="measure evaluations per second instead")
    given = parser.parse_args(arguments)
    if given.smoke:
        return Config(given.data, 0.0, 0.1, False, 1, "decode_513 B1", False, given.out)
    return Config(
        given.data, given.share, given.floor_seconds, given.single_pass, given.seeds, given.only, given.speed, given.out
    )


if __name__ == "__main__":
    main(parse_args())
