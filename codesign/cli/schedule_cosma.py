"""The schedulers of order, scratchpad addresses and spills: `cosma`, its baselines, and `allocate`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.schedule_events import print_events, write_page
from codesign.cli.schedule_options import NETWORK, named_architecture
from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.core.json_types import JsonObject

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.cli.schedule_options import ScheduleOptions
    from codesign.scheduling.cosma.graph import OperatorGraph
    from codesign.scheduling.cosma.result import Schedule, TooSmall, TrafficCost, Unplaced
    from codesign.scheduling.protocol import ScheduleResult
    from codesign.timing.simulate import Run

SPILLS_SHOWN = 12
"""Spills the text output lists."""
_GRAPH = NETWORK | {"capacity", "parameters", "unfused", "html", "out", "timing", "timing_table", "trace"}
_POLICIES = ("belady", "lru", "greedy")
_ORDERS = {"": "default", "-mpmf": "minimum-peak"}
_BASELINES = {f"{policy}{suffix}": (policy, order) for policy in _POLICIES for suffix, order in _ORDERS.items()}
"""Scheduler -> replacement rule and order (mpmf: minimum peak memory footprint)."""
SCHEDULERS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_BASELINES, _GRAPH),
    "cosma": _GRAPH | {"route", "objective", "time_limit", "seed"},
    "allocate": frozenset({"buffers", "capacity", "time_limit", "seed", "out"}),
}
"""Scheduler -> options it reads."""


def implied(options: ScheduleOptions) -> str | None:
    """The scheduler of this family that the options can only be meant for, where none was named.

    Buffers are to be allocated; weights in the scratchpad and graphs in bytes only this family knows.
    """
    if options.buffers is not None:
        return "allocate"
    if options.parameters or options.unfused or options.route is not None:
        return "cosma"
    from codesign.workloads.graph_door import GraphForm, graph_file

    found = None if options.network is None else graph_file(options.network)
    return "cosma" if found is not None and found.form in (GraphForm.BYTES, GraphForm.EXPORTED) else None


def run(options: ScheduleOptions) -> None:
    """Schedule and print."""
    if options.scheduler == "allocate":
        _allocate(options)
    else:
        _schedule(options)


def _allocate(options: ScheduleOptions) -> None:
    from codesign.core.goals import Budget
    from codesign.scheduling.allocation.buffers import AllocationStatus, format_buffers, height, peak_load, read_buffers
    from codesign.scheduling.allocation.solve import allocate
    from codesign.scheduling.cosma.capacity import parse_bytes

    if options.buffers is None or options.capacity is None:
        raise UserError("scheduler 'allocate' needs --buffers FILE.csv and --capacity")
    buffers = read_buffers(options.buffers)
    capacity = parse_bytes(options.capacity)
    limit_s = Budget(options.time_limit).time_limit_s
    started = time.perf_counter()
    found = allocate(
        buffers,
        capacity,
        time_limit_s=60.0 if limit_s is None else limit_s,
        seed=options.seed or 0,
    )
    seconds = round(time.perf_counter() - started, 3)
    load, moment = peak_load(buffers)
    if options.out is not None and found.offsets is not None:
        write_atomic(options.out, format_buffers(buffers, found.offsets))
    if options.output_format == "text":
        line = f"{found.status.value}: {len(buffers)} buffers in {capacity} units, peak load {load} at {moment}; {found.method}, {seconds} s"
        typer.echo(line, err=found.offsets is not None and options.out is None)
        if found.offsets is not None and options.out is None:
            typer.echo(format_buffers(buffers, found.offsets), nl=False)
        return
    document: JsonObject = {
        "status": found.status.value,
        "capacity": capacity,
        "peak_load": load,
        "method": found.method,
        "nodes": found.nodes,
        "seconds": seconds,
    }
    if found.status is AllocationStatus.INFEASIBLE:
        # Without a crowded moment to blame, what is known is that more than the capacity is needed.
        document |= {"resource": "memory", "demand": max(load, capacity + 1), "limit": capacity}
    if found.offsets is not None:
        document["height"] = height(buffers, found.offsets)
        document["offsets"] = {b.name: o for b, o in zip(buffers, found.offsets, strict=True)}
    echo_json(document)


@dataclass(frozen=True)
class Answer:
    """What a scheduler of this family finds, and what its traffic takes.

    Args:
        result: The schedule, or why there is none.
        graph: With all parameters.
        document: The JSON value.
        seconds: Of the search.
        traffic: What the off-chip traffic costs; None without an architecture or a schedule.
        bits: Width of an element; None where the file gives bytes.
    """

    result: Schedule | TooSmall | Unplaced
    graph: OperatorGraph
    document: dict[str, object]
    seconds: float
    traffic: TrafficCost | None
    bits: int | None


def find(options: ScheduleOptions) -> Answer:
    """Schedule; nothing is printed.

    Raises:
        UserError: An option that cannot be used.
    """
    from codesign.core.goals import Budget, Objective
    from codesign.scheduling.cosma.load import load_graph
    from codesign.scheduling.protocol import ScheduleProblem
    from codesign.scheduling.registry import create

    if options.network is None:
        raise UserError(
            f"scheduler {options.scheduler!r} needs --network",
            hint="a zoo name, an ONNX file, a .pt2 file of torch.export or a graph as JSON",
        )
    architecture = _architecture(options)
    bits = 8 if architecture is None else architecture.mac.bits  # as `map --network` reads them
    whole = load_graph(options.network, **options.lengths(), bits=bits, fused=not options.unfused)
    own = {
        "parameters": options.parameters,
        "route": options.route,
        "quantity": (options.objective or "bytes") if options.scheduler == "cosma" else None,
        "capacity": options.capacity or ("M_R" if architecture is None else None),
    }
    scheduler = create(options.scheduler, **{name: value for name, value in own.items() if value is not None})
    budget = Budget(options.time_limit)
    problem = ScheduleProblem(whole, architecture)
    result = scheduler.schedule(problem, Objective.EDP, budget=budget, seed=options.seed or 0)
    in_bytes = Path(options.network).suffix == ".json"
    traffic = _traffic(result, architecture)
    document = _document(result, whole, architecture, traffic)
    return Answer(result.found, whole, document, round(result.seconds, 3), traffic, None if in_bytes else bits)


def _traffic(result: ScheduleResult, architecture: Architecture | None) -> TrafficCost | None:
    from codesign.scheduling.cosma.result import Schedule, traffic_cost

    if architecture is None or not isinstance(result.found, Schedule):
        return None
    return traffic_cost(architecture, result.found)


def _document(
    result: ScheduleResult, whole: OperatorGraph, architecture: Architecture | None, traffic: TrafficCost | None
) -> dict[str, object]:
    from codesign.cli.cost_text import provenance_document
    from codesign.scheduling.cosma.result import Schedule, failure_to_dict, schedule_to_dict

    found, seconds = result.found, round(result.seconds, 3)
    counts: JsonObject = {
        "operators": len(whole.operators),
        "macs": whole.macs,
        "weight_bytes": whole.weight_bytes,
    }
    if not isinstance(found, Schedule):
        return {**failure_to_dict(found, seconds), **counts}
    document: dict[str, object] = {**schedule_to_dict(found, seconds)}
    if architecture is not None and traffic is not None:
        document |= {
            "architecture": architecture.name,
            "traffic_energy_pj": traffic.energy_pj,
            "traffic_cycles": traffic.cycles,
            **provenance_document(architecture),
        }
    return {**document, **counts}


def _schedule(options: ScheduleOptions) -> None:
    from codesign.scheduling.cosma.result import Schedule

    options.timed()  # refuses a mistake before the search
    found = find(options)
    result, document = found.result, found.document
    timed = _simulated(result, options)
    if timed is not None:
        from codesign.library.schedule_events import event_record

        document |= event_record(*timed)
    if isinstance(result, Schedule) and options.html is not None:
        from codesign.scheduling.cosma.address_page import memory_map_html

        run, analytic = (None, 0) if timed is None else timed
        write_page(options.html, memory_map_html(result), run, analytic)
    if not options.emit(document):
        return
    macs = f"{found.graph.macs:,} MACs, " if found.graph.macs else ""
    apart = "" if options.parameters else ", not in the scratchpad (--parameters puts them there)"
    typer.echo(
        f"{found.graph.name}: {len(found.graph.operators)} operators, {macs}{found.graph.weight_bytes:,} bytes of weights{apart}"
        f"{'' if found.bits is None else f'; elements of {found.bits} bits'}"
    )
    if isinstance(result, Schedule):
        _print_schedule(result, found)
        if timed is not None:
            print_events(*timed)
        if options.scheduler == "cosma":
            _print_baselines(result)
    else:
        _print_failure(result, options)


def _simulated(result: Schedule | TooSmall | Unplaced, options: ScheduleOptions) -> tuple[Run, int] | None:
    """The run in the event tier and the analytical cycles; None where it was not asked for, or nothing runs."""
    from codesign.scheduling.cosma.result import Schedule

    timing = options.timed()
    if not timing.event:
        return None
    architecture = _architecture(options)
    if architecture is None:
        raise UserError("--timing event needs --arch", hint="a preset name or an architecture file")
    if not isinstance(result, Schedule):
        return None
    from codesign.library.schedule_events import simulate

    return simulate(result, architecture, timing, options.scheduler)


def _architecture(options: ScheduleOptions) -> Architecture | None:
    return None if options.arch is None else named_architecture(options.arch)


def _print_schedule(schedule: Schedule, answer: Answer) -> None:
    from codesign.arch.provenance import recorded_text

    typer.echo(f"scratchpad {schedule.capacity_bytes} bytes")
    typer.echo(
        f"non-compulsory {schedule.noncompulsory_bytes} bytes (spilled {schedule.written_bytes}, retrieved "
        f"{schedule.read_bytes}), off-chip in all {schedule.dram_bytes} bytes"
    )
    bound = "" if schedule.bound is None else f" (value {schedule.value}, bound {schedule.bound} {schedule.unit})"
    typer.echo(f"proof: {schedule.proof.value}{bound}; {schedule.method}; {schedule.placement}")
    typer.echo(f"peak {schedule.peak_buffer_bytes} bytes; {answer.seconds} s")
    if answer.traffic is not None:
        typer.echo(
            f"on {answer.document['architecture']}: the traffic takes {answer.traffic.cycles:,.0f} cycles of the DRAM interface "
            f"and {answer.traffic.energy_pj / 1e9:.4g} mJ"
        )
        typer.echo(f"figures: {recorded_text(cast(JsonObject, answer.document['provenance']))}")


def _print_baselines(schedule: Schedule) -> None:
    """The table against what frameworks do, and what is spilled."""
    from rich.console import Console

    from codesign.cli.tables import make_table
    from codesign.scheduling.cosma.baselines import baseline_traffic
    from codesign.scheduling.cosma.result import spills_to_list

    heads = ("order", "replacement", "bytes>", "saved by cosma>")
    table = make_table("Non-compulsory off-chip bytes", *heads)
    ours = schedule.noncompulsory_bytes
    for (order, policy), theirs in baseline_traffic(schedule.graph, schedule.capacity_bytes).items():
        saved = f"{1 - ours / theirs:.1%}" if theirs else "-"
        table.add_row(order, policy.value, f"{theirs:,}", saved)
    table.add_row("cosma", "cosma", f"{ours:,}", "")
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(table)
    spills = spills_to_list(schedule)
    for spill in spills[:SPILLS_SHOWN]:
        steps = ", ".join(map(str, spill["retrieved_for_steps"]))
        typer.echo(
            f"spill {spill['tensor']} ({spill['size_bytes']} bytes) after step {spill['written_after_step']}, back for {steps}"
        )
    if len(spills) > SPILLS_SHOWN:
        typer.echo(f"... and {len(spills) - SPILLS_SHOWN} more spills; --out or --format json lists all")


def _print_failure(result: TooSmall | Unplaced, options: ScheduleOptions) -> None:
    from codesign.scheduling.cosma.result import TooSmall

    if isinstance(result, TooSmall):
        typer.echo(
            f"infeasible: operator {result.operator!r} alone needs {result.demand_bytes} bytes, "
            f"the scratchpad has {result.capacity_bytes}"
        )
        typer.echo(advice(options, result.demand_bytes))
    else:
        what = "infeasible: no schedule has addresses" if result.proven else "unknown: no addresses were found"
        typer.echo(f"{what} within {result.capacity_bytes} bytes")


def advice(options: ScheduleOptions, needed_bytes: int) -> str:
    """What somebody can do whose operator does not fit: operators are never cut here."""
    ways = [f"a scratchpad of {needed_bytes} bytes (--capacity)"]
    if options.parameters:
        ways.append("weights kept elsewhere (without --parameters)")
    if options.batch is not None and options.batch > 1:
        ways.append("a smaller --batch")
    ways.append("--scheduler soma, which cuts operators into tiles (--arch with the same buffer)")
    return "this scheduler holds whole tensors; what helps: " + "; ".join(ways)
