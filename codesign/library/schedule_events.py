"""Schedules of whole networks simulated by the event tier."""

from pathlib import Path
from typing import TYPE_CHECKING

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.library.timing import TimingOptions

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.timing.simulate import Run
    from codesign.timing.table import Timing


TEMPLATE_CLOCK_HZ = 1e9
"""Of SoMa's template."""


def schedule_table(options: TimingOptions, name: str) -> "Timing":
    """The machine's constants: the table that is given, else the one of the architecture's name, else none.

    Args:
        options: Which.
        name: Of the machine.
    """
    from codesign.timing.table import Timing, load_timing, named_tables

    if options.timing_table is not None:
        return load_timing(options.timing_table)
    return load_timing(name) if name in named_tables() else Timing("default", source="no latencies")


def simulate(
    schedule: object, architecture: "Architecture | None", options: TimingOptions, scheduler: str
) -> "tuple[Run, int]":
    """The run of a schedule and its analytical cycles, its trace written.

    Args:
        schedule: What a scheduler found.
        architecture: On which the network was scheduled; None for SoMa's template.
        options: Constants, trace, limit of operations.
        scheduler: Its name, for messages.

    Raises:
        UserError: The event tier does not know schedules of the scheduler.
    """
    from codesign.scheduling.cosma.result import Schedule as SpillSchedule
    from codesign.scheduling.soma.evaluator import Schedule as FusedSchedule
    from codesign.scheduling.timed import analytic_spill_cycles, time_fused, time_spilled

    limit = options.operation_limit
    clock_hz = TEMPLATE_CLOCK_HZ if architecture is None else architecture.clock_hz
    if isinstance(schedule, SpillSchedule) and architecture is not None:
        table = schedule_table(options, architecture.name)
        run = time_spilled(schedule, architecture, table, operation_limit=limit)
        cycles, name = analytic_spill_cycles(schedule, architecture), f"{schedule.graph.name} on {architecture.name}"
    elif isinstance(schedule, FusedSchedule):
        problem = schedule.parsed.problem
        table = schedule_table(options, problem.hardware.name)
        run = time_fused(schedule, table, operation_limit=limit)
        cycles, name = schedule.latency_cycles, f"{problem.graph.name} on {problem.hardware.name}"
    else:
        raise not_simulated(scheduler)
    if options.trace is not None:
        from codesign.timing.trace import write_trace

        write_trace(run, Path(options.trace), clock_hz, name)
    return run, cycles


def not_simulated(scheduler: str) -> UserError:
    """The error for schedules that the event tier does not know."""
    return UserError(
        f"the event tier does not simulate schedules of {scheduler!r}", hint="take soma or cosma, or leave out `timing`"
    )


def event_record(run: "Run", analytic_cycles: int) -> JsonObject:
    """What simulated cycles add to a schedule's JSON."""
    return {
        "latency_cycles": run.latency_cycles,
        "analytic_cycles": analytic_cycles,
        "bound_by": run.bound_by,
        "waits_for": run.waits_for,
        "timing": {
            "complete": run.complete,
            "instructions": run.operations,
            "resources": {use.resource: use.to_json() for use in run.resources},
        },
    }
