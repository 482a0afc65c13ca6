"""`codesign schedule --scheduler segments`: a network on a system of many cores, as a tree of pipelines."""

import json
from typing import TYPE_CHECKING

import typer

from codesign.cli.schedule_options import NETWORK, ScheduleOptions
from codesign.core.errors import UserError
from codesign.core.files import read_structured, write_atomic
from codesign.core.goals import Budget, Objective
from codesign.core.json_types import JsonObject

if TYPE_CHECKING:
    from codesign.cost.cost import Infeasible
    from codesign.scheduling.segments.bound import SegmentBound
    from codesign.scheduling.segments.contention import Simulated
    from codesign.scheduling.segments.evaluate import Evaluation, Evaluator
    from codesign.scheduling.segments.packet_lists import MemoryClock

_SEARCH = {"objective", "time_limit", "evaluations", "evaluate", "seed", "mode"}
SCHEDULERS = {"segments": NETWORK | _SEARCH | {"out", "timing", "dram_device", "html"}}
"""Scheduler -> options it reads."""

DEFAULT_SECONDS = 10.0


def _evaluator(options: ScheduleOptions) -> "tuple[Evaluator, int]":
    from codesign.arch.many_core_files import load_system
    from codesign.scheduling.segments.evaluate import SEMANTICS, Evaluator
    from codesign.scheduling.segments.network_layers import segment_network
    from codesign.scheduling.segments.scheduler import DEFAULT_SYSTEM
    from codesign.scheduling.soma.model.load import load_graph

    network = options.named()
    mode = options.mode or "own"
    if mode not in SEMANTICS:
        raise UserError(f"--mode must be one of {', '.join(SEMANTICS)} with this scheduler, got {mode!r}")
    source = load_graph(network, **options.lengths())
    system = load_system(options.arch or DEFAULT_SYSTEM)
    return Evaluator(system, segment_network(source.graph), SEMANTICS[mode]), source.batch


def _found(
    options: ScheduleOptions, evaluator: "Evaluator", batch: int, memory: "MemoryClock | None"
) -> "tuple[Evaluation, int]":
    """The tree of a file, or the best of a search; and how many were tried."""
    from codesign.scheduling.segments.in_view import search_in_view
    from codesign.scheduling.segments.scheduler import settings_for
    from codesign.scheduling.segments.search import TreeSearch
    from codesign.scheduling.segments.tree_files import check_named_cores, named_cores, tree_from_json

    if options.evaluate is not None:
        value = read_structured(options.evaluate)
        tree = value.get("tree", value) if isinstance(value, dict) else value
        where = str(options.evaluate)
        root = tree_from_json(tree, evaluator.network, where)
        named = named_cores(tree, evaluator.network, where)
        found = evaluator.evaluate(root)
        check_named_cores(named, found, evaluator.network, where)
        return found, 1
    objective = Objective.EDP if options.objective is None else Objective.parse(options.objective)
    given = options.evaluations is not None or options.time_limit is not None
    budget = Budget(options.time_limit if given else DEFAULT_SECONDS, options.evaluations)
    settings = settings_for(objective, budget, options.seed or 0)
    if evaluator.semantics.steps and options.timed().event:
        searched, _ = search_in_view(evaluator, batch, settings, memory)
    else:
        searched = TreeSearch(evaluator, batch, settings).run()
    return searched.evaluation, searched.steps


def _record(
    options: ScheduleOptions, evaluator: "Evaluator", found: "Evaluation", bound: "SegmentBound", tried: int
) -> JsonObject:
    from codesign.arch.chiplet_cost import money, system_provenance
    from codesign.scheduling.segments.tree_files import tree_to_json

    whole, system = found.rows[0], evaluator.system
    cost = money(system)
    return {
        "status": "ok",
        "scheduler": "segments",
        "system": system.name,
        "rules": options.mode or "own",
        "network": evaluator.network.name,
        "latency_cycles": whole.time,
        "energy_pj": whole.energy_pj,
        "edp": found.edp,
        "dram_bytes": whole.dram_words,
        "hops": whole.hops,
        "die_hops": whole.die_hops,
        "bound_edp": bound.edp,
        "gap": bound.gap(found.edp),
        "cost_usd": cost.overall_usd,
        "area_mm2": cost.total_mm2,
        "provenance": system_provenance(system),
        "evaluated": tried,
        "tree": tree_to_json(found.root, evaluator.network),
    }


