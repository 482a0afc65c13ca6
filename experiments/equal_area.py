"""ResNet-50, whole, on the best design of equal area beside Gemmini: `python -m experiments.equal_area --data FOLDER [--simulate]`.

FOLDER holds `firesim_test.json` (see `experiments.gemmini_contest`). Three of its hardware points ran all 24 layers of ResNet-50. The area of the machine that
is like one of them (16 x 16 elements with 4 weights each, its scratchpad and its accumulator in one, 8 banks), by areas fitted to netlists, is what designs may
take. The bus, the bursts and the memory are those of the contest.

Designs are judged by generated cycles in the order of their bounds (K7), until no bound is below the best design's cycles or `--seconds` are used; the gap to the
least bound of those not judged is printed. `--design` names the design instead. `--simulate` builds it and runs the network's integers on Verilator's model with the
host's program; results then have 32 bits in DRAM, as the host scales them. The last line is one JSON object.
"""

import json
import os
import sys
import time
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from codesign.arch.architecture import Architecture
from codesign.bounds.design import DesignBounds
from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.core.goals import Objective
from codesign.core.point import Point, PointValue
from codesign.evaluation.design import DesignEvaluator
from codesign.evaluation.generated import WithMachinePorts
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.timed import EventEvaluator
from codesign.hardware.analytical import side_of_table
from codesign.hardware.execute import Job, nest_job
from codesign.hardware.host_program import HostProgram, HostRun, program_of_network, run_host, write_host
from codesign.hardware.host_steps import Convolution, convolve_exactly
from codesign.hardware.network import read_network
from codesign.hardware.timed import machine_of
from codesign.hardware.verilog import generate
from codesign.library.build_network import by_onnx_runtime
from codesign.library.changes import changes
from codesign.mappers.exact import ExactMapper
from codesign.mapping.mapping import Mapping
from codesign.timing.table import load_timing
from codesign.workloads.computation import Computation
from codesign.workloads.load import load_network
from codesign.workloads.network import Network
from codesign.workloads.workload import Workload
from experiments.gemmini_contest import DESIGN, LOCAL_BYTES, Recorded, map_layer, read_rows
from experiments.mappers_common import csv_of
from experiments.options import head_parser
from experiments.zoo_integers import Config as Integers
from experiments.zoo_integers import integers_of
from spaces.design import DesignSpace
from spaces.parameters import Categorical, Ordinal, PowerOfTwo
from spaces.scratchpad import DATAFLOWS, ScratchpadBuilder
from spaces.space import Space

NETWORK = "resnet50"
TABLE = Path(__file__).parent / "tables" / "gemmini_memory.yaml"
TECHNOLOGY = "netlist-fitted-22nm"
SUM_BITS = 32

SIDES = [4, 7, 8, 14, 16, 28, 32, 56, 64]
"""Rows and columns of arrays: powers of two, and divisors of ResNet-50's pictures."""

SPACE = DesignSpace(
    name="equal-area",
    space=Space(
        [
            Ordinal("pe_rows", SIDES),
            Ordinal("pe_cols", SIDES),
            Categorical("links", ["none", "systolic", "multicast"]),
            PowerOfTwo("scratchpad_kib", 32, 512),
            Ordinal("local_bytes", [4, 16, 64, 256]),
            PowerOfTwo("banks", 1, 16),
            Ordinal("burst_beats", [16]),
            Ordinal("bus_bits", [128]),
            Categorical("dataflow", [name for name in DATAFLOWS if name != "row-stationary"]),
        ]
    ),
    builder=ScratchpadBuilder(TECHNOLOGY),
    partial_bits=SUM_BITS,
)
"""Designs with the contest's bus and bursts, sums of 32 bits, and one tensor in local memories."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        data: Folder of `firesim_test.json`.
        accumulator_bytes, scratchpad_bytes: Which hardware of the data is compared with.
        design: Parameters of the design as `a=1,b=2`; None to search it.
        seconds: CPU seconds of the search.
        candidates: Mappings of a layer judged by generated cycles.
        simulate: Build the design and run the network.
        seed: Of weights and picture.
        out: Folder of the table, the network and the build.
    """

    data: Path
    accumulator_bytes: int
    scratchpad_bytes: int
    design: str | None
    seconds: float
    candidates: int
    simulate: bool
    seed: int
    out: Path


@dataclass(frozen=True)
class Searched:
    """The best design that was found.

    Args:
        point: Its parameters.
        judged: Designs judged.
        fitting: Designs within the area.
        gap: By how much a design that was not judged can be better, as a share of its cycles.
    """

    point: Point
    judged: int
    fitting: int
    gap: float


