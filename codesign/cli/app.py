"""The `codesign` command: finds the subcommand, turns errors into messages and exit codes.

Exit codes: 0 done (an infeasible result is a result), 2 a user's mistake, 1 a fault of ours,
130 interrupted. Subcommands import what they need when they run, so that `codesign --help` stays quick.
"""

import importlib
import importlib.util
import os
import sys
from typing import Annotated

import typer

from codesign.core.errors import UserError

COMMANDS = (
    "explore",
    "map",
    "evaluate",
    "schedule",
    "tensorize",
    "train",
    "compare",
    "study",
    "report",
    "convert",
)

app = typer.Typer(
    name="codesign",
    help="Hardware/software co-design of tensor accelerators: find the accelerators worth building for a workload.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        import codesign

        typer.echo(f"codesign {codesign.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


def _register_commands() -> None:
    for name in COMMANDS:
        if importlib.util.find_spec(f"codesign.cli.{name}") is not None:
            importlib.import_module(f"codesign.cli.{name}").register(app)


def main() -> None:
    """Run the command line and exit with its code."""
    _register_commands()
    try:
        app()
    except UserError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.secho("interrupted", fg="yellow", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
