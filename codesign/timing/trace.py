"""A timeline in the Chrome trace format, which Perfetto (https://ui.perfetto.dev) and chrome://tracing show."""

import json
from pathlib import Path

from codesign.core.files import write_atomic
from codesign.core.json_types import JsonObject
from codesign.timing.simulate import Run

EVENT_LIMIT = 200_000
"""Operations a trace holds at most; the run's first ones."""


def chrome_trace(run: Run, clock_hz: float, name: str) -> JsonObject:
    """The document: one row a resource, one slice an operation; times in microseconds of the machine's clock."""
    scale = 1e6 / clock_hz
    rows = {r.resource: i for i, r in enumerate(run.resources)}
    events: list[JsonObject] = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": name}}]
    for resource, row in rows.items():
        events.append({"ph": "M", "pid": 0, "tid": row, "name": "thread_name", "args": {"name": resource}})
    for event in run.events:
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": rows[event.resource],
                "name": event.name,
                "ts": event.start_cycle * scale,
                "dur": (event.end_cycle - event.start_cycle) * scale,
                "args": {"step": event.step, "start_cycle": event.start_cycle, "end_cycle": event.end_cycle},
            }
        )
    shown = len(run.events)
    other = {"clock_hz": clock_hz, "latency_cycles": run.latency_cycles, "operations": run.operations, "shown": shown}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}


def write_trace(run: Run, path: Path, clock_hz: float, name: str) -> None:
    """Write the document as JSON."""
    write_atomic(path, json.dumps(chrome_trace(run, clock_hz, name)) + "\n")
