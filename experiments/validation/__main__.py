"""Run one comparison: `python -m experiments.validation --set tileflow --data FOLDER [--smoke] [--out FOLDER]`."""

import argparse
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from codesign.core.errors import UserError
from experiments.validation.common import Comparison

SETS = {
    "llmcompass": ("llmcompass", "compare_llmcompass"),
    "tileflow": ("tileflow", "compare_gemm"),
    "tileflow-fused": ("tileflow", "compare_fused"),
    "dosa": ("dosa", "compare_dosa"),
    "eyeriss": ("eyeriss", "compare_eyeriss"),
    "stream": ("stream", "compare_stream"),
    "dram": ("dram", "compare_dram"),
    "noc": ("noc", "compare_noc"),
    "drampower": ("drampower", "compare_drampower"),
    "areas": ("areas", "compare_areas"),
    "tt-npe": ("tt_npe", "compare_tt_npe"),
    "imc": ("in_memory", "compare_imc"),
}


def main(arguments: list[str] | None = None) -> int:
    """Compare, print a table and one line of JSON; 2 for a user's mistake."""
    parser = argparse.ArgumentParser(prog="python -m experiments.validation", description=__doc__)
    parser.add_argument("--set", required=True, choices=SETS, help="which recorded set")
    parser.add_argument("--data", required=True, type=Path, help="the set's folder")
    parser.add_argument("--smoke", action="store_true", help="a few rows of it")
    parser.add_argument("--out", type=Path, help="write the rows (CSV) and a scatter plot (SVG) here")
    given = parser.parse_args(arguments)
    try:
        if not given.data.is_dir():
            raise UserError(f"--data must be a folder, got {str(given.data)!r}")
        module, function = SETS[given.set]
        compare = cast(
            Callable[[Path, bool], Comparison], getattr(import_module(f"experiments.validation.{module}"), function)
        )
        comparison = compare(given.data, given.smoke)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    _print_worst(comparison)
    if given.out is not None:
        from experiments.validation.figure import write_rows, write_scatter

        write_rows(comparison, given.out)
        write_scatter(comparison, given.out)
    print(json.dumps(comparison.summary()))
    return 0


def _print_worst(comparison: Comparison, count: int = 10) -> None:
    worst = sorted(comparison.points, key=lambda p: -abs(p.error))[:count]
    print(f"{comparison.name}: {len(comparison.points)} rows, {comparison.quantity}; the worst:")
    for point in worst:
        print(
            f"  {point.name:48} predicted {point.predicted:14,.6g}  recorded {point.measured:14,.6g}  {point.error:+8.2%}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