def _memory(options: ScheduleOptions, evaluator: "Evaluator") -> "MemoryClock | None":
    """The DRAMs of the simulation; None for a steady rate.

    Raises:
        UserError: A kind of timing or a device that there is not, or a device without simulation.
    """
    from codesign.scheduling.segments.device_memory import DeviceMemory
    from codesign.timing.dram.device import load_device

    if options.dram_device is None:
        return None
    if not options.timed().event:
        raise UserError("--dram-device is an option of --timing event", hint="give --timing event, or leave it out")
    return DeviceMemory(evaluator.system.memories.words_per_cycle_each, load_device(options.dram_device))


def _simulate(evaluator: "Evaluator", found: "Evaluation", memory: "MemoryClock | None") -> "Simulated":
    """Simulate a tree; without contention it is judged by rules that have no loads in view."""
    from codesign.scheduling.segments.contention import ContentionSimulator
    from codesign.scheduling.segments.evaluate import OWN_RULES, Evaluator

    if evaluator.semantics.steps:
        evaluator = Evaluator(evaluator.system, evaluator.network, OWN_RULES)
        found = evaluator.evaluate(found.root)
    return ContentionSimulator(evaluator, memory).simulate(found)


def _simulated(simulated: "Simulated") -> JsonObject:
    """The tree on the routers of the network and the queues of the DRAMs."""
    return {
        "simulated_cycles": simulated.time,
        "simulated_edp": simulated.edp,
        "uncontended_cycles": simulated.free,
        "simulated_complete": simulated.complete,
        "flit_hops": simulated.flit_hops,
        "simulated_segments": [
            {"cycles": s.time, "uncontended_cycles": s.free, "steps": s.steps} for s in simulated.segments
        ],
    }


def run(options: ScheduleOptions) -> None:
    """Schedule and print."""
    from codesign.arch.chiplet_cost import system_provenance
    from codesign.arch.provenance import recorded_text
    from codesign.scheduling.segments.bound import bound_of
    from codesign.scheduling.segments.scheduler import nothing_fits
    from codesign.scheduling.segments.search import NothingFitsError
    from codesign.scheduling.segments.tree_files import core_map, tree_lines

    events = options.timed().event
    evaluator, batch = _evaluator(options)
    memory = _memory(options, evaluator)
    overflow: Infeasible | None
    try:
        found, tried = _found(options, evaluator, batch, memory)
        overflow = evaluator.overflow(found)
    except NothingFitsError as error:
        overflow = nothing_fits(evaluator.system, evaluator.network, error.message)
    if overflow is not None:
        typer.echo(json.dumps(overflow.to_json()) if options.output_format == "json" else f"infeasible: {overflow}")
        return
    bound = bound_of(evaluator, found.root.batch)
    record = _record(options, evaluator, found, bound, tried)
    simulated = _simulate(evaluator, found, memory) if events else None
    if simulated is not None:
        record |= _simulated(simulated)
    if options.html is not None:
        from codesign.scheduling.segments.system_page import page

        write_atomic(options.html, page(evaluator, found, bound, simulated))
    if not options.emit(record):
        return
    system = evaluator.system
    for line in tree_lines(found, evaluator.network):
        typer.echo(line)
    typer.echo("cores of the first segment:")
    for line in core_map(found, evaluator.network, 0, system):
        typer.echo(f"  {line}")
    typer.echo(
        f"{evaluator.network.name} on {system.name}: {found.rows[0].time:,} cycles, {found.rows[0].energy_pj:.6g} pJ,"
        f" {found.rows[0].dram_words:,} DRAM bytes; EDP {found.edp:.6g}, gap {bound.gap(found.edp):.3f}"
        f" to the bound; {tried:,} trees; {record['cost_usd']:.2f} USD"
    )
    typer.echo(f"figures: {recorded_text(system_provenance(system))}")
    if simulated is not None:
        _print_simulated(simulated, system.network.topology)


def _print_simulated(simulated: "Simulated", topology: str) -> None:
    """Simulated cycles beside those without contention."""
    partial = "" if simulated.complete else " (partial: a step went on too long)"
    typer.echo(
        f"on the {topology}: {simulated.time:,} cycles, {simulated.time / max(simulated.free, 1) - 1:+.2%} on {simulated.free:,}"
        f" without contention; EDP {simulated.edp:.6g}{partial}"
    )
