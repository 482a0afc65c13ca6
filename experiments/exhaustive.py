"""Three design spaces evaluated in full, every layer on its proven optimal mapping: the ground truth of the outer loop.

    python -m experiments.exhaustive --case gemmcore --workers 2        # goes on where it stopped
    python -m experiments.exhaustive --smoke

Each finished design is a line of `experiments/tables/CASE.csv`: its number in the order of `Space.enumerate`, latency, energy, area and power, and 1
where every layer's mapping was proven optimal (for energy-delay product) or the proven gap of the worst layer. DRAM is read as having a port each for reads and
writes, as in `codesign explore --dram-ports separate`.
"""

import csv
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Ports
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Proof
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import WithDramPorts
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact.mapper import ExactMapper
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.load import load_network
from codesign.workloads.network import Network
from experiments.options import head_parser
from spaces.cores import CONV_CORE, GEMM_CORE, restrict
from spaces.eyeriss import EYERISS

TABLES = Path(__file__).parent / "tables"

COLUMNS = ("design", "latency_s", "energy_j", "area_mm2", "power_w", "worst_gap")

XCEPTION_LAYERS = (
    # output channels, input channels, height and width of the output
    (128, 64, 74),
    (728, 256, 19),
    (1024, 728, 10),
    (1536, 1024, 10),
    (256, 128, 74),
    (728, 728, 19),
)
"""Six convolutions of Xception (Chollet, CVPR 2017) of 90 to 383 million operations, two per multiply-accumulate; HASCO's six are not named."""


@dataclass(frozen=True)
class Case:
    """A space and what its designs run.

    Args:
        name: Of the table.
        space: The designs.
    """

    name: str
    space: WithDramPorts

    @property
    def network(self) -> Network:
        """What is run."""
        if self.name == "convcore":
            return xception_layers(self.space.bits, self.space.partial_bits)
        zoo = {"gemmcore": "resnet50", "eyeriss": "mobilenet_v2"}[self.name]
        return load_network(zoo, bits=self.space.bits, partial_bits=self.space.partial_bits)


def xception_layers(bits: int, partial_bits: int) -> Network:
    """The six convolutions as one workload."""
    net = NetworkBuilder("xception-six", bits=bits, partial_bits=partial_bits)
    outputs = []
    for k, c, p in XCEPTION_LAYERS:
        source = net.input(f"x{k}_{c}", (1, c, p, p))
        outputs.append(net.conv(source, k, 1, name=f"pointwise_{k}_{c}"))
    return net.build(*outputs)


@cache
def cases() -> dict[str, Case]:
    """The three spaces by name, each of at least 1,500 designs.

    The tables were recorded with a port each for reads and writes of DRAM (rule L2), so the spaces are read like that here.
    """
    gemm = restrict(restrict(GEMM_CORE, "links", ["systolic", "multicast"]), "banks", [1, 2, 4, 8])
    conv = CONV_CORE
    for parameter, values in (
        ("pe_rows", [4, 8, 12, 16, 20, 24, 28, 32]),
        ("pe_cols", [4, 8, 12, 16, 20, 24, 28, 32]),
        ("links", ["systolic"]),
        ("scratchpad_kib", [128, 256, 512]),
        ("local_bytes", [64]),
        ("banks", [1, 2, 4, 8]),
        ("bus_bits", [64, 128]),
        ("burst_bytes", [128]),
    ):
        conv = restrict(conv, parameter, values)
    spaces = (("gemmcore", gemm), ("convcore", conv), ("eyeriss", EYERISS))
    return {name: Case(name, WithDramPorts(space, Ports.SEPARATE)) for name, space in spaces}


@dataclass(frozen=True)
class Row:
    """One evaluated design: metrics in SI units and mm2, the proven gap of the worst layer; infinite metrics where nothing fits."""

    design: int
    latency_s: float
    energy_j: float
    area_mm2: float
    power_w: float
    worst_gap: float


