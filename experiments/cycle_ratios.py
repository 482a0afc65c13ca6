"""Cycles of generated machines over the analytical model's (K7), by family: `python -m experiments.cycle_ratios --triples N --seed S`.

The triples are those of `experiments.hardware_agreement` with the same seed. Cycles are predicted by K1 to K6, which that experiment
compares with simulation; nothing is simulated here, so hundreds of triples take a minute. Every triple is predicted on two machines: with one
burst under way, which does one thing after another, and with `--outstanding`. The last line is one JSON object.
"""

import argparse
import csv
import io
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from experiments.hardware_agreement import FAMILIES, OUTSTANDING, Config, design_triples, families
from experiments.mappers_common import draw, markdown


@dataclass(frozen=True)
class Ratio:
    """One triple.

    Args:
        family: Of hardware.
        mapper: Who made the mapping.
        analytic_cycles: The analytical model's with the ports of the machine that has several bursts under way (K7).
        counted_cycles: The same by counts of words alone.
        alone_cycles: Predicted with one burst under way.
        cycles: Predicted with more.
    """

    family: str
    mapper: str
    analytic_cycles: float
    counted_cycles: float
    alone_cycles: int
    cycles: int


def predicted(config: Config) -> list[tuple[str, str, float, float, int]]:
    """Family, mapper, analytical cycles, those of the counts alone, and predicted cycles of every triple."""
    found: list[tuple[str, str, float, float, int]] = []
    for number, family in enumerate(families(config)):
        wanted = min(config.per_design, config.triples - len(found))
        if wanted <= 0:
            return found
        rng = np.random.default_rng([config.seed, number])
        for _, mapper, job, _, _, _ in design_triples(config, family, rng, wanted):
            found.append((family, mapper, job.analytic_cycles, job.counted_cycles, job.predicted_cycles))
    return found


def ratios(config: Config) -> list[Ratio]:
    """Every triple on both machines.

    Raises:
        UserError: A mapping runs on one of the two only, so the samples differ.
    """
    alone, now = predicted(replace(config, outstanding=1)), predicted(config)
    if [row[:2] for row in alone] != [row[:2] for row in now]:
        raise UserError("a mapping runs on one of the two machines only", hint="another `--seed`")
    return [Ratio(*b[:4], a[4], b[4]) for a, b in zip(alone, now, strict=True)]


def table(rows: list[Ratio]) -> list[list[str]]:
    """By family: triples, then median and 95 % of both machines' ratios, and of the second one's over counts of words alone."""
    lines = []
    for family in (*FAMILIES, "all"):
        mine = [r for r in rows if family in (r.family, "all")]
        if mine:
            values = [
                [r.alone_cycles / r.analytic_cycles for r in mine],
                [r.cycles / r.analytic_cycles for r in mine],
                [r.cycles / r.counted_cycles for r in mine],
            ]
            figures = [f"{q:.2f}" for v in values for q in np.percentile(v, (50, 95))]
            lines.append([family, str(len(mine)), *figures])
    return lines


def figure(rows: list[Ratio], path: Path) -> None:
    """Boxes of the ratios by family, one burst under way beside several."""

    def paint(axes: Any) -> None:
        names = [f for f in FAMILIES if any(r.family == f for r in rows)]
        for shift, color, label in ((-0.18, "#8a96ab", "one burst under way"), (0.18, "#d9722e", "several")):
            values = [
                [(r.alone_cycles if shift < 0 else r.cycles) / r.analytic_cycles for r in rows if r.family == f]
                for f in names
            ]
            spots = [i + shift for i in range(len(names))]
            look = {"facecolor": color, "alpha": 0.7}
            axes[0].boxplot(values, positions=spots, widths=0.3, whis=(5, 95), showfliers=False, patch_artist=True, boxprops=look, medianprops={"color": "black"})  # fmt: skip
            axes[0].bar([0], [0], color=color, label=label)
        axes[0].set_yscale("log")
        axes[0].set_xticks(range(len(names)), names)
        axes[0].axhline(1, color="black", linewidth=0.6)
        axes[0].set_ylabel("cycles over the analytical model's")
        axes[0].legend(frameon=False)

    draw(path, 1, paint, width=6.4)


def csv_text(rows: list[Ratio]) -> str:
    """The rows as a table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["family", "mapper", "analytic_cycles", "counted_cycles", "alone_cycles", "cycles"])
    for r in rows:
        writer.writerow(
            [r.family, r.mapper, f"{r.analytic_cycles:g}", f"{r.counted_cycles:g}", r.alone_cycles, r.cycles]
        )
    return text.getvalue()


def main() -> None:
    """Parse, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=304)
    parser.add_argument("--per-design", type=int, default=8)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--outstanding", type=int, default=OUTSTANDING)
    parser.add_argument("--figure", type=Path, help="SVG file of the ratios by family")
    parser.add_argument("--out", type=Path, help="folder of the table")
    given = parser.parse_args()
    macs = 60_000  # of the largest computation, as where Verilator simulates
    config = Config(given.triples, given.seed, given.family, "none", given.per_design, macs, given.out, outstanding=given.outstanding)  # fmt: skip
    rows = ratios(config)
    if given.figure is not None:
        figure(rows, given.figure)
    if given.out is not None:
        write_atomic(given.out / "ratios.csv", csv_text(rows))
    header = (
        "family",
        "triples",
        "one burst, median",
        "95 % below",
        f"{given.outstanding} bursts, median",
        "95 % below",
        "over counts alone",
        "95 % below",
    )
    print(markdown(header, table(rows)))
    values = [r.cycles / r.analytic_cycles for r in rows]
    median, p95 = (float(v) for v in np.percentile(values, (50, 95))) if rows else (0.0, 0.0)
    print(json.dumps({"triples": len(rows), "predicted_ratio_median": median, "predicted_ratio_p95": p95, "outstanding": given.outstanding}))  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
