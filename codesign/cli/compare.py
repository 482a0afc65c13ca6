"""`codesign compare`: hypervolume of several studies, by optimiser and seed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.options import OutputFormat
from codesign.cli.study_location import Storage, StudyNames, open_studies

if TYPE_CHECKING:
    from codesign.report.compare import Comparison


def compare_command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Folders of studies, .db files or URLs; runs of one optimiser are one group."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Page to write (.html), or a folder for page, CSV files and LaTeX table.")
    ] = Path("compare.html"),
    csv: Annotated[Path | None, typer.Option(help="Write one row an optimiser to this file.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write a LaTeX table (booktabs) to this file.")] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(help="Report the trials to this hypervolume, or share (90%) of all runs'; may be repeated."),
    ] = None,
    output_format: OutputFormat = "text",
    storage: Storage = None,
    study: StudyNames = None,
) -> None:
    """Overlay the hypervolume curves of several runs: median and quartiles over seeds, trials to a level, rank tests.

    For example:

    codesign compare runs/mobo-0 runs/mobo-1 runs/random-0 runs/random-1 --out compare.html

    codesign compare runs/a runs/b --level 90% --csv compare.csv
    """
    from codesign.core.files import write_atomic
    from codesign.report.compare import compare as compare_studies
    from codesign.report.compare import comparison_json
    from codesign.report.compare_files import latex_table, summary_csv, write_all, write_comparison

    comparison = compare_studies(open_studies(runs or (), storage, study or ()), level or ())
    is_page = out.suffix.lower() in (".html", ".htm")
    written = [write_comparison(comparison, out)] if is_page else write_all(comparison, out)
    for path, text in ((csv, summary_csv), (latex, latex_table)):
        if path is not None:
            write_atomic(path, text(comparison))
            written.append(path)
    if output_format == "json":
        echo_json(comparison_json(comparison))
    else:
        _print(comparison, written)


def _print(comparison: "Comparison", written: list[Path]) -> None:
    from rich.console import Console

    from codesign.cli.tables import make_table
    from codesign.optim.certify import above
    from codesign.report.compare import describe

    # two tables, since one does not fit the 80 columns of a terminal
    certified = any(group.certified is not None for group in comparison.groups)
    levels = [f"{100 * level / comparison.best:.3g} %>" for level in comparison.levels]
    title = f"hypervolume in decades^{len(comparison.objectives)}, reference point ({comparison.reference_text})"
    table = make_table(title, "optimiser~", "runs>", "trials>", "lower quartile>", "median>", "upper quartile>")
    title = f"trials to a share of the {comparison.best:.4f} that all runs reach together"
    reached = make_table(title, "optimiser~", *levels, *(["certified>"] if certified else []))
    for group in comparison.groups:
        quartiles = (f"{v:.4f}" for v in group.quartiles[:, -1])
        table.add_row(group.optimizer, str(len(group.seeds)), str(group.curves.shape[1]), *quartiles)
        needed = [group.trials_to(level) for level in comparison.levels]
        factors = ["-" if group.certified is None else above(group.certified)] if certified else []
        reached.add_row(group.optimizer, *("not reached" if n is None else f"{n:g}" for n in needed), *factors)
    console = Console()
    console.print(table)
    console.print(reached)
    for sentence in describe(comparison):
        console.print(sentence, highlight=False)
    for test in comparison.tests:
        paired = "" if test.paired_p_value is None else f", Wilcoxon over equal seeds p = {test.paired_p_value:.2g}"
        console.print(
            f"{test.left} against {test.right} after {test.trials} trials: a run of {test.left} ends higher with probability "
            f"{test.superiority:.2f} (A12), Mann-Whitney p = {test.p_value:.2g}{paired} (Holm; p >= {test.least_p_value:.2g} with so few runs)"
        )
    console.print(f"written: {', '.join(map(str, written))}")
