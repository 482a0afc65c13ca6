"""`codesign schedule --timing event`: what the two families of schedulers print and draw."""

from pathlib import Path
from typing import TYPE_CHECKING

from codesign.core.files import write_atomic

if TYPE_CHECKING:
    from codesign.timing.simulate import Run


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
