"""`codesign build`: the hardware of a design and its program, as Verilog, simulated and synthesised."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.inputs import resolve
from codesign.cli.options import OutputFormat, check_format, command
from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.hardware.execute import Job
    from codesign.hardware.synthesis import Synthesis
    from codesign.hardware.verilog import Netlist

_HARDWARE = "Hardware"


@dataclass(frozen=True)
class Request:
    """What is built: a trial of a study, files, or a design of a space with a layer."""

    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="A study's folder (with --trial), or architecture, problem and mapping files in any order."
        ),
    ] = None
    trial: Annotated[int | None, typer.Option(help="Number of the trial in the study.")] = None
    layer: Annotated[
        str | None, typer.Option(help='Name of a recorded layer, or a layer such as "gemm M=32 N=32 K=32".')
    ] = None
    space: Annotated[
        str | None, typer.Option(help="Space of the design: scratchpad, gemmcore, gemvcore, dotcore, convcore.")
    ] = None
    design: Annotated[str | None, typer.Option(help="Changes to the space's preset, e.g. pe=8,banks=2.")] = None
    bus_bytes: Annotated[int | None, typer.Option(help="Bytes of a beat, for files (default 16).")] = None
    burst_bytes: Annotated[int | None, typer.Option(help="Bytes of a burst, for files (default 256).")] = None
    evaluations: Annotated[int, typer.Option(help="Mappings or programs searched for a design of --space.")] = 200
    remap: Annotated[
        bool, typer.Option("--remap", help="Search a mapping with sums of 32 bits instead of the recorded one.")
    ] = False
    seed: Annotated[int, typer.Option(help="Of the operands and the search.")] = 0


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app)(build)


def build(
    request: Request,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("runs/hardware"),
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Run it and compare.", rich_help_panel=_HARDWARE)
    ] = False,
    synthesize: Annotated[
        bool, typer.Option("--synthesize", help="Map it to an open cell library.", rich_help_panel=_HARDWARE)
    ] = False,
    simulator: Annotated[
        str | None,
        typer.Option(help="verilator or amaranth; default verilator where it is.", rich_help_panel=_HARDWARE),
    ] = None,
    output_format: OutputFormat = "text",
) -> None:
    """Generate the hardware of a design with its mapping or program; perhaps simulate and synthesise it.

    For example:

    codesign build runs/demo --trial 17 --layer conv1 --out runs/chip --simulate

    codesign build --space gemmcore --design pe=8 --layer "gemm M=32 N=32 K=32" --simulate --synthesize
    """
    check_format(output_format)
    started = time.perf_counter()
    job, netlist = make_job(request)
    from codesign.hardware.build import write_build

    files = write_build(out, netlist, job, request.seed)
    document: dict[str, Any] = {
        "status": "ok",
        "out": str(out),
        "files": list(files),
        "predicted_cycles": job.predicted_cycles,
        "analytic_cycles": job.analytic_cycles,
        "generate_seconds": round(time.perf_counter() - started, 2),
    }
    failed, synthesis = None, None
    if simulate:
        document["simulation"], failed = simulated(job, netlist, simulator, request.seed)
    if synthesize:
        from codesign.hardware.synthesis import synthesize as map_to_cells

        synthesis = map_to_cells(job.image.parameters, netlist)
        document["synthesis"] = synthesis.to_json()
    if request.trial is not None:
        keep_for_report(request, job, document, synthesis, out)
    (out / "result.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    show(document, output_format)
    if failed is not None:
        typer.echo(f"mismatch: {failed}", err=True)
        raise typer.Exit(1)


def keep_for_report(
    request: Request, job: "Job", document: dict[str, Any], synthesis: "Synthesis | None", out: Path
) -> None:
    """Note in the study's folder what was built, so that its report shows and links it."""
    from codesign.cli.study_location import open_study
    from codesign.evaluation.replay import recorded_space
    from codesign.hardware.build import diagram
    from codesign.hardware.parts import area_rows
    from codesign.study.built import record_built

    assert request.what is not None and request.trial is not None
    study = open_study(request.what[0])
    trial = next(t for t in study.trials if t.number == request.trial)
    architecture = recorded_space(study.config, request.space).build(trial.point)
    built: dict[str, Any] = {
        "layer": request.layer or job.computation.name or str(job.computation),
        "folder": os.path.relpath(out.absolute(), study.folder.absolute()),
        "diagram": diagram(job.image.parameters),
        "areas": area_rows(job.image.parameters, architecture, synthesis),
    }
    built |= {k: document[k] for k in ("predicted_cycles", "analytic_cycles", "simulation") if k in document}
    record_built(study.folder, request.trial, built)


def make_job(request: Request) -> "tuple[Job, Netlist]":
    """What a request asks for.

    Raises:
        UserError: Too little or too much is named, or a mapping that the family does not run.
    """
    if request.trial is not None:
        return _of_trial(request)
    if request.space is not None:
        return _of_space(request)
    if not request.what:
        raise UserError("what is to be built?", hint="give a study with --trial, files, or --space with --layer")
    inputs = resolve(request.what, layer=request.layer)
    bus = request.bus_bytes or 16
    return _nest(
        inputs.need_computation(), inputs.need_architecture(), inputs.need_mapping(), bus, request.burst_bytes or 256
    )


def _nest(computation: Any, architecture: Any, mapping: Any, bus_bytes: int, burst_bytes: int) -> "tuple[Job, Netlist]":
    from codesign.hardware.execute import nest_job
    from codesign.hardware.nest_plan import NestPlan, parameters_of
    from codesign.hardware.verilog import generate

    p = parameters_of(architecture, computation, bus_bytes, burst_bytes, "accelerator")
    NestPlan(computation, architecture, mapping, p)  # refuses before anything is generated
    netlist = generate(p)
    return nest_job(computation, architecture, mapping, p, netlist.registers), netlist


