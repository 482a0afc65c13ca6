"""Generated hardware beside the cost model: `python -m experiments.hardware_agreement --triples N --seed S`.

A triple is a design, a computation and a mapping (or program). Designs are drawn at random from the scratchpad and core spaces, with
arrays of at most 8 x 8 so that a simulation is built in seconds; every other parameter takes any value of its space. Computations are layers of
known networks, scaled down; for a core, bounds are multiples of what a call computes, since padding is accounted for in another way (Q1, Q4).
With `--answers by_tag` machines take answers in any order, and every design's memory draws latencies by which it answers out of order. The last line is
one JSON object. `cycles_*_error` compare simulated cycles with those that follow from the pipeline depths
(`codesign.hardware.timed`, `codesign.hardware.cycles`); `event_median_ratio` is simulated cycles over the event engine's, `analytic_ratio_median` and `analytic_ratio_p95` are simulated cycles over the cost model's, which knows no latencies.
"""

import csv
import io
import json
import math
import statistics
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Infeasible
from codesign.hardware.core_plan import core_parameters
from codesign.hardware.execute import Job, Simulator, core_job, execute, nest_job, random_values
from codesign.hardware.memory_timing import LATENCY_CYCLES, PLAIN_MEMORY, MemoryTiming
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.parameters import Answers, Parameters
from codesign.hardware.simulate import simulate_in_python
from codesign.hardware.timed import timed_run, timing_at
from codesign.hardware.verilator import VerilatedMachine, find_verilator
from codesign.hardware.words import EMIT_CYCLES
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.tensorization.core_program import program_on_core
from codesign.tensorization.encoding import SoftwareProblem
from codesign.timing.simulate import Run, simulate
from codesign.timing.table import LevelTiming, Timing, load_timing, with_constants
from codesign.workloads.computation import Computation, Role
from codesign.workloads.load import load_network
from experiments.options import head_parser
from spaces.cores import CORE_SPACES, core_of
from spaces.design import DesignSpace
from spaces.parameters import Value
from spaces.scratchpad import SCRATCHPAD
from spaces.software import SoftwareSpace

FAMILIES = ("scratchpad", *CORE_SPACES)
NETWORKS = ("alexnet", "resnet18", "mobilenet_v2")
MAPPERS = ("random", "anneal", "exact")
SIDE = 8
"""Rows and columns of the largest array drawn; the smallest of a space where that is larger."""

LIMITS = {"banks": 4, "bus_bits": 128}
"""Largest values drawn for Amaranth's simulator, which spends seconds on every wide line."""

OUTSTANDING = 16
"""Bursts under way at most, if nothing else is said."""

EXACT_EVALUATIONS = 20_000
"""Limit of the exact mapper: a count, not a time, so that a seed gives one table on every machine."""

