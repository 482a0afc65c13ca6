"""`codesign schedule --timing event`: what the two families of schedulers share."""

from pathlib import Path
from typing import TYPE_CHECKING

from codesign.core.errors import UserError, unknown_name
from codesign.core.files import write_atomic

if TYPE_CHECKING:
    from codesign.cli.schedule_options import ScheduleOptions
    from codesign.timing.simulate import Run
    from codesign.timing.table import Timing

_KINDS = ("analytical", "event")


def wants_events(options: "ScheduleOptions") -> bool:
    """Whether the schedule is simulated.

    Raises:
        UserError: The kind of timing is unknown, or a table is given without it.
    """
    if options.timing is not None and options.timing not in _KINDS:
        raise unknown_name("--timing", options.timing, _KINDS)
    for flag, value in (("--timing-table", options.timing_table), ("--trace", options.trace)):
        if value is not None and options.timing != "event":
            raise UserError(f"{flag} is an option of --timing event", hint="give --timing event, or leave it out")
    return options.timing == "event"


def timing_table(options: "ScheduleOptions", name: str) -> "Timing":
    """The machine's constants: the table that is given, else the one of the architecture's name, else none."""
    from codesign.library.schedule_events import schedule_table
    from codesign.library.timing import TimingOptions

    return schedule_table(TimingOptions("event", options.timing_table), name)


def save_trace(run: "Run", options: "ScheduleOptions", clock_hz: float, name: str) -> None:
    """Write the timeline where that was asked for."""
    if options.trace is not None:
        from codesign.timing.trace import write_trace

        write_trace(run, options.trace, clock_hz, name)


def write_page(path: Path, page: str, run: "Run | None", analytic_cycles: int) -> None:
    """Write the page of a schedule; one that was simulated has a section on it."""
    if run is not None:
        from codesign.scheduling.event_section import with_event_section

        page = with_event_section(page, run, analytic_cycles)
    write_atomic(path, page)


def print_events(run: "Run", analytic_cycles: int) -> None:
    """Both models side by side, and how the resources spent the run."""
    more = run.latency_cycles / analytic_cycles - 1
    partial = "" if run.complete else f" (partial: {run.simulated:,} of {run.operations:,} instructions)"
    print(f"event-timed: {run.latency_cycles:,} cycles, {more:+.2%} on {analytic_cycles:,} analytical ones{partial}")
    print(f"  busiest: {run.bound_by}, which waits most for {run.waits_for}")
    for use in run.resources:
        waits = ", ".join(f"{kind} {cycles:,.0f}" for kind, cycles in sorted(use.stalled, key=lambda w: -w[1])[:3])
        share = use.busy_cycles / max(1, run.latency_cycles)
        print(f"  {use.resource}: busy {share:.1%}" + (f"; waits for {waits}" if waits else ""))
