"""Schedules of whole networks in the event tier: what the analytical timing leaves out is added, and waits are counted.

The analytical timing of SoMa's schedules knows bandwidths; that of COSMA's knows the traffic alone. Here transfers also take the
start-up and the latency of the timing table, tiles the array's fill and drain and the host's commands. Tiles that a mapper priced take
their own simulated cycles.

* Q1: Instructions stand in queues and start when their engine is free and all they wait for is done.
* Q2: A transfer takes its bytes over the bandwidth and DRAM's start-up; its data are usable `latency_cycles` later.
* Q3: A tile takes its cycles, `fill_drain_cycles` and `issue_cycles`. Where a mapper priced it, its cycles are
  simulated.
* Q4: With spills a load waits until the addresses it fills are free. An operator uses all MAC units.
"""

import math

from codesign.arch.architecture import Architecture, Ports
from codesign.core.errors import UserError
from codesign.scheduling.cosma.objective import cycles_per_byte
from codesign.scheduling.cosma.result import Schedule as SpillSchedule
from codesign.scheduling.cosma.result import traffic_cost
from codesign.scheduling.soma.evaluator import Schedule as FusedSchedule
from codesign.scheduling.soma.instructions import make_instructions
from codesign.scheduling.soma.model.mapped_tiles import MappedPlatform, tile_computation
from codesign.timing.instructions import Instruction, run_instructions
from codesign.timing.simulate import OPERATION_LIMIT, Run, simulate
from codesign.timing.table import LevelTiming, Timing
from codesign.timing.trace import EVENT_LIMIT

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
        moving = -(-item.size_bytes // program.bandwidth_bytes_per_cycle)
        start = dram.write_startup_cycles if item.operation == "store" else dram.read_startup_cycles
        kind = f"{item.operation} {item.what}"
        found[item.index] = Instruction(kind, 1, moving + start, item.after, dram.latency_cycles)
    numbers = sorted(i.index for i in program.compute) + [i.index for i in program.dram]
    place = {number: k for k, number in enumerate(numbers)}
    ordered = [found[n]._replace(after=tuple(place[a] for a in found[n].after)) for n in numbers]
    queues = ("array", "DRAM channel")
    return run_instructions(
        ordered, queues, run_cycles=timing.run_cycles, events=EVENT_LIMIT, operation_limit=operation_limit
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
    program = _SpillProgram(schedule, architecture, timing)
    return run_instructions(
        program.instructions,
        program.queues,
        run_cycles=timing.run_cycles,
        events=EVENT_LIMIT,
        operation_limit=operation_limit,
    )


class _SpillProgram:
    """Writes the instructions of a schedule with spills, operator by operator (rule Q4)."""

    def __init__(self, schedule: SpillSchedule, architecture: Architecture, timing: Timing) -> None:
        self.instructions: list[Instruction] = []
        self._graph, self._index, self._plan = schedule.graph, schedule.graph.index, schedule.plan
        self._architecture, self._timing = architecture, timing
        self._dram = _level(timing, architecture.levels[0].name)
        self._out_per_byte, self._in_per_byte = cycles_per_byte(architecture)
        self._shared = architecture.levels[0].ports is Ports.SHARED
        self._stays = list(zip(schedule.stays, schedule.offsets, strict=True))
        self._last_use: dict[int, list[int]] = {}  # stay -> instructions after which its addresses are free
        self._data: dict[int, int] = {}  # tensor -> instruction that brought or made it
        self._written: dict[int, int] = {}  # tensor -> its store
        self._results = {i for i, t in enumerate(self._graph.tensors) if t.name in self._graph.outputs}
        self._spilled = {t for step in self._plan.retrieved for t in step}
        for step, operator in enumerate(self._plan.order):
            waits = self._bring(step, operator)
            self._run(step, operator, waits)

    @property
    def queues(self) -> tuple[str, ...]:
        """The array, and the DRAM channel of each way."""
        return ("array", "DRAM channel") if self._shared else ("array", "DRAM read channel", "DRAM write channel")

    def _freed(self, number: int) -> tuple[int, ...]:
        """What must be done before the addresses of a stay may be written."""
        stay, at = self._stays[number]
        return tuple(
            i
            for k, (other, there) in enumerate(self._stays)
            if k != number
            and other.last_step < stay.first_step
            and there < at + stay.size_bytes
            and at < there + other.size_bytes
            for i in self._last_use.get(k, ())
        )

    def _add(self, instruction: Instruction) -> int:
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def _load(self, kind: str, size: int, after: tuple[int, ...]) -> int:
        cycles = math.ceil(size * self._in_per_byte - 1e-9) + self._dram.read_startup_cycles
        return self._add(Instruction(kind, 1, cycles, after, self._dram.latency_cycles))

    def _store(self, kind: str, size: int, after: tuple[int, ...]) -> int:
        cycles = math.ceil(size * self._out_per_byte - 1e-9) + self._dram.write_startup_cycles
        return self._add(Instruction(kind, 1 if self._shared else 2, cycles, after))

    def _bring(self, step: int, operator: int) -> list[int]:
        """Load what stays begin with; returns what the operator waits for."""
        waits: list[int] = []
        for number, (stay, _) in enumerate(self._stays):
            if stay.first_step != step:
                continue
            if stay.tensor is None:
                waits.append(self._load("load parameters", stay.size_bytes, self._freed(number)))
            elif stay.retrieved:
                after = (*self._freed(number), self._written[stay.tensor])
                self._data[stay.tensor] = self._load("load spilled", stay.size_bytes, after)
            elif not self._index.inputs[operator] and not self._graph.operators[operator].macs:
                self._data[stay.tensor] = self._load("load input", stay.size_bytes, self._freed(number))
            else:
                waits += self._freed(number)
        operands = (*self._index.inputs[operator], *self._index.outputs[operator])
        return waits + [self._data[t] for t in operands if t in self._data]

    def _run(self, step: int, operator: int, waits: list[int]) -> None:
        """The operator itself, and what leaves the chip after it."""
        macs = self._graph.operators[operator].macs
        more = self._timing.fill_drain_cycles + self._timing.issue_cycles if macs else 0.0
        cycles = _compute_cycles(macs, self._architecture) + more
        ran = self._add(Instruction("operator", 0, cycles, tuple(dict.fromkeys(waits))))
        for t in self._index.outputs[operator]:
            self._data.setdefault(t, ran)
            if t in self._spilled:
                self._written[t] = self._store("spill", self._index.size_bytes[t], (ran,))
            if t in self._results:
                self._written[t] = self._store("store result", self._index.size_bytes[t], (ran,))
        for number, (stay, _) in enumerate(self._stays):
            if stay.last_step == step:
                stored = [] if stay.tensor is None else [self._written[t] for t in (stay.tensor,) if t in self._written]
                self._last_use[number] = [ran, *stored]