CORE_NOTATIONS = {
    "gemmcore": ("L[i,j] += M[i,k] * N[k,j]", "O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]"),
    "gemvcore": ("y[i] += M[i,k] * x[k]", "L[i,j] += M[i,k] * N[k,j]"),
    "dotcore": ("L[i,j] += M[i,k] * N[k,j]", "y[i] += M[i,k] * x[k]"),
    "convcore": ("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]",),
}


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        triples: How many.
        seed: Of designs, computations, mappings and operands.
        family: One of `FAMILIES`, or None for all in turn.
        simulator: ``verilator`` or ``amaranth``.
        per_design: Triples drawn for one design: one simulation is built for all.
        macs: Multiply-accumulates of the largest computation.
        out: Where the table goes, or None.
        resume: Take up the designs that `out` holds already.
        outstanding: Bursts that a machine has under way at most.
        answers: In order, or by tag from memories that answer out of order.
    """

    triples: int
    seed: int
    family: str | None
    simulator: str
    per_design: int
    macs: int
    out: Path | None
    resume: bool = False
    outstanding: int = OUTSTANDING
    answers: Answers = Answers.IN_ORDER


@dataclass(frozen=True)
class Row:
    """One triple.

    Args:
        family: Of hardware.
        design: Its parameters.
        computation: Notation and bounds.
        mapper: Who made the mapping.
        bit_equal: Outputs equal those of `einsum`.
        dram_equal: DRAM words equal the cost model's, by tensor.
        accesses_equal: Accesses of all memories equal the cost model's, by tensor.
        cycles: Simulated.
        predicted_cycles: From pipeline depths: those of the timing tier with the table ``generated``, or of a core's queues (K5).
        analytic_cycles: The cost model's with the ports of the machine (K7).
        event_cycles: Those of the timing tier's event engine with the machine's depths, None for a core. It has no rules K1 to K6.
        differences: What differs.
    """

    family: str
    design: dict[str, Value]
    computation: str
    mapper: str
    bit_equal: bool
    dram_equal: bool
    accesses_equal: bool
    cycles: int
    predicted_cycles: int
    analytic_cycles: float
    differences: tuple[str, ...]
    event_cycles: int | None = None


def main() -> None:
    """Parse, run, print."""
    config = parse()
    started = time.perf_counter()
    rows: list[Row] = []
    for number, family in enumerate(families(config)):
        wanted = min(config.per_design, config.triples - len(rows))
        if wanted <= 0:
            break
        found = recorded(config, number)
        if found is None:
            found = tuple(design_rows(config, family, np.random.default_rng([config.seed, number]), wanted))
            record(config, number, found)
        rows += found
        for row in found:
            tell(row, config)
        print(f"{len(rows)}/{config.triples} after {number + 1} designs", file=sys.stderr, flush=True)
    result = summary(rows, config.outstanding, time.perf_counter() - started, config.answers)
    if config.out is not None:
        table = {
            "config": {**asdict(config), "out": str(config.out), "answers": config.answers.value},
            "result": result,
            "rows": [asdict(r) for r in rows],
        }
        write_atomic(config.out / "results.json", json.dumps(table, indent=1))
        write_atomic(config.out / "triples.csv", csv_text(rows))
    print_table(rows)
    print(json.dumps(result))


def csv_text(rows: list[Row]) -> str:
    """The rows as a table."""
    text = io.StringIO()
    names = [f.name for f in fields(Row) if f.name != "differences"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        design = " ".join(f"{k}={v}" for k, v in row.design.items())
        values = (design if n == "design" else getattr(row, n) for n in names)
        writer.writerow([int(v) if isinstance(v, bool) else v for v in values])
    return text.getvalue()


def tell(row: Row, config: Config) -> None:
    """One line of progress, and what differs."""
    same = row.bit_equal and row.accesses_equal and row.cycles == row.predicted_cycles
    print(f"  {row.family} {row.mapper} {row.cycles} cycles {'ok' if same else 'DIFFERS'}", file=sys.stderr, flush=True)
    for text in row.differences:
        print(f"    {text}", file=sys.stderr)


def record(config: Config, number: int, rows: tuple[Row, ...]) -> None:
    """Keep the triples of a design, so that a run can be taken up again."""
    if config.out is not None:
        config.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"seed": config.seed, "rows": [asdict(r) for r in rows]}, indent=1)
        write_atomic(config.out / f"design-{number:04d}.json", text)


def recorded(config: Config, number: int) -> tuple[Row, ...] | None:
    """The triples of a design that an interrupted run has left.

    Raises:
        UserError: They are of another seed.
    """
    path = None if config.out is None else config.out / f"design-{number:04d}.json"
    if path is None or not config.resume or not path.exists():
        return None
    document = json.loads(path.read_text("utf-8"))
    if document["seed"] != config.seed:
        raise UserError(f"`--seed` is {config.seed}, the record is of seed {document['seed']}", where=str(path))
    return tuple(Row(**{**row, "differences": tuple(row["differences"])}) for row in document["rows"])


def parse() -> Config:
    """Options from the command line."""
    parser = head_parser(
        __doc__,
        out=None,
        seed=0,
        smoke="two triples in Amaranth's simulator",
        about_out="folder of the table; one file a design while it runs",
    )
    parser.add_argument("--triples", type=int, default=20)
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument(
        "--simulator", choices=("verilator", "amaranth"), help="default: verilator where it and a C++ compiler exist"
    )
    parser.add_argument("--per-design", type=int, help="triples drawn for one design (default 1 to 4: N / 4)")
    parser.add_argument("--outstanding", type=int, default=OUTSTANDING, help="bursts under way at most (default 16)")
    parser.add_argument(
        "--answers", choices=[a.value for a in Answers], default="in_order", help="by_tag: memories answer out of order"
    )
    parser.add_argument("--resume", action="store_true", help="take up the designs that --out holds already")
    given = parser.parse_args()
    simulator = given.simulator or ("verilator" if find_verilator() and not given.smoke else "amaranth")
    slow = simulator == "amaranth"
    return Config(
        triples=2 if given.smoke else max(1, given.triples),
        seed=given.seed,
        family=given.family or ("scratchpad" if given.smoke else None),
        simulator=simulator,
        per_design=given.per_design or min(4, max(1, -(-given.triples // 4))),
        macs=600 if given.smoke else 1_000 if slow else 60_000,
        out=given.out,
        resume=given.resume,
        outstanding=given.outstanding,
        answers=Answers(given.answers),
    )


def families(config: Config) -> Iterator[str]:
    """Families in turn, a loop nest machine every second time, without end."""
    while True:
        if config.family is not None:
            yield config.family
            continue
        for name in CORE_SPACES:
            yield "scratchpad"
            yield name


def draw_design(space: DesignSpace, rng: np.random.Generator, side: int, limits: dict[str, int]) -> dict[str, Value]:
    """A random design of a space, its array at most `side` wide and high, other parameters within `limits`."""
    found: dict[str, Value] = {}
    for parameter in space.space.parameters:
        choices = list(parameter.choices)
        if parameter.name in ("pe", "pe_rows", "pe_cols"):
            choices = [c for c in choices if int(c) <= side] or choices[:1]
        if parameter.name in limits:
            choices = [c for c in choices if int(c) <= limits[parameter.name]] or choices[:1]
        found[parameter.name] = choices[int(rng.integers(len(choices)))]
    return found


Machines = dict[Parameters, tuple[Simulator, dict[str, tuple[int, int]]]]
"""By machine what runs it, and its registers."""

SPREADS = (10, 40, 160)
"""Cycles by which latencies are drawn longer at most, one of these a design with answers by tag."""

Drawn = tuple[dict[str, Value], str, Job, int | None, dict[str, np.ndarray], Machines]
"""A triple: design, mapper, job, the event engine's cycles, operands, the machines built so far."""


