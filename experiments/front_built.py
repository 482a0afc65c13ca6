"""The front, built: `python -m experiments.front_built --study runs/demo`.

Takes the designs that a study's report recommends, and cores of HASCO's Tables II and III (the largest of each kind, both baselines, a convolution core as large as the edge's). Of each it generates the hardware,
simulates whole layers at full size, and runs the digits network of `experiments.train_digits` end to end through DRAM images. Every
result is compared: layers with `einsum`, the network with ONNX Runtime. Arrays of more elements than `--elements` are named and left out.
The last line is one JSON object.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from codesign.cli.study_location import open_study
from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.core.goals import Budget, Objective
from codesign.evaluation.replay import recorded_space
from codesign.hardware.execute import Job, Verdict, execute, nest_job, random_values
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.network import run_network
from codesign.hardware.parameters import Parameters
from codesign.hardware.verilator import VerilatedMachine
from codesign.library.build_jobs import make_job
from codesign.library.building import BuildOptions, Request
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.report.recommend import recommendations
from codesign.workloads.computation import Computation
from experiments.options import head_parser
from experiments.train_digits import DATA, digits

SMALL, LARGE = "conv N=1 K=16 C=8 P=8 Q=8 R=3 S=3", "conv N=1 K=64 C=64 P=8 Q=8 R=3 S=3"
HASCO = (
    ("Table III edge baseline", "gemmcore", "pe=8,dataflow=output-stationary,banks=4,scratchpad_kib=256", SMALL),
    ("Table III edge, convolution core", "convcore", "pe_rows=8,pe_cols=8,banks=4,scratchpad_kib=256", SMALL),
    ("Table II, largest GEMM core", "gemmcore", "pe=32,scratchpad_kib=512,banks=8", LARGE),
    ("Table II, largest convolution core", "convcore", "pe_rows=32,pe_cols=32,scratchpad_kib=512,banks=8", LARGE),
    ("Table III cloud baseline", "experiments.hasco_table3:CLOUD_BASELINE", "pe=64", LARGE),
)


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        study: Folder of the study.
        elements: Largest array that is simulated.
        layers: Layers of each design at full size: the cheapest by the study's latencies.
        pictures: Digits.
        optimise: Compile simulations for speed, for arrays of up to so many elements.
        seed: Of operands and searches.
    """

    study: str
    elements: int
    layers: int
    pictures: int
    optimise: int
    seed: int


def main() -> None:
    """Parse, build, print."""
    parser = head_parser(__doc__, out=None, seed=0)
    parser.add_argument("--study", help="a study of the scratchpad space; without it only HASCO's cores and the preset")
    parser.add_argument("--elements", type=int, default=64, help="largest array that is simulated")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--pictures", type=int, default=2)
    parser.add_argument("--optimise", type=int, default=64, help="compile for speed up to so many elements")
    given = parser.parse_args()
    config = Config(given.study or "", given.elements, given.layers, given.pictures, given.optimise, given.seed)
    rows: list[dict[str, Any]] = []
    tasks: list[Callable[[], dict[str, Any]]] = designs(config)
    tasks += [partial(hasco, case, config) for case in HASCO]
    for make in tasks:
        rows.append(make())
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            write_atomic(given.out / "results.json", json.dumps(rows, indent=1))
    built = [r for r in rows if "left_out" not in r]
    print(
        json.dumps(
            {
                "designs": len(rows),
                "built": len(built),
                "layers": sum(len(r["layers"]) for r in built),
                "bit_equal": all(x["bit_equal"] for r in built for x in r["layers"]),
                "network_equal": all(r.get("network_equal", True) for r in built),
                "cycles_worst_error": max((abs(x["cycles_error"]) for r in built for x in r["layers"]), default=0.0),
            }
        )
    )


def designs(config: Config) -> list[Callable[[], dict[str, Any]]]:
    """One task for each recommended design of the study."""
    if not config.study:
        return []
    study = open_study(config.study)
    space = recorded_space(study.config, None)
    tasks: list[Callable[[], dict[str, Any]]] = []
    for found in recommendations(study):
        name = f"trial {found.trial.number} ({', '.join(found.roles)})"
        point = dict(found.trial.point)
        shape = (int(point["pe_rows"]), int(point["pe_cols"]))
        if shape[0] * shape[1] > config.elements:
            reason = f"{shape[0]} x {shape[1]} elements, more than --elements {config.elements}"
            tasks.append(partial(_left_out, name, reason))
            continue
        layers = sorted(study.detail(found.trial.number)["layers"], key=lambda x: float(x["latency_cycles"]))
        chosen = [str(x["name"]) for x in layers if int(x["macs"]) > 1_000_000][: config.layers]
        tasks.append(partial(design, name, found.trial.number, point, space.build(point), chosen, config))
    return tasks


