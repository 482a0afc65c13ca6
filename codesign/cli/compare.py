"""`codesign compare`: hypervolume of several studies, by optimiser and seed."""

import json
from pathlib import Path
from typing import Annotated

import typer

from codesign.core.errors import UserError


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def compare(
        runs: Annotated[list[Path], typer.Argument(help="Folders of studies; runs of one optimiser are one group.")],
        out: Annotated[Path, typer.Option(help="Page to write.")] = Path("compare.html"),
        output_format: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
    ) -> None:
        """Overlay the hypervolume curves of several runs: median and quartiles over the seeds of each optimiser."""
        from rich.console import Console
        from rich.table import Table

        from codesign.evaluation.metrics import UNITS, format_si
        from codesign.optim.study import Study
        from codesign.report.compare import compare as compare_studies
        from codesign.report.compare import comparison_json, write_comparison

        if output_format not in ("text", "json"):
            raise UserError(f"--format must be text or json, got {output_format!r}")
        comparison = compare_studies([Study.open(run) for run in runs])
        path = write_comparison(comparison, out)
        if output_format == "json":
            typer.echo(json.dumps(comparison_json(comparison)))
            return
        reference = ", ".join(
            format_si(r, UNITS[o]) for r, o in zip(comparison.reference, comparison.objectives, strict=True)
        )
        table = Table(title=f"hypervolume in decades^{len(comparison.objectives)}, reference point ({reference})")
        for name in ("optimiser", "runs", "trials", "lower quartile", "median", "upper quartile", "trials to 90 %"):
            table.add_column(name, justify="left" if name == "optimiser" else "right")
        for group in comparison.groups:
            low, median, high = (f"{v:.4f}" for v in group.quartiles[:, -1])
            needed = group.trials_to(0.9 * comparison.best)
            table.add_row(
                group.optimizer, str(len(group.seeds)), str(group.curves.shape[1]), low, median, high,
                "not reached" if needed is None else str(needed),
            )  # fmt: skip
        console = Console()
        console.print(table)
        console.print(f"90 % is of the {comparison.best:.4f} that all runs reach together; page: {path}")
