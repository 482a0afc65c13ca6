"""Which machine a request asks for, and what runs on it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.core.errors import UserError, unknown_name
from codesign.core.point import Point
from codesign.library.arguments import Sources

if TYPE_CHECKING:
    from codesign.hardware.execute import Job
    from codesign.hardware.parameters import Parameters
    from codesign.hardware.verilog import Netlist
    from codesign.library.build_options import BuildOptions, Request
    from codesign.workloads.computation import Computation

NAME = "accelerator"
"""Of the top module."""


def make_job(request: "Request") -> "tuple[Job, Netlist]":
    """What a request asks for.

    Raises:
        UserError: Too little or too much is named, or a mapping that the family does not run.
    """
    if request.options.trial is not None:
        return _of_trial(request)
    if request.options.space is not None:
        return _of_space(request)
    if not request.what:
        raise UserError("what is to be built?", hint="give a study with --trial, files, or --space with --layer")
    if len(request.what) == 1 and Path(request.what[0]).is_dir():
        raise UserError(
            f"{request.what[0]} is a folder: which design of the study?", hint="give --trial NUMBER, or three files"
        )
    inputs = Sources(layer=request.options.layer).resolve(request.what)
    bus = request.options.bus_bytes or 16
    return _nest(
        inputs.need_computation(),
        inputs.need_architecture(),
        inputs.need_mapping(),
        (bus, request.options.burst_bytes or 256),
        request.options,
    )


def _nest(
    computation: Any,
    architecture: Any,
    mapping: Any,
    dma: tuple[int, int],
    options: "BuildOptions",
    judged: int | None = None,
) -> "tuple[Job, Netlist]":
    """The machine of loop nests for a design, and its job; `dma` is bytes of a beat and of a burst, `judged` as in `_with_port`."""
    from codesign.hardware.execute import nest_job
    from codesign.hardware.nest_loops import parameters_of
    from codesign.hardware.nest_plan import NestPlan
    from codesign.hardware.verilog import generate

    p = _with_port(parameters_of(architecture, computation, *dma, NAME), options, judged)
    NestPlan(computation, architecture, mapping, p)  # refuses before anything is generated
    netlist = generate(p)
    return nest_job(computation, architecture, mapping, p, netlist.registers), netlist


def _with_port(p: "Parameters", options: "BuildOptions", judged: int | None = None) -> "Parameters":
    """The machine with the port that is asked for; with no number of bursts under way that of the study's table, or its own."""
    from codesign.hardware.parameters import Answers

    outstanding = options.outstanding or judged or p.outstanding
    return replace(p, outstanding=outstanding, axi=options.axi, answers=Answers(options.answers))


def _dma(point: Point) -> tuple[int, int]:
    """Bytes of a beat and of a burst of a design.

    Raises:
        UserError: The space says nothing of a bus.
    """
    if "bus_bits" not in point:
        raise UserError("the design has no `bus_bits`", hint="hardware is generated for the scratchpad and core spaces")
    bus = int(point["bus_bits"]) // 8
    return bus, int(point["burst_bytes"]) if "burst_bytes" in point else bus * int(point["burst_beats"])


def _of_trial(request: "Request") -> "tuple[Job, Netlist]":
    from codesign.evaluation.replay import recorded_space, replay_layers

    study, trial = _trial(request)
    space = recorded_space(study.config, request.options.space)
    architecture = space.build(trial.point)
    layers = replay_layers(space, architecture, study.detail(trial.number))
    names = {layer.name: layer for layer in layers}
    if not names:
        raise UserError(
            f"trial {request.options.trial} has no layers of its own: it was judged by a schedule", where=study.label
        )
    chosen = request.options.layer or next(iter(names))
    if chosen not in names:
        raise unknown_name("layer", chosen, names, where=f"trial {request.options.trial}")
    dma, found = _dma(dict(trial.point)), names[chosen]
    judged = _judged_bursts(study.config)
    if request.options.remap:
        from codesign.hardware.network import integer_widths

        computation = integer_widths(found.computation, found.computation.output.bits)
        return _nest(
            computation,
            architecture,
            _searched(request, computation, architecture),
            dma,
            request.options,
            judged,
        )
    try:
        return _nest(found.computation, architecture, found.mapping, dma, request.options, judged)
    except UserError as error:
        if "sums of 32 bits" not in error.message:
            raise
        raise UserError(
            error.message,
            where=f"layer {chosen!r} of trial {request.options.trial}",
            hint="--remap searches a mapping that fits; all trials of explore --space scratchpad-built do",
        ) from None


