"""`build`: the hardware of a design and its program, as Verilog, simulated and synthesised."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast, final

from codesign.core.errors import UserError, unknown_name
from codesign.core.json_types import Json, JsonObject
from codesign.core.point import Point
from codesign.library.arguments import resolve
from codesign.library.results import AbstractResult

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from codesign.hardware.execute import Job
    from codesign.hardware.parameters import Parameters
    from codesign.hardware.synthesis import Synthesis
    from codesign.hardware.verilog import Netlist
    from codesign.study.built import BuiltRecord, RunRecord


@final
@dataclass(frozen=True)
class BuildOptions:
    """What is built, and what is done with it.

    Args:
        trial: Number of the trial in the study that is built.
        layer: Name of a recorded layer, or a layer such as ``gemm M=32 N=32 K=32``.
        space: Space of the design, where no study and no files say it; or ``module:attribute`` of a study's own.
        design: Changes to the space's preset, such as ``pe=8,banks=2``.
        bus_bytes: Bytes of a beat, for files; default 16.
        burst_bytes: Bytes of a burst, for files; default 256.
        outstanding: Bursts that a DMA engine has under way at most; default that of the study's timing table, else 16. With 1 the machine
            does one thing after another.
        evaluations: Mappings or programs searched for a design of `space`.
        remap: Whether a mapping with sums of 32 bits is searched instead of the recorded one.
        seed: Of the operands and the search.
        simulate: Whether it is run and compared with ``einsum`` and the cost model.
        synthesize: Whether it is mapped to an open cell library.
        simulator: ``verilator`` or ``amaranth``; default verilator where it is.
    """

    trial: int | None = None
    layer: str | None = None
    space: str | None = None
    design: str | None = None
    bus_bytes: int | None = None
    burst_bytes: int | None = None
    outstanding: int | None = None
    evaluations: int = 200
    remap: bool = False
    seed: int = 0
    simulate: bool = False
    synthesize: bool = False
    simulator: str | None = None

    def __post_init__(self) -> None:
        for name, value in (
            ("bus_bytes", self.bus_bytes),
            ("burst_bytes", self.burst_bytes),
            ("outstanding", self.outstanding),
        ):
            if value is not None and value < 1:
                raise UserError(f"`{name}` must be >= 1, got {value}")
        if self.evaluations < 1:
            raise UserError(f"`evaluations` must be >= 1, got {self.evaluations}")
        if self.seed < 0:
            raise UserError(f"`seed` must be >= 0, got {self.seed}")
        if self.simulator is not None and not self.simulate:
            raise UserError("--simulator is an option of --simulate", hint="give --simulate, or leave it out")


DEFAULT_OPTIONS = BuildOptions()


class BuiltDocument(TypedDict):
    """Generated hardware in its JSON form: cycles, and what simulation and synthesis said."""

    status: str
    out: str
    files: list[str]
    predicted_cycles: int
    analytic_cycles: float
    generate_seconds: float
    simulation: NotRequired["RunRecord"]
    synthesis: NotRequired[JsonObject]


@final
@dataclass(frozen=True)
class BuiltHardware(AbstractResult):
    """Generated hardware with its program.

    Args:
        folder: Where its files are.
        files: Their names.
        document: Cycles, and what simulation and synthesis said.
        mismatch: The first difference between the simulated run and what it should give; None where there is none.
        synthesis: The netlist mapped to cells, where that was asked for.
    """

    folder: Path
    files: tuple[str, ...]
    document: BuiltDocument
    mismatch: str | None = None
    synthesis: "Synthesis | None" = None

    def to_json(self) -> JsonObject:
        """See `AbstractResult`."""
        return {name: cast(Json, value) for name, value in self.document.items()}

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        document = self.document
        head: JsonObject = {
            "out": document["out"],
            "predicted_cycles": document["predicted_cycles"],
            "analytic_cycles": document["analytic_cycles"],
        }
        if "simulation" in self.document:
            run = self.document["simulation"]
            return {**head, "simulated_cycles": run["cycles"], "results": "equal" if run["bit_equal"] else "different"}
        return head

    def rows(self) -> list[JsonObject]:
        """One row for every file."""
        return [{"file": name, "size_bytes": (self.folder / name).stat().st_size} for name in self.files]

    def plot(self) -> "go.Figure":
        """Cycles by pipeline depths, by the cost model and, where it ran, simulated."""
        from codesign.report.figures import parts_figure

        parts = [("pipeline depths", float(self.document["predicted_cycles"]))]
        parts.append(("cost model", float(self.document["analytic_cycles"])))
        if "simulation" in self.document:
            parts.append(("simulated", float(self.document["simulation"]["cycles"])))
        return parts_figure(parts, "cycles", f"Cycles of the hardware in {self.folder}")


@final
@dataclass(frozen=True)
class Request:
    """What is built: a trial of a study, files, or a design of a space with a layer.

    Args:
        what: A study, or architecture, problem and mapping files.
        options: Which part of it, and how.
    """

    what: tuple[str, ...]
    options: BuildOptions


def build(
    what: str | Path | Sequence[str | Path] = (),
    out: str | Path = "runs/hardware",
    options: BuildOptions = DEFAULT_OPTIONS,
) -> BuiltHardware:
    """Generate the hardware of a design with its mapping or program; perhaps simulate and synthesise it.

    Args:
        what: A study's folder (with `options.trial`), or architecture, problem and mapping files; nothing with `options.space`.
        out: Folder for the files.
        options: Which design, and what is done with it.

    Returns:
        The folder, cycles, and what simulation and synthesis said.

    Raises:
        UserError: Too little or too much is named, or a mapping that the generated hardware does not run.
    """
    from codesign.hardware.build import write_build

    started, folder = time.perf_counter(), Path(out)
    given = (what,) if isinstance(what, str | Path) else tuple(what)
    request = Request(tuple(str(w) for w in given), options)
    job, netlist = make_job(request)
    files = write_build(folder, netlist, job, options.seed)
    document: BuiltDocument = {
        "status": "ok",
        "out": str(out),
        "files": list(files),
        "predicted_cycles": job.predicted_cycles,
        "analytic_cycles": job.analytic_cycles,
        "generate_seconds": round(time.perf_counter() - started, 2),
    }
    failed, synthesis = None, None
    if options.simulate:
        document["simulation"], failed = simulated(job, netlist, options.simulator, options.seed)
    if options.synthesize:
        from codesign.hardware.synthesis import synthesize as map_to_cells

        synthesis = map_to_cells(job.image.parameters, netlist)
        document["synthesis"] = synthesis.to_json()
    if options.trial is not None:
        keep_for_report(request, job, document, synthesis, folder)
    (folder / "result.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return BuiltHardware(folder, tuple(files), document, failed, synthesis)


def keep_for_report(
    request: Request, job: "Job", document: BuiltDocument, synthesis: "Synthesis | None", out: Path
) -> None:
    """Note in the study's folder what was built, so that its report shows and links it."""
    from codesign.evaluation.replay import recorded_space
    from codesign.hardware.build import diagram
    from codesign.hardware.parts import area_rows
    from codesign.library.studies import open_study
    from codesign.study.built import record_built

    assert request.options.trial is not None
    study = open_study(request.what[0]).study
    trial = next(t for t in study.trials if t.number == request.options.trial)
    architecture = recorded_space(study.config, request.options.space).build(trial.point)
    built: BuiltRecord = {
        "layer": request.options.layer or job.computation.name or str(job.computation),
        "folder": os.path.relpath(out.absolute(), study.folder.absolute()),
        "diagram": diagram(job.image.parameters),
        "areas": area_rows(job.image.parameters, architecture, synthesis),
        "predicted_cycles": document["predicted_cycles"],
        "analytic_cycles": document["analytic_cycles"],
    }
    if "simulation" in document:
        built["simulation"] = document["simulation"]
    record_built(study.folder, request.options.trial, built)


