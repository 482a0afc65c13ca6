"""Schedules of whole networks in the event tier: what the analytical timing leaves out is added, and waits are counted.

The analytical timing of SoMa's schedules knows bandwidths; that of COSMA's knows the traffic alone. Here transfers also take the
start-up and the latency of the timing table, tiles the array's fill and drain and the host's commands. Tiles that a mapper priced take
their own simulated cycles.
"""

import math

from codesign.arch.architecture import Architecture, Ports
from codesign.core.errors import UserError
from codesign.scheduling.cosma.objective import cycles_per_byte
from codesign.scheduling.cosma.result import Schedule as SpillSchedule
from codesign.scheduling.cosma.traffic_cost import traffic_cost
from codesign.scheduling.soma.evaluator import Schedule as FusedSchedule
from codesign.scheduling.soma.instructions import make_instructions
from codesign.scheduling.soma.model.mapped_tiles import MappedPlatform, tile_computation
from codesign.timing.instructions import Instruction, Queue, run_instructions
from codesign.timing.simulate import OPERATION_LIMIT, Run, simulate
from codesign.timing.table import LevelTiming, Timing

EVENTS_SHOWN = 400
DRAM = "DRAM"
"""Name of the outermost level where the schedule's hardware is the template."""


def time_fused(schedule: FusedSchedule, timing: Timing, *, operation_limit: int = OPERATION_LIMIT) -> Run:
    """Simulate a schedule of tiles, such as SoMa's, on the machine of a timing table (rules Q1-Q3).

    Args:
        schedule: What runs.
        timing: Constants; `IDEAL` and tables without latencies give the schedule's own latency.
        operation_limit: Instructions after which the run is cut short.
    """
    program = make_instructions(schedule)
    platform = schedule.parsed.problem.hardware
    name = platform.architecture.levels[0].name if isinstance(platform, MappedPlatform) else DRAM
    dram = _level(timing, name)
    step = timing.fill_drain_cycles + timing.issue_cycles
    tiles = _simulated_tiles(schedule, timing)
    found: dict[int, Instruction] = {}
    for item in program.compute:
        cycles = tiles.get(item.layer, item.cycles) + step
        found[item.index] = Instruction("tile", 0, cycles, item.after)
    for item in program.dram:
        moving = -(-item.size_bytes * program.channels // program.bandwidth_bytes_per_cycle)
        start = dram.write_startup_cycles if item.operation == "store" else dram.read_startup_cycles
        kind = f"{item.operation} {item.what}"
        found[item.index] = Instruction(kind, 1, moving + start, item.after, dram.latency_cycles)
    numbers = sorted(i.index for i in program.compute) + [i.index for i in program.dram]
    place = {number: k for k, number in enumerate(numbers)}
    ordered = [found[n]._replace(after=tuple(place[a] for a in found[n].after)) for n in numbers]
    queues = (Queue("array"), Queue("DRAM channels" if program.channels > 1 else "DRAM channel", program.channels))
    return run_instructions(
        ordered, queues, run_cycles=timing.run_cycles, events=EVENTS_SHOWN, operation_limit=operation_limit
    )


def _level(timing: Timing, name: str) -> LevelTiming:
    return next((level for level in timing.levels if level.level == name), LevelTiming(name))


def _simulated_tiles(schedule: FusedSchedule, timing: Timing) -> dict[int, int]:
    """Event cycles of the tiles of every layer that a mapper priced, by layer."""
    problem = schedule.parsed.problem
    platform = problem.hardware
    if not isinstance(platform, MappedPlatform):
        return {}
    inside = {level.name for level in platform.core.levels}
    core = Timing(
        timing.name,
        tuple(level for level in timing.levels if level.level in inside),
        overlap=timing.overlap,
        constants=timing.constants,
    )
    cycles = {}
    for entry in schedule.parsed.layers:
        if not problem.graph.layers[entry.layer].is_matrix:
            continue
        computation = tile_computation(problem.graph.table[entry.layer], *entry.shape)
        run = simulate(computation, platform.core, platform.tile_mapping(computation), core)
        if isinstance(run, Run):
            cycles[entry.layer] = run.latency_cycles
    return cycles


def analytic_spill_cycles(schedule: SpillSchedule, architecture: Architecture) -> int:
    """The slower of all multiply-accumulates on all units and all traffic over the DRAM interface, both without waits."""
    compute = sum(_compute_cycles(o.macs, architecture) for o in schedule.graph.operators)
    return math.ceil(max(compute, traffic_cost(architecture, schedule).cycles))


def _compute_cycles(macs: int, architecture: Architecture) -> int:
    return -(-macs // architecture.mac_units)


def time_spilled(
    schedule: SpillSchedule, architecture: Architecture, timing: Timing, *, operation_limit: int = OPERATION_LIMIT
) -> Run:
    """Simulate a schedule with spills, such as COSMA's: operators, what is loaded and what is stored for them (rule Q4).

    A load waits until the operators that used its addresses before are done; an operator waits for its operands and for what
    stood at the addresses of its results. Multiply-accumulates run at all units.

    Args:
        schedule: What runs.
        architecture: Its DRAM has bandwidths.
        timing: Constants.
        operation_limit: Instructions after which the run is cut short.

    Raises:
        UserError: The graph does not say how many multiply-accumulates its operators have.
    """
    if not schedule.graph.macs:
        raise UserError(
            "--timing event needs the operators' multiply-accumulates",
            where=f"graph {schedule.graph.name!r}",
            hint="give a network by zoo name or ONNX file",
        )
    return run_instructions(
        *_spill_program(schedule, architecture, timing),
        run_cycles=timing.run_cycles,
        events=EVENTS_SHOWN,
        operation_limit=operation_limit,
    )


def _spill_program(
    schedule: SpillSchedule, architecture: Architecture, timing: Timing
) -> tuple[list[Instruction], tuple[Queue, ...]]:
    index, plan, graph = schedule.graph.index, schedule.plan, schedule.graph
    dram = _level(timing, architecture.levels[0].name)
    out_per_byte, in_per_byte = cycles_per_byte(architecture)
    shared = architecture.levels[0].ports is Ports.SHARED
    channels = ("DRAM channel",) if shared else ("DRAM read channel", "DRAM write channel")
    queues = tuple(Queue(name) for name in ("array", *channels))
    ways_out = 1 if shared else 2
    found: list[Instruction] = []
    stays = list(zip(schedule.stays, schedule.offsets, strict=True))
    last_use: dict[int, list[int]] = {}  # stay -> instructions after which its addresses are free
    data: dict[int, int] = {}  # tensor -> instruction that brought or made it
    written: dict[int, int] = {}  # spilled tensor -> its store
    results = {i for i, t in enumerate(graph.tensors) if t.name in graph.outputs}
    spilled = {t for step in plan.retrieved for t in step}

    def freed(number: int) -> tuple[int, ...]:
        """What must be done before the addresses of a stay may be written."""
        stay, at = stays[number]
        return tuple(
            i
            for k, (other, there) in enumerate(stays)
            if k != number
            and other.last_step < stay.first_step
            and there < at + stay.size_bytes
            and at < there + other.size_bytes
            for i in last_use.get(k, ())
        )

    def load(kind: str, size: int, after: tuple[int, ...]) -> int:
        cycles = math.ceil(size * in_per_byte - 1e-9) + dram.read_startup_cycles
        found.append(Instruction(kind, 1, cycles, after, dram.latency_cycles))
        return len(found) - 1

    def store(kind: str, size: int, after: tuple[int, ...]) -> int:
        cycles = math.ceil(size * out_per_byte - 1e-9) + dram.write_startup_cycles
        found.append(Instruction(kind, ways_out, cycles, after))
        return len(found) - 1

    by_step: dict[int, list[int]] = {}
    for number, (stay, _) in enumerate(stays):
        by_step.setdefault(stay.first_step, []).append(number)
    for step, operator in enumerate(plan.order):
        waits: list[int] = []
        begun = by_step.get(step, [])
        for number in begun:
            stay = stays[number][0]
            if stay.tensor is None:
                waits.append(load("load parameters", stay.size_bytes, freed(number)))
            elif stay.retrieved:
                data[stay.tensor] = load("load spilled", stay.size_bytes, (*freed(number), written[stay.tensor]))
            elif not index.inputs[operator] and not graph.operators[operator].macs:
                data[stay.tensor] = load("load input", stay.size_bytes, freed(number))
            else:
                waits += freed(number)
        waits += [data[t] for t in (*index.inputs[operator], *index.outputs[operator]) if t in data]
        macs = graph.operators[operator].macs
        cycles = _compute_cycles(macs, architecture) + (timing.fill_drain_cycles + timing.issue_cycles if macs else 0.0)
        found.append(Instruction("operator", 0, cycles, tuple(dict.fromkeys(waits))))
        ran = len(found) - 1
        for t in index.outputs[operator]:
            data.setdefault(t, ran)
            if t in spilled:
                written[t] = store("spill", index.size_bytes[t], (ran,))
            if t in results:
                written[t] = store("store result", index.size_bytes[t], (ran,))
        for number, (stay, _) in enumerate(stays):
            if stay.last_step == step:
                last_use[number] = [ran]
                if stay.tensor is not None and stay.tensor in written:
                    last_use[number].append(written[stay.tensor])
    return found, queues
