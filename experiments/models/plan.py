"""Plans of the event engine, written down process by process."""

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from codesign.core.errors import UserError
from codesign.mapping.nest import FloatArray
from codesign.timing.event_plan import COMPUTE, LOAD, NOTHING, STORE, Plan


class Kind(Enum):
    """What an operation does: bring a tile, work on the tiles in force, take a result away."""

    LOAD = LOAD
    COMPUTE = COMPUTE
    STORE = STORE


@dataclass(frozen=True)
class Process:
    """One kind of operation of a plan; the fields are those of `codesign.timing.event_plan.Plan`.

    Args:
        name: Unique; the name of its row in the timeline.
        kind: Load, compute or store.
        resources: Those it holds, the own one first.
        duration: Cycles by (phase, way in or out): 0 the start or the end of the run, ``1 + l`` an advance of loop l. It
            runs only where it has an entry.
        depth: Buffer slots.
        needs: COMPUTE: the loads whose tiles it works on, and the innermost store, whose slots it fills.
        source: LOAD: the load whose tile it reads. STORE: the store before it.
        by_step: STORE: slots alternate at every step.
        early_cycles: LOAD: how long before the end of its last use the slot is free.
        latency_cycles: From its end until others can use its data.
        stream: LOAD: users may start with it, and end no earlier.
        revisit: LOAD: it runs only where one of these loops is past its first iteration.
        ahead: STORE: cycles before the end of the array's work at which it may start, by phase.
        share: Cycles its resources are held, by (phase, way); by default the first for the whole operation.
        listed: Cycles of its operations step by step, in place of `duration`'s figures; a load runs at every step, a
            negative entry of the others is a step at which they do not run.
        listed_ahead: STORE: beside `listed`, in place of `ahead`.
        stretch: COMPUTE: share by which it is slowed while a store runs beside it, by name of the store.
        barrier: LOAD: waits for everything stored in the phase before.
    """

    name: str
    kind: Kind
    resources: tuple[str, ...]
    duration: MappingOf[tuple[int, int], float]
    depth: int = 2
    needs: tuple[str, ...] = ()
    source: str | None = None
    by_step: bool = False
    early_cycles: float = 0.0
    latency_cycles: float = 0.0
    stream: bool = False
    revisit: tuple[int, ...] = ()
    ahead: MappingOf[int, float] = field(default_factory=dict)
    share: MappingOf[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)
    listed: Sequence[float] | FloatArray | None = None
    listed_ahead: Sequence[float] | FloatArray | None = None
    stretch: MappingOf[str, float] = field(default_factory=dict)
    barrier: bool = False


@dataclass(frozen=True)
class NamedPlan:
    """A plan with the names of its processes and resources.

    Args:
        plan: What the engine runs.
        processes: Names, by index.
        resources: Names, by index.
    """

    plan: Plan
    processes: tuple[str, ...]
    resources: tuple[str, ...]


def make_plan(
    factors: Sequence[Sequence[int]], phase_loop: int, processes: Sequence[Process], *, in_flight: int = 0
) -> NamedPlan:
    """The arrays of a plan.

    Args:
        factors: ``P x S`` iterations of every loop, phase by phase, outermost first.
        phase_loop: Which loop counts the phases.
        processes: What runs; compute and store operations of one step run in this order.
        in_flight: Steps that may be unfinished at a time; 0 is no limit.

    Raises:
        UserError: A process waits for one that is not there.
    """
    names = {p.name: k for k, p in enumerate(processes)}
    resources = {name: r for r, name in enumerate(dict.fromkeys(r for p in processes for r in p.resources))}
    n, n_phases, n_ways = len(processes), len(factors), len(factors[0]) + 1
    sides = max(len(p.resources) for p in processes)
    plan = Plan(
        factors=np.array(factors, np.int64).reshape(n_phases, -1),
        phase_loop=phase_loop,
        kind=np.array([p.kind.value for p in processes], np.int64),
        resource=np.full((n, sides), NOTHING, np.int64),
        depth=np.array([p.depth for p in processes], np.int64),
        by_step=np.array([p.by_step for p in processes], np.int64),
        source=np.array([NOTHING if p.source is None else _find(p, p.source, names) for p in processes], np.int64),
        early=np.array([p.early_cycles for p in processes], np.float64),
        latency=np.array([p.latency_cycles for p in processes], np.float64),
        stream=np.array([p.stream for p in processes], np.int64),
        revisit=np.array([sum(1 << loop for loop in p.revisit) for p in processes], np.int64),
        active=np.zeros((n, n_phases, n_ways), np.int64),
        duration=np.zeros((n, n_phases, n_ways)),
        share=np.zeros((n, n_phases, n_ways, sides)),
        ahead=np.zeros((n, n_phases)),
        needs=np.zeros((n, n), np.int64),
        explicit=np.full(n, NOTHING, np.int64),
        durations=_joined([p.listed for p in processes], [p.listed for p in processes]),
        aheads=_joined([p.listed_ahead for p in processes], [p.listed for p in processes]),
        stretch=np.zeros((n, n)),
        in_flight=in_flight,
        barrier=np.array([p.barrier for p in processes], np.int64),
        resources=len(resources),
    )
    listed = 0
    for k, process in enumerate(processes):
        for side, name in enumerate(process.resources):
            plan.resource[k, side] = resources[name]
        _fill(plan, k, process, names)
        if process.listed is not None:
            plan.explicit[k] = listed
            listed += len(process.listed)
    return NamedPlan(plan, tuple(names), tuple(resources))


def _fill(plan: Plan, k: int, process: Process, names: dict[str, int]) -> None:
    """Cycles of process k by phase and way, and the processes it waits for or slows down."""
    for (phase, way), cycles in process.duration.items():
        plan.active[k, phase, way] = 1
        plan.duration[k, phase, way] = cycles
        plan.share[k, phase, way, 0] = -1.0
    for (phase, way), cycles_held in process.share.items():
        plan.share[k, phase, way, : len(cycles_held)] = cycles_held
    for phase, cycles in process.ahead.items():
        plan.ahead[k, phase] = cycles
    for name, slower in process.stretch.items():
        plan.stretch[k, _find(process, name, names)] = slower
    for name in process.needs:
        plan.needs[k, _find(process, name, names)] = 1


def _joined(
    lists: Sequence[Sequence[float] | FloatArray | None], like: Sequence[Sequence[float] | FloatArray | None]
) -> FloatArray:
    """All lists in a row; zeros where a list is missing beside another."""
    parts = [
        np.zeros(len(other)) if values is None else np.asarray(values, np.float64)
        for values, other in zip(lists, like, strict=True)
        if other is not None
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _find(process: Process, name: str, names: MappingOf[str, int]) -> int:
    if name not in names:
        raise UserError(f"process {process.name!r} waits for {name!r}, which is not in the plan", where="timing plan")
    return names[name]
