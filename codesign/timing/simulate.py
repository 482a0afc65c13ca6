"""What happens when: a mapping's run in the event tier, as numbers and as a timeline."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from codesign.arch.architecture import Architecture, Ports
from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.cost.arrays import Reuse
from codesign.cost.columns import MESH
from codesign.cost.cost import Infeasible, evaluate
from codesign.cost.packed import Kernel
from codesign.cost.sparse.bounds import refuse_sparsity
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import FloatArray, IntArray
from codesign.timing.batches import batch_bound
from codesign.timing.derive import ARRAY, ISSUER
from codesign.timing.dram.plan_bursts import MemoryTraffic, with_memory
from codesign.timing.engine import CUT_SHORT, run
from codesign.timing.event_plan import NOTHING, STORE, Plan
from codesign.timing.least_cycles import cycles_with_waits
from codesign.timing.mapped_plan import MappedPlan
from codesign.timing.noc.plan_packets import MeshUse, mesh_resource_names, with_mesh
from codesign.timing.table import Overlap, Timing, encode_timing, timing_for, whole_cycles
from codesign.workloads.computation import Computation

OPERATION_LIMIT = 20_000_000
"""Simulated operations after which a run is stopped and reported as partial."""

_NO_EVENTS = np.zeros((0, 4))

FIRST_OPERATIONS = 200_000
"""Simulated before the rest: what an interruption from the keyboard leaves."""


@dataclass(frozen=True)
class ResourceUse:
    """How one resource spent the run.

    Args:
        resource: A port, the array or the host.
        busy_cycles: Cycles it was held.
        stalled: Cycles it stood still with work at hand, by what it waited for.
        idle_cycles: Cycles in which it had no work at hand.
    """

    resource: str
    busy_cycles: float
    stalled: tuple[tuple[str, float], ...]
    idle_cycles: float

    @classmethod
    def of(cls, resource: str, busy_cycles: float, waits: dict[str, float], total: int) -> "ResourceUse":
        """Of a run of so many cycles; `waits` are cycles by what the resource waited for."""
        idle = max(0.0, total - busy_cycles - sum(waits.values()))
        return cls(resource, busy_cycles, tuple(sorted(waits.items())), idle)

    def to_json(self) -> JsonObject:
        """The values that commands print as JSON."""
        return {"busy_cycles": self.busy_cycles, "stalled_on": dict(self.stalled), "idle_cycles": self.idle_cycles}


@dataclass(frozen=True)
class Event:
    """One operation of the timeline: what, on which resource, from when to when, for which step."""

    name: str
    resource: str
    start_cycle: float
    end_cycle: float
    step: int


@dataclass(frozen=True)
class LineUse:
    """Lines of a banked memory that a run asks for, a line a cycle.

    Args:
        tensor: Whose words they carry.
        layout: How it lies.
        lines: Over the whole run.
        least_lines: Those that full lines would take; the rest are bank conflicts.
    """

    tensor: str
    layout: str
    lines: int
    least_lines: int

    @property
    def conflicts(self) -> int:
        """Lines more than full ones."""
        return self.lines - self.least_lines

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold."""
        return {**asdict(self), "conflicts": self.conflicts}


@dataclass(frozen=True)
class Run:
    """A simulated run.

    Args:
        latency_cycles: Of the whole run; of the part that was simulated where `complete` is false.
        complete: Whether the run reached its end before the limit of operations.
        resources: How each resource spent it.
        bound_by: The resource that was busiest.
        operations: Operations in the run.
        simulated: Those simulated one by one; the others were skipped as repetitions.
        events: The timeline, from the start; empty unless asked for.
        exact_cycles: Before rounding to whole cycles (constants of a table may be fractions).
        memory: What the DRAM did, where the architecture names its device.
        meshes: What crossed each mesh.
        lines: Of generated machines, lines of the scratchpad by tensor.
    """

    latency_cycles: int
    complete: bool
    resources: tuple[ResourceUse, ...]
    bound_by: str
    operations: int
    simulated: int
    events: tuple[Event, ...] = ()
    exact_cycles: float = 0.0
    memory: MemoryTraffic | None = None
    meshes: tuple[MeshUse, ...] = ()
    lines: tuple[LineUse, ...] = ()

    @property
    def waits_for(self) -> str:
        """What keeps the busiest resource from work longest: it makes the difference to the analytical cycles."""
        bound = next(use for use in self.resources if use.resource == self.bound_by)
        reasons = [*bound.stalled, (START_AND_END, bound.idle_cycles)]
        reason, cycles = max(reasons, key=lambda item: item[1])
        return reason if cycles > 0 else NOTHING_MORE


