"""The schedulers of order, scratchpad addresses and spills: `cosma`, its baselines, and `allocate`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import typer

from codesign.core.errors import UserError, unknown_name
from codesign.core.files import write_atomic, write_json

if TYPE_CHECKING:
    from codesign.cli.schedule import ScheduleOptions
    from codesign.scheduling.cosma.graph import OperatorGraph
    from codesign.scheduling.cosma.result import Schedule, TooSmall

_GRAPH = frozenset({"network", "phase", "seq", "batch", "capacity", "parameters", "unfused", "html", "out"})
SCHEDULERS: dict[str, frozenset[str]] = {
    "cosma": _GRAPH | {"route", "objective", "arch", "time_limit", "seed"},
    "allocate": frozenset({"buffers", "capacity", "time_limit", "seed", "out"}),
}
"""Scheduler -> options it reads."""


def run(options: ScheduleOptions) -> None:
    """Schedule and print."""
    if options.scheduler == "allocate":
        _allocate(options)
    else:
        _schedule(options)


def _allocate(options: ScheduleOptions) -> None:
    from codesign.scheduling.allocation.buffers import AllocationStatus, format_buffers, height, peak_load, read_buffers
    from codesign.scheduling.allocation.solve import allocate
    from codesign.scheduling.cosma.capacity import parse_bytes

    if options.buffers is None or options.capacity is None:
        raise UserError("scheduler 'allocate' needs --buffers FILE.csv and --capacity")
    buffers = read_buffers(options.buffers)
    capacity = parse_bytes(options.capacity)
    started = time.perf_counter()
    found = allocate(
        buffers,
        capacity,
        time_limit_s=60.0 if options.time_limit is None else _positive(options.time_limit),
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
    document: dict[str, Any] = {
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
    typer.echo(json.dumps(document))


def _schedule(options: ScheduleOptions) -> None:
    from codesign.scheduling.cosma.capacity import resolve_capacity
    from codesign.scheduling.cosma.result import TooSmall, schedule_to_dict, too_small_to_dict
    from codesign.scheduling.cosma.sources import load_graph

    if options.network is None:
        raise UserError(
            f"scheduler {options.scheduler!r} needs --network", hint="a zoo name, an ONNX file or a graph as JSON"
        )
    graph = load_graph(
        options.network, fused=not options.unfused, batch=options.batch, seq=options.seq, phase=options.phase
    )
    if not options.parameters:
        graph = graph.without_parameters()
    capacity = resolve_capacity(options.capacity or "M_R", graph)
    started = time.perf_counter()
    result = _solve(options, graph, capacity)
    seconds = round(time.perf_counter() - started, 3)
    document = too_small_to_dict(result, seconds) if isinstance(result, TooSmall) else schedule_to_dict(result, seconds)
    if options.out is not None:
        write_json(options.out, document)
    if options.output_format == "json":
        typer.echo(json.dumps(document))
    elif isinstance(result, TooSmall):
        typer.echo(
            f"infeasible: operator {result.operator!r} alone needs {result.demand_bytes} bytes, the scratchpad has {capacity}"
        )
    else:
        _print_schedule(result, seconds)


def _solve(options: ScheduleOptions, graph: OperatorGraph, capacity: int) -> Schedule | TooSmall:
    from dataclasses import replace

    from codesign.scheduling.cosma.solve import DEFAULT_EFFORT, schedule_cosma

    effort = replace(DEFAULT_EFFORT, seed=options.seed or 0)
    if options.time_limit is not None:
        effort = replace(effort, time_limit_s=_positive(options.time_limit))
    if options.route not in (None, "decomposed"):
        raise unknown_name("route", str(options.route), ("decomposed",))
    return schedule_cosma(graph, capacity, effort=effort)


def _print_schedule(schedule: Schedule, seconds: float) -> None:
    spilled = schedule.written_bytes
    typer.echo(
        f"{schedule.graph.name}: {len(schedule.graph.operators)} operators, scratchpad {schedule.capacity_bytes} bytes"
    )
    typer.echo(
        f"non-compulsory {schedule.noncompulsory_bytes} bytes (spilled {spilled}, retrieved {schedule.read_bytes}), "
        f"off-chip in all {schedule.dram_bytes} bytes"
    )
    typer.echo(
        f"proof: {schedule.proof.value} (bound {schedule.bound} {schedule.unit}); {schedule.method}; {schedule.placement}"
    )
    typer.echo(f"peak {schedule.peak_buffer_bytes} bytes; {seconds} s")


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise UserError(f"--time-limit must be positive, got {seconds}")
    return seconds
