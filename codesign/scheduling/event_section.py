"""The event-timed section of a schedule's page: both models' cycles, how each resource spent the run, the timeline."""

import json
from pathlib import Path

from codesign.core.json_types import JsonObject
from codesign.timing.simulate import Run

EVENTS_SHOWN = 20_000
"""Operations that a page draws; the run's first ones."""

_SECTION = Path(__file__).with_name("event_section.html")
_END = "</body>"


def section_data(run: Run, analytic_cycles: int) -> JsonObject:
    """What the section draws, as plain values."""
    shown = run.events[:EVENTS_SHOWN]
    names = list(dict.fromkeys(event.name for event in shown))
    resources = [use.resource for use in run.resources]
    return {
        "analytic_cycles": analytic_cycles,
        "latency_cycles": run.latency_cycles,
        "complete": run.complete,
        "bound_by": run.bound_by,
        "waits_for": run.waits_for,
        "operations": run.operations,
        "resources": [{"resource": use.resource, **use.to_json()} for use in run.resources],
        "names": names,
        "events": [
            [names.index(e.name), resources.index(e.resource), e.start_cycle, e.end_cycle, e.step] for e in shown
        ],
    }


def with_event_section(page: str, run: Run, analytic_cycles: int) -> str:
    """A page of a schedule with the section at its end; it carries its data and its script.

    Args:
        page: A whole HTML text.
        run: The schedule in the event tier, its timeline kept.
        analytic_cycles: Of the same schedule by the analytical model.
    """
    data = json.dumps(section_data(run, analytic_cycles), separators=(",", ":")).replace("</", "<\\/")
    section = _SECTION.read_text(encoding="utf-8").replace("@EVENTS@", data)
    before, end, after = page.rpartition(_END)
    return f"{before}{section}{end}{after}"