def _judged_bursts(config: Any) -> int | None:
    """Bursts under way in the timing table that a study was judged by; None where it was not judged by generated machines."""
    from codesign.timing.table import Overlap, load_timing

    name = config["evaluation"].get("timing_table")
    timing = None if name is None else load_timing(name)
    if timing is None or timing.overlap is not Overlap.GENERATED:
        return None
    found = dict(timing.constants).get("outstanding")
    return None if found is None else int(found)


def _of_space(request: "Request") -> "tuple[Job, Netlist]":
    from codesign.hardware.network import integer_widths

    if request.options.layer is None:
        raise UserError("--space needs a --layer", hint='e.g. --layer "gemm M=32 N=32 K=32"')
    computation = integer_widths(Sources(layer=request.options.layer).resolve().need_computation())
    space, point, _ = _design(request)
    if getattr(space.builder, "core", None) is not None:
        target = _core_target(request, space.builder.core(point))
        return target.plan(computation.name, computation), target.netlist
    architecture = space.build(point)
    mapping = _searched(request, computation, architecture)
    return _nest(computation, architecture, mapping, _dma(point), request.options)


def _design(request: "Request") -> tuple[Any, Point, int | None]:
    """The space and the design that a request names, and the bursts under way that a study's trial was judged with.

    Raises:
        UserError: There is no such study, trial or design.
    """
    from codesign.evaluation.design import load_design_space
    from codesign.evaluation.replay import recorded_space
    from codesign.library.changes import changed_preset

    if request.options.trial is not None:
        study, trial = _trial(request)
        return recorded_space(study.config, request.options.space), trial.point, _judged_bursts(study.config)
    space: Any = load_design_space(str(request.options.space))
    return space, changed_preset(space, request.options.design or ""), None


def _trial(request: "Request") -> tuple[Any, Any]:
    """The study and the trial of it that a request names.

    Raises:
        UserError: There is no such study, no such trial, or the trial is infeasible.
    """
    from codesign.library.studies import open_study

    number = request.options.trial
    if len(request.what) != 1 or number is None:
        raise UserError("--trial needs one study", hint="codesign build STUDY --trial N")
    study = open_study(request.what[0]).study
    trial = study.trial(number)
    if trial.infeasible:
        raise UserError(
            f"trial {number} is infeasible: there is nothing to build",
            where=study.label,
            hint=str(trial.infeasible),
        )
    return study, trial


@dataclass(frozen=True)
class Target:
    """A machine for the layers of a network.

    Args:
        parameters: Of the machine.
        netlist: Its Verilog.
        plan: Puts a layer of some name on it.
    """

    parameters: "Parameters"
    netlist: "Netlist"
    plan: "Callable[[str, Computation], Job]"


def target_of(request: "Request", computation: "Computation") -> Target:
    """The machine that a request names, and how layers like `computation` are put on it.

    Raises:
        UserError: No design is named.
    """
    from codesign.hardware.nest_loops import parameters_of
    from codesign.hardware.verilog import generate

    if request.options.space is None and request.options.trial is None:
        raise UserError("--network needs a machine", hint="give --space with --design, or a study with --trial")
    space, point, judged = _design(request)
    if getattr(space.builder, "core", None) is not None:
        return _core_target(request, space.builder.core(point), judged)
    architecture, dma = space.build(point), _dma(point)
    p = _with_port(parameters_of(architecture, computation, *dma, NAME), request.options, judged)
    netlist = generate(p)
    return Target(p, netlist, lambda name, layer: _quickest(request, layer, architecture, p, netlist))