def design_triples(config: Config, family: str, rng: np.random.Generator, wanted: int) -> Iterator[Drawn]:
    """Triples of one random design with their operands."""
    side = 4 if config.simulator == "amaranth" else SIDE
    space = SCRATCHPAD if family == "scratchpad" else CORE_SPACES[family]
    design = draw_design(space, rng, side, LIMITS if config.simulator == "amaranth" else {})
    simulators: Machines = {}
    made = 0
    for _ in range(20 * wanted):
        if made == wanted:
            return
        try:
            drawn = (nest_triple if family == "scratchpad" else core_triple)(config, family, design, rng, simulators)
        except UserError as error:
            print(f"  not drawn: {error}", file=sys.stderr)
            continue
        if drawn is None:
            continue
        made += 1
        yield design, *drawn, random_values(drawn[1].computation, rng), simulators


def design_rows(config: Config, family: str, rng: np.random.Generator, wanted: int) -> Iterator[Row]:
    """Triples of one random design, simulated."""
    for design, mapper, job, event_cycles, values, simulators in design_triples(config, family, rng, wanted):
        verdict = execute(job, values, simulators[job.image.parameters][0])
        texts = [f"{d.memory} {d.tensor} {d.kind}: hardware {d.hardware}, model {d.model}" for d in verdict.differences]
        if verdict.wrong is not None:
            texts.append(f"{verdict.wrong_elements} elements differ, first {verdict.wrong}")
        yield Row(
            family,
            design,
            f"{job.computation} {job.computation.sizes}",
            mapper,
            verdict.wrong is None,
            not verdict.dram_differences,
            not verdict.differences,
            verdict.run.cycles,
            job.predicted_cycles,
            job.analytic_cycles,
            tuple(texts),
            event_cycles,
        )


def machine(config: Config, p: Parameters, machines: Machines, memory: MemoryTiming) -> dict[str, tuple[int, int]]:
    """The registers of a machine beside a memory, built if it is not yet."""
    if p not in machines:
        if config.simulator == "verilator":
            built = VerilatedMachine(p, quick=True)
            assert built.netlist is not None
            machines[p] = (partial(built.run, timing=memory, limit=20_000_000), built.netlist.registers)
        else:
            from codesign.hardware.rtl.machine import register_map

            machines[p] = (
                partial(simulate_in_python, timing=memory),
                register_map(p),
            )  # not built where nobody runs it
    return machines[p][1]


