"""`codesign schedule` for fusion and DRAM timing: soma, soma-paper, cocco, unfused."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.cli.inputs import parse_dims
from codesign.cli.schedule_events import event_record, print_events, timing_table, wants_events
from codesign.cli.schedule_options import ScheduleOptions
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import read_structured, write_atomic, write_json
from codesign.core.quantities import parse_size

if TYPE_CHECKING:
    from codesign.core.goals import Objective

_COMMON = frozenset(
    {
        "network",
        "arch",
        "phase",
        "seq",
        "past",
        "dims",
        "batch",
        "capacity",
        "mode",
        "tile_cost",
        "evaluate",
        "seed",
        "html",
        "out",
        "timing",
        "timing_table",
    }
)
_SEARCH = _COMMON | {"objective", "time_limit", "evaluations", "prove"}
SCHEDULERS: dict[str, frozenset[str]] = {
    "soma": _SEARCH | {"chains", "workers"},
    "soma-paper": _SEARCH,
    "cocco": _SEARCH,
    "unfused": _SEARCH,
}


def _problem(options: ScheduleOptions) -> tuple[Any, int]:
    """What is scheduled, and the operators it had before wide ones were cut."""
    from codesign.scheduling.soma.evaluator import Problem
    from codesign.scheduling.soma.model.cut_layers import cut_wide_layers
    from codesign.scheduling.soma.model.load import load_graph
    from codesign.scheduling.soma.model.rules import MODES

    if options.network is None:
        raise UserError("--network is required", hint="a zoo name, an ONNX file or a graph as JSON")
    mode = options.mode or "default"
    if mode not in MODES:
        raise unknown_name("mode", mode, MODES)
    source = load_graph(
        options.network,
        phase=options.phase,
        seq=options.seq,
        past=options.past,
        batch=options.batch,
        dims=parse_dims(options.dims),
    )
    hardware = _platform(options, source.constants)
    batch = options.batch if options.batch is not None else source.batch
    problem = Problem(
        source.graph,
        batch,
        hardware,
        MODES[mode],
        None if options.capacity is None else parse_size(options.capacity, "--capacity"),
    )
    if mode == "reference" or options.evaluate is not None:
        cut = problem  # the published model has no such layers; encodings name the layers of the graph as it is
    else:
        cut = replace(problem, graph=cut_wide_layers(problem.graph, problem.limit_bytes))
    return cut, len(problem.graph.layers)


def _platform(options: ScheduleOptions, constants: Any) -> Any:
    """The accelerator: the template with constants, or any architecture of this project behind a mapper."""
    from codesign.arch.presets import preset_names
    from codesign.scheduling.soma.model.hardware import PRESETS, hardware_from_constants, read_hardware

    name, mapper = options.arch, options.tile_cost
    if mapper is None:
        is_template = name is None or name in PRESETS or not (name in preset_names() or _is_architecture(name))
        mapper = "template" if is_template else "anneal"
    if mapper == "template":
        if name is not None and name not in PRESETS and (name in preset_names() or _is_architecture(name)):
            raise UserError(
                f"--tile-cost template needs one of {', '.join(sorted(PRESETS))} or a file of the template's constants, got {name!r}",
                hint="--tile-cost anneal maps tiles on any architecture",
            )
        if name is not None and name not in PRESETS and not Path(name).suffix:
            raise unknown_name("architecture", name, {*PRESETS, *preset_names()})
        if name is not None:
            return read_hardware(name)
        return PRESETS["soma-edge"] if constants is None else hardware_from_constants(constants, str(options.network))
    from codesign.core.goals import Budget
    from codesign.mappers.registry import MAPPERS, create
    from codesign.scheduling.soma.model.mapped_tiles import MappedPlatform

    if mapper not in MAPPERS:
        raise unknown_name("tile cost", mapper, ["template", *MAPPERS])
    if options.mode == "reference":
        raise UserError("--mode reference is the published model: it has --tile-cost template only")
    budget = Budget(time_limit_s=1.0) if mapper == "exact" else Budget(evaluations=2000)
    return MappedPlatform(_architecture("soma-edge" if name is None else name), create(mapper), budget)


def _is_architecture(name: str) -> bool:
    """Whether a file holds an architecture of this project (the template's constants are the other form)."""
    if not Path(name).suffix:
        return False
    raw = read_structured(name)
    return isinstance(raw, Mapping) and "architecture" in raw


def _architecture(name: str) -> Any:
    from codesign.cli.inputs import resolve

    return resolve([], arch=name).need_architecture()


def _objective(name: str | None) -> "Objective":
    from codesign.core.goals import Objective

    return Objective.EDP if name is None else Objective.parse(name, exponents=True)


def _search(problem: Any, options: ScheduleOptions) -> Any:
    from codesign.core.goals import Budget
    from codesign.scheduling.soma.search import two_stages as ss

    how = ss.SearchOptions(
        Budget(options.time_limit, options.evaluations),
        seed=0 if options.seed is None else options.seed,
        chains=ss.DEFAULT_CHAINS if options.chains is None else options.chains,
        workers=1 if options.workers is None else options.workers,
    )
    if options.prove is not None and not options.prove > 0:
        raise UserError(f"--prove must be > 0 seconds, got {options.prove:g}")
    objective = _objective(options.objective)
    found = _run_scheduler(problem, objective, how, options)
    if options.prove is None or not isinstance(found, ss.Found):
        return found
    return ss.prove(found, options.prove, how)


def _run_scheduler(problem: Any, objective: Any, how: Any, options: ScheduleOptions) -> Any:
    from codesign.scheduling.soma.search import two_stages as ss

    if options.scheduler == "soma":
        return ss.search(problem, objective, how)
    if options.scheduler == "soma-paper":
        return ss.search_paper(problem, objective, how)
    return ss.search_baseline(problem, objective, how, options.scheduler)


def _write_files(schedule: Any, record: dict[str, Any], options: ScheduleOptions) -> None:
    from codesign.scheduling.soma.execution_page import page
    from codesign.scheduling.soma.instructions import instructions_json, make_instructions

    if options.html is not None:
        title = f"{schedule.parsed.problem.graph.name}, batch {schedule.parsed.problem.batch}: {options.scheduler}"
        write_atomic(options.html, page(schedule, title))
    if options.out is not None:
        program = make_instructions(schedule)
        write_json(options.out, {**record, "instructions": instructions_json(program)})


def _evaluate(problem: Any, path: Path, options: ScheduleOptions) -> None:
    from codesign.scheduling.soma.evaluator import Schedule, evaluate
    from codesign.scheduling.soma.model.cut_layers import cut_wide_layers
    from codesign.scheduling.soma.model.notation import encodings_from_json
    from codesign.scheduling.soma.report import evaluation_json, table

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
    results = []
    for encoding in encodings:
        try:
            outcome = evaluate(problem, encoding)
        except UserError as error:
            raise error.within(f"{path}: {encoding.name}") from None
        record = evaluation_json(encoding, outcome)
        results.append(record)
        if isinstance(outcome, Schedule):
            _write_files(outcome, record, options)
    if options.output_format == "json":
        print(json.dumps({"results": results}))
        return
    good = [(r["name"], r) for r in results if r["status"] == "SUCCESS"]
    if good:
        print(table(good))
    for record in results:
        if record["status"] != "SUCCESS":
            print(f"{record['name']}: {record['status']}: {record['reason']}")


def counts(problem: Any, operators: int) -> dict[str, Any]:
    """What the network is: name, operators and the layers they are scheduled as, MACs of the whole batch, bytes of weights."""
    return {
        "network": problem.graph.name,
        "batch": problem.batch,
        "operators": operators,
        "scheduled_layers": len(problem.graph.layers),
        "macs": problem.batch * problem.graph.macs,
        "weight_bytes": problem.graph.weight_bytes,
    }


def headline(count: Mapping[str, Any]) -> str:
    """The same as a line."""
    layers, operators = count["scheduled_layers"], count["operators"]
    cut = "" if layers == operators else f" (scheduled as {layers} layers, since those with wide weights are cut)"
    return (
        f"{count['network']}, batch {count['batch']}: {operators} operators{cut}, {count['macs']:,} MACs, "
        f"{count['weight_bytes']:,} bytes of weights; elements of 8 bits"
    )


def find(options: ScheduleOptions) -> tuple[dict[str, Any], Any]:
    """What the network is and what the search finds; nothing is printed."""
    problem, operators = _problem(options)
    return counts(problem, operators), _search(problem, options)


def _simulated(schedule: Any, options: ScheduleOptions) -> Any:
    """The run in the event tier; None where it was not asked for."""
    if not wants_events(options):
        return None
    from codesign.scheduling.timed import time_fused

    return time_fused(schedule, timing_table(options, schedule.parsed.problem.hardware.name))


def run(options: ScheduleOptions) -> None:
    """Schedule (or evaluate given encodings) and print."""
    from codesign.scheduling.soma.evaluator import Invalid
    from codesign.scheduling.soma.report import found_json, infeasible_json, table

    problem, operators = _problem(options)
    count = counts(problem, operators)
    if options.evaluate is not None:
        if wants_events(options):
            raise UserError("--timing event simulates a schedule that was searched for", hint="leave out --evaluate")
        if any(
            v is not None
            for v in (
                options.time_limit,
                options.evaluations,
                options.chains,
                options.workers,
                options.objective,
                options.prove,
            )
        ):
            raise UserError(
                "--evaluate runs no search: leave out --time-limit, --evaluations, --chains, --workers, --objective, --prove"
            )
        _evaluate(problem, options.evaluate, options)
        return
    found = _search(problem, options)
    if isinstance(found, Invalid):
        record = {**infeasible_json(problem, found, options.scheduler), **count}
        print(
            json.dumps(record) if options.output_format == "json" else f"{headline(count)}\ninfeasible: {found.reason}"
        )
        if options.out is not None:
            write_json(options.out, record)
        return
    record = {**found_json(found, options.scheduler, options.seed or 0), **count}
    timed = _simulated(found.schedule, options)
    analytic = found.schedule.latency_cycles
    shown = table([(options.scheduler, record)])
    record |= {} if timed is None else event_record(timed, analytic)
    _write_files(found.schedule, record, options)
    if options.output_format == "json":
        print(json.dumps(record))
        return
    print(headline(count))
    print(shown)
    if timed is not None:
        print_events(timed, analytic)
    print(
        f"DRAM attributes: {found.proof}, gap {100 * found.gap:.2f} % of {found.dram_bound_cycles:,} cycles for these tiles"
    )
    print(f"{found.seconds:.2f} s, {found.stage1.evaluations:,} + {found.dram_evaluations:,} schemes", file=sys.stderr)
