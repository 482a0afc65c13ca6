"""`codesign verify`: check a certificate of optimality."""

from pathlib import Path
from typing import Annotated

import typer


def verify_command(
    file: Annotated[
        Path,
        typer.Argument(help="A certificate that `codesign map` or `codesign explore` wrote with --certificate."),
    ],
    time_limit: Annotated[float | None, typer.Option(help="CPU seconds after which the check gives up.")] = None,
) -> None:
    """Check a certificate with code that the search does not use; exit code 1 if it is refused.

    For example:

    codesign map --arch eyeriss --layer "gemm M=64 N=64 K=64" --mapper exact --certificate proof.json

    codesign verify proof.json
    """
    from codesign.library.certificates import check_certificate

    verdict = check_certificate(file, time_limit)
    typer.echo(f"{'accepted' if verdict.accepted else 'refused'}: {verdict.reason}")
    if not verdict.accepted:
        raise typer.Exit(1)