START_AND_END, NOTHING_MORE = "start and end of the run", "nothing"


def simulate(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    timing: Timing | None = None,
    *,
    reuse: Reuse = Reuse.TIMELOOP,
    events: int = 0,
    operation_limit: int = OPERATION_LIMIT,
) -> Run | Infeasible:
    """Run a mapping in the event tier.

    Args:
        computation: The operator.
        architecture: The hardware, energies filled in.
        mapping: A nest for the two.
        timing: The machine's constants; by default those named like the architecture.
        reuse: What a buffer need not fetch again.
        events: How many operations of the timeline to keep.
        operation_limit: Simulated operations after which the run is cut short.

    Returns:
        The run, or why a tile does not fit.

    Raises:
        UserError: The mapping is malformed, or the table speaks of another architecture.
    """
    timing = timing_for(architecture) if timing is None else timing
    _refuse(timing, reuse, operation_limit)
    machine = encode_timing(timing, architecture)
    refuse_sparsity(architecture, "the event tier")
    cost = evaluate(computation, architecture, mapping, reuse=reuse)
    if isinstance(cost, Infeasible):
        return cost
    mapped = MappedPlan.of(computation, architecture, mapping, machine, reuse)
    ports = resource_names(architecture)
    names = tuple(_process_name(mapped, k) for k in range(len(mapped.role)))
    memory, least = None, None
    meshes: tuple[MeshUse, ...] = ()
    waits = timing.overlap is not Overlap.PERFECT
    if waits and any(level.fanout.mesh is not None for level in architecture.levels):
        plan, least, meshes = with_mesh(mapped)
        mapped = replace(mapped, plan=plan)
        ports += mesh_resource_names(architecture)
    if waits and any(level.dram is not None for level in architecture.levels):
        plan, memory, operation_limit = with_memory(mapped, least, operation_limit)
        mapped = replace(mapped, plan=plan)
    result = run_plan(mapped.plan, names, ports, timing, events=events, operation_limit=operation_limit)
    if not waits:
        result = _with_busiest_mesh(result, mapped.kernel, architecture, timing)
    complete = result.complete and all(use.complete for use in meshes)
    return replace(result, complete=complete, memory=memory, meshes=meshes)


def _refuse(timing: Timing, reuse: Reuse, operation_limit: int) -> None:
    check_least(1, operation_limit=operation_limit)
    if timing.overlap is Overlap.GENERATED:
        raise UserError(
            f"timing table {timing.name!r} is of generated hardware, the event engine does not run it",
            hint="take evaluate, map or explore with --timing event",
        )
    if reuse is Reuse.WHOLE:
        raise UserError("the event tier does not know the reuse rule 'whole'", hint="take timeloop, walk or resident")


def _with_busiest_mesh(result: Run, kernel: Kernel, architecture: Architecture, timing: Timing) -> Run:
    """A run in which nothing waits, which lasts no less than its meshes are busy (rules N9, E10)."""
    uses, exact, bound = list(result.resources), result.exact_cycles, result.bound_by
    for m, level in enumerate(architecture.levels):
        if level.fanout.mesh is None:
            continue
        busy = float(kernel.spent[m, MESH])
        uses.append(ResourceUse(f"mesh below {level.name}", busy, (), 0.0))
        if busy + timing.run_cycles > exact:
            exact, bound = busy + timing.run_cycles, uses[-1].resource
    total = whole_cycles(exact)
    spent = tuple(replace(use, idle_cycles=max(0.0, total - use.busy_cycles)) for use in uses)
    return replace(result, latency_cycles=total, exact_cycles=exact, bound_by=bound, resources=spent)


