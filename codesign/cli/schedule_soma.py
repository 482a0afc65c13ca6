"""`codesign schedule` for fusion and DRAM timing: soma, soma-paper, cocco, unfused."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.cli.compiling import echo_json
from codesign.cli.schedule_events import print_events, write_page
from codesign.cli.schedule_options import NETWORK, ScheduleOptions, named_architecture
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import read_structured, write_json
from codesign.core.json_types import JsonObject
from codesign.core.quantities import parse_size

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.scheduling.protocol import ScheduleProblem, ScheduleResult
    from codesign.scheduling.soma.evaluator import Problem
    from codesign.scheduling.soma.model.hardware import SomaHardware
    from codesign.scheduling.soma.scheduler import SomaScheduler
    from codesign.timing.simulate import Run

TEMPLATE = "template"
"""The tile cost of SoMa's own accelerator template."""

_COMMON = NETWORK | {
    "capacity",
    "mode",
    "tile_cost",
    "evaluate",
    "seed",
    "html",
    "out",
    "timing",
    "timing_table",
    "trace",
}
_SEARCH = _COMMON | {"objective", "time_limit", "evaluations", "prove"}
SCHEDULERS: dict[str, frozenset[str]] = {
    "soma": _SEARCH | {"chains", "workers", "start"},
    "soma-paper": _SEARCH,
    "cocco": _SEARCH,
    "unfused": _SEARCH,
}


def _posed(options: ScheduleOptions) -> "tuple[SomaScheduler, ScheduleProblem]":
    """The scheduler and what it schedules.

    Raises:
        UserError: No network, or an option that cannot be used.
    """
    from codesign.scheduling.protocol import ScheduleProblem
    from codesign.scheduling.registry import create
    from codesign.scheduling.soma.model.load import load_graph
    from codesign.scheduling.soma.model.rules import MODES
    from codesign.scheduling.soma.scheduler import SomaScheduler

    network = options.named()
    if options.mode is not None and options.mode not in MODES:
        raise unknown_name("mode", options.mode, MODES)
    source = load_graph(network, **options.lengths())
    if options.batch is not None:
        source = replace(source, batch=options.batch)
    machine = _machine(options, has_constants=source.constants is not None)
    own = {
        "chains": options.chains,
        "workers": options.workers,
        "mode": options.mode,
        "prove_s": options.prove,
        "start": options.start,
        "platform": machine.platform,
        "tile_mapper": machine.tile_mapper,
    }
    made = create(options.scheduler, **{name: value for name, value in own.items() if value is not None})
    assert isinstance(made, SomaScheduler)  # the names of this family are its own
    capacity = None if options.capacity is None else parse_size(options.capacity, "--capacity")
    return made, ScheduleProblem(source, machine.architecture, capacity)


@dataclass(frozen=True)
class Machine:
    """What a network is scheduled for: constants of the template, or any architecture behind a mapper."""

    platform: "SomaHardware | None" = None
    architecture: "Architecture | None" = None
    tile_mapper: str | None = None


def _machine(options: ScheduleOptions, *, has_constants: bool) -> Machine:
    """The machine that is named; nothing where the network's file brings its constants."""
    from codesign.arch.presets import preset_names
    from codesign.mappers.registry import MAPPERS
    from codesign.scheduling.soma.model.hardware import PRESETS, read_hardware

    name, mapper = options.arch, options.tile_cost
    is_other = name is not None and name not in PRESETS and (name in preset_names() or _is_architecture(name))
    if mapper is None:
        mapper = "anneal" if is_other else TEMPLATE
    if mapper == TEMPLATE:
        if is_other:
            raise UserError(
                f"--tile-cost template needs one of {', '.join(sorted(PRESETS))} or a file of the template's constants, got {name!r}",
                hint="--tile-cost anneal maps tiles on any architecture",
            )
        if name is None:
            return Machine() if has_constants else Machine(PRESETS["soma-edge"])
        if name not in PRESETS and not Path(name).suffix:
            raise unknown_name("architecture", name, {*PRESETS, *preset_names()})
        return Machine(read_hardware(name))
    if mapper not in MAPPERS:
        raise unknown_name("tile cost", mapper, [TEMPLATE, *MAPPERS])
    if options.mode == "reference":
        raise UserError("--mode reference is the published model: it has --tile-cost template only")
    return Machine(None, named_architecture("soma-edge" if name is None else name), mapper)


