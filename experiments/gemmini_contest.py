"""A generated machine beside Gemmini's recorded RTL: `python -m experiments.gemmini_contest --data FOLDER [--rows N] [--simulate]`.

FOLDER holds `firesim_test.json`: cycles of Gemmini's RTL for layers on twelve hardware points, with the mapping that DOSA gave it
(`target.gemmini_cycle`) and with Gemmini's own tiler (`target.gemmini_auto_cycle`); Hong et al., MICRO 2023, data of ucb-bar/dosa, BSD-2-Clause.

The machine has Gemmini's array (16 x 16, weights stationary, handed from row to row), a bus of 128 bits, 16 bursts under way and a memory that
answers after 300 cycles, which is what Gemmini's requests take that miss both caches. It has no caches. Its one scratchpad is as large as Gemmini's scratchpad and
accumulator together, with lines of 64 bytes (a row of Gemmini's accumulator). An element holds 4 weights, where Gemmini's holds 2. Both add in 32 bits and write 8
bits to DRAM; Gemmini scales and rounds them on the way, the machine stores the low bits and leaves scaling to the host.

Every layer runs a mapping that is proven to take the least cycles by the cost model, among all mappings or among those that spread output channels over the
columns and sums over the rows, or have whole windows in a tile; of these, and their exchanges of loops, the one with the fewest generated cycles. `proven` counts rows whose mapping is the best of all
by the cost model. The cycles are predicted (K1 to K6). `--simulate` runs the smallest layers in a simulator and compares.
The last line is one JSON object: `fewer_cycles_share` counts rows with fewer cycles than Gemmini's own tiler, `geomean_ratio_auto` and
`geomean_ratio_given` are geometric means of this machine's cycles over the two columns. The same by distinct problem and hardware: `pairs_*`.
`simulated_equal` counts simulated layers whose integers are those of `einsum` and whose cycles are the predicted ones; null without `--simulate`.
"""

import csv
import io
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.core.goals import Budget, Objective, Proof
from codesign.evaluation.timed import EventMapper
from codesign.hardware.execute import execute, nest_job, random_values
from codesign.hardware.memory_timing import MemoryTiming
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.parameters import Parameters
from codesign.hardware.timed import timed_run
from codesign.hardware.verilator import VerilatedMachine
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.timing.simulate import Run
from codesign.timing.table import Timing, load_timing, with_constants
from codesign.workloads.computation import Computation
from experiments.options import head_parser
from spaces.parameters import Value
from spaces.scratchpad import SCRATCHPAD

DESIGN: dict[str, Value] = {
    "pe_rows": 16,
    "pe_cols": 16,
    "links": "systolic",
    "scratchpad_kib": 128,
    "local_bytes": 64,
    "banks": 8,
    "burst_beats": 16,
    "bus_bits": 128,
    "dataflow": "weight-stationary",
}
"""The machine, its memories aside: those follow each row's hardware."""

LOCAL_BYTES = 4.0
"""Weights of an element: the smallest local memory there is."""


FIXED = ("npq", "npqrs")
"""Dimensions that are not spread: sums along rows, output channels along columns; input channels alone along rows, as Gemmini has it."""

WINDOW = "rs"

ACCUMULATOR_BYTES_PER_ENTRY = 64
"""16 columns of 32 bits."""

SIMULATED_CYCLES = 400_000
"""Layers of at most so many predicted cycles are small."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        data: Folder of `firesim_test.json`.
        rows: How many of its rows, from the first on; None for all.
        simulate: Run small layers in Verilator.
        layers: How many of them at most.
        latency: Cycles until the memory answers.
        burst_bytes: Longest burst.
        outstanding: Bursts under way.
        candidates: Mappings of a layer judged by generated cycles.
        seed: Of simulated operands.
        out: Where the table goes, or None.
    """

    data: Path
    rows: int | None
    simulate: bool
    layers: int
    latency: int
    burst_bytes: int
    outstanding: int
    candidates: int
    seed: int
    out: Path | None


@dataclass(frozen=True)
class Recorded:
    """One row of the data.

    Args:
        computation: The layer.
        accumulator_bytes, scratchpad_bytes: Of Gemmini's memories.
        given_cycles: RTL cycles with DOSA's mapping.
        auto_cycles: RTL cycles with Gemmini's own tiler.
    """

    computation: Computation
    accumulator_bytes: int
    scratchpad_bytes: int
    given_cycles: float
    auto_cycles: float

    @property
    def key(self) -> tuple[str, int, int]:
        """The layer and the hardware."""
        return f"{self.computation} {self.computation.sizes}", self.accumulator_bytes, self.scratchpad_bytes


@dataclass(frozen=True)
class Mapped:
    """A layer on the machine.

    Args:
        mapping: What it runs.
        cycles: Predicted.
        analytic_cycles: By the cost model.
        proven: Whether no mapping takes fewer by the cost model.
    """

    mapping: Mapping
    cycles: int
    analytic_cycles: float
    proven: bool