def resource_names(architecture: Architecture) -> tuple[str, ...]:
    """Names of the resources of plans made by `codesign.timing.derive.derive`."""
    ports = [
        f"{level.name} {way}"
        for level in architecture.levels
        for way in (("port", "write port") if level.ports is Ports.SHARED else ("read port", "write port"))
    ]
    return (*ports, "array", "host")


def _process_name(mapped: MappedPlan, k: int) -> str:
    role = mapped.role[k]
    if role[0] == ISSUER:
        return "issue"
    if role[0] == ARRAY:
        return "compute"
    tensor, level = mapped.computation.tensors[int(role[0])].name, mapped.architecture.levels[int(role[1])].name
    if mapped.plan.kind[k] == STORE:
        return f"store {tensor} from {level}"
    return f"load {tensor} into {level}" + (" (partial sums)" if role[2] else "")


def run_plan(
    plan: Plan,
    names: tuple[str, ...],
    resources: tuple[str, ...],
    timing: Timing,
    *,
    events: int = 0,
    operation_limit: int = OPERATION_LIMIT,
    skip: bool = True,
) -> Run:
    """Run a plan and say how its resources spent the time.

    Args:
        plan: What runs.
        names: Names of the plan's processes.
        resources: Names of the plan's resources.
        timing: Gives `overlap` and `run_cycles`.
        events: How many operations of the timeline to keep.
        operation_limit: Simulated operations after which the run is cut short.
        skip: Whether repeating states are jumped over.
    """
    status, cycles, busy, stalled, counts, work = _interruptible(plan, skip, operation_limit)
    held = np.zeros(plan.resources)
    for k in range(len(names)):
        for side, r in enumerate(plan.resource[k]):
            if r != NOTHING:
                held[r] += busy[k, side]
    if timing.overlap is Overlap.PERFECT:
        cycles, stalled = float(held.max()), np.zeros_like(stalled)
    elif timing.overlap is Overlap.WAITS and status != CUT_SHORT:
        cycles, stalled = max(float(held.max()), cycles_with_waits(plan)[0]), np.zeros_like(stalled)
    elif timing.batch_outputs is not None and status != CUT_SHORT:
        cycles = max(cycles, batch_bound(plan, timing.batch_outputs))
    total = whole_cycles(cycles + timing.run_cycles)
    used = sorted({int(r) for r in plan.resource.ravel() if r != NOTHING})
    uses = tuple(_use(plan, names, resources, r, held, stalled, total) for r in used)
    room = np.zeros((events, 4))
    shown = run(plan, False, events, room)[5][2] if events else 0  # without gaps where repetitions were skipped
    rows = room[: int(shown)]
    timeline = tuple(
        Event(names[int(k)], resources[int(plan.resource[int(k), 0])], a, b, int(step)) for k, a, b, step in rows
    )
    bound = max(used, key=lambda r: (held[r], -r))
    complete = status != CUT_SHORT
    exact = cycles + timing.run_cycles
    return Run(total, complete, uses, resources[bound], int(counts.sum()), int(work[0]), timeline, exact)


_Result = tuple[int, float, FloatArray, FloatArray, IntArray, IntArray]


def _interruptible(plan: Plan, skip: bool, limit: int) -> _Result:
    """The engine's result; after Ctrl-C in a long run that of its first operations.

    Compiled code sees no signal. So a short run goes before a long one, and is what an interruption leaves.
    """
    found: _Result | None = None
    for most in (FIRST_OPERATIONS, limit) if limit > FIRST_OPERATIONS else (limit,):
        try:
            found = run(plan, skip, most, _NO_EVENTS)
        except KeyboardInterrupt:
            if found is None:
                raise
            break
        if found[0] != CUT_SHORT:
            break
    assert found is not None  # there is one limit at least
    return found


def _use(
    plan: Plan,
    names: tuple[str, ...],
    resources: tuple[str, ...],
    r: int,
    held: FloatArray,
    stalled: FloatArray,
    total: int,
) -> ResourceUse:
    causes = (*names, "a free buffer", *resources)
    waits: dict[str, float] = {}
    for k in range(len(names)):
        if plan.resource[k, 0] == r:
            for j, cycles in enumerate(stalled[k]):
                if cycles > 0:
                    waits[causes[j]] = waits.get(causes[j], 0.0) + float(cycles)
    return ResourceUse.of(resources[r], float(held[r]), waits, total)
