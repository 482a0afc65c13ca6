"""`schedule`: how a whole network runs on one accelerator, by one of the schedulers."""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from codesign.arch.architecture import Architecture
from codesign.arch.technology_files import provenance_of
from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Infeasible
from codesign.library.inputs import as_hardware
from codesign.library.results import AbstractResult
from codesign.library.schedule_events import event_record, not_simulated, simulate
from codesign.library.timing import TimingOptions
from codesign.scheduling.protocol import ScheduleProblem, Scheduler, ScheduleResult
from codesign.scheduling.registry import create
from codesign.workloads.load import load_network
from codesign.workloads.network import Network

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from codesign.timing.simulate import Run


@final
@dataclass(frozen=True)
class ScheduleOptions:
    """How a schedule is searched.

    Args:
        scheduler: By name: ``soma`` (fusion, DRAM timing), ``cosma`` (order, addresses, spills) ...; or one of your own.
        scheduler_options: Options of the scheduler's own, by name.
        objective: ``energy``, ``latency``, ``edp``; SoMa takes any ``eNdM``.
        time_limit_s: Seconds of search.
        evaluations: Schedules scored at most.
        seed: Of every random choice.
        capacity_bytes: Of the buffer; None for what the architecture has.
        batch: Inferences that run together.
        timing: Whether the schedule is simulated by the event tier (soma and its baselines, cosma and its).
    """

    scheduler: str | Scheduler = "soma"
    scheduler_options: MappingABC[str, Any] = field(default_factory=dict)
    objective: str = "edp"
    time_limit_s: float | None = None
    evaluations: int | None = None
    seed: int = 0
    capacity_bytes: int | None = None
    batch: int | None = None
    timing: TimingOptions = field(default_factory=TimingOptions)

    def __post_init__(self) -> None:
        Objective.parse(self.objective, exponents=True)
        Budget(self.time_limit_s, self.evaluations)
        check_least(0, seed=self.seed)
        if self.timing.event and self.scheduler == "fused":
            raise not_simulated("fused")


DEFAULT_OPTIONS = ScheduleOptions()


@final
@dataclass(frozen=True)
class ScheduledNetwork(AbstractResult):
    """A network's schedule on one accelerator.

    Args:
        network: What runs.
        architecture: On what.
        result: Order, traffic, times; or why there is no schedule.
        run: Simulated, with the event tier.
        analytic_cycles: What the simulated cycles are compared with.
    """

    network: Network
    architecture: Architecture
    result: ScheduleResult
    run: "Run | None" = None
    analytic_cycles: int | None = None

    @property
    def feasible(self) -> bool:
        """Whether there is a schedule."""
        return self.result.infeasible is None

    @property
    def infeasible(self) -> Infeasible | None:
        """Why there is no schedule; None where there is one."""
        return self.result.infeasible

    @property
    def latency_cycles(self) -> float | None:
        """Of one run; simulated where the event tier was asked for; None where the scheduler does not time."""
        return self.result.latency_cycles if self.run is None else self.run.latency_cycles

    @property
    def energy_pj(self) -> float | None:
        """Of one run; None where the scheduler does not count it."""
        return self.result.energy_pj

    @property
    def dram_bytes(self) -> int | None:
        """That cross the DRAM interface."""
        return self.result.dram_bytes

    @property
    def proof(self) -> Proof:
        """What is known of optimality."""
        return self.result.proof

    def to_json(self) -> JsonObject:
        """See `AbstractResult`."""
        names: JsonObject = {
            "network": self.network.name,
            "architecture": self.architecture.name,
            "provenance": provenance_of(self.architecture.technology),
        }
        if self.run is None or self.analytic_cycles is None:
            return {**names, **self.result.to_json()}
        return {**names, **self.result.to_json(), **event_record(self.run, self.analytic_cycles)}

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        found = self.result
        head = {"network": self.network.name, "architecture": self.architecture.name, "scheduler": found.scheduler}
        if found.infeasible is not None:
            return {**head, "infeasible": str(found.infeasible)}
        figures = {
            "latency_cycles": self.latency_cycles,
            "energy_pj": found.energy_pj,
            "dram_bytes": found.dram_bytes,
            "noncompulsory_bytes": found.noncompulsory_bytes,
            "peak_buffer_bytes": found.peak_buffer_bytes,
            "capacity_bytes": found.capacity_bytes,
        }
        return {**head, **{k: v for k, v in figures.items() if v is not None}, "proof": found.proof.value}

    def rows(self) -> list[JsonObject]:
        """One row for what runs or moves when; of schedulers that do not time, one an operator."""
        if self.result.timeline:
            return [
                {"resource": i.resource, "name": i.name, "start_cycles": i.start_cycles, "end_cycles": i.end_cycles}
                for i in self.result.timeline
            ]
        return [{"step": step, "operator": name} for step, name in enumerate(self.result.order)]

    def plot(self) -> "go.Figure":
        """What runs when; of schedulers that do not time, off-chip bytes by kind."""
        from codesign.report.figures import parts_figure, timeline_figure

        found, title = self.result, f"{self.network.name} on {self.architecture.name}"
        if found.infeasible is not None:
            raise UserError(f"there is no schedule: {found.infeasible}")
        if found.timeline:
            return timeline_figure([(i.resource, i.name, i.start_cycles, i.end_cycles) for i in found.timeline], title)
        extra = found.noncompulsory_bytes or 0
        parts = [("compulsory", float((found.dram_bytes or 0) - extra)), ("spills and retrievals", float(extra))]
        return parts_figure(parts, "bytes", title)


def schedule(
    network: Network | str | Path,
    architecture: Architecture | str | Path = "soma-edge",
    options: ScheduleOptions = DEFAULT_OPTIONS,
) -> ScheduledNetwork:
    """Schedule a whole network on one accelerator.

    Args:
        network: A value (not fused), a name of the zoo, or a file.
        architecture: A value, the name of a preset, or a file.
        options: Which scheduler, and how long.

    Returns:
        The schedule; or why there is none.

    Raises:
        UserError: An input cannot be used.

    >>> found = schedule("alexnet", "soma-edge", ScheduleOptions("cosma"))
    >>> found.proof.value, found.result.noncompulsory_bytes
    ('optimal', 0)
    """
    _, machine = as_hardware(architecture)
    if not isinstance(network, Network):
        network = load_network(network, batch=options.batch, bits=machine.mac.bits, fuse=False)
    elif options.batch is not None:
        network = network.with_batch(options.batch)
    made = options.scheduler
    scheduler = create(made, **options.scheduler_options) if isinstance(made, str) else made
    result = scheduler.schedule(
        ScheduleProblem(network, machine, options.capacity_bytes),
        Objective.parse(options.objective, exponents=True),
        budget=Budget(options.time_limit_s, options.evaluations),
        seed=options.seed,
    )
    if not options.timing.event or result.infeasible is not None:
        return ScheduledNetwork(network, machine, result)
    found = getattr(result.found, "schedule", result.found)
    return ScheduledNetwork(network, machine, result, *simulate(found, machine, options.timing, result.scheduler))