def read_rows(folder: Path) -> list[Recorded]:
    """The rows of `firesim_test.json`.

    Raises:
        UserError: The file is missing, or a row lacks a column.
    """
    path = folder / "firesim_test.json"
    if not path.exists():
        raise UserError(f"no file {path}", hint="--data names the folder of firesim_test.json")
    try:
        return [_recorded(row) for row in json.loads(path.read_text("utf-8"))]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"not rows of RTL cycles: {type(error).__name__}: {error}", where=str(path)) from None


def _recorded(row: dict[str, str]) -> Recorded:
    """One row; P and W run along a row of pixels."""
    sizes = {dim.lower(): int(row[f"prob.{dim}"]) for dim in "NKCPQRS"}
    across, down = int(row["prob.Wstride"]), int(row["prob.Hstride"])
    notation = f"O[n,k,p,q] += I[n,c,{across}*p+r,{down}*q+s] * W[k,c,r,s]"
    return Recorded(
        Computation.parse(notation, sizes, bits=8, partial_bits=32),
        int(row["arch.mem1_entries"]) * ACCUMULATOR_BYTES_PER_ENTRY,
        int(row["arch.mem2_entries"]),
        float(row["target.gemmini_cycle"]),
        float(row["target.gemmini_auto_cycle"]),
    )


def architecture_of(row: Recorded) -> Architecture:
    """The machine with the row's memories."""
    built = SCRATCHPAD.build(DESIGN)
    sized = built.with_level("Scratchpad", capacity_bytes=float(row.accumulator_bytes + row.scratchpad_bytes))
    return sized.with_level("Local", capacity_bytes=LOCAL_BYTES)


def timing_of(config: Config) -> Timing:
    """The generated machine's constants."""
    constants = {"bus_bytes": 16, "burst_bytes": config.burst_bytes, "dram_latency_cycles": config.latency}
    return with_constants(load_timing("generated"), {**constants, "outstanding": config.outstanding})


def spreads(computation: Computation) -> list[Constraints]:
    """Any spatial loops; output channels along the columns and nothing else, with dimensions that stay whole (`FIXED`); the last with whole windows in tiles."""
    found, spread = [Constraints()], None
    for names in FIXED if "k" in computation.dims else ():
        fixed = tuple((d, 1) for d in names if d in computation.dims)
        spread = LevelConstraints("Scratchpad", spatial=fixed, along_x=frozenset("k"))
        found.append(Constraints((spread,)))
    whole = tuple((d, 1) for d in WINDOW if computation.sizes.get(d, 1) > 1)
    return [*found, Constraints((LevelConstraints("DRAM", temporal=whole), spread))] if whole and spread else found


def map_layer(computation: Computation, architecture: Architecture, timing: Timing, candidates: int) -> Mapped:
    """Of mappings proven for several ways to spread a layer over the array, the one with the fewest generated cycles.

    Raises:
        UserError: Nothing fits the machine.
    """
    best = ExactMapper().map(MappingProblem(computation, architecture), Objective.LATENCY, budget=Budget(), seed=0)
    mapper = EventMapper(ExactMapper(), timing, candidates)
    found: list[Mapped] = []
    for constraints in spreads(computation):
        problem = MappingProblem(computation, architecture, constraints)
        try:
            mapped = mapper.map(problem, Objective.LATENCY, budget=Budget(), seed=0)
        except UserError:  # no machine runs any of these mappings
            continue
        if mapped.mapping is None or mapped.cost is None or best.cost is None:
            continue
        run = timed_run(computation, architecture, mapped.mapping, timing)
        if isinstance(run, Run):
            cycles = mapped.cost.latency_cycles
            least = best.proof is Proof.OPTIMAL and cycles <= best.cost.latency_cycles
            found.append(Mapped(mapped.mapping, run.latency_cycles, cycles, least))
    if not found:
        raise UserError(f"no mapping of {computation} {computation.sizes} fits")
    return min(found, key=lambda m: m.cycles)


def simulate_layers(
    rows: Sequence[Recorded], found: dict[tuple[str, int, int], Mapped], config: Config
) -> tuple[int, int]:
    """How many small layers were simulated, and how many of them agreed."""
    small = {row.key: row for row in rows if found[row.key].cycles <= SIMULATED_CYCLES}
    machines: dict[Parameters, VerilatedMachine] = {}
    done = equal = 0
    memory, rng = MemoryTiming(config.latency), np.random.default_rng(config.seed)
    for row in sorted(small.values(), key=lambda r: found[r.key].cycles):
        if done == config.layers:
            break
        p = parameters_of(architecture_of(row), row.computation, 16, config.burst_bytes, "gemmini_like")
        p = replace(p, outstanding=config.outstanding)
        if machines and p not in machines:
            continue  # one machine is built: the one with the smallest layer
        machine = machines.setdefault(p, VerilatedMachine(p)) if p not in machines else machines[p]
        assert machine.netlist is not None
        mapped = found[row.key]
        job = nest_job(
            row.computation, architecture_of(row), mapped.mapping, p, machine.netlist.registers, memory=memory
        )
        verdict = execute(
            job,
            random_values(row.computation, rng),
            lambda image, given, machine=machine: machine.run(image, given, timing=memory),
        )
        same = verdict.wrong is None and not verdict.differences and verdict.run.cycles == mapped.cycles
        done, equal = done + 1, equal + same
        print(f"  simulated {row.computation.sizes}: {verdict.run.cycles} cycles, predicted {mapped.cycles}, {'ok' if same else 'DIFFERS'}", file=sys.stderr, flush=True)  # fmt: skip
    return done, equal