def evaluate_design(name: str, design: int, time_limit_s: float) -> Row:
    """Judge one design of a case by the proven optimum of every layer."""
    case, network = _case_and_network(name)
    point = case.space.space.to_points(_designs(name)[design][None])[0]
    options = EvaluationOptions(budget=Budget(time_limit_s=time_limit_s))
    result = evaluate_workload(network, case.space.build(point), ExactMapper(), options)
    if isinstance(result, Infeasible):
        return Row(design, np.inf, np.inf, np.inf, np.inf, 0.0)
    gaps = [0.0 if x.result.proof is Proof.OPTIMAL else float(x.result.gap or np.inf) for x in result.layers]
    metrics = result.metrics
    return Row(design, metrics.latency_s, metrics.energy_j, metrics.area_mm2, metrics.power_w, max(gaps))


@cache
def _case_and_network(name: str) -> tuple[Case, Network]:
    case = cases()[name]
    return case, case.network


@cache
def _designs(name: str) -> NDArray[np.int64]:
    return np.asarray(cases()[name].space.space.enumerate())


def read_table(path: Path) -> dict[int, Row]:
    """The rows of a table by design; none where there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = [Row(int(line["design"]), *(float(line[c]) for c in COLUMNS[1:])) for line in csv.DictReader(file)]
    return {row.design: row for row in rows}


def write_table(path: Path, rows: dict[int, Row]) -> None:
    """The rows in order of their designs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        file.write(",".join(COLUMNS) + "\n")
        file.writelines(_line(rows[design]) for design in sorted(rows))


def _line(row: Row) -> str:
    return ",".join([str(row.design), *(f"{getattr(row, c):.9g}" for c in COLUMNS[1:])]) + "\n"


def build(name: str, path: Path, workers: int, time_limit_s: float, designs: int | None) -> dict[int, Row]:
    """Evaluate what is missing in a table, each design written as it finishes.

    Args:
        name: Of the case.
        path: The table; designs in it with a gap are evaluated again.
        workers: Processes.
        time_limit_s: Of each layer's proof.
        designs: How many designs at most, evenly spread; None is all.
    """
    rows = {k: row for k, row in read_table(path).items() if row.worst_gap == 0.0}
    write_table(path, rows)
    everything = range(len(_designs(name)))
    wanted = everything if designs is None else everything[:: -(-len(everything) // designs)]
    missing = [k for k in wanted if k not in rows]
    start = time.perf_counter()
    for done, row in enumerate(_evaluated(name, missing, workers, time_limit_s), start=1):
        rows[row.design] = row
        with path.open("a") as file:
            file.write(_line(row))
        if done % 20 == 0 or done == len(missing):
            left = (time.perf_counter() - start) / done * (len(missing) - done)
            print(f"{name}: {done} of {len(missing)} designs, {left / 60:.1f} min left", file=sys.stderr, flush=True)
    write_table(path, rows)
    return rows


def _evaluated(name: str, missing: list[int], workers: int, time_limit_s: float) -> Iterator[Row]:
    if workers == 1:
        for k in missing:
            yield evaluate_design(name, k, time_limit_s)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(evaluate_design, [name] * len(missing), missing, [time_limit_s] * len(missing), chunksize=1)


def main(arguments: list[str]) -> None:
    """Fill one table, or a few designs of each with `--smoke`."""
    parser = head_parser(__doc__, out=TABLES, smoke="two designs of the convcore case")
    parser.add_argument("--case", default="gemmcore", help=f"one of {', '.join(cases())}")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for the proof of one layer")
    parser.add_argument("--designs", type=int, help="only so many designs, evenly spread")
    options = parser.parse_args(arguments)
    if options.case not in cases():
        raise unknown_name("case", options.case, cases())
    name, designs = ("convcore", 2) if options.smoke else (options.case, options.designs)
    rows = build(name, options.out / f"{name}.csv", options.workers, options.time_limit, designs)
    proven = sum(row.worst_gap == 0.0 for row in rows.values())
    print(f"{name}: {len(rows)} designs, {proven} with every layer proven optimal")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"exhaustive: {error}")
