"""A simulated run as a record, and the power of generated hardware in it."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from codesign.hardware.execute import Job, Verdict
    from codesign.hardware.power import MachinePower
    from codesign.hardware.synthesis import Synthesis
    from codesign.hardware.verilog import Netlist
    from codesign.library.built_hardware import BuiltDocument
    from codesign.study.built import RunRecord


def run_record(job: "Job", verdict: "Verdict", simulator: str) -> "tuple[RunRecord, str | None]":
    """A run beside what it should give, and the first mismatch.

    Args:
        job: What was run.
        verdict: What came of it.
        simulator: Its name.
    """
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
        "simulator": simulator,
        "bit_equal": verdict.wrong is None,
        "dram_equal": not verdict.dram_differences,
        "accesses_equal": not verdict.differences,
        "cycles": verdict.run.cycles,
        "predicted_cycles": job.predicted_cycles,
        "seconds": verdict.run.seconds,
        "cycles_per_second": round(verdict.run.cycles / max(verdict.run.seconds, 1e-9)),
    }, failed


def add_power(
    job: "Job", netlist: "Netlist", seed: int, document: "BuiltDocument"
) -> "tuple[Synthesis, MachinePower, str | None]":
    """Simulate a job, map its machine to cells and replay the run on them; the records go into the document.

    Args:
        job: What the machine runs.
        netlist: Of the machine.
        seed: Of the operands, and of the stretches that are replayed.
        document: What is known so far.

    Returns:
        The netlist mapped to cells, its power, and the first mismatch.

    Raises:
        MissingDependencyError: Verilator or Yosys is not installed.
        UserError: The machine has more elements than are synthesised.
    """
    from codesign.hardware.execute import random_values
    from codesign.hardware.power import MeasuredMachine

    measured = MeasuredMachine(job.image.parameters, netlist)
    values = random_values(job.computation, np.random.default_rng(seed))
    verdict, power = measured.run(job, values, seed)
    document["synthesis"], document["power"] = measured.synthesis.to_json(), power.to_json()
    document["simulation"], failed = run_record(job, verdict, "verilator")
    return measured.synthesis, power, failed
