"""`codesign compile`: make the machine code of all kernels ahead of their first use."""

import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated

import typer

from codesign.core.errors import UserError, unknown_name


def compile_command(
    commands: Annotated[
        list[str] | None, typer.Argument(help="Commands whose kernels to make; all of them by default.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; all cores by default.")] = None,
    portable: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Make code for any x86-64 processor with AVX2 into a folder, as wheels carry it."
        ),
    ] = None,
) -> None:
    """Compile kernels now instead of when a command first needs them.

    For example, before a class or on a machine without spare time:

    codesign compile

    codesign compile map explore --jobs 2
    """
    from codesign.core.compiler import manifest, store

    known = manifest.read().commands
    for command in commands or ():
        if command not in known:
            raise unknown_name("command", command, known)
    wanted = list(dict.fromkeys(text for command in (commands or known) for text in known[command]))
    if portable is not None:
        portable.mkdir(parents=True, exist_ok=True)
    elif store.folder() is None:
        raise UserError("there is no folder to keep compiled kernels in", hint="set CODESIGN_CACHE to one")
    start = time.perf_counter()
    made = _make(wanted, portable, jobs or os.cpu_count() or 1)
    typer.echo(
        f"{made} of {len(wanted)} kernels compiled in {time.perf_counter() - start:.1f} s; the others were there"
    )


def _make(signatures: list[str], portable: Path | None, jobs: int) -> int:
    from codesign.cli.tables import counted_off

    made = 0
    with counted_off("compiling") as tell:
        if jobs == 1:
            for done, signature in enumerate(signatures, start=1):
                made += _make_one(signature, portable)
                tell(done, len(signatures))
            return made
        with ProcessPoolExecutor(jobs) as pool:
            futures = [pool.submit(_make_one, text, portable) for text in signatures]
            for done, future in enumerate(as_completed(futures), start=1):
                made += future.result()
                tell(done, len(signatures))
    return made


def _make_one(signature: str, portable: Path | None) -> bool:
    """Make one version unless it is there; whether it was made."""
    from codesign.core import jit
    from codesign.core.compiler import manifest

    kernel, kinds = manifest.resolve(signature)
    before = jit.compiling_seconds()
    if portable is None:
        jit.code_for(kernel, kinds)
    else:
        jit.build_portable(kernel, kinds, portable)
    return jit.compiling_seconds() > before
