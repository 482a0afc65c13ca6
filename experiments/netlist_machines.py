"""Whole machines beside the sum of their parts: `python -m experiments.netlist_machines --machines 3 --seed 0`.

Machines of loop nests are drawn at random, with arrays of 4 x 4 to 8 x 8 elements, and mapped to cells as a whole, module by module. Beside
each part stands what the fitted areas N1 to N6 say of it; no constant has seen these machines. The last line is one JSON object.
"""

import json
import sys
import time
from dataclasses import dataclass

import numpy as np

from codesign.arch.architecture import Links
from codesign.arch.netlists import NetlistAreas
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.parts import PARTS, areas_by_part
from codesign.hardware.synthesis import synthesize
from codesign.hardware.verilog import generate
from experiments.netlist_areas import KEPT, shape_of
from experiments.options import head_parser

FIELDS = (
    "machine",
    "rows",
    "cols",
    "links",
    "banks",
    "local_bytes",
    "kept",
    "bus_bytes",
    "part",
    "netlist_nand2",
    "fitted_nand2",
)


@dataclass(frozen=True)
class Compared:
    """One machine.

    Args:
        p: Its parameters.
        netlist: Area of each part in its netlist, all elements together, in two-input NANDs.
        fitted: The same by the fitted constants.
    """

    p: Parameters
    netlist: dict[str, float]
    fitted: dict[str, float]

    @property
    def error(self) -> float:
        """Of the sum of the fitted parts, as a share of the netlist."""
        return sum(self.fitted.values()) / sum(self.netlist.values()) - 1


def main() -> None:
    """Parse, synthesise, print."""
    parser = head_parser(__doc__, out=None, seed=0, about_out="CSV, a row a part")
    parser.add_argument("--machines", type=int, default=3)
    given = parser.parse_args()
    if given.machines < 1:
        raise UserError(f"--machines must be >= 1, got {given.machines}")
    started, found = time.process_time(), []
    for number in range(given.machines):
        found.append(compare(draw(number, np.random.default_rng([given.seed, number]))))
        print(
            f"{number} {found[-1].p.rows}x{found[-1].p.cols} {100 * found[-1].error:+.1f} %",
            file=sys.stderr,
            flush=True,
        )
        if given.out is not None:
            write_atomic(given.out, table(found))
    errors = [abs(x.error) for x in found]
    result = {"machines": len(found), "median_error": float(np.median(errors)), "worst_error": max(errors)}
    print(json.dumps(result | {"cpu_seconds": round(time.process_time() - started, 1)}))


def draw(number: int, rng: np.random.Generator) -> Parameters:
    """A machine: links and dataflow in turn, everything else at random."""
    bus = int(rng.choice([8, 16, 32]))
    return Parameters(
        name="machine",
        control=Control.NEST,
        rows=int(rng.choice([4, 6, 8])),
        cols=int(rng.choice([4, 6, 8])),
        links=(Links.SYSTOLIC, Links.MULTICAST, Links.NONE)[number % 3],
        banks=int(rng.choice([1, 2, 4, 8])),
        scratchpad_bytes=1024 * int(rng.choice([64, 256, 1024])),
        local_bytes=int(rng.choice([64, 256, 1024])),
        local=frozenset(KEPT[number % 4]),
        bus_bytes=bus,
        burst_bytes=8 * bus,
    )


def compare(p: Parameters, areas: NetlistAreas | None = None) -> Compared:
    """A machine mapped to cells, and what the areas in use (or given ones) say of it."""
    areas = areas or load_technology("netlist-fitted-22nm").netlists
    assert areas is not None
    netlist, shape = areas_by_part(synthesize(p, generate(p)), p.name), shape_of(p)
    fitted = {part: areas.part_nand2(part, shape) * (p.pes if part == "element" else 1) for part in PARTS}
    return Compared(p, netlist, fitted)


def table(found: list[Compared]) -> str:
    """A row a part of a machine."""
    lines = [",".join(FIELDS)]
    for number, x in enumerate(found):
        p = x.p
        head = (number, p.rows, p.cols, p.links.value, p.banks, p.local_bytes, "".join(sorted(p.local)), p.bus_bytes)
        lines += [
            ",".join([*map(str, head), part, f"{x.netlist[part]:.1f}", f"{x.fitted[part]:.1f}"]) for part in PARTS
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