def _dma(point: dict[str, Any]) -> tuple[int, int]:
    """Bytes of a beat and of a burst of a design.

    Raises:
        UserError: The space says nothing of a bus.
    """
    if "bus_bits" not in point:
        raise UserError("the design has no `bus_bits`", hint="hardware is generated for the scratchpad and core spaces")
    bus = int(point["bus_bits"]) // 8
    return bus, int(point["burst_bytes"]) if "burst_bytes" in point else bus * int(point["burst_beats"])


def _of_trial(request: Request) -> "tuple[Job, Netlist]":
    from codesign.cli.study_location import open_study
    from codesign.core.errors import unknown_name
    from codesign.evaluation.replay import recorded_space, replay_layers

    if request.what is None or len(request.what) != 1:
        raise UserError("--trial needs one study", hint="codesign build STUDY --trial N")
    study = open_study(request.what[0])
    trial = next((t for t in study.trials if t.number == request.trial), None)
    if trial is None:
        raise UserError(f"{study.label} has no trial {request.trial}", hint=f"it has {len(study.trials)} trials")
    if trial.infeasible:
        raise UserError(
            f"trial {request.trial} is infeasible: there is nothing to build",
            where=study.label,
            hint=str(trial.infeasible),
        )
    space = recorded_space(study.config, request.space)
    architecture = space.build(trial.point)
    layers = replay_layers(space, architecture, study.detail(trial.number))
    names = {layer.name: layer for layer in layers}
    if not names:
        raise UserError(
            f"trial {request.trial} has no layers of its own: it was judged by a schedule", where=study.label
        )
    chosen = request.layer or next(iter(names))
    if chosen not in names:
        raise unknown_name("layer", chosen, names, where=f"trial {request.trial}")
    bus, burst = _dma(dict(trial.point))
    found = names[chosen]
    if request.remap:
        from codesign.hardware.network import integer_widths

        computation = integer_widths(found.computation, found.computation.output.bits)
        return _nest(computation, architecture, _searched(request, computation, architecture), bus, burst)
    try:
        return _nest(found.computation, architecture, found.mapping, bus, burst)
    except UserError as error:
        if "sums of 32 bits" not in error.message:
            raise
        raise UserError(
            error.message,
            where=f"layer {chosen!r} of trial {request.trial}",
            hint="--remap searches a mapping that fits; all trials of explore --space scratchpad-built do",
        ) from None


def _of_space(request: Request) -> "tuple[Job, Netlist]":
    from codesign.cli.tensorize_search import _changes
    from codesign.evaluation.design import load_design_space
    from codesign.hardware.network import integer_widths

    if request.layer is None:
        raise UserError("--space needs a --layer", hint='e.g. --layer "gemm M=32 N=32 K=32"')
    computation = resolve([], layer=request.layer).need_computation()
    space: Any = load_design_space(str(request.space))
    point = dict(next(iter(space.space.presets), {})) | _changes(request.design or "")
    point = space.space.to_points(space.space.to_indices([point], "--design"))[0]
    computation = integer_widths(computation)
    if getattr(space.builder, "core", None) is not None:
        return _core_program(request, computation, space.builder.core(point))
    architecture = space.build(point)
    return _nest(computation, architecture, _searched(request, computation, architecture), *_dma(point))


def _searched(request: Request, computation: Any, architecture: Any) -> Any:
    """A mapping found by annealing.

    Raises:
        UserError: None fits.
    """
    from codesign.core.goals import Budget, Objective
    from codesign.mappers.registry import create
    from codesign.mapping.constraints import MappingProblem

    problem, budget = MappingProblem(computation, architecture), Budget(evaluations=request.evaluations)
    found = create("anneal").map(problem, Objective.EDP, budget=budget, seed=request.seed)
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
        problem, create_search("heuristic").search(problem, evaluations=request.evaluations, seed=request.seed)
    )
    program = program_on_core(searched)
    if isinstance(program, Infeasible):
        raise UserError(f"the program does not fit the core: {program}")
    p = core_parameters(core, "accelerator")
    netlist = generate(p)
    return core_job(program, searched.mapping, core, p, netlist.registers), netlist


def simulated(job: "Job", netlist: "Netlist", name: str | None, seed: int) -> tuple[dict[str, Any], str | None]:
    """The run beside what it should give, and the first mismatch.

    Raises:
        UserError: An unknown simulator, or one that is not installed.
    """
    import numpy as np

    from codesign.core.errors import unknown_name
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


def show(document: dict[str, Any], output_format: str) -> None:
    """Print the result."""
    if output_format == "json":
        typer.echo(json.dumps(document, indent=1))
        return
    typer.echo(f"written     {document['out']}: {', '.join(document['files'])}")
    typer.echo(
        f"cycles      {document['predicted_cycles']:,} by pipeline depths, {document['analytic_cycles']:,.0f} by the cost model"
    )
    if "simulation" in document:
        s = document["simulation"]
        same = "equal" if s["bit_equal"] else "DIFFERENT"
        typer.echo(f"simulated   {s['cycles']:,} cycles in {s['seconds']:.2f} s ({s['simulator']}), results {same}")
        typer.echo(
            f"accesses    DRAM {'equal' if s['dram_equal'] else 'DIFFERENT'}, all {'equal' if s['accesses_equal'] else 'DIFFERENT'}"
        )
    if "synthesis" in document:
        s = document["synthesis"]
        typer.echo(
            f"synthesised {s['nand2']:,.0f} NAND2 ({s['area_um2'] / 1e6:.3f} mm2 at 0.18 um), {s['flip_flops']:,} flip-flops, {s['levels']} levels"
        )
