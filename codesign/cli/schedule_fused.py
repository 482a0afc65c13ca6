"""`codesign schedule --scheduler fused`: exact fusion with each operator's own mapping inside."""

from typing import TYPE_CHECKING

import typer

from codesign.cli.schedule_options import NETWORK, ScheduleOptions, named_architecture
from codesign.core.json_types import JsonObject
from codesign.core.quantities import parse_size

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.scheduling.fused.network_operators import FusedGraph
    from codesign.scheduling.protocol import ScheduleProblem, ScheduleResult

SCHEDULERS = {"fused": NETWORK | {"capacity", "objective", "time_limit", "halos", "out"}}
"""Scheduler -> options it reads."""

DEFAULT_ARCH = "soma-edge"


def machine(options: ScheduleOptions) -> "Architecture":
    """The accelerator that is named."""
    return named_architecture(options.arch or DEFAULT_ARCH)


def _problem(options: ScheduleOptions) -> "ScheduleProblem":
    from codesign.scheduling.protocol import ScheduleProblem
    from codesign.workloads.load import load_network

    name, architecture = options.named(), machine(options)
    network = load_network(name, **options.lengths(), bits=architecture.mac.bits, fuse=False)
    capacity = None if options.capacity is None else parse_size(options.capacity, "--capacity")
    return ScheduleProblem(network, architecture, capacity)


def find(options: ScheduleOptions) -> "tuple[FusedGraph, ScheduleResult]":
    """The operators that are scheduled and what the scheduler finds; nothing is printed."""
    from codesign.core.goals import Budget
    from codesign.scheduling.fused.scheduler import FusedScheduler

    scheduler, problem = FusedScheduler(halos=bool(options.halos)), _problem(options)
    result = scheduler.schedule(problem, options.goal, budget=Budget(options.time_limit), seed=0)
    return scheduler.pose(problem), result


def counts(graph: "FusedGraph", options: ScheduleOptions) -> JsonObject:
    """Figures of the network that was scheduled, as other schedulers print them."""
    return {
        "network": graph.name,
        "architecture": options.arch or DEFAULT_ARCH,
        "operators": len(graph.operators),
        "macs": graph.macs,
        "weight_bytes": graph.weight_bytes,
    }


def run(options: ScheduleOptions) -> None:
    """Schedule and print."""
    from codesign.cli.cost_text import provenance_document, provenance_line

    graph, result = find(options)
    record = {**result.to_json(), **counts(graph, options), **provenance_document(machine(options))}
    if options.emit(record):
        for line in (*lines(graph, result), f"figures: {provenance_line(machine(options))}"):
            typer.echo(line)


def lines(graph: "FusedGraph", result: "ScheduleResult") -> list[str]:
    """The fused schedule as lines of text: tree, nests, figures, proof."""
    head = f"{graph.name}: {len(graph.operators)} operators, {graph.macs:,} MACs; {int(graph.capacity_bits) // 8:,} bytes of buffer"
    if result.infeasible is not None:
        return [head, f"infeasible: {result.infeasible.detail}"]
    found = result.found.schedule
    energy = "" if result.energy_pj is None else f", {result.energy_pj:,.6g} pJ"
    gap = "" if result.gap is None else f", gap {100 * result.gap:.3f} %"
    halos = [] if result.found.halos is None else [result.found.halos.text(graph)]
    return [
        head,
        *halos,
        *found.tree(nests=True),
        f"{result.latency_cycles:,.0f} cycles{energy}; {result.detail['objective']} {found.value:.9g}",
        f"proof: {result.proof.value}{gap}, {result.detail['cpu_seconds']:.2f} CPU s",
    ]
