"""`codesign convert`: other tools' files into the project's own, and back into Timeloop's."""

from pathlib import Path
from typing import Annotated

import typer

from codesign.core.errors import UserError, unknown_name
from codesign.library.arguments import Sources


def convert_command(
    to: Annotated[str, typer.Option(help="own or timeloop.")],
    out: Annotated[Path, typer.Option(help="Folder to write arch.yaml, problem.yaml, mapping.yaml ... to.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Architecture, problem, mapping, constraints, energy table, in any order: the project's own, Timeloop's, "
            "ZigZag's or MAESTRO's. A preset name or a layer may stand for a file."
        ),
    ] = None,
    *,
    sources: Sources,
    no_added_levels: Annotated[
        bool,
        typer.Option(
            "--no-added-levels",
            help="Refuse a mapping that Timeloop's form can say only with a level that keeps nothing (a dimension along both axes).",
        ),
    ] = False,
) -> None:
    """Convert files; what the other form cannot say is refused or warned about.

    For example:

    codesign convert --to own --out mine arch.yaml problem.yaml mapping.yaml

    codesign convert --to timeloop --out timeloop --arch eyeriss --layer "gemm M=64 N=64 K=64" mapping.yaml
    """
    from codesign.core.files import write_atomic
    from codesign.evaluation.exchange import timeloop_files
    from codesign.formats.convert import to_files
    from codesign.formats.documents import Dialect

    targets = {d.value: d for d in (Dialect.OWN, Dialect.TIMELOOP)}
    if to not in targets:
        raise unknown_name("form", to, targets, where="--to")
    inputs = sources.resolve(files)
    if targets[to] is Dialect.TIMELOOP:
        texts = timeloop_files(inputs, allow_added=not no_added_levels)
    elif no_added_levels:
        raise UserError("--no-added-levels is an option of --to timeloop", hint="leave it out")
    else:
        texts = to_files(inputs, targets[to])
    if not texts:
        raise UserError(
            "nothing to write",
            where=", ".join(files or []) or "no files given",
            hint="constraints and energies need an architecture",
        )
    for name, text in texts.items():
        write_atomic(out / name, text)
        typer.echo(str(out / name))