def _is_architecture(name: str) -> bool:
    """Whether a file holds an architecture of this project (the template's constants are the other form)."""
    if not Path(name).suffix:
        return False
    raw = read_structured(name)
    return isinstance(raw, Mapping) and "architecture" in raw


def posed_of(result: "ScheduleResult") -> "Problem":
    """The problem in SoMa's own terms that was scheduled."""
    from codesign.scheduling.soma.scheduler import Unscheduled

    found = result.found
    return found.problem if isinstance(found, Unscheduled) else found.schedule.parsed.problem


def _write_files(schedule: Any, record: JsonObject, options: ScheduleOptions, timed: "Run | None" = None) -> None:
    from codesign.scheduling.soma.execution_page import page
    from codesign.scheduling.soma.instructions import instructions_json, make_instructions

    if options.html is not None:
        title = f"{schedule.parsed.problem.graph.name}, batch {schedule.parsed.problem.batch}: {options.scheduler}"
        write_page(options.html, page(schedule, title), timed, schedule.latency_cycles)
    if options.out is not None:
        program = make_instructions(schedule)
        write_json(options.out, {**record, "instructions": instructions_json(program)})


def _evaluate(problem: Any, path: Path, options: ScheduleOptions) -> None:
    from codesign.arch.provenance import recorded_text
    from codesign.core.goals import Objective
    from codesign.scheduling.soma.evaluator import Schedule, evaluate
    from codesign.scheduling.soma.model.cut_layers import cut_wide_layers
    from codesign.scheduling.soma.model.notation import encodings_from_json
    from codesign.scheduling.soma.report import evaluation_json, table
    from codesign.scheduling.soma.search.fusion_bound import fusion_bound

    raw = read_structured(path)
    try:
        encodings = encodings_from_json(raw, problem.graph, str(path))
    except UserError:
        cut = cut_wide_layers(problem.graph, problem.limit_bytes)  # what a search in default mode orders
        if cut == problem.graph:
            raise
        problem = replace(problem, graph=cut)
        encodings = encodings_from_json(raw, cut, str(path))
    for given, flag in ((options.html, "--html"), (options.out, "--out")):
        if given is not None and len(encodings) != 1:
            raise UserError(f"{flag} needs one encoding, {path} holds {len(encodings)}")
    bound = fusion_bound(problem)
    results: list[JsonObject] = []
    good: list[tuple[str, Schedule]] = []
    for encoding in encodings:
        try:
            outcome = evaluate(problem, encoding)
        except UserError as error:
            raise error.within(f"{path}: {encoding.name}") from None
        record = evaluation_json(encoding, outcome)
        if isinstance(outcome, Schedule):
            record["provenance"] = outcome.provenance
            record["fusion_gap"] = bound.gap(Objective.EDP, outcome.energy_pj, outcome.latency_cycles)
        results.append(record)
        if isinstance(outcome, Schedule):
            good.append((encoding.name, outcome))
            _write_files(outcome, record, options)
    if options.output_format == "json":
        echo_json({"results": results})
        return
    if good:
        print(table(good))
        print(f"figures: {recorded_text(good[0][1].provenance)}")
        best = min(bound.gap(Objective.EDP, s.energy_pj, s.latency_cycles) for _, s in good)
        print(f"fusion: the best is within {100 * best:.2f} % of an energy-delay product that no schedule beats")
    for record in results:
        if record["status"] != "SUCCESS":
            print(f"{record['name']}: {record['status']}: {record['reason']}")