def summary(rows: Sequence[Recorded], found: dict[tuple[str, int, int], Mapped]) -> dict[str, float | int | None]:
    """The last line, what is simulated aside."""
    auto = [found[r.key].cycles / r.auto_cycles for r in rows]
    given = [found[r.key].cycles / r.given_cycles for r in rows]
    pairs = {r.key: found[r.key].cycles / r.auto_cycles for r in rows}
    return {
        "rows": len(rows),
        "fewer_cycles_share": sum(x < 1 for x in auto) / len(rows),
        "geomean_ratio_auto": statistics.geometric_mean(auto),
        "geomean_ratio_given": statistics.geometric_mean(given),
        "fewer_cycles_share_given": sum(x < 1 for x in given) / len(rows),
        "pairs": len(pairs),
        "pairs_fewer_cycles_share": sum(x < 1 for x in pairs.values()) / len(pairs),
        "pairs_geomean_ratio_auto": statistics.geometric_mean(pairs.values()),
        "analytic_ratio_median": statistics.median(found[r.key].cycles / found[r.key].analytic_cycles for r in rows),
        "proven": sum(found[r.key].proven for r in rows),
    }


def csv_text(rows: Sequence[Recorded], found: dict[tuple[str, int, int], Mapped]) -> str:
    """One line a row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["layer", "accumulator_bytes", "scratchpad_bytes", "cycles", "analytic_cycles", "proven", "given", "auto"]
    )
    for row in rows:
        m, sizes = found[row.key], " ".join(f"{d}={n}" for d, n in row.computation.sizes.items() if n > 1)
        head = (sizes, row.accumulator_bytes, row.scratchpad_bytes, m.cycles, round(m.analytic_cycles), int(m.proven))
        writer.writerow([*head, round(row.given_cycles), round(row.auto_cycles)])
    return text.getvalue()


def parse() -> Config:
    """Options from the command line."""
    parser = head_parser(__doc__, out=None, seed=0, about_out="folder of the table")
    parser.add_argument("--data", type=Path, required=True, help="folder of firesim_test.json")
    parser.add_argument("--rows", type=int, help="the first N rows (default: all)")
    parser.add_argument("--simulate", action="store_true", help="run small layers in Verilator")
    parser.add_argument("--layers", type=int, default=3, help="layers simulated at most (default 3)")
    parser.add_argument("--latency", type=int, default=300, help="cycles until the memory answers (default 300)")
    parser.add_argument("--burst-bytes", type=int, default=256, help="longest burst (default 256)")
    parser.add_argument("--outstanding", type=int, default=16, help="bursts under way (default 16)")
    parser.add_argument("--candidates", type=int, default=16, help="mappings of a layer judged by generated cycles")
    given = parser.parse_args()
    if given.rows is not None and given.rows < 1:
        raise UserError(f"`--rows` must be >= 1, got {given.rows}")
    return Config(
        given.data, given.rows, given.simulate, given.layers, given.latency, given.burst_bytes, given.outstanding,
        given.candidates, given.seed, given.out,
    )  # fmt: skip


def main() -> None:
    """Map, compare, print."""
    config, started = parse(), time.process_time()
    rows = read_rows(config.data)[: config.rows]
    if not rows:
        raise UserError("the data hold no rows", where=str(config.data))
    found: dict[tuple[str, int, int], Mapped] = {}
    timing = timing_of(config)
    for row in rows:
        if row.key not in found:
            found[row.key] = m = map_layer(row.computation, architecture_of(row), timing, config.candidates)
            sizes = {d: n for d, n in row.computation.sizes.items() if n > 1}
            print(f"  {sizes}: {m.cycles} cycles, analytical {m.analytic_cycles:.0f}, Gemmini's tiler {row.auto_cycles:.0f}, given {row.given_cycles:.0f}", file=sys.stderr, flush=True)  # fmt: skip
    line: dict[str, float | int | None] = summary(rows, found)
    simulated = simulate_layers(rows, found, config) if config.simulate else (None, None)
    line["simulated"], line["simulated_equal"] = simulated
    line["cpu_seconds"] = round(time.process_time() - started, 1)
    if config.out is not None:
        config.out.mkdir(parents=True, exist_ok=True)
        write_atomic(config.out / "rows.csv", csv_text(rows, found))
    print(json.dumps(line))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
