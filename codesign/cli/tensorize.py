"""`codesign tensorize`: which part of a computation one call of an intrinsic may take."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.cli.tensorize_choices import ListOptions
    from codesign.cli.tensorize_program import ProgramOptions
    from codesign.cli.tensorize_search import SearchOptions
    from codesign.workloads.computation import Computation


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def tensorize(
        notation: Annotated[
            str,
            typer.Argument(
                help='E.g. "C[k,x,y] += A[c,x+r,y+s]*B[k,c,r,s]" with --bounds, or a layer as `map` takes it: "gemm M=64 N=64 K=64".'
            ),
        ],
        bounds: Annotated[
            str | None, typer.Option(help="Bound of each dimension: k=64,c=64,x=56,y=56,r=3,s=3; a layer has its own.")
        ] = None,
        intrinsic: Annotated[
            str | None, typer.Option(help="dot, gemv, gemm, conv2d, or notation of your own (not with --core).")
        ] = None,
        size: Annotated[
            str | None, typer.Option(help="Size of the intrinsic: 16x16x16 in order of appearance, or i=16,j=16,k=16.")
        ] = None,
        partial: Annotated[
            bool, typer.Option("--partial", help="Also choices that leave indices of the intrinsic unused.")
        ] = False,
        unsound: Annotated[
            bool, typer.Option("--unsound", help="Also choices that only the rule as printed in the paper accepts.")
        ] = False,
        prove: Annotated[
            bool | None,
            typer.Option(
                "--prove/--no-prove", help="Run every choice on a small instance and compare with einsum (yes)."
            ),
        ] = None,
        trees: Annotated[bool, typer.Option("--trees", help="Print the tensor syntax trees.")] = False,
        emit: Annotated[
            str | None,
            typer.Option(
                help="Print a program instead: text (pseudo-code), json (instructions of the simulator) or gemmini."
            ),
        ] = None,
        stage: Annotated[int | None, typer.Option(help="Program of this stage (0, the whole, by default).")] = None,
        choice: Annotated[int | None, typer.Option(help="Number of the choice in the list (1).")] = None,
        tiles: Annotated[str | None, typer.Option(help="Iterations in the scratchpad together: k=32,x=32.")] = None,
        order: Annotated[str | None, typer.Option(help="Host loops from the outermost inwards: y,r,s,k,x,c.")] = None,
        capacity: Annotated[int | None, typer.Option(help="Scratchpad bytes (262144).")] = None,
        banks: Annotated[int | None, typer.Option(help="Scratchpad banks (4).")] = None,
        arch: Annotated[str | None, typer.Option(help="Design whose memories it uses: preset or file.")] = None,
        mapping: Annotated[
            Path | None, typer.Option(help="Mapping file (of the padded computation) that gives the loops.")
        ] = None,
        reuse: Annotated[
            str | None, typer.Option(help="What of a sliding window stays on chip: resident (default) or walk.")
        ] = None,
        run: Annotated[
            bool | None, typer.Option("--run", help="Run the program in the simulator and compare with einsum.")
        ] = None,
        seed: Annotated[int | None, typer.Option(help="Seed of the numbers it runs on.")] = None,
        bits: Annotated[int | None, typer.Option(help="Width of an element in the program (8).")] = None,
        partial_bits: Annotated[int | None, typer.Option(help="Width of a partial sum on chip (32).")] = None,
        out: Annotated[Path | None, typer.Option(help="Write the program to this file.")] = None,
        core: Annotated[
            str | None,
            typer.Option(help="Search the best program on this core: gemmcore, gemvcore, dotcore or convcore."),
        ] = None,
        design: Annotated[str | None, typer.Option(help="Changes to the core's preset: pe=8,banks=2.")] = None,
        search: Annotated[
            str | None, typer.Option(help="heuristic (default), random, annealing, learned, or a trained policy:FILE.")
        ] = None,
        evaluations: Annotated[int | None, typer.Option(help="Programs that the search scores (200).")] = None,
        output_format: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
    ) -> None:
        """List the tensorize choices of a computation on an intrinsic: loop nest, padding waste, reuse.

        With --emit, generate the program of one of them; with --core, search the fastest program on an accelerator.
        """
        from codesign.cli.tensorize_choices import ListOptions, emit_choice, list_choices
        from codesign.cli.tensorize_program import ProgramOptions
        from codesign.cli.tensorize_search import SearchOptions, search_program

        if output_format not in ("text", "json"):
            raise UserError(f"--format must be text or json, got {output_format!r}")
        listing = ListOptions(
            intrinsic=intrinsic, size=size, partial=partial, unsound=unsound, prove=prove, trees=trees
        )
        program = ProgramOptions(
            emit=emit, stage=stage, choice=choice, tiles=tiles, order=order, capacity=capacity, banks=banks, arch=arch,
            mapping=mapping, reuse=reuse, bits=bits, partial_bits=partial_bits, run=run, seed=seed, out=out,
        )  # fmt: skip
        searching = SearchOptions(core=core, design=design, search=search, evaluations=evaluations)
        _refuse_idle(listing, program, searching)
        computation = _computation(notation, bounds, bits, partial_bits)
        as_json = output_format == "json"
        if core is not None:
            search_program(searching, program, computation, as_json)
        elif emit is not None:
            emit_choice(listing, program, computation, as_json)
        else:
            list_choices(listing, computation, as_json)


def _refuse_idle(listing: "ListOptions", program: "ProgramOptions", searching: "SearchOptions") -> None:
    """Refuse options that the work that is asked for does not read.

    Raises:
        UserError: One is given, or it is not said what to do.
    """
    if searching.core is not None:
        idle = listing.given() or program.given_of_choices()
        if idle is not None:
            raise UserError(
                f"{idle} does not go with --core", hint="leave it out; the core has its own intrinsic and memories"
            )
    elif listing.intrinsic is None:
        raise UserError("give --intrinsic, or --core to search a program on an accelerator")
    unread = searching.given_without_core()
    if unread is not None:
        raise UserError(f"{unread} is about a search", hint="add --core gemmcore")
    idle = program.given_without_emit(searching=searching.core is not None)
    if idle is not None:
        raise UserError(f"{idle} is about a program", hint="add --emit text, json or gemmini")
    if program.emit is not None and (listing.trees or listing.prove is not None):
        raise UserError("--trees and --prove are about the list of choices", hint="leave them out, or leave out --emit")


def _computation(text: str, bounds: str | None, bits: int | None, partial_bits: int | None) -> "Computation":
    """The computation of notation and bounds, or of a layer.

    Raises:
        UserError: It is neither, or its bounds or widths are given twice or not at all.
    """
    from codesign.tensorization.intrinsics import parse_bounds
    from codesign.workloads.computation import Computation
    from codesign.workloads.layer_string import parse_layer

    if bounds is not None:
        given = parse_bounds(bounds)
        return Computation.parse(text, given, bits=bits or 8, partial_bits=partial_bits or max(32, bits or 8))
    rest = text[text.rfind("]") + 1 :]
    if "[" in text and "=" not in rest:
        raise UserError("the dimensions have no bounds", where=text, hint="give --bounds, e.g. k=64,c=64,x=56")
    for name, value in (("bits", bits), ("partial_bits", partial_bits)):
        if value is None:
            continue
        if re.search(rf"\b{name}=", text):
            raise UserError(f"`{name}` stands in the layer and as --{name.replace('_', '-')}; give one", where=text)
        text = f"{text} {name}={value}"
    layer = parse_layer(text)
    width = max(t.bits for t in layer.tensors)
    return layer if "partial_bits=" in text else layer.with_bits(width, max(32, width))
