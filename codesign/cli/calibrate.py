"""`codesign calibrate`: fit constants of a timing table to measured cycles."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.options import OutputFormat
from codesign.core.checks import check_positive
from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.mapping.nest import FloatArray
    from codesign.timing.calibrate import Fit, Folds
    from codesign.timing.table import Timing

_PARTS = {
    "levels": ("read_startup_cycles", "write_startup_cycles", "latency_cycles", "early_release_cycles"),
    "whole": ("fill_drain_cycles", "issue_cycles", "run_cycles"),
}


def calibrate_command(
    measurements: Annotated[
        Path,
        typer.Argument(
            help="CSV with columns architecture, problem, mapping (files, relative to the CSV), cycles; hardware groups rows."
        ),
    ],
    table: Annotated[str, typer.Option("--timing-table", help="Name or YAML file of the table to start from.")],
    fit: Annotated[
        list[str],
        typer.Option(
            help="Constant to fit: fill_drain_cycles, issue_cycles, run_cycles, or LEVEL.read_startup_cycles and the like; repeat."
        ),
    ],
    output_format: OutputFormat = "text",
    out: Annotated[Path | None, typer.Option(help="Write the fitted table to this YAML file.")] = None,
) -> None:
    """Fit named constants of a timing table to measured cycles, with intervals and errors on hardware left out.

    Refuses to fit more constants than the measured rows can tell apart.

    For example:

    codesign calibrate measured.csv --timing-table mine.yaml --fit fill_drain_cycles --fit DRAM.read_startup_cycles
    """
    from codesign.timing.calibrate import FitProblem, coarse_start, fit_constants, leave_one_group_out, refuse_blind
    from codesign.timing.table import load_timing

    timing = load_timing(table)
    rows = read_measurements(measurements)
    start = {name: max(1.0, _value(timing, name)) for name in fit}
    problem = FitProblem(tuple(fit), start, _Predictor(rows, timing), _cycles(rows))
    problem = coarse_start(problem)
    found = refuse_blind(fit_constants(problem))
    groups = [row.hardware for row in rows]
    folds = leave_one_group_out(problem, groups) if len(set(groups)) > 1 else None
    if out is not None:
        _write(out, timing, found, measurements)
    _show(rows, found, folds, output_format)


@dataclass(frozen=True)
class Measured:
    """One measured run.

    Args:
        name: Of the mapping's file.
        files: Architecture, problem, mapping.
        cycles: Measured.
        hardware: The group that cross-validation leaves out.
    """

    name: str
    files: tuple[str, str, str]
    cycles: float
    hardware: str


def read_measurements(path: Path) -> list[Measured]:
    """The rows of a CSV of measured runs.

    Raises:
        UserError: A column or file is missing, or cycles are no positive number.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise UserError(f"cannot read the measurements: {error.strerror}", where=str(path)) from None
    if not rows:
        raise UserError("no measured rows", where=str(path))
    found = []
    for i, row in enumerate(rows):
        where = f"{path}: row {i + 1}"
        for column in ("architecture", "problem", "mapping", "cycles"):
            if row.get(column) in (None, ""):
                raise UserError(f"column `{column}` is missing", where=where, hint=f"found: {', '.join(rows[0])}")
        try:
            cycles = float(row["cycles"])
        except ValueError:
            raise UserError(f"`cycles` must be a number, got {row['cycles']!r}", where=where) from None
        check_positive(where=where, cycles=cycles)
        files = [path.parent / row[c] for c in ("architecture", "problem", "mapping")]
        hardware = row.get("hardware") or row["architecture"]
        found.append(Measured(row["mapping"], (str(files[0]), str(files[1]), str(files[2])), cycles, hardware))
    return found


def _cycles(rows: Sequence[Measured]) -> "FloatArray":
    import numpy as np

    return np.array([row.cycles for row in rows])


