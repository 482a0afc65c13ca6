"""Transfers measured on a Tenstorrent Wormhole chip beside flows that share links fairly (tt-npe's traces).

Every read is a flow on a torus of two networks, one for each direction (`experiments.models.flows`). Rates, latencies and routes
are the constants of tt-npe's model that stand beside the traces. The prediction knows the order of reads and barriers of each
processor, its first issue, and the cycles between two reads of an idle chip. A second one is given every measured issue.
Nothing is fitted to the measured ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from codesign.core.kernel_library import FloatArray
from experiments.models.flows import Flows, run_flows
from experiments.validation.common import Comparison, Point, read_json
from experiments.validation.tt_npe_traces import Torus, Trace, read_traces

ISSUE_CYCLES = {"dram_to_l1": 124.0, "l1_to_l1": 142.0}
"""Cycles between two reads of a processor that waits for nothing, by kind: the usual gap of DRAM_TO_1x1_BLOCK, whose only core is
alone on the chip, and the usual gap between the first two reads of the traces from L1 to L1."""


def flows_of(trace: Trace, torus: Torus, replayed: bool) -> Flows:
    """The reads of a trace as flows.

    Args:
        trace: What was recorded.
        torus: The chip.
        replayed: Whether reads are issued when they were, rather than one after another.
    """
    flat = [read for reads in trace.reads for read in reads]
    first = np.cumsum([0, *(len(reads) for reads in trace.reads)]).astype(np.int64)
    routes = [torus.route(read) for read in flat]
    begins = np.cumsum([0, *map(len, routes)]).astype(np.int64)
    issue, fence = np.array([read.issue for read in flat]), np.zeros(len(flat), np.int64)
    for p, (reads, barriers) in enumerate(zip(trace.reads, trace.barriers, strict=True)):
        for i in range(1, len(reads)):
            between = any(reads[i - 1].issue < b.start <= reads[i].issue for b in barriers)
            fence[first[p] + i] = between and not replayed
    gap = np.full(len(flat), 0.0 if replayed else ISSUE_CYCLES[trace.kind])
    if not replayed:
        starts = issue[first[:-1]]
        issue = np.zeros(len(flat))
        issue[first[:-1]] = starts
    return Flows(
        first,
        begins,
        np.array([r for route in routes for r in route], np.int64),
        np.array([float(read.bytes) for read in flat]),
        np.array([torus.limit(read.bytes) for read in flat]),
        np.array([torus.latency(read) for read in flat]),
        issue,
        gap,
        fence,
        torus.capacity(),
    )


@dataclass(frozen=True)
class Predicted:
    """A trace as predicted, cycles from its first read to its last barrier's end.

    Attributes:
        cycles: Of the whole.
        barrier_error: Mean of |predicted - measured| / measured over the ends of barriers that wait for reads.
        busiest: Cycles of the busiest resource at its full rate: no prediction is below.
    """

    cycles: float
    barrier_error: float
    busiest: float


def predict(trace: Trace, torus: Torus, replayed: bool) -> Predicted:
    """Predict a trace, by the order of its reads or with every issue given."""
    flows = flows_of(trace, torus, replayed)
    arrived = run_flows(flows).arrived
    begin = _begin(trace)
    load = np.zeros(len(flows.capacity))
    np.add.at(load, flows.resource, np.repeat(flows.size, np.diff(flows.resource_first)))
    errors = list(_barrier_errors(trace, flows, arrived, begin))
    return Predicted(float(arrived.max()) - begin, float(np.mean(errors)), float((load / flows.capacity).max()))


def _begin(trace: Trace) -> float:
    return min(reads[0].issue for reads in trace.reads)


def _barrier_errors(trace: Trace, flows: Flows, arrived: FloatArray, begin: float) -> Iterator[float]:
    """Relative errors of the ends of barriers, from the first read of the trace."""
    for p, (reads, barriers) in enumerate(zip(trace.reads, trace.barriers, strict=True)):
        for barrier in barriers:
            count = sum(read.issue < barrier.start for read in reads)
            if count:
                predicted = arrived[flows.first[p] : flows.first[p] + count].max() - begin
                yield abs(predicted / (barrier.end - begin) - 1.0)


def compare_tt_npe(folder: Path, smoke: bool) -> Comparison:
    """Cycles of whole traces; in `more` the prediction with issues given, and the ends of barriers."""
    torus = Torus(read_json(folder / "topology.json"))
    traces = read_traces(folder)[: 3 if smoke else None]
    points, given, barriers, busiest = [], [], [], []
    for trace in traces:
        measured = max(b.end for ends in trace.barriers for b in ends) - _begin(trace)
        ordered, replayed = predict(trace, torus, False), predict(trace, torus, True)
        points.append(Point(trace.name, ordered.cycles, measured, trace.kind))
        given.append(abs(replayed.cycles / measured - 1.0))
        barriers.append(ordered.barrier_error)
        busiest.append(abs(ordered.busiest / measured - 1.0))
    more: dict[str, Any] = {
        "issues_given_median_error": median(given),
        "issues_given_worst_error": max(given),
        "busiest_resource_median_error": median(busiest),
        "barrier_ends_mean_error": float(np.mean(barriers)),
        "missing_fact": "the order in which a source serves reads: single barriers end earlier or later than fair shares say",
    }
    constants = {"issue_cycles": ISSUE_CYCLES}
    return Comparison("tt-npe", points, "cycles", constants, "issues of reads, not their ends", more)
