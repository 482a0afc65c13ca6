"""Power of whole machines from switching: `python -m experiments.switching_power [--case NAME] [--operands KIND]`.

A machine is generated, mapped to the cells of an open 0.18 um library, and simulated; what its registers and ports held is replayed on the cells, as
`codesign build --power` does (`codesign.hardware.power`). With `--whole` a run is also replayed from its first cycle to its last: the figure of the
stretches that are drawn otherwise stands beside it. The last line is one JSON object.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.hardware.parts import PARTS
from codesign.hardware.power import MachinePower, MeasuredMachine
from codesign.library.build_jobs import make_job
from codesign.library.build_options import BuildOptions, Request
from codesign.workloads.computation import Computation
from experiments.mappers_common import markdown

SMALL = "pe_rows=4,pe_cols=4,links=systolic,scratchpad_kib=32,local_bytes=64,banks=4,burst_beats=16,bus_bits=64"
LARGE = "pe_rows=16,pe_cols=16,links=systolic,scratchpad_kib=128,local_bytes=64,banks=8,burst_beats=16,bus_bits=128"
CASES = {
    "weights kept": (f"{SMALL},dataflow=weight-stationary", "gemm M=32 N=32 K=32"),
    "sums kept": (f"{SMALL},dataflow=output-stationary", "gemm M=32 N=32 K=32"),
    "full size": (f"{LARGE},dataflow=weight-stationary", "conv K=128 C=256 P=28 Q=28 R=1 S=1"),
}
KINDS = ("uniform", "rectified")
MOST_CYCLES = 10_000
"""Of a run that is replayed whole: the pictures of all its cycles are in memory at once."""


@dataclass(frozen=True)
class Row:
    """One machine on one kind of operands.

    Args:
        case: Which machine and layer.
        operands: How they are drawn.
        cycles: Of the run.
        replayed: Of them, those whose edges were counted.
        pj: By multiplication, leakage left out.
        within: Half of the 95 % interval of that, as a share.
        elements, around, clock, memories: Shares of it: nets of the elements, nets of the other logic, clock pins with their tree, memories.
        clock_ns: Of a cycle.
        milliwatts: At that clock, with leakage.
        error: Of the drawn stretches beside the whole run, as a share; None where that was not replayed.
    """

    case: str
    operands: str
    cycles: int
    replayed: int
    pj: float
    within: float
    elements: float
    around: float
    clock: float
    memories: float
    clock_ns: float
    milliwatts: float
    error: float | None


def operands(computation: Computation, kind: str, rng: np.random.Generator) -> dict[str, Any]:
    """Operands of 8 bits, uniform, or as after a rectifier and small weights: half of the first zero, the rest narrow."""
    found = {}
    for k, tensor in enumerate(computation.inputs):
        shape = tensor.shape(computation.sizes)
        if kind == "uniform":
            found[tensor.name] = rng.integers(-128, 128, shape)
        else:
            drawn = np.clip(np.rint(rng.normal(0, 24, shape)), -128, 127).astype(np.int64)
            found[tensor.name] = np.maximum(drawn, 0) if k == 0 else drawn
    return found


def row_of(case: str, kind: str, found: MachinePower, whole: MachinePower | None) -> Row:
    """A measured run as a row."""
    parts = {p.part: p for p in found.parts}
    elements = parts["element"].switching_pj
    memories = sum(p.switching_pj for p in parts.values() if p.part not in PARTS)
    clock = sum(p.clock_pj for p in found.parts)
    around = found.cycle_pj - elements - memories - clock
    e, a, c, m = (round(v / found.cycle_pj, 3) for v in (elements, around, clock, memories))
    error = None if whole is None else round(found.cycle_pj / whole.cycle_pj - 1, 5)
    pj = found.cycle_pj * found.cycles / found.multiplications
    within = round(found.interval_pj / found.cycle_pj, 4)
    ns, mw = round(found.clock_ns, 2), round(found.milliwatts, 1)
    return Row(case, kind, found.cycles, found.replayed_cycles, round(pj, 1), within, e, a, c, m, ns, mw, error)


def run(case: str, kinds: tuple[str, ...], whole: bool, seed: int) -> list[Row]:
    """One machine on kinds of operands.

    Raises:
        UserError: A result differs from `einsum`'s.
    """
    design, layer = CASES[case]
    job, netlist = make_job(Request((), BuildOptions(space="scratchpad", design=design, layer=layer, seed=seed)))
    measured, rows = MeasuredMachine(job.image.parameters, netlist), []
    for kind in kinds:
        values = operands(job.computation, kind, np.random.default_rng(seed))
        verdict, found = measured.run(job, values, seed)
        if verdict.wrong is not None:
            raise UserError("the machine's results differ from those of `einsum`")
        all_of_it = whole and found.cycles <= MOST_CYCLES
        rows.append(row_of(case, kind, found, measured.run(job, values, seed, whole=True)[1] if all_of_it else None))
    return rows


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=tuple(CASES), help="one machine instead of all")
    parser.add_argument("--operands", choices=KINDS, help="one kind instead of both")
    parser.add_argument("--whole", action="store_true", help=f"replay runs of up to {MOST_CYCLES:,} cycles whole, too")
    parser.add_argument("--seed", type=int, default=0, help="of operands, mapping and stretches")
    given = parser.parse_args()
    kinds = (given.operands,) if given.operands else KINDS
    rows = [
        row for case in ((given.case,) if given.case else CASES) for row in run(case, kinds, given.whole, given.seed)
    ]
    print(markdown(tuple(vars(rows[0])), [[str(v) for v in vars(r).values()] for r in rows]))
    print(json.dumps({"rows": len(rows), "pj_per_multiplication": [r.pj for r in rows]}))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