class _Predictor:
    """Event-timed cycles of measured rows under changed constants; files are read once."""

    def __init__(self, rows: Sequence[Measured], timing: "Timing") -> None:
        from codesign.library.arguments import Sources

        self._timing = timing
        self._runs = []
        for row in rows:
            inputs = Sources().resolve(row.files)
            self._runs.append((inputs.need_computation(), inputs.need_architecture(), inputs.need_mapping()))

    def __call__(self, constants: dict[str, float], chosen: list[int]) -> "FloatArray":
        import numpy as np

        from codesign.timing.simulate import Run, simulate

        timing = changed(self._timing, constants)
        cycles = []
        for i in chosen:
            run = simulate(*self._runs[i], timing)
            if not isinstance(run, Run):
                raise UserError(f"the mapping does not fit: {run}", where=f"row {i + 1}")
            cycles.append(float(run.exact_cycles))
        return np.array(cycles)


def _value(timing: "Timing", name: str) -> float:
    level, dot, field = name.rpartition(".")
    if dot:
        if field not in _PARTS["levels"]:
            raise UserError(f"--fit must name one of {', '.join(_PARTS['levels'])} of a level, got {name!r}")
        entry = next((v for v in timing.levels if v.level == level), None)
        return 0.0 if entry is None else float(getattr(entry, field))
    if name not in _PARTS["whole"]:
        raise UserError(f"--fit must name {', '.join(_PARTS['whole'])} or LEVEL.FIELD, got {name!r}")
    return float(getattr(timing, name))


def changed(timing: "Timing", constants: dict[str, float]) -> "Timing":
    """The table with constants replaced; a level that it does not name is added."""
    from codesign.timing.table import LevelTiming

    whole = {name: value for name, value in constants.items() if "." not in name}
    levels = {v.level: v for v in timing.levels}
    for name, value in constants.items():
        level, dot, field = name.rpartition(".")
        if dot:
            levels[level] = replace(levels.get(level, LevelTiming(level)), **{field: value})  # type: ignore[arg-type]
    return replace(
        timing,
        levels=tuple(levels.values()),
        fill_drain_cycles=whole.get("fill_drain_cycles", timing.fill_drain_cycles),
        issue_cycles=whole.get("issue_cycles", timing.issue_cycles),
        run_cycles=whole.get("run_cycles", timing.run_cycles),
    )


def _write(out: Path, timing: "Timing", found: "Fit", measurements: Path) -> None:
    from codesign.core.files import write_atomic
    from codesign.formats.documents import dump_yaml
    from codesign.timing.table import timing_to_json

    fitted = replace(changed(timing, found.values), fitted_on=f"{len(found.predicted)} rows of {measurements.name}")
    write_atomic(out, dump_yaml({"timing": timing_to_json(fitted)}))


def _show(rows: Sequence[Measured], found: "Fit", folds: "Folds | None", output_format: str) -> None:
    import numpy as np

    errors = found.predicted / _cycles(rows) - 1
    held_out = None if folds is None else float(np.abs(folds.predicted / _cycles(rows) - 1).mean())
    if output_format == "json":
        document = {
            "rows": len(rows),
            "constants": {n: {"value": v, "interval_95": list(found.intervals[n])} for n, v in found.values.items()},
            "mean_error": found.mean_error,
            "mean_error_hardware_left_out": held_out,
            "residuals": [
                {"row": r.name, "hardware": r.hardware, "measured": r.cycles, "predicted": p, "error": e}
                for r, p, e in zip(rows, found.predicted.tolist(), errors.tolist(), strict=True)
            ],
        }
        echo_json(document, indent=1)
        return
    for name, value in found.values.items():
        low, high = found.intervals[name]
        typer.echo(f"{name:32} {value:12.4g}   95 % interval {low:.4g} to {high:.4g}")
    typer.echo(f"mean error {found.mean_error:.2%} over {len(rows)} rows")
    if held_out is not None:
        typer.echo(f"mean error {held_out:.2%} with each hardware left out")
    for row, predicted, error in zip(rows, found.predicted, errors, strict=True):
        typer.echo(f"  {row.name:40} measured {row.cycles:14,.0f}  predicted {predicted:14,.0f}  {error:+.2%}")
