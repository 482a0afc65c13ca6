"""The `codesign` command: finds the subcommand, turns errors into messages and exit codes.

Exit codes: 0 done (an infeasible result is a result), 2 a user's mistake, 1 a fault of ours,
130 interrupted. Subcommands import what they need when they run, so that `codesign --help` stays quick.
"""

import gc
import importlib
import os
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from codesign.cli.compiling import tell_terminal
from codesign.cli.inputs import warnings_to_stderr
from codesign.cli.options import command
from codesign.cli.plain_help import said_plainly
from codesign.core.errors import UserError

COMMANDS = (
    "explore",
    "map",
    "verify",
    "density",
    "evaluate",
    "schedule",
    "serve",
    "tensorize",
    "build",
    "train",
    "compare",
    "sensitivity",
    "study",
    "report",
    "convert",
    "calibrate",
    "compile",
)

TRACEBACK = "CODESIGN_TRACEBACK"
"""Environment variable: show where an internal error came from."""

INTERRUPTED = 130
"""Exit code after Ctrl-C or SIGTERM."""

app = typer.Typer(
    name="codesign",
    help="Hardware/software co-design of tensor accelerators: find the accelerators worth building for a workload.\n\n"
    "For example:\n\n"
    'codesign map --mapper exact --arch simba --layer "conv K=64 C=64 P=56 Q=56 R=3 S=3"\n\n'
    'codesign explore --network resnet50 --constraint "power_w<=2" --out runs/first\n\n'
    "`codesign COMMAND --help` shows more.",
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
    warnings_to_stderr()


def register_commands(to: typer.Typer = app, *names: str) -> None:
    """Add commands to an application, all of them where none is named: each is `NAME_command` of `codesign.cli.NAME`."""
    for name in names or COMMANDS:
        found = getattr(importlib.import_module(f"codesign.cli.{name}"), f"{name}_command")
        if isinstance(found, typer.Typer):
            to.add_typer(found, name=name)
        else:
            command(to, name)(found)


RENAMED_OPTIONS = {
    "--cheap-mapper": "--low-fidelity-mapper",
    "--cheap-evaluations": "--low-fidelity-evaluations",
    "--cheap-cost": "--low-fidelity-cost",
}
"""Former spelling of an option -> the present one; scripts that use the former go on working."""


def present_spelling(argument: str) -> str:
    """An argument with its option as it is spelt now.

    >>> present_spelling("--cheap-cost=0.2")
    '--low-fidelity-cost=0.2'
    """
    name, equals, value = argument.partition("=")
    return RENAMED_OPTIONS.get(name, name) + equals + value


LIST_OPTIONS = frozenset({"--dims", "--objectives", "--scheduler", "--weights"})
"""Options that take several values without quotes: ``--objectives latency energy area``."""


def join_lists(arguments: list[str]) -> list[str]:
    """The arguments with the values of each list option joined into one, those of an option that is repeated too.

    >>> join_lists(["--objectives", "latency", "area", "--seed", "0", "--objectives", "energy"])
    ['--objectives', 'latency area energy', '--seed', '0']
    """
    joined: list[str] = []
    places: dict[str, int] = {}
    position = 0
    while position < len(arguments):
        name, equals, value = arguments[position].partition("=")
        position += 1
        if name not in LIST_OPTIONS:
            joined.append(name + equals + value)
            continue
        values = [value] if equals else []
        while not equals and position < len(arguments) and not arguments[position].startswith("--"):
            values.append(arguments[position])
            position += 1
        if values and name in places:
            joined[places[name]] += " " + " ".join(values)
            continue
        joined.append(name)
        if values:
            places[name] = len(joined)
            joined.append(" ".join(values))
    return joined


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(20_000, 20, 50)  # else what is imported is looked through dozens of times
    register_commands()
    tell_terminal(sys.argv[1:])
    try:
        root = said_plainly(get_command(app))
        root(args=join_lists([present_spelling(a) for a in sys.argv[1:]]), prog_name="codesign")
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:
            _leave_interrupted()
        raise
    except UserError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        _missing(error)
    except KeyboardInterrupt:
        typer.secho("interrupted", fg="yellow", err=True)
        _leave_interrupted()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        _fault(error)


def _leave_interrupted() -> NoReturn:
    """End now, waiting for no thread: an interrupt may have left a lock taken that the pool of workers waits for."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(INTERRUPTED)


def _missing(error: ModuleNotFoundError) -> None:
    """An optional package that is not installed is a user's to mend; any other missing module is our fault."""
    from codesign.core.plugins import EXTRAS, missing_package

    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        _fault(error)
    typer.secho(f"error: {missing_package(package, 'this')}", fg="red", err=True)
    sys.exit(2)


def _fault(error: Exception) -> NoReturn:
    if os.environ.get(TRACEBACK):
        raise error
    other = _plug_in_of(error)
    whose = (
        "This is a fault of codesign, not of your input; please report it with the command and what"
        if other is None
        else f"It came out of the module {other!r}, from which another package registers parts; to see where, run with"
    )
    typer.secho(
        f"internal error: {type(error).__name__}: {error}\n{whose} {TRACEBACK}=1 before it"
        f"{' prints' if other is None else ''}.",
        fg="red",
        err=True,
    )
    sys.exit(1)


def _plug_in_of(error: Exception) -> str | None:
    """The module of another package's part that an error came out of; None where no such part was running."""
    from codesign.core.plugins import modules_of_others

    others, found, trace = modules_of_others(), None, error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__")
        found = name if name in others else found
        trace = trace.tb_next
    return found


if __name__ == "__main__":
    main()
