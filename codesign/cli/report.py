"""`codesign report`: make the report of a study again, or write one of its designs as files."""

from pathlib import Path
from typing import Annotated

import typer

from codesign.core.errors import UserError


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def report(
        folder: Annotated[Path, typer.Argument(help="Folder of a study, as given to explore --out.")],
        export_design: Annotated[
            int | None,
            typer.Option(help="Write this trial's design as files instead: architecture, layers, Timeloop's form."),
        ] = None,
        to: Annotated[Path | None, typer.Option(help="Folder for --export-design.")] = None,
        space: Annotated[
            str | None, typer.Option(help="module:attribute of the study's space, if it has no registered name.")
        ] = None,
    ) -> None:
        """Write FOLDER/report.html from the recorded trials and print the front; or export a design."""
        from rich.console import Console

        from codesign.optim.study import Study

        console = Console()
        if export_design is None:
            from codesign.cli.exploring import front_table
            from codesign.report.study_page import write_report

            if to is not None:
                raise UserError("--to is used with --export-design only")
            study = Study.open(folder)
            console.print(front_table(study))
            console.print(f"report: {write_report(study, space=space)}")
            return
        from codesign.cli.inputs import warnings_to_stderr
        from codesign.report.export import export_design as write_design

        if to is None:
            raise UserError("--export-design needs --to, the folder to write to")
        warnings_to_stderr()
        files = write_design(Study.open(folder), export_design, to, space=space)
        console.print(f"{len(files)} files written to {to}; start from {files[0]}")
