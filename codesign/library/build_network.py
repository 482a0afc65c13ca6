"""A host's program with generated hardware: written, and run around the simulated machine."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codesign.core.errors import UserError
from codesign.library.build_jobs import target_of
from codesign.library.built_hardware import BuiltDocument, BuiltHardware, HostRecord, finished

if TYPE_CHECKING:
    from codesign.hardware.execute import Job
    from codesign.hardware.host_program import HostProgram, HostRun
    from codesign.hardware.host_steps import Array, FloatArray, HostNetwork
    from codesign.hardware.verilog import Netlist
    from codesign.library.build_options import Request

HOST_FOLDER = "host"


def build_network(request: "Request", folder: Path) -> BuiltHardware:
    """The machine of a request and a host's program that runs its network; perhaps simulated and synthesised.

    Raises:
        UserError: No machine is named, or the network has what neither host nor machine does.
    """
    from codesign.hardware.build import write_machine
    from codesign.hardware.host_program import program_of_network, write_host
    from codesign.hardware.host_steps import Convolution
    from codesign.hardware.memory_timing import LATENCY_CYCLES
    from codesign.hardware.network import read_network

    started, options = time.perf_counter(), request.options
    assert options.network is not None
    network = read_network(options.network)
    layers = [s for s in network.steps if isinstance(s, Convolution)]
    if not layers:
        raise UserError("the network has no convolution: there is nothing to launch", where=options.network)
    target = target_of(request, layers[0].computation)
    program = program_of_network(network, target.netlist, target.parameters, target.plan)
    does = (
        f"A host runs a network of {len(program.launches)} launches on it; see `host/network.c`. Expected: {program.predicted_cycles} cycles in the launches, "
        f"with a DRAM that answers after {LATENCY_CYCLES}."
    )
    files = write_machine(folder, target.netlist, target.parameters, does)
    files += tuple(f"{HOST_FOLDER}/{name}" for name in write_host(folder / HOST_FOLDER, program))
    analytic = sum(launch.job.analytic_cycles for launch in program.launches)
    host: HostRecord = {"launches": len(program.launches), "predicted_cycles": program.predicted_cycles}
    document: BuiltDocument = {
        "status": "ok", "out": str(folder), "files": list(files), "predicted_cycles": program.predicted_cycles, "analytic_cycles": analytic,
        "generate_seconds": round(time.perf_counter() - started, 2), "host": host,
    }  # fmt: skip
    failed = None
    if options.simulate:
        failed = _run_network(program, network, folder, host, options.seed, options.network)
    return finished(BuiltHardware(folder, files, document, failed), target.parameters, target.netlist, options)


def _run_network(
    program: "HostProgram", network: "HostNetwork", folder: Path, host: HostRecord, seed: int, model: str
) -> str | None:
    """Run the program on a random picture; the first mismatch."""
    from codesign.hardware.host_program import run_host
    from codesign.hardware.host_steps import convolve_exactly

    picture = np.random.default_rng(seed).standard_normal(network.given.shape).astype(np.float32)
    run = run_host(folder / HOST_FOLDER, program, picture)
    got, wanted = np.frombuffer(run.output, "<i4"), network.run(picture, convolve_exactly).ravel()
    host["integers_equal"] = bool((got == wanted).all())
    other = by_onnx_runtime(model, picture)
    if other is not None:
        host["onnxruntime_equal"] = bool((got == other.ravel()).all())
    if not (host["integers_equal"] and host.get("onnxruntime_equal", True)):
        at = int(np.flatnonzero(got != (wanted if other is None else other.ravel()))[0])
        return f"integer {at} of the network's result is {got[at]}, wanted {wanted[at]}"
    return _note_cycles(program, run, host)


def _note_cycles(program: "HostProgram", run: "HostRun", host: HostRecord) -> str | None:
    """Cycles and seconds into the record; launches that took other cycles than predicted, for a machine whose cycles are predicted."""
    wanted = tuple(launch.job.predicted_cycles for launch in program.launches)
    host["cycles"], host["cycles_equal"], host["seconds"] = sum(run.cycles), run.cycles == wanted, run.seconds
    if program.parameters.axi or host["cycles_equal"]:
        return None
    at = next(i for i, (a, b) in enumerate(zip(run.cycles, wanted, strict=True)) if a != b)
    return f"launch {program.launches[at].name} took {run.cycles[at]} cycles, predicted {wanted[at]}"


def by_onnx_runtime(model: str, picture: "FloatArray") -> "Array | None":
    """The integers of ONNX Runtime, nodes run one by one; None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: picture[None]})[0], np.int64)


def add_host(
    request: "Request", job: "Job", netlist: "Netlist", folder: Path
) -> tuple[tuple[str, ...], HostRecord, str | None]:
    """A host's program with a single launch: its files, its record, and the first mismatch where it ran."""
    from codesign.hardware.execute import random_values, wanted_result
    from codesign.hardware.host_program import program_of_job, run_host, write_host

    values = random_values(job.computation, np.random.default_rng(request.options.seed))
    program = program_of_job(netlist, job, job.image.memory(values))
    files = tuple(f"{HOST_FOLDER}/{name}" for name in write_host(folder / HOST_FOLDER, program))
    host: HostRecord = {"launches": 1, "predicted_cycles": job.predicted_cycles}
    if not request.options.simulate:
        return files, host, None
    run = run_host(folder / HOST_FOLDER, program, None)
    layout = job.image.layouts["O"]
    host["integers_equal"] = bool((layout.unpack(bytes(layout.base) + run.output) == wanted_result(job, values)).all())
    wrong = None if host["integers_equal"] else "the host's program left another result"
    return files, host, wrong or _note_cycles(program, run, host)
