"""Power of generated hardware in a simulated run of its job."""

from typing import TYPE_CHECKING

import numpy as np

from codesign.library.built_hardware import BuiltDocument

if TYPE_CHECKING:
    from codesign.hardware.execute import Job
    from codesign.hardware.power import MachinePower
    from codesign.hardware.synthesis import Synthesis
    from codesign.hardware.verilog import Netlist


def add_power(
    job: "Job", netlist: "Netlist", seed: int, document: BuiltDocument
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
    from codesign.library.simulated import run_record

    measured = MeasuredMachine(job.image.parameters, netlist)
    values = random_values(job.computation, np.random.default_rng(seed))
    verdict, power = measured.run(job, values, seed)
    document["synthesis"], document["power"] = measured.synthesis.to_json(), power.to_json()
    document["simulation"], failed = run_record(job, verdict, "verilator")
    return measured.synthesis, power, failed
