"""Constants of the netlist-fitted areas: `python -m experiments.netlist_areas --netlists FILE`.

With `--synthesize` parts of random machines are generated and mapped to cells first, and FILE (a CSV, one row a netlist) is filled up to
the numbers of `WANTED`. Every third netlist of a part is held out of the fit. The last line is one JSON object.
"""

import argparse
import csv
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from codesign.arch.architecture import Links
from codesign.arch.netlists import SIZES, LogicShape
from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.synthesis import cell_library
from experiments.models.area_fit import fit_areas
from experiments.models.part_netlists import synthesize_part

WANTED = {"element": 15, "network": 24, "crossbar": 9, "reader": 9, "writer": 9, "loops": 8, "unit": 24}
"""Netlists of each part."""

LEAST_TO_HOLD_OUT = 6
"""Netlists of a part from which on a third is held out."""

CROSSBAR_BANKS = (1, 2, 4, 8, 3, 6, 12, 16, 5)
"""Banks of the crossbars, in turn: their cost to synthesise grows with banks log banks."""

SIDES = {"network": (1, 2, 3, 4, 6, 8, 12, 16), "element": (2, 4, 8, 16), "unit": (2, 4, 8, 16)}
"""Rows and columns drawn, where a part hangs on them; others are taken out of small machines."""

KEPT = (("B",), ("O",), ("A",), ("A", "B", "O"))
ROLES = {"A": "input", "B": "weight", "O": "output"}
FIELDS = ("part", "rows", "cols", "links", "banks", "scratchpad_kib", "local_bytes", "kept", "bus_bytes", "nand2")


@dataclass(frozen=True)
class Row:
    """One netlist.

    Args:
        part: Which part of which machine.
        p: The machine.
        nand2: Area.
    """

    part: str
    p: Parameters
    nand2: float


