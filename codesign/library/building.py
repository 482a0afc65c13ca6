"""`build`: the hardware of a design and its program, as Verilog, simulated and synthesised."""

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.library.build_jobs import make_job
from codesign.library.build_network import add_host, build_network
from codesign.library.build_options import DEFAULT_OPTIONS, BuildOptions, Request
from codesign.library.built_hardware import BuiltDocument, BuiltHardware, finished
from codesign.library.simulated import add_power, run_record

if TYPE_CHECKING:
    from codesign.hardware.execute import Job
    from codesign.hardware.synthesis import Synthesis
    from codesign.hardware.verilog import Netlist
    from codesign.study.built import BuiltRecord, RunRecord

__all__ = ["BuildOptions", "BuiltHardware", "Request", "build", "make_job"]


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
    if options.network is not None:
        return build_network(request, folder)
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
    failed, synthesis, power = None, None, None
    if options.power:
        synthesis, power, failed = add_power(job, netlist, options.seed, document)
    elif options.simulate:
        document["simulation"], failed = simulated(job, netlist, options.simulator, options.seed, options.memory)
    if options.host_driver:
        hosted, document["host"], wrong = add_host(request, job, netlist, folder)
        files, failed = (*files, *hosted), failed or wrong
    built = finished(
        BuiltHardware(folder, files, document, failed, synthesis, power), job.image.parameters, netlist, options
    )
    if options.trial is not None:
        keep_for_report(request, job, document, built.synthesis, folder)
    return built


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
    trial = study.trial(request.options.trial)
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
    if "power" in document:
        built["power"] = document["power"]
    record_built(study.folder, request.options.trial, built)


def simulated(
    job: "Job", netlist: "Netlist", name: str | None, seed: int, memory: str | None = None
) -> "tuple[RunRecord, str | None]":
    """The run beside what it should give, and the first mismatch.

    Raises:
        UserError: The simulator is not installed.
    """
    import numpy as np

    from codesign.hardware.execute import Simulator, execute, random_values
    from codesign.hardware.simulate import simulate_in_python
    from codesign.hardware.verilator import VerilatedMachine, find_verilator

    chosen = name or ("verilator" if find_verilator() and memory is None else "amaranth")
    run: Simulator = simulate_in_python
    if memory is not None:
        from codesign.timing.dram.device import load_device

        run = partial(simulate_in_python, device=load_device(memory))
    if chosen == "verilator":
        run = VerilatedMachine(job.image.parameters, netlist).run
    verdict = execute(job, random_values(job.computation, np.random.default_rng(seed)), run)
    return run_record(job, verdict, chosen)