def make_job(request: Request) -> "tuple[Job, Netlist]":
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
    inputs = resolve(request.what, layer=request.options.layer)
    bus = request.options.bus_bytes or 16
    return _nest(
        inputs.need_computation(),
        inputs.need_architecture(),
        inputs.need_mapping(),
        (bus, request.options.burst_bytes or 256),
        request.options.outstanding,
    )


def _nest(
    computation: Any, architecture: Any, mapping: Any, dma: tuple[int, int], outstanding: int | None
) -> "tuple[Job, Netlist]":
    """The machine of loop nests for a design, and its job; `dma` is bytes of a beat and of a burst."""
    from codesign.hardware.execute import nest_job
    from codesign.hardware.nest_loops import parameters_of
    from codesign.hardware.nest_plan import NestPlan
    from codesign.hardware.verilog import generate

    p = _with_bursts(parameters_of(architecture, computation, *dma, "accelerator"), outstanding)
    NestPlan(computation, architecture, mapping, p)  # refuses before anything is generated
    netlist = generate(p)
    return nest_job(computation, architecture, mapping, p, netlist.registers), netlist


def _with_bursts(p: "Parameters", outstanding: int | None) -> "Parameters":
    """The machine with so many bursts under way; None leaves its own number."""
    return p if outstanding is None else replace(p, outstanding=outstanding)