def main() -> None:
    """Parse, synthesise what is missing, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--netlists", type=Path, required=True, help="CSV of synthesised parts")
    parser.add_argument("--synthesize", action="store_true", help="fill the file up")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=tuple(SIZES), action="append", help="synthesise these parts alone")
    parser.add_argument("--most", type=int, default=99, help="netlists of a part at most")
    parser.add_argument("--constants", type=Path, help="where the fitted constants go (JSON)")
    given = parser.parse_args()
    started = time.process_time()
    rows = read(given.netlists) if given.netlists.exists() else []
    if given.synthesize:
        for row in missing(rows, given.seed, given.only or tuple(SIZES), given.most):
            rows.append(row)
            write(given.netlists, rows)
            print(f"{len(rows)} {row.part} {row.nand2:,.0f}", file=sys.stderr, flush=True)
    constants, result = fitted(rows)
    if given.constants is not None:
        source = (
            f"{len(rows)} netlists of generated hardware (python -m experiments.netlist_areas), Yosys, OSU 0.18 um cells; "
            "in two-input NANDs a unit"
        )
        write_atomic(given.constants, json.dumps({"source": source, "nand2": constants}, indent=1) + "\n")
    print(json.dumps(result | {"cpu_seconds": round(time.process_time() - started, 1)}))


def missing(rows: list[Row], seed: int, parts: tuple[str, ...], most: int) -> Iterator[Row]:
    """Netlists that the file still lacks, synthesised one by one; the n-th of a part is always the same."""
    for part, wanted in WANTED.items():
        if part not in parts:
            continue
        for number in range(sum(r.part == part for r in rows), min(wanted, most)):
            rng = np.random.default_rng([seed, list(WANTED).index(part), number])
            p = draw(part, number, rng)
            modules = synthesize_part(p, part)
            yield Row(part, p, sum(m.area_um2 * m.count for m in modules) / float(cell_library()["nand2_um2"]))


def draw(part: str, number: int, rng: np.random.Generator) -> Parameters:
    """A machine whose part is synthesised: links and dataflow in turn, everything else at random."""
    sides = SIDES.get(part, (2, 4))
    bus = int(rng.choice([4, 8, 16, 32, 64]))
    banks = int(rng.choice([1, 2, 4, 8, 16, 32] if part == "element" else [1, 2, 4, 8]))
    return Parameters(
        name="machine",
        control=Control.NEST,
        rows=int(rng.choice(sides)),
        cols=int(rng.choice(sides)),
        links=(Links.NONE, Links.SYSTOLIC, Links.MULTICAST)[number % 3],
        banks=CROSSBAR_BANKS[number % len(CROSSBAR_BANKS)] if part == "crossbar" else banks,
        scratchpad_bytes=1024 * int(rng.choice([32, 64, 128, 256, 512, 1024, 2048, 4096])),
        local_bytes=int(rng.choice([64, 128, 256, 512, 1024, 2048])),
        local=frozenset(KEPT[(number if part in ("loops", "unit") else number // 3) % 4]),
        bus_bytes=bus,
        burst_bytes=bus * int(rng.choice([4, 8, 16, 32, 64])),
    )


def shape_of(p: Parameters) -> LogicShape:
    """A machine as the areas see it."""
    kept = frozenset(ROLES[t] for t in p.local)
    return LogicShape(p.rows, p.cols, p.links, 8 * p.line_bytes, p.lines, p.local_bytes, kept, 8 * p.bus_bytes)


def read(path: Path) -> list[Row]:
    """Rows of a file.

    Raises:
        UserError: Columns are missing.
    """
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines[:1]:
        if set(line) != set(FIELDS):
            raise UserError(f"columns must be {', '.join(FIELDS)}, got {', '.join(line)}", where=str(path))
    return [
        Row(
            x["part"],
            Parameters(
                "machine", Control.NEST, int(x["rows"]), int(x["cols"]), Links(x["links"]), int(x["banks"]), 1024 * int(x["scratchpad_kib"]),
                int(x["local_bytes"]), frozenset(x["kept"]), int(x["bus_bytes"]), 4 * int(x["bus_bytes"]),
            ),
            float(x["nand2"]),
        )
        for x in lines
    ]  # fmt: skip


def write(path: Path, rows: list[Row]) -> None:
    """All rows as a file."""
    lines = [",".join(FIELDS)]
    for r in rows:
        p = r.p
        values = (r.part, p.rows, p.cols, p.links.value, p.banks, p.scratchpad_bytes // 1024, p.local_bytes, "".join(sorted(p.local)), p.bus_bytes)  # fmt: skip
        lines.append(",".join([*map(str, values), f"{r.nand2:.1f}"]))
    write_atomic(path, "\n".join(lines) + "\n")


def fitted(rows: list[Row]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Constants by part from all netlists, and how well those of two thirds predict the other third."""
    constants: dict[str, dict[str, float]] = {}
    measured: list[float] = []
    predicted: list[float] = []
    by_part: dict[str, Any] = {}
    for part, sizes_of in SIZES.items():
        mine = [r for r in rows if r.part == part]
        if not mine:
            continue
        names = tuple(sizes_of(shape_of(mine[0].p)))
        sizes = np.array([list(sizes_of(shape_of(r.p)).values()) for r in mine], dtype=np.float64)
        areas = np.array([r.nand2 for r in mine])
        number = np.arange(len(mine))
        held = (number // 3 + number) % 3 == 1  # every third of each kind of links
        used = [i for i in range(len(names)) if sizes[:, i].any()]
        kept = tuple(names[i] for i in used)
        whole = fit_areas(kept, sizes[:, used], areas)
        constants[part] = dict.fromkeys(names, 0.0) | dict(zip(whole.parts, whole.um2, strict=True))
        by_part[part] = {"netlists": len(mine)}
        if len(mine) < LEAST_TO_HOLD_OUT:
            continue
        trial = fit_areas(kept, sizes[~held][:, used], areas[~held])
        guess = trial.predict_um2(sizes[held][:, used])
        errors = np.abs(guess / areas[held] - 1)
        by_part[part] |= {
            "held_out": int(held.sum()),
            "median_error": float(np.median(errors)),
            "worst_error": float(errors.max()),
        }
        measured += areas[held].tolist()
        predicted += guess.tolist()
    errors = [abs(b / a - 1) for a, b in zip(measured, predicted, strict=True)]
    result = {
        "netlists": len(rows),
        "held_out": len(measured),
        "median_error": statistics.median(errors),
        "worst_error": max(errors),
        "rank_correlation": float(spearmanr(measured, predicted).statistic),
        "parts": by_part,
    }
    return constants, result


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
