"""`codesign report`: make the report of a study again, or write one of its designs as files."""

from pathlib import Path
from typing import Annotated

import typer

from codesign.cli.study_location import Place, Storage, StudyName, open_study
from codesign.core.errors import UserError


def report_command(
    place: Place = None,
    out: Annotated[
        Path | None, typer.Option(help="Page to write (.html), or its folder; default: the study's folder.")
    ] = None,
    export_design: Annotated[
        int | None,
        typer.Option(help="Write this trial's design as files instead: architecture, layers, Timeloop's form."),
    ] = None,
    to: Annotated[Path | None, typer.Option(help="Folder for --export-design.")] = None,
    no_added_levels: Annotated[
        bool,
        typer.Option(
            "--no-added-levels",
            help="Leave out of Timeloop's files the mappings that need a level that keeps nothing (a dimension along both axes).",
        ),
    ] = False,
    space: Annotated[
        str | None, typer.Option(help="module:attribute of the study's space, if it has no registered name.")
    ] = None,
    storage: Storage = None,
    study: StudyName = None,
) -> None:
    """Write report.html from the recorded trials and print the front; or export a design.

    A study by URL has no folder: its page goes to the current one, or to --out.

    For example:

    codesign report runs/first

    codesign report runs/first --export-design 12 --to runs/design
    """
    from rich.console import Console

    console = Console()
    opened = open_study(place, storage, study)
    if export_design is None:
        from codesign.cli.exploring import print_front
        from codesign.report.study_page import write_report

        if to is not None:
            raise UserError("--to is used with --export-design only")
        if no_added_levels:
            raise UserError("--no-added-levels is used with --export-design only")
        print_front(opened, console)
        console.print(f"report: {write_report(opened, space=space, path=_page(out))}")
        return
    from codesign.report.export import export_design as write_design

    if to is None:
        raise UserError("--export-design needs --to, the folder to write to")
    if out is not None:
        raise UserError("--out is where the page goes; a design goes to --to")
    files = write_design(opened, export_design, to, space=space, allow_added=not no_added_levels)
    console.print(f"{len(files)} files written to {to}; start from {files[0]}")


def _page(out: Path | None) -> Path | None:
    from codesign.study.study import REPORT_FILE

    return out if out is None or out.suffix.lower() in (".html", ".htm") else out / REPORT_FILE