def _quickest(
    request: "Request", computation: "Computation", architecture: Any, p: "Parameters", netlist: "Netlist"
) -> "Job":
    """Of mappings with the least latency by the cost model, the one with the fewest generated cycles.

    They are one that is proven best, one proven best with output channels alone along the columns, and an annealed one.

    Raises:
        UserError: None fits, or the machine runs none of them.
    """
    from codesign.core.goals import Budget, Objective
    from codesign.hardware.execute import nest_job
    from codesign.mappers.registry import create
    from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem

    fixed = tuple((d, 1) for d in computation.dims if d in "pq")
    spread = Constraints((LevelConstraints("Scratchpad", spatial=fixed, along_x=frozenset("k")),))
    plans = [("exact", Constraints())] + ([("exact", spread)] if {"k", "c"} <= set(computation.dims) else [])
    budget, found, refused = Budget(evaluations=request.options.evaluations), [], "no mapping of the layer fits the design"  # fmt: skip
    for mapper, constraints in [*plans, ("anneal", Constraints())]:
        problem = MappingProblem(computation, architecture, constraints)
        given = Budget() if mapper == "exact" else budget
        mapped = create(mapper).map(problem, Objective.LATENCY, budget=given, seed=request.options.seed)
        if mapped.mapping is None:
            continue
        try:
            found.append(nest_job(computation, architecture, mapped.mapping, p, netlist.registers))
        except UserError as error:
            refused = error.message
    if not found:
        raise UserError(refused, where=str(computation))
    return min(found, key=lambda job: job.predicted_cycles)


def _searched(request: "Request", computation: Any, architecture: Any) -> Any:
    """A mapping found by annealing.

    Raises:
        UserError: None fits.
    """
    from codesign.core.goals import Budget, Objective
    from codesign.mappers.registry import create
    from codesign.mapping.constraints import MappingProblem

    problem, budget = MappingProblem(computation, architecture), Budget(evaluations=request.options.evaluations)
    found = create("anneal").map(problem, Objective.EDP, budget=budget, seed=request.options.seed)
    if found.mapping is None:
        raise UserError(f"no mapping of the layer fits the design: {found.infeasible}")
    return found.mapping


def _core_target(request: "Request", core: Any, judged: int | None = None) -> Target:
    """The machine of a core, which programs that are searched put layers on; `judged` as in `_with_port`."""
    from codesign.hardware.core_plan import core_parameters
    from codesign.hardware.execute import core_job
    from codesign.hardware.verilog import generate

    p = _with_port(core_parameters(core, NAME), request.options, judged)
    netlist = generate(p)

    def plan(name: str, layer: "Computation") -> "Job":
        program, mapping = _program(request, layer, core)
        return core_job(program, mapping, core, p, netlist.registers)

    return Target(p, netlist, plan)


def _program(request: "Request", computation: Any, core: Any) -> tuple[Any, Any]:
    """A program found by search, and its mapping.

    Raises:
        UserError: It does not fit.
    """
    from codesign.cost.cost import Infeasible
    from codesign.tensorization.core_program import found_program, program_on_core
    from codesign.tensorization.encoding import SoftwareProblem
    from codesign.tensorization.search_registry import create_search

    problem = SoftwareProblem.of(computation, core)
    searched = found_program(
        problem,
        create_search("heuristic").search(problem, evaluations=request.options.evaluations, seed=request.options.seed),
    )
    program = program_on_core(searched)
    if isinstance(program, Infeasible):
        raise UserError(f"the program does not fit the core: {program}")
    return program, searched.mapping
