"""`codesign tensorize`: which part of a computation one call of an intrinsic may take."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.cli.tensorize_program import ProgramOptions
    from codesign.tensorization.choice import TensorizeChoice
    from codesign.tensorization.intrinsics import Intrinsic
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
        from codesign.cli.tensorize_program import ProgramOptions, emit_program
        from codesign.cli.tensorize_search import SearchOptions, search_program
        from codesign.tensorization.choice import choices
        from codesign.tensorization.diagnosis import no_match_error
        from codesign.tensorization.intrinsics import intrinsic as make_intrinsic
        from codesign.tensorization.stages import split_stages

        if output_format not in ("text", "json"):
            raise UserError(f"--format must be text or json, got {output_format!r}")
        options = ProgramOptions(
            emit, stage, choice, tiles, order, capacity, banks, arch, mapping, reuse, bits, partial_bits, run, seed, out
        )
        searching = SearchOptions(core, design, search, evaluations)
        if core is not None:
            _refuse_with_core(
                {"--intrinsic": intrinsic, "--size": size, "--prove": prove}, options, partial, unsound, trees
            )
        elif intrinsic is None:
            raise UserError("give --intrinsic, or --core to search a program on an accelerator")
        unread = searching.given_without_core()
        if unread is not None:
            raise UserError(f"{unread} is about a search", hint="add --core gemmcore")
        idle = options.given_without_emit(searching=core is not None)
        if idle is not None:
            raise UserError(f"{idle} is about a program", hint="add --emit text, json or gemmini")
        if emit is not None and (trees or prove is not None):
            raise UserError(
                "--trees and --prove are about the list of choices", hint="leave them out, or leave out --emit"
            )
        computation = _computation(notation, bounds, bits, partial_bits)
        if core is not None:
            search_program(searching, options, computation, output_format == "json")
            return
        assert intrinsic is not None  # checked above
        unit = make_intrinsic(intrinsic, size)
        stages = split_stages(computation)
        parts = [computation] if len(stages) == 1 else [computation, *stages]
        listed = [choices(part, unit, partial=partial, unsound=unsound) for part in parts]
        if not any(listed):
            raise no_match_error(computation, unit)
        if emit is not None:
            emit_program(options, parts, listed, output_format == "json")
            return
        reports = [_report(part, unit, found, prove is not False) for part, found in zip(parts, listed, strict=True)]
        if output_format == "json":
            document = {"status": "ok", **reports[0], "stages": reports[1:]}
            if trees:
                document["trees"] = _trees(computation, unit)
            typer.echo(json.dumps(document, indent=1))
            return
        if trees:
            for name, tree in _trees(computation, unit).items():
                typer.echo(f"tree of the {name}\n{_indent(tree)}")
        typer.echo(f"intrinsic    {unit.name}: {unit.computation}, size {unit.size_text}")
        for number, report in enumerate(reports):
            _print_report(report, f"stage {number}" if number else "computation")


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


def _refuse_with_core(
    given: dict[str, object], options: "ProgramOptions", partial: bool, unsound: bool, trees: bool
) -> None:
    """Options that mean nothing to a search are mistakes."""
    other = ("seed", "bits", "partial_bits", "emit", "stage", "reuse", "run", "out")
    flags = {"--partial": partial or None, "--unsound": unsound or None, "--trees": trees or None}
    rest = {"--" + f.name.replace("_", "-"): getattr(options, f.name) for f in fields(options) if f.name not in other}
    for name, value in (given | flags | rest).items():
        if value is not None:
            raise UserError(
                f"{name} does not go with --core", hint="leave it out; the core has its own intrinsic and memories"
            )


def _report(
    computation: "Computation", unit: "Intrinsic", found: "tuple[TensorizeChoice, ...]", prove: bool
) -> dict[str, Any]:
    from codesign.tensorization.diagnosis import nearest_miss
    from codesign.tensorization.matching import printed_matches

    printed = printed_matches(computation, unit)
    miss = nearest_miss(computation, unit)
    return {
        "computation": str(computation),
        "bounds": computation.sizes,
        "intrinsic": str(unit.computation),
        "size": unit.computation.sizes,
        "sound_choices": sum(m.is_sound for m in printed),
        "printed_rule_choices": len(printed),
        "nearest_miss": None if miss is None else str(miss),
        "choices": [_choice_json(choice, prove) for choice in found],
    }


def _choice_json(choice: "TensorizeChoice", prove: bool) -> dict[str, Any]:
    from codesign.tensorization.execute import proves_equal

    document = choice.to_json()
    document["equals_einsum"] = proves_equal(choice) if prove else None
    return document


def _trees(computation: "Computation", unit: "Intrinsic") -> dict[str, str]:
    from codesign.tensorization.trees import syntax_tree

    return {"intrinsic": syntax_tree(unit.computation).render(), "computation": syntax_tree(computation).render()}


def _print_report(report: dict[str, Any], title: str) -> None:
    bounds = ", ".join(f"{d}={b}" for d, b in report["bounds"].items())
    typer.echo(f"{title:<12} {report['computation']}, {bounds}")
    typer.echo(
        f"{'choices':<12} {report['sound_choices']} sound (the rule as printed accepts {report['printed_rule_choices']})"
    )
    if report["nearest_miss"] is not None:
        typer.echo(f"{'no match':<12} {report['nearest_miss']}")
    for number, choice in enumerate(report["choices"], start=1):
        typer.echo("")
        typer.echo(_indent(_choice_text(number, choice)))
    typer.echo("")


def _choice_text(number: int, choice: dict[str, Any]) -> str:
    padded = ", ".join(f"{d} {bound} -> {choice['padded_bounds'][d]}" for d, bound in choice["padded_dims"].items())
    note = f" ({padded})" if padded else ""
    lines = [
        f"#{number}  {', '.join(f'{i}->{d}' for i, d in choice['index_map'].items())}",
        f"    {choice['calls']} calls, padding waste {choice['padding_waste']:.1%}{note}, "
        f"{choice['macs_per_word']:.2f} MACs per element in a call",
    ]
    if choice["equals_einsum"] is not None:
        lines.append("    run on numbers: " + ("equals einsum" if choice["equals_einsum"] else "DIFFERS from einsum"))
    if not choice["sound"]:
        lines.append(f"    not sound: {choice['failed_condition']}: {choice['reason']}")
    if choice["unmaskable"]:
        lines.append(f"    not usable at this size: it must divide the bound of {', '.join(choice['unmaskable'])}")
    if choice["scalars"]:
        lines.append(f"    each result is scaled by one element of {', '.join(choice['scalars'])}")
    lines.append("    tensor    elements/call  MACs/element  calls on same tile  contiguous run")
    for name, reuse in choice["reuse"].items():
        lines.append(
            f"    {name:<9} {reuse['words_per_call']:>13}  {reuse['macs_per_word']:>12.2f}  "
            f"{reuse['calls_per_tile']:>18}  {reuse['contiguous_words']:>14}"
        )
    return "\n".join([*lines, _indent(choice["loopnest"])])


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())
