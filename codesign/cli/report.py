"""`codesign report`: make the report of a study again."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def report(folder: Annotated[Path, typer.Argument(help="Folder of a study, as given to explore --out.")]) -> None:
        """Write FOLDER/report.html from the recorded trials and print the front."""
        from rich.console import Console

        from codesign.cli.exploring import finish
        from codesign.optim.study import Study

        finish(Study.open(folder), folder, Console(stderr=True))
