"""`codesign tensorize`: which part of a computation one call of an intrinsic may take."""

from typing import Annotated

import typer

from codesign.cli.options import OutputFormat, first_given
from codesign.cli.tensorize_choices import ListOptions, emit_choice, list_choices
from codesign.cli.tensorize_program import ProgramOptions
from codesign.cli.tensorize_search import SearchOptions, search_program
from codesign.core.errors import UserError

OF_SEARCHES = ("seed", "bits", "partial_bits")
"""Options of programs that a search on a core reads too."""


def tensorize_command(
    notation: Annotated[
        str,
        typer.Argument(
            help='E.g. "C[k,x,y] += A[c,x+r,y+s]*B[k,c,r,s]" with --bounds, or a layer as `map` takes it: "gemm M=64 N=64 K=64".'
        ),
    ],
    bounds: Annotated[
        str | None, typer.Option(help="Bound of each dimension: k=64,c=64,x=56,y=56,r=3,s=3; a layer has its own.")
    ] = None,
    *,
    listing: ListOptions,
    program: ProgramOptions,
    searching: SearchOptions,
    output_format: OutputFormat = "text",
) -> None:
    """List the tensorize choices of a computation on an intrinsic: loop nest, padding waste, reuse.

    With --emit, generate the program of one of them; with --core, search the fastest program on an accelerator.

    For example:

    codesign tensorize "C[m,n] += A[m,k]*B[k,n]" --bounds m=64,n=64,k=64 --intrinsic gemm --size 16x16x16

    codesign tensorize "gemm M=64 N=64 K=64" --intrinsic gemm --size 16x16x16 --emit text --run

    codesign tensorize "gemm M=64 N=64 K=64" --core gemmcore --search learned
    """
    _refuse_idle(listing, program, searching)
    from codesign.library.tensorizing import as_tensor_computation

    computation = as_tensor_computation(notation, bounds, program.bits, program.partial_bits)
    as_json = output_format == "json"
    if searching.core is not None:
        search_program(searching, program, computation, as_json)
    elif program.emit is not None:
        emit_choice(listing, program, computation, as_json)
    else:
        list_choices(listing, computation, as_json)


def _refuse_idle(listing: ListOptions, program: ProgramOptions, searching: SearchOptions) -> None:
    """Refuse options that the work that is asked for does not read.

    Raises:
        UserError: One is given, or it is not said what to do.
    """
    if searching.core is not None:
        unasked = () if listing.prove else ("prove",)  # a search on a core proves nothing, as --no-prove asks
        of_choices = first_given(program, (*OF_SEARCHES, "emit", "stage", "reuse", "run", "out"))
        idle = first_given(listing, unasked) or of_choices
        if idle is not None:
            raise UserError(
                f"{idle} does not go with --core", hint="leave it out; the core has its own intrinsic and memories"
            )
    elif listing.intrinsic is None:
        raise UserError("give --intrinsic, or --core to search a program on an accelerator")
    if searching.core is None and (unread := first_given(searching)) is not None:
        raise UserError(f"{unread} is about a search", hint="add --core gemmcore")
    idle = None if program.emit is not None else first_given(program, OF_SEARCHES if searching.core is not None else ())
    if idle is not None:
        raise UserError(f"{idle} is about a program", hint="add --emit text, json or gemmini")
    if program.emit is not None and (listing.trees or listing.prove is not None):
        raise UserError("--trees and --prove are about the list of choices", hint="leave them out, or leave out --emit")
