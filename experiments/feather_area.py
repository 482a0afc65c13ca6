"""Area of a published generator's arrays from four of its sizes: `python -m experiments.feather_area --data FOLDER`.

FEATHER's synthesis reports give seven sizes, 4 x 4 to 64 x 128 elements. Three parts make up its area: an element, the weights an element
holds in flip-flops (as many as the array has rows), and what serves the columns: buffers, controllers and the reduction network, a butterfly
of n log2 n switches for n columns. Any four sizes fit the three constants; the other three are predicted. The last line is one JSON object.
"""

import argparse
import csv
import itertools
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codesign.core.errors import UserError
from experiments.models.area_fit import FloatArray, fit_areas

PARTS = ("element", "weight of an element", "switch with its share of the periphery")
FITTED = 4
DATA = Path(__file__).parent.parent / "tests" / "data" / "measured" / "feather"


@dataclass(frozen=True)
class Split:
    """One choice of sizes to fit.

    Args:
        fitted: Sizes that the constants come from.
        predicted: The others.
        um2: The constants, in the order of `PARTS`.
        errors: Of the predicted, relative.
    """

    fitted: tuple[str, ...]
    predicted: tuple[str, ...]
    um2: tuple[float, ...]
    errors: tuple[float, ...]

    @property
    def worst(self) -> float:
        """Largest error without its sign."""
        return max(abs(e) for e in self.errors)


def read(folder: Path) -> tuple[list[str], FloatArray, FloatArray]:
    """Sizes by name, their parts (netlists, parts) and their areas in um2.

    Raises:
        UserError: The file is missing, or one of its columns.
    """
    path = folder / "feather.csv"
    if not path.is_file():
        raise UserError("no such file", where=str(path), hint="--data names the folder of feather.csv")
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    wanted = ("rows", "columns", "PEs", "weight_depth", "report_cell_area_um2")
    missing = [name for name in wanted if not rows or name not in rows[0]]
    if missing:
        raise UserError(f"column {missing[0]!r} is missing", where=str(path), hint=f"needed: {', '.join(wanted)}")
    sizes = [
        (
            float(r["PEs"]),
            float(r["PEs"]) * float(r["weight_depth"]),
            float(r["columns"]) * np.log2(float(r["columns"])),
        )
        for r in rows
    ]
    names = [f"{r['rows']}x{r['columns']}" for r in rows]
    return names, np.array(sizes), np.array([float(r["report_cell_area_um2"]) for r in rows])


def splits(names: list[str], sizes: FloatArray, areas: FloatArray) -> list[Split]:
    """Every choice of four sizes, the other sizes predicted."""
    found = []
    for kept in itertools.combinations(range(len(names)), FITTED):
        rest = [n for n in range(len(names)) if n not in kept]
        fit = fit_areas(PARTS, sizes[list(kept)], areas[list(kept)])
        errors = fit.predict_um2(sizes[rest]) / areas[rest] - 1
        found.append(
            Split(
                tuple(names[n] for n in kept),
                tuple(names[n] for n in rest),
                fit.um2,
                tuple(float(e) for e in errors),
            )
        )
    return found


def main() -> None:
    """Parse, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of feather.csv (default: the copy kept here)")
    names, sizes, areas = read(parser.parse_args().data)
    found = splits(names, sizes, areas)
    print(f"{'fitted':28} {'worst error of the others':>26}")
    for split in sorted(found, key=lambda s: s.worst):
        print(f"{' '.join(split.fitted):28} {split.worst:26.3f}")
    everything = fit_areas(PARTS, sizes, areas)
    worst = [s.worst for s in found]
    print(
        json.dumps(
            {
                "sizes": len(names),
                "splits": len(found),
                "worst_error": max(worst),
                "median_worst_error": statistics.median(worst),
                "um2": dict(zip(PARTS, everything.um2, strict=True)),
            }
        )
    )


if __name__ == "__main__":
    main()