def _left_out(name: str, reason: str) -> dict[str, Any]:
    return {"design": name, "left_out": reason}


class Runner:
    """Runs jobs of one design; a machine is built once."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.machines: dict[Parameters, VerilatedMachine] = {}
        self.build_seconds = 0.0

    def machine(self, p: Parameters) -> VerilatedMachine:
        """The simulation of a machine."""
        p = replace(p, name="accelerator")
        if p not in self.machines:
            started = time.process_time()
            self.machines[p] = VerilatedMachine(p, quick=p.pes > self.config.optimise)
            self.build_seconds += time.process_time() - started
        return self.machines[p]

    def run(self, job: Job, values: dict[str, Any] | None = None) -> Verdict:
        """A job on its machine."""
        rng = np.random.default_rng(self.config.seed)
        return execute(job, values or random_values(job.computation, rng), self.machine(job.image.parameters).run)


def told(name: str, job: Job, verdict: Verdict) -> dict[str, Any]:
    """A layer's row."""
    return {
        "layer": name,
        "macs": job.computation.macs,
        "bit_equal": verdict.wrong is None,
        "accesses_equal": not verdict.differences,
        "cycles": verdict.run.cycles,
        "cycles_error": verdict.cycles_error,
        "analytic_cycles": job.analytic_cycles,
        "cycles_per_second": round(verdict.run.cycles / max(verdict.run.seconds, 1e-9)),
    }


def design(name: str, number: int, point: dict[str, Any], architecture: Any, layers: list[str], config: Config) -> dict[str, Any]:  # fmt: skip
    """One design of the study: layers at full size, then the network."""
    runner, rows = Runner(config), []
    for layer in layers:
        options = BuildOptions(number, layer, remap=True, seed=config.seed)
        job, _ = make_job(Request((config.study,), options))
        rows.append(told(layer, job, runner.run(job)))
    bus = int(point["bus_bits"]) // 8
    digits_rows: list[dict[str, Any]] = []

    def convolve(layer: str, computation: Computation, values: dict[str, Any]) -> Any:
        budget, problem = Budget(evaluations=500), MappingProblem(computation, architecture)
        found = create("anneal").map(problem, Objective.EDP, budget=budget, seed=config.seed)
        assert found.mapping is not None
        p = parameters_of(architecture, computation, bus, bus * int(point["burst_beats"]), "accelerator")
        registers = runner.machine(p).netlist
        assert registers is not None
        job = nest_job(computation, architecture, found.mapping, p, registers.registers)
        verdict = runner.run(job, values)
        digits_rows.append(told(f"digits {layer}", job, verdict))
        return verdict.output

    equal, told_digits = network(convolve, config)
    return {"design": name, "point": point, "build_seconds": round(runner.build_seconds, 1), "layers": rows + digits_rows,
            "network_equal": equal, "digits": told_digits}  # fmt: skip


def network(convolve: Callable[..., Any], config: Config) -> tuple[bool, list[int]]:
    """Whether pictures give ONNX Runtime's integers, and the digits told."""
    import onnxruntime

    path = DATA / "digits_int8.onnx"
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    pictures, _ = digits()
    equal, found = True, []
    for i in range(1500, 1500 + config.pictures):
        mine = run_network(path, pictures[i : i + 1], convolve)
        theirs = np.asarray(session.run(None, {"picture": pictures[i : i + 1]})[0])
        equal = equal and bool((mine == theirs).all())
        found.append(int(mine.argmax()))
    return equal, found


def hasco(case: tuple[str, str, str, str], config: Config) -> dict[str, Any]:
    """A core of HASCO with a convolution."""
    name, space, changes, layer = case
    runner = Runner(config)
    job, _ = make_job(Request((), BuildOptions(space=space, design=changes, layer=layer, seed=config.seed)))
    if job.image.parameters.pes > config.elements:
        return _left_out(
            f"HASCO {name}", f"{job.image.parameters.pes} elements, more than --elements {config.elements}"
        )
    row = told(layer, job, runner.run(job))
    return {"design": f"HASCO {name}", "point": f"{space} {changes}", "build_seconds": round(runner.build_seconds, 1), "layers": [row]}  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