def rows_of(config: Config) -> list[Recorded]:
    """The recorded layers of one hardware point, each once, with the best of its given mappings.

    Raises:
        UserError: The hardware is not among the data.
    """
    found: dict[str, Recorded] = {}
    for row in read_rows(config.data):
        if (row.accumulator_bytes, row.scratchpad_bytes) == (config.accumulator_bytes, config.scratchpad_bytes):
            known = found.get(row.key[0])
            found[row.key[0]] = row if known is None or row.given_cycles < known.given_cycles else known
    if not found:
        raise UserError(f"no rows with {config.accumulator_bytes} and {config.scratchpad_bytes} bytes")
    return list(found.values())


def area_beside(config: Config) -> float:
    """Square millimetres of the machine that is like Gemmini."""
    kib = (config.accumulator_bytes + config.scratchpad_bytes) // 1024
    point = {**DESIGN, "scratchpad_kib": kib, "local_bytes": int(LOCAL_BYTES)}
    area_mm2 = ScratchpadBuilder(TECHNOLOGY)(point).area_mm2
    assert area_mm2 is not None
    return area_mm2


def search(network: Network, limit_mm2: float, config: Config) -> Searched:
    """The fastest design within an area, in generated cycles, and how far those not judged can be below it."""
    timing, space = load_timing(str(TABLE)), WithMachinePorts(SPACE, load_timing(str(TABLE)))
    bounds = DesignBounds(space, network, run_cycles=side_of_table(timing).ramp_cycles)
    rows = SPACE.space.enumerate()
    table = bounds.table(rows)
    fitting = np.flatnonzero(table.area_mm2 <= limit_mm2)
    order = fitting[np.lexsort((-table.area_mm2[fitting], table.latency_s[fitting]))]
    inner = DesignEvaluator(
        space, Workload.of([network]), ExactMapper(), EvaluationOptions(objective=Objective.LATENCY)
    )
    evaluator, started = EventEvaluator(inner, str(TABLE), config.candidates), time.process_time()
    best, least, judged = dict[str, PointValue](), np.inf, 0
    for at in order:
        if table.latency_s[at] >= least or time.process_time() - started > config.seconds:
            break
        point = SPACE.space.to_points(rows[at : at + 1])[0]
        try:
            metrics = evaluator(point).metrics
        except UserError:  # the machine runs none of a layer's mappings
            metrics = None
        judged += 1
        if metrics is not None and metrics.latency_s < least:
            best, least = point, metrics.latency_s
        print(f"  {judged}: bound {1e3 * table.latency_s[at]:.3f} ms, {'-' if metrics is None else f'{1e3 * metrics.latency_s:.3f} ms'}, {dict(point)}", file=sys.stderr, flush=True)  # fmt: skip
    others = table.latency_s[order[judged:]]
    gap = max(0.0, 1.0 - float(others.min(initial=np.inf)) / least)
    return Searched(best, judged, len(order), gap)


@dataclass(frozen=True)
class Layer:
    """A recorded layer on the design.

    Args:
        layer: Bounds above 1.
        count: How often it stands in the network.
        cycles: Predicted, results of 8 bits.
        network_cycles: Predicted in the network that was run, results of 32 bits; None where it was not.
        simulated_cycles: Likewise, simulated.
        given: Gemmini's RTL cycles with the best of DOSA's mappings.
        auto: With Gemmini's own tiler.
    """

    layer: str
    count: int
    cycles: int
    network_cycles: int | None
    simulated_cycles: int | None
    given: int
    auto: int


def sizes_of(computation: Computation) -> tuple[int, ...]:
    """Output channels, channels, rows, columns, window and stride of a layer, whatever its notation."""
    sizes = {name.lower(): n for name, n in computation.sizes.items()}
    if "m" in sizes:  # a matrix product
        return sizes["n"], sizes["k"], 1, 1, 1, 1, 1
    strides = tuple(sizes.get(name, 1) for name in "kcpqrs")
    return (*strides, 2 if "2*p" in f"{computation}".lower() else 1)


def counts_of(network: Network) -> dict[tuple[int, ...], int]:
    """How often each layer stands in the network."""
    found: dict[tuple[int, ...], int] = {}
    for group in network.distinct_layers():
        size = sizes_of(group.computation)
        found[size] = found.get(size, 0) + int(group.count)
    return found


