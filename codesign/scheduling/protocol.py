"""The interface every scheduler of whole networks has: a problem, an objective and a budget go in, a schedule comes out."""

from dataclasses import dataclass, field
from typing import Any, Protocol, final

from codesign.arch.architecture import Architecture
from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Infeasible
from codesign.workloads.network import Network


class OwnGraph(Protocol):
    """A graph in the form of one family of schedulers; the others refuse it."""

    @property
    def name(self) -> str:
        """The name of the graph, as messages and results have it."""


@final
@dataclass(frozen=True)
class ScheduleProblem:
    """A network on an accelerator.

    Args:
        network: As it was loaded, nothing fused yet: what may be fused is the scheduler's to say. Or a graph in the scheduler's own form.
        architecture: Energies and bandwidths filled in. The level inside its DRAM is the buffer whose contents are planned.
            None where the scheduler has a machine of its own, or needs the capacity alone.
        capacity_bytes: Of that buffer; None for what the architecture has.
    """

    network: Network | OwnGraph
    architecture: Architecture | None
    capacity_bytes: int | None = None

    def __post_init__(self) -> None:
        check_least(1, capacity=self.capacity_bytes)

    @property
    def limit_bytes(self) -> int:
        """Bytes the buffer may hold.

        Raises:
            UserError: The architecture has no bounded level inside DRAM.
        """
        if self.capacity_bytes is not None:
            return self.capacity_bytes
        return buffer_bytes(self.machine("the size of its buffer"))

    def machine(self, what: str) -> Architecture:
        """The architecture.

        Args:
            what: It is needed for.

        Raises:
            UserError: There is none.
        """
        if self.architecture is None:
            raise UserError(f"{what} needs an architecture", hint="--arch, a preset name or an architecture file")
        return self.architecture


def buffer_bytes(architecture: Architecture) -> int:
    """Size of the memory inside DRAM.

    Raises:
        UserError: There is none, there are several side by side, or it is unbounded.
    """
    where = f"architecture {architecture.name!r}"
    if len(architecture.levels) < 2:
        raise UserError("an architecture needs a level inside DRAM to schedule for", where=where)
    level, instances = architecture.levels[1], architecture.instances[1]
    if instances != 1:
        raise UserError(f"one scratchpad is scheduled, got {instances} of {level.name!r} side by side", where=where)
    if level.capacity_bytes is None:
        raise UserError(f"level {level.name!r} has no capacity", where=where)
    return int(level.capacity_bytes)


@final
@dataclass(frozen=True)
class Interval:
    """Something that takes time on one resource.

    Args:
        resource: ``DRAM`` or ``compute``.
        name: What runs.
        start_cycles: When it begins.
        end_cycles: When it has ended.
    """

    resource: str
    name: str
    start_cycles: float
    end_cycles: float


@final
@dataclass(frozen=True)
class ScheduleResult:
    """What a scheduler found. Figures that the scheduler does not model are None.

    Args:
        scheduler: Who found it.
        order: Names of the operators or layers, first to last; empty when infeasible.
        dram_bytes: That cross the DRAM interface in one run; without parameters where a scheduler leaves them out of its
            scratchpad (COSMA and its baselines, which model no time either).
        peak_buffer_bytes: Most bytes in the buffer at one time.
        capacity_bytes: Bytes there are.
        latency_cycles: Of one run.
        energy_pj: Of one run, leakage apart.
        noncompulsory_bytes: Off-chip bytes beyond inputs, outputs and parameters once.
        timeline: What runs when, for schedulers that time.
        proof: What is known of optimality.
        gap: (value - bound) / bound when `proof` is GAP; 0 when optimal; None when nothing is known.
        infeasible: Why there is no schedule.
        evaluated: Schedules scored; 0 where the scheduler does not count.
        seconds: Wall-clock time.
        seed: Of the random choices.
        detail: The scheduler's own record: encoding, addresses, spills.
        found: What the scheduler made, as its own values: for drawings and programs. It is not recorded.
    """

    scheduler: str
    order: tuple[str, ...]
    dram_bytes: int | None
    peak_buffer_bytes: int | None
    capacity_bytes: int
    latency_cycles: float | None = None
    energy_pj: float | None = None
    noncompulsory_bytes: int | None = None
    timeline: tuple[Interval, ...] = ()
    proof: Proof = Proof.NONE
    gap: float | None = None
    infeasible: Infeasible | None = None
    evaluated: int = 0
    seconds: float = 0.0
    seed: int = 0
    detail: Any = None
    found: Any = field(default=None, compare=False, repr=False)

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold."""
        reason = {} if self.infeasible is None else self.infeasible.to_json()
        return {
            "status": "ok" if self.infeasible is None else "infeasible",
            **reason,
            "scheduler": self.scheduler,
            "latency_cycles": self.latency_cycles,
            "energy_pj": self.energy_pj,
            "dram_bytes": self.dram_bytes,
            "noncompulsory_bytes": self.noncompulsory_bytes,
            "peak_buffer_bytes": self.peak_buffer_bytes,
            "capacity_bytes": self.capacity_bytes,
            "order": list(self.order),
            "proof": self.proof.value,
            "gap": self.gap,
            "evaluated": self.evaluated,
            "seconds": self.seconds,
            "seed": self.seed,
            "schedule": self.detail,
        }


class Scheduler(Protocol):
    """Finds a schedule. Implementations are frozen dataclasses whose fields are their own options."""

    @property
    def name(self) -> str:
        """What the command line calls it."""

    def schedule(self, problem: ScheduleProblem, objective: Objective, *, budget: Budget, seed: int) -> ScheduleResult:
        """The best schedule found within the budget; infeasible, with the reason, where none fits.

        Raises:
            UserError: The architecture or the network is nothing this scheduler knows.
        """
