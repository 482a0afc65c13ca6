"""Benchmarks of the hot paths, reported as medians over repeats: `python -m experiments.bench`.

Prints a table and writes JSON with the machine described. Not part of the tests: figures depend on the machine.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.core.goals import Budget, Objective
from codesign.core.jit import njit
from codesign.core.rng import RandomState, make_state
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, Kernel, make_kernel
from codesign.evaluation.network import EvaluationOptions, WorkloadResult, evaluate_workload
from codesign.formats.load import load_inputs
from codesign.mappers.registry import MAPPERS, create
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.mapping.nest import IntArray, Nest
from codesign.mapping.space import (
    MapSpace,
    MapState,
    build_nest,
    draw_state,
    empty_nest,
    factor_table,
    make_space,
    outermost_state,
)
from codesign.workloads.load import load_network
from experiments.models.batch import score_batch, stack_nests
from experiments.options import head_parser
from spaces.scratchpad import SCRATCHPAD

DATA = Path(__file__).parent.parent / "tests" / "data" / "timeloop" / "inputs"


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        out: Where the JSON goes.
        smoke: Small repeats, to see that everything runs.
        seed: Of the mappings drawn.
    """

    out: Path
    smoke: bool
    seed: int


@njit
def _draw_valid(
    kernel: Kernel, space: MapSpace, state: MapState, table: IntArray, nest: Nest, random: RandomState, wanted: int
) -> tuple[int, int]:
    """Draw until `wanted` valid mappings are scored; returns (valid, drawn)."""
    valid = drawn = 0
    while valid < wanted:
        draw_state(space, state, random)
        count = build_nest(space, state, table, nest)
        status, _, _ = score(kernel, nest, count)
        drawn += 1
        if status == VALID:
            valid += 1
    return valid, drawn


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    """Median CPU seconds of one call, after one call that is not counted."""
    run()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return statistics.median(times)


def reference_problem(case: str) -> MappingProblem:
    """The problem of a reference case; levels keep what its mapping keeps."""
    folder = DATA / case
    inputs = load_inputs([str(folder / f"{name}.yaml") for name in ("arch", "problem", "mapping", "ert")])
    assert inputs.architecture is not None and inputs.computation is not None and inputs.mapping is not None
    tensors = frozenset(t.name for t in inputs.computation.tensors)
    levels = []
    for level in inputs.architecture.levels:
        kept = frozenset(n.tensor for n in inputs.mapping.storage if n.level == level.name)
        levels.append(LevelConstraints(level.name, keep=kept, bypass=tensors - kept))
    return MappingProblem(inputs.computation, inputs.architecture, Constraints(tuple(levels)))


def bench_kernel(case: str, config: Config) -> dict[str, float]:
    """Valid mappings scored per second on one core: scoring alone, and with drawing and rejection counted."""
    problem = reference_problem(case)
    kernel_problem = encode_problem(problem.computation, problem.architecture, Reuse.TIMELOOP)
    space = make_space(problem)
    nest, table, state = empty_nest(space), factor_table(space), outermost_state(space)
    kernel = make_kernel(kernel_problem, nest.loops.shape[0])
    random = make_state(config.seed)
    kept: list[tuple[Nest, int]] = []
    wanted = 50 if config.smoke else 1000
    while len(kept) < wanted:
        draw_state(space, state, random)
        count = build_nest(space, state, table, nest)
        if score(kernel, nest, count)[0] == VALID:
            kept.append((Nest(nest.loops.copy(), nest.position.copy()), count))
    nests, counts = stack_nests(kept)
    copies = 1 if config.smoke else 200
    repeated = Nest(np.repeat(nests.loops, copies, axis=0), np.repeat(nests.position, copies, axis=0))
    repeated_counts = np.repeat(counts, copies)
    repeats = 3 if config.smoke else 7
    scoring = median_seconds(lambda: score_batch(kernel_problem, repeated, repeated_counts, threads=1), repeats)
    drawing = median_seconds(lambda: _draw_valid(kernel, space, state, table, nest, random, wanted), repeats)
    started = time.process_time()
    valid, drawn = _draw_valid(kernel, space, state, table, nest, random, wanted)
    spent = time.process_time() - started
    return {
        "valid_scored_per_s": len(repeated_counts) / scoring,
        "valid_per_s_with_drawing_and_rejection": wanted / drawing,
        "draws_per_s": drawn / spent,
        "valid_share": valid / drawn,
    }


def bench_annealing(case: str, config: Config) -> dict[str, float]:
    """Moves of the annealing mapper per second, drawing, building and scoring counted."""
    problem = reference_problem(case)
    budget = Budget(evaluations=2_000 if config.smoke else 60_000)
    mapper = create("anneal")
    seconds = median_seconds(lambda: mapper.map(problem, Objective.EDP, budget=budget, seed=config.seed), 3)
    assert budget.evaluations is not None
    return {"moves_per_s": budget.evaluations / seconds}


def bench_resnet50(config: Config) -> dict[str, float]:
    """ResNet-50 on one design, every distinct layer mapped, by mapper, in CPU seconds of one core."""
    network = load_network("resnet50", partial_bits=SCRATCHPAD.partial_bits)
    architecture: Architecture = SCRATCHPAD.build(SCRATCHPAD.space.presets[0])
    found = {}
    for name in ("anneal", "exact"):
        if name not in MAPPERS:
            continue
        options = EvaluationOptions(budget=Budget(evaluations=200) if config.smoke else Budget())

        def run(mapper: str = name, options: EvaluationOptions = options) -> None:
            result = evaluate_workload(network, architecture, create(mapper), options)
            assert isinstance(result, WorkloadResult)

        found[f"resnet50_{name}_cpu_s"] = median_seconds(run, 3)
    return found


def bench_start(config: Config) -> dict[str, float]:
    """Wall-clock seconds of `import codesign` and of `codesign --help`, interpreter included."""
    found = {}
    commands = {
        "import_codesign_s": ["-c", "import codesign"],
        "codesign_help_s": ["-m", "codesign.cli.app", "--help"],
    }
    for name, arguments in commands.items():
        times = []
        for _ in range(3 if config.smoke else 9):
            started = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            times.append(time.perf_counter() - started)
        found[name] = statistics.median(times)
    return found


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].partition(":")[2].strip() if lines else ""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return {"processor": model, "cores": os.cpu_count(), "load": load, "python": platform.python_version()}


def main() -> None:
    """Run all benchmarks."""
    parser = head_parser(__doc__, out=Path("runs/bench.json"), seed=0, smoke="a small run")
    config = Config(**vars(parser.parse_args()))
    results: dict[str, Any] = {"machine": machine()}
    for case in ("simba_res2_3x3_CK", "eyeriss_res2_3x3_RS"):
        results[f"kernel {case}"] = bench_kernel(case, config)
    results["annealing simba_res2_3x3_CK"] = bench_annealing("simba_res2_3x3_CK", config)
    results["network"] = bench_resnet50(config)
    results["start"] = bench_start(config)
    results["machine"]["load_after"] = machine()["load"]
    for title, figures in results.items():
        print(title)
        for name, value in figures.items():
            print(f"  {name:42s} {value:,.4g}" if isinstance(value, float) else f"  {name:42s} {value}")
    config.out.parent.mkdir(parents=True, exist_ok=True)
    config.out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {config.out}")


if __name__ == "__main__":
    main()