@cache
def layers() -> list[Computation]:
    """Different layers of the networks whose operands are an input and a weight."""
    found: dict[str, Computation] = {}
    for name in NETWORKS:
        for operator in load_network(name).operators:
            c = getattr(operator, "computation", None)
            if c is not None and {t.role for t in c.inputs} == {Role.INPUT, Role.WEIGHT} and len(c.inputs) == 2:
                found.setdefault(f"{c} {c.sizes}", c)
    return list(found.values())


def scaled(computation: Computation, macs: int, rng: np.random.Generator) -> Computation:
    """The computation with its bounds divided, the largest first, until it is small enough; 8-bit operands, results of 1, 2 or 4 bytes."""
    sizes = dict(computation.sizes)
    while math.prod(sizes.values()) > macs:
        largest = max(sizes, key=lambda d: sizes[d])
        sizes[largest] = max(1, sizes[largest] // 2)
    return with_widths(replace(computation, bounds=tuple(sizes.values())), int(rng.choice([8, 16, 32])))


def with_widths(computation: Computation, result_bits: int) -> Computation:
    """8-bit operands, results of so many bits in DRAM, partial sums of 32 bits."""
    tensors = tuple(
        replace(t, bits=result_bits, partial_bits=32) if t.is_output else replace(t, bits=8, partial_bits=8)
        for t in computation.tensors
    )
    return replace(computation, tensors=tensors)


def nest_triple(
    config: Config, family: str, design: dict[str, Value], rng: np.random.Generator, machines: Machines
) -> tuple[str, Job, int | None] | None:
    """A random layer on a design of the scratchpad space, mapped by a mapper drawn at random."""
    known = layers()
    computation = scaled(known[int(rng.integers(len(known)))], config.macs, rng)
    architecture = SCRATCHPAD.build(design)
    name = MAPPERS[int(rng.integers(len(MAPPERS)))]
    most = EXACT_EVALUATIONS if name == "exact" else int(rng.integers(1, 500))
    seed = int(rng.integers(1 << 30))
    goal = (Objective.EDP, Objective.LATENCY, Objective.ENERGY)[int(rng.integers(3))]
    found = create(name).map(
        MappingProblem(computation, architecture), goal, budget=Budget(evaluations=most), seed=seed
    )
    if found.mapping is None:
        return None
    bus_bytes = int(design["bus_bits"]) // 8
    p = parameters_of(architecture, computation, bus_bytes, bus_bytes * int(design["burst_beats"]), "machine")
    p, memory = with_answers(p, config), memory_of(config, design)
    job = nest_job(computation, architecture, found.mapping, p, machine(config, p, machines, memory), memory=memory)
    run = timed_run(
        computation,
        architecture,
        found.mapping,
        timing_at(with_constants(load_timing("generated"), {"outstanding": config.outstanding}), design),
    )
    events = simulate(computation, architecture, found.mapping, event_table(p))
    assert isinstance(run, Run) and isinstance(events, Run)
    if not p.by_tag:  # the tier's memory answers in order
        job = replace(job, predicted_cycles=run.latency_cycles)
    return name, job, events.latency_cycles


def with_answers(p: Parameters, config: Config) -> Parameters:
    """The machine with the bursts and the answers that are asked for."""
    return replace(p, outstanding=config.outstanding, answers=config.answers)


def memory_of(config: Config, design: dict[str, Value]) -> MemoryTiming:
    """What answers a design: in order at once, or by tag after latencies of its own."""
    if config.answers is Answers.IN_ORDER:
        return PLAIN_MEMORY
    number = zlib.crc32(json.dumps([config.seed, design], sort_keys=True, default=str).encode())
    return MemoryTiming(
        latency_cycles=(1, LATENCY_CYCLES, 40)[number % 3], requests=(0, 5)[number // 9 % 2],
        spread_cycles=SPREADS[number // 3 % 3], spread_seed=number % 1000,
    )  # fmt: skip


def event_table(p: Parameters) -> Timing:
    """The event engine's table with the depths of a machine: a request a transfer, the array's pipeline a step."""
    dram = LevelTiming("DRAM", read_startup_cycles=LATENCY_CYCLES + 1, write_startup_cycles=LATENCY_CYCLES + 1)
    return Timing("depths", (dram,), fill_drain_cycles=EMIT_CYCLES + p.column_cycles + 1)


def core_triple(
    config: Config, family: str, design: dict[str, Value], rng: np.random.Generator, machines: Machines
) -> tuple[str, Job, int | None] | None:
    """A random program on a core: bounds are one to three calls in the dimensions that the intrinsic takes, small in others."""
    core = core_of(CORE_SPACES[family], design)
    notations = CORE_NOTATIONS[family]
    notation = notations[int(rng.integers(len(notations)))]
    names = sorted({d for d in "ijkpqcrs" if d in notation.replace("*", "")})
    draft = Computation.parse(notation, dict.fromkeys(names, 2), bits=8, partial_bits=32)
    options = SoftwareProblem.of(draft, core).choices
    choice = options[int(rng.integers(len(options)))]
    sizes = {d: int(rng.integers(1, 4)) for d in draft.dims}
    for index, dim in choice.match.index_map:
        sizes[dim] = core.intrinsic.computation.sizes[index] * int(rng.integers(1, 4))
    while math.prod(sizes.values()) > 20 * config.macs and any(n > choice.tile[d] for d, n in sizes.items()):
        largest = max((d for d in sizes if sizes[d] > choice.tile[d]), key=lambda d: sizes[d])
        sizes[largest] = choice.tile[largest]
    computation = with_widths(Computation.parse(notation, sizes, bits=8, partial_bits=32), int(rng.choice([8, 16, 32])))
    problem = SoftwareProblem.of(computation, core)
    space = SoftwareSpace(problem)
    for row in space.sample(8, int(rng.integers(1 << 30))):
        found = space.program(row)
        if found.schedule.padded.sizes != computation.sizes or found.schedule.choice.match.scalars:
            continue
        program = program_on_core(found)
        if isinstance(program, Infeasible):
            continue
        p, memory = with_answers(core_parameters(core, "machine"), config), memory_of(config, design)
        job = core_job(program, found.mapping, core, p, machine(config, p, machines, memory), memory=memory)
        return "random program", job, None
    return None


def summary(
    rows: list[Row], outstanding: int, seconds: float, answers: Answers = Answers.IN_ORDER
) -> dict[str, float | int | str]:
    """The last line."""
    errors = [abs(r.predicted_cycles / r.cycles - 1) for r in rows]
    ratios = [r.cycles / r.analytic_cycles for r in rows]
    return {
        "triples": len(rows),
        "bit_equal": sum(r.bit_equal for r in rows),
        "dram_equal": sum(r.dram_equal for r in rows),
        "accesses_equal": sum(r.accesses_equal for r in rows),
        "cycles_median_error": statistics.median(errors) if errors else 0.0,
        "cycles_worst_error": max(errors, default=0.0),
        "event_median_ratio": statistics.median([r.cycles / r.event_cycles for r in rows if r.event_cycles] or [0.0]),
        "cycles_equal": sum(r.predicted_cycles == r.cycles for r in rows),
        "analytic_ratio_median": statistics.median(ratios) if rows else 0.0,
        "analytic_ratio_p95": float(np.percentile(ratios, 95)) if rows else 0.0,
        "outstanding": outstanding,
        "answers": answers.value,
        "seconds": round(seconds, 1),
    }


def print_table(rows: list[Row]) -> None:
    """One line a family."""
    print(
        "| family | triples | bits | DRAM words | accesses | cycles exact | worst cycles | simulated / analytic (median) |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for family in FAMILIES:
        mine = [r for r in rows if r.family == family]
        if not mine:
            continue
        exact = sum(r.cycles == r.predicted_cycles for r in mine)
        worst = max(abs(r.predicted_cycles / r.cycles - 1) for r in mine)
        ratio = statistics.median([r.cycles / r.analytic_cycles for r in mine])
        print(
            f"| {family} | {len(mine)} | {sum(r.bit_equal for r in mine)} | {sum(r.dram_equal for r in mine)} | "
            f"{sum(r.accesses_equal for r in mine)} | {exact} | {100 * worst:.2f} % | {ratio:.1f} |"
        )


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