def _dma(point: Point) -> tuple[int, int]:
    """Bytes of a beat and of a burst of a design.

    Raises:
        UserError: The space says nothing of a bus.
    """
    if "bus_bits" not in point:
        raise UserError("the design has no `bus_bits`", hint="hardware is generated for the scratchpad and core spaces")
    bus = int(point["bus_bits"]) // 8
    return bus, int(point["burst_bytes"]) if "burst_bytes" in point else bus * int(point["burst_beats"])


def _of_trial(request: Request) -> "tuple[Job, Netlist]":
    from codesign.evaluation.replay import recorded_space, replay_layers
    from codesign.library.studies import open_study

    if len(request.what) != 1:
        raise UserError("--trial needs one study", hint="codesign build STUDY --trial N")
    study = open_study(request.what[0]).study
    trial = next((t for t in study.trials if t.number == request.options.trial), None)
    if trial is None:
        raise UserError(
            f"{study.label} has no trial {request.options.trial}", hint=f"it has {len(study.trials)} trials"
        )
    if trial.infeasible:
        raise UserError(
            f"trial {request.options.trial} is infeasible: there is nothing to build",
            where=study.label,
            hint=str(trial.infeasible),
        )
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
    outstanding = request.options.outstanding or _judged_bursts(study.config)
    if request.options.remap:
        from codesign.hardware.network import integer_widths

        computation = integer_widths(found.computation, found.computation.output.bits)
        return _nest(computation, architecture, _searched(request, computation, architecture), dma, outstanding)
    try:
        return _nest(found.computation, architecture, found.mapping, dma, outstanding)
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


def _of_space(request: Request) -> "tuple[Job, Netlist]":
    from codesign.evaluation.design import load_design_space
    from codesign.hardware.network import integer_widths
    from codesign.library.changes import changes

    if request.options.layer is None:
        raise UserError("--space needs a --layer", hint='e.g. --layer "gemm M=32 N=32 K=32"')
    computation = resolve([], layer=request.options.layer).need_computation()
    space: Any = load_design_space(str(request.options.space))
    point = dict(next(iter(space.space.presets), {})) | changes(request.options.design or "")
    point = space.space.to_points(space.space.to_indices([point], "--design"))[0]
    computation = integer_widths(computation)
    if getattr(space.builder, "core", None) is not None:
        return _core_program(request, computation, space.builder.core(point))
    architecture = space.build(point)
    mapping = _searched(request, computation, architecture)
    return _nest(computation, architecture, mapping, _dma(point), request.options.outstanding)


def _searched(request: Request, computation: Any, architecture: Any) -> Any:
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


def _core_program(request: Request, computation: Any, core: Any) -> "tuple[Job, Netlist]":
    from codesign.cost.cost import Infeasible
    from codesign.hardware.core_plan import core_parameters
    from codesign.hardware.execute import core_job
    from codesign.hardware.verilog import generate
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
    p = _with_bursts(core_parameters(core, "accelerator"), request.options.outstanding)
    netlist = generate(p)
    return core_job(program, searched.mapping, core, p, netlist.registers), netlist


def simulated(job: "Job", netlist: "Netlist", name: str | None, seed: int) -> "tuple[RunRecord, str | None]":
    """The run beside what it should give, and the first mismatch.

    Raises:
        UserError: An unknown simulator, or one that is not installed.
    """
    import numpy as np

    from codesign.hardware.execute import Simulator, execute, random_values
    from codesign.hardware.simulate import simulate_in_python
    from codesign.hardware.verilator import VerilatedMachine, find_verilator

    if name not in (None, "verilator", "amaranth"):
        raise unknown_name("simulator", str(name), ["verilator", "amaranth"], where="--simulator")
    chosen = name or ("verilator" if find_verilator() else "amaranth")
    run: Simulator = simulate_in_python
    if chosen == "verilator":
        run = VerilatedMachine(job.image.parameters, netlist).run
    verdict = execute(job, random_values(job.computation, np.random.default_rng(seed)), run)
    failed = None
    if verdict.wrong is not None:
        at, address, got, wanted = verdict.wrong
        failed = (
            f"element {list(at)} at DRAM address {address:#x}, written in cycle {verdict.wrong_cycle}, is {got}, wanted {wanted} "
            f"({verdict.wrong_elements} differ after {verdict.run.cycles} cycles)"
        )
    elif verdict.differences:
        d = verdict.differences[0]
        failed = f"{d.kind} of {d.tensor} at {d.memory}: hardware {d.hardware}, model {d.model}"
    return {
        "simulator": chosen,
        "bit_equal": verdict.wrong is None,
        "dram_equal": not verdict.dram_differences,
        "accesses_equal": not verdict.differences,
        "cycles": verdict.run.cycles,
        "predicted_cycles": job.predicted_cycles,
        "seconds": verdict.run.seconds,
        "cycles_per_second": round(verdict.run.cycles / max(verdict.run.seconds, 1e-9)),
    }, failed
