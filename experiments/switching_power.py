"""Power of the array's elements from their switching: `python -m experiments.switching_power`.

A small machine is simulated in Amaranth's simulator; what every element hears, and what its local memory gives, is recorded cycle by cycle. One element is mapped to
the cells of an open 0.18 um library and run on these records, all elements side by side; its outputs must be those recorded. Edges of nets are priced by the
library's pin capacitances and internal energies (`codesign.hardware.activity` says what is not in it). Elements are nine tenths of a large machine's NANDs.
The last line is one JSON object.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.hardware.activity import gate_netlist, switching_energy
from codesign.hardware.execute import nest_job, wanted_result
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.rtl.machine import register_map
from codesign.hardware.simulate import simulate_in_python
from codesign.hardware.verilog import generate
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.computation import Computation
from experiments.mappers_common import markdown
from spaces.parameters import Value
from spaces.scratchpad import SCRATCHPAD

DATAFLOWS = ("weight-stationary", "output-stationary", "input-stationary", "row-stationary")
DESIGN: dict[str, Value] = {
    "pe_rows": 4,
    "pe_cols": 4,
    "links": "systolic",
    "scratchpad_kib": 32,
    "local_bytes": 64,
    "banks": 4,
    "burst_beats": 16,
    "bus_bits": 64,
}


@dataclass(frozen=True)
class Row:
    """One machine on one kind of operands.

    Args:
        dataflow: What the elements keep.
        operands: How they are drawn.
        cycles: Of the run, registers' writing left out.
        multiplications: In it.
        pj: By multiplication, of elements, memories left out.
        clock_share: Of it, the flip-flops' clock pins.
        milliwatts: Of 256 such elements at 100 MHz with leakage.
    """

    dataflow: str
    operands: str
    cycles: int
    multiplications: int
    pj: float
    clock_share: float
    milliwatts: float


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        size: Bounds of the product of matrices.
        dataflows: Which machines.
        seed: Of operands and mappings.
    """

    size: int
    dataflows: tuple[str, ...]
    seed: int


def operands(computation: Computation, kind: str, rng: np.random.Generator) -> dict[str, Any]:
    """Operands of 8 bits, uniform, or as after a rectifier and small weights: half of the first zero, the rest narrow."""
    found = {}
    for k, tensor in enumerate(computation.inputs):
        shape = [axis.extent(computation.sizes) for axis in tensor.axes]
        if kind == "uniform":
            found[tensor.name] = rng.integers(-128, 128, shape)
        else:
            drawn = np.clip(np.rint(rng.normal(0, 24, shape)), -128, 127).astype(np.int64)
            found[tensor.name] = np.maximum(drawn, 0) if k == 0 else drawn
    return found


class Recorder:
    """What elements hear and give, by cycle."""

    def __init__(self) -> None:
        self.inputs: list[dict[str, list[int]]] = []
        self.outputs: list[dict[str, list[int]]] = []
        self.busy = 0

    def __call__(self, ctx: Any, machine: Any) -> None:
        """One cycle."""
        elements = [e for _, e in sorted(machine.unit.array.elements.items())]
        given = {name: [ctx.get(e.inputs[name]) for e in elements] for name in elements[0].inputs}
        memory = elements[0].memory
        for i in range(0 if memory is None else memory.reads):
            given[f"rdata{i}"] = [ctx.get(e.memory.rdata[i]) for e in elements]
        given["rst"] = [0] * len(elements)
        self.inputs.append(given)
        self.outputs.append({name: [ctx.get(e.outputs[name]) for e in elements] for name in elements[0].outputs})
        self.busy += bool(ctx.get(machine.outputs["busy"]))


def run(dataflow: str, config: Config) -> list[Row]:
    """One machine, on both kinds of operands.

    Raises:
        UserError: A result differs from `einsum`'s.
    """
    n = config.size
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=n, j=n, k=n, bits=8, partial_bits=32)
    computation = replace(
        computation, tensors=tuple(replace(t, bits=32) if t.is_output else t for t in computation.tensors)
    )
    architecture = SCRATCHPAD.build(DESIGN | {"dataflow": dataflow})
    budget, problem = Budget(evaluations=2000), MappingProblem(computation, architecture)
    found = create("anneal").map(problem, Objective.LATENCY, budget=budget, seed=config.seed)
    assert found.mapping is not None
    p = parameters_of(architecture, computation, 8, 128, "machine")
    job, made = nest_job(computation, architecture, found.mapping, p, register_map(p)), generate(p)
    netlist, rows = gate_netlist(made.logic + made.black_boxes, "machine_pe"), []
    for kind in ("uniform", "rectified"):
        recorder, values = Recorder(), operands(computation, kind, np.random.default_rng(config.seed))
        ran = simulate_in_python(job.image, job.image.memory(values), watch=recorder)
        if (job.image.layouts["O"].unpack(ran.memory) != wanted_result(job, values)).any():
            raise UserError("the machine's results differ from those of `einsum`")
        start = len(recorder.inputs) - ran.cycles
        energy = switching_energy(
            netlist, recorder.inputs, p.pes, expected=checked(recorder.outputs, start), start=start
        )
        pj, seconds = energy.total / ran.counts.multiplied, energy.cycles / 100e6
        watts = 256 / p.pes * (energy.total * 1e-12 / seconds + energy.leakage_nw * 1e-9)
        rows.append(Row(dataflow, kind, ran.cycles, ran.counts.multiplied, round(pj, 2), round(energy.clock / energy.total, 3), round(1e3 * watts, 1)))  # fmt: skip
    return rows


def checked(outputs: Sequence[Mapping[str, Sequence[int]]], start: int) -> list[Mapping[str, Sequence[int]]]:
    """Outputs to compare: those of the run."""
    return [{} if cycle < start else given for cycle, given in enumerate(outputs)]


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=16, help="bounds of the product of matrices")
    parser.add_argument("--dataflow", choices=DATAFLOWS, help="one machine instead of all four")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    config = Config(given.size, (given.dataflow,) if given.dataflow else DATAFLOWS, given.seed)
    rows = [row for dataflow in config.dataflows for row in run(dataflow, config)]
    print(markdown(tuple(vars(rows[0])), [[str(v) for v in vars(r).values()] for r in rows]))
    print(json.dumps({"rows": len(rows), "pj_per_multiplication": [r.pj for r in rows]}))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