def run_network(architecture: Architecture, config: Config) -> tuple[HostProgram, HostRun, bool]:
    """The network's integers on the simulated machine: the program, what it gave, and whether ONNX Runtime gives the same."""
    timing = load_timing(str(TABLE))
    model = config.out / f"{NETWORK}.onnx"
    onnx.save(integers_of(Integers(NETWORK, None, config.seed, model)), str(model))
    network = read_network(model)
    first = next(s for s in network.steps if isinstance(s, Convolution))
    p, memory = machine_of(first.computation, architecture, timing)
    netlist, mapped = generate(p), dict[Computation, Mapping]()

    def plan(name: str, computation: Computation) -> Job:
        if computation not in mapped:
            mapped[computation] = map_layer(computation, architecture, timing, config.candidates).mapping
            print(f"  {name} mapped", file=sys.stderr, flush=True)
        return nest_job(computation, architecture, mapped[computation], p, netlist.registers, memory=memory)

    program = program_of_network(network, netlist, p, plan)
    folder = config.out / "host"
    write_host(folder, program)
    picture = np.random.default_rng(config.seed).standard_normal(network.given.shape).astype(np.float32)
    os.environ["MEMORY_TIMING"] = f"{memory.latency_cycles} {memory.beat_cycles} {memory.requests} 0 0 0"
    run = run_host(folder, program, picture)
    wanted = by_onnx_runtime(str(model), picture)
    if wanted is None:
        wanted = network.run(picture, convolve_exactly)
    return program, run, bool((np.frombuffer(run.output, "<i4") == wanted.ravel()).all())


def layer_rows(rows: list[Recorded], architecture: Architecture, ran: tuple[HostProgram, HostRun, bool] | None, config: Config) -> list[Layer]:  # fmt: skip
    """The recorded layers on the design, beside the network's launches."""
    timing, counts, found = load_timing(str(TABLE)), counts_of(load_network(NETWORK)), []
    launched: dict[tuple[int, ...], tuple[int, int]] = {}
    if ran is not None:
        for launch, cycles in zip(ran[0].launches, ran[1].cycles, strict=True):
            launched[sizes_of(launch.job.computation)] = (launch.job.predicted_cycles, cycles)
    for row in rows:
        size = sizes_of(row.computation)
        cycles = map_layer(row.computation, architecture, timing, config.candidates).cycles
        bounds = " ".join(f"{d}={n}" for d, n in row.computation.sizes.items() if n > 1)
        predicted, simulated = launched.get(size, (None, None))
        found.append(Layer(bounds, counts[size], cycles, predicted, simulated, round(row.given_cycles), round(row.auto_cycles)))  # fmt: skip
        print(f"  {found[-1]}", file=sys.stderr, flush=True)
    return found


def summary(rows: list[Layer], ran: tuple[HostProgram, HostRun, bool] | None) -> MappingABC[str, object]:
    """The last line, the design aside."""
    line: dict[str, object] = {"layers": sum(r.count for r in rows)}
    for name in ("cycles", "given", "auto"):
        line[name] = sum(getattr(r, name) * r.count for r in rows)
    if ran is not None:
        program, run, equal = ran
        line |= {
            "launches": len(program.launches),
            "predicted_cycles": program.predicted_cycles,
            "simulated_cycles": sum(run.cycles),
        }
        line |= {"cycles_equal": run.cycles == tuple(x.job.predicted_cycles for x in program.launches), "integers_equal": equal, "seconds": round(run.seconds, 1)}  # fmt: skip
    return line


def main() -> None:
    """Search, predict, simulate, print."""
    parser = head_parser(__doc__, out=Path("runs/equal_area"), seed=0, about_out="folder of the table and the build")
    parser.add_argument("--data", type=Path, required=True, help="folder of firesim_test.json")
    parser.add_argument("--accumulator-bytes", type=int, default=200704, help="of the hardware compared with")
    parser.add_argument("--scratchpad-bytes", type=int, default=257024, help="likewise")
    parser.add_argument("--design", help="a design in place of the search, as pe_rows=32,pe_cols=14,...")
    parser.add_argument("--seconds", type=float, default=150.0, help="CPU seconds of the search (default 150)")
    parser.add_argument("--candidates", type=int, default=8, help="mappings of a layer judged by generated cycles")
    parser.add_argument("--simulate", action="store_true", help="build the design and run the network")
    told = parser.parse_args()
    config = Config(
        told.data, told.accumulator_bytes, told.scratchpad_bytes, told.design, told.seconds, told.candidates, told.simulate, told.seed, told.out,
    )  # fmt: skip
    rows, limit = rows_of(config), area_beside(config)
    line: dict[str, object] = {"limit_mm2": round(limit, 4)}
    if config.design is None:
        found = search(load_network(NETWORK).with_bits(8, SUM_BITS), limit, config)
        point = found.point
        line |= {"judged": found.judged, "fitting": found.fitting, "gap": round(found.gap, 4)}
    else:
        point = SPACE.space.to_points(SPACE.space.to_indices([changes(config.design)], "--design"))[0]
    architecture = WithMachinePorts(SPACE, load_timing(str(TABLE))).build(point)
    line |= {"design": point, "area_mm2": round(architecture.area_mm2 or 0.0, 4)}
    config.out.mkdir(parents=True, exist_ok=True)
    ran = run_network(architecture, config) if config.simulate else None
    layers = layer_rows(rows, architecture, ran, config)
    write_atomic(config.out / "layers.csv", csv_of(layers, Layer))
    print(json.dumps({**line, **summary(layers, ran)}))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