@dataclass(frozen=True)
class Counts:
    """What a scheduled network is.

    Args:
        network: Its name.
        batch: Inputs of a run.
        operators: Of the network.
        scheduled_layers: What these are scheduled as.
        macs: Of the whole batch.
        weight_bytes: Of all weights.
    """

    network: str
    batch: int
    operators: int
    scheduled_layers: int
    macs: int
    weight_bytes: int

    @classmethod
    def of(cls, problem: Any, operators: int) -> "Counts":
        """The counts of a posed problem whose network has so many operators."""
        graph, batch = problem.graph, problem.batch
        return cls(graph.name, batch, operators, len(graph.layers), batch * graph.macs, graph.weight_bytes)

    def __str__(self) -> str:
        layers, operators = self.scheduled_layers, self.operators
        cut = "" if layers == operators else f" (scheduled as {layers} layers, since those with wide weights are cut)"
        return (
            f"{self.network}, batch {self.batch}: {operators} operators{cut}, {self.macs:,} MACs, "
            f"{self.weight_bytes:,} bytes of weights; elements of 8 bits"
        )


def find(options: ScheduleOptions) -> "tuple[Counts, ScheduleResult]":
    """What the network is and what the scheduler finds; nothing is printed."""
    from codesign.core.goals import Budget

    scheduler, problem = _posed(options)
    budget = Budget(options.time_limit, options.evaluations)
    result = scheduler.schedule(problem, options.goal, budget=budget, seed=options.seed or 0)
    return Counts.of(posed_of(result), len(scheduler.pose(problem).graph.layers)), result


def run(options: ScheduleOptions) -> None:
    """Schedule (or evaluate given encodings) and print."""
    from codesign.arch.provenance import recorded_text
    from codesign.library.schedule_events import event_record, simulate
    from codesign.scheduling.soma.report import found_json, infeasible_json, table
    from codesign.scheduling.soma.scheduler import Unscheduled

    if options.evaluate is not None:
        _refuse_search(options)
        scheduler, problem = _posed(options)
        _evaluate(scheduler.pose(problem), options.evaluate, options)
        return
    count, result = find(options)
    found = result.found
    if isinstance(found, Unscheduled):
        record = {**infeasible_json(found.problem, found.reason, options.scheduler), **vars(count)}
        if options.emit(record):
            print(f"{count}\ninfeasible: {found.reason.reason}")
        return
    record = {**found_json(found, options.scheduler, result.seed), **vars(count)}
    record |= {"fusion_bound": result.detail["fusion_bound"], "fusion_gap": result.gap}
    record |= {"provenance": found.schedule.provenance}
    timing = options.timed()
    machine = getattr(found.schedule.parsed.problem.hardware, "architecture", None)
    events = simulate(found.schedule, machine, timing, options.scheduler) if timing.event else None
    shown = table([(options.scheduler, found.schedule)])
    record |= {} if events is None else event_record(*events)
    _write_files(found.schedule, record, options, None if events is None else events[0])
    if options.output_format == "json":
        echo_json(record)
        return
    print(count)
    print(shown)
    print(f"figures: {recorded_text(found.schedule.provenance)}")
    if events is not None:
        print_events(*events)
    least = result.detail["fusion_bound"]
    print(
        f"fusion: {result.proof.value}, gap {100 * (result.gap or 0.0):.2f} % of what no schedule beats: "
        f"{least['latency_cycles']:,} cycles, {least['energy_pj']:,.5g} pJ, {least['dram_bytes']:,} DRAM bytes"
    )
    print(
        f"DRAM attributes: {found.proof}, gap {100 * found.gap:.2f} % of {found.dram_bound_cycles:,} cycles for these tiles"
    )
    print(f"{found.seconds:.2f} s, {found.stage1.evaluations:,} + {found.dram_evaluations:,} schemes", file=sys.stderr)


def _refuse_search(options: ScheduleOptions) -> None:
    if options.timed().event:
        raise UserError("--timing event simulates a schedule that was searched for", hint="leave out --evaluate")
    of_search = ("time_limit", "evaluations", "chains", "workers", "objective", "prove")
    if any(getattr(options, name) is not None for name in of_search):
        flags = ", ".join("--" + name.replace("_", "-") for name in of_search)
        raise UserError(f"--evaluate runs no search: leave out {flags}")
