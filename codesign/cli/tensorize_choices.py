"""`codesign tensorize` without `--core`: the choices of a computation on an intrinsic, as a list or as the program of one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.options import asked
from codesign.core.json_types import JsonObject

if TYPE_CHECKING:
    from codesign.cli.tensorize_program import ProgramOptions
    from codesign.tensorization.choice import TensorizeChoice
    from codesign.tensorization.intrinsics import Intrinsic
    from codesign.workloads.computation import Computation


@dataclass(frozen=True)
class ListOptions:
    """What was given on the command line about the intrinsic and the list; None or False where nothing was.

    Args:
        intrinsic: dot, gemv, gemm, conv2d, or notation of your own (not with --core).
        size: Size of the intrinsic: 16x16x16 in order of appearance, or i=16,j=16,k=16.
        partial: Also choices that leave indices of the intrinsic unused.
        unsound: Also choices that only the rule as printed in the paper accepts.
        prove: Run every choice on a small instance and compare with einsum (yes).
        trees: Print the tensor syntax trees.
    """

    intrinsic: str | None = None
    size: str | None = None
    partial: bool = False
    unsound: bool = False
    prove: bool | None = asked(None, flag="--prove/--no-prove")
    trees: bool = False


def _listed(
    options: ListOptions, computation: "Computation"
) -> "tuple[Intrinsic, list[Computation], list[tuple[TensorizeChoice, ...]]]":
    """The intrinsic, the computation with its stages, and the choices of each.

    Raises:
        UserError: Nothing matches.
    """
    from codesign.tensorization.choice import choices
    from codesign.tensorization.diagnosis import no_match_error
    from codesign.tensorization.intrinsics import intrinsic
    from codesign.tensorization.stages import split_stages

    unit = intrinsic(str(options.intrinsic), options.size)
    stages = split_stages(computation)
    parts = [computation] if len(stages) == 1 else [computation, *stages]
    listed = [choices(part, unit, partial=options.partial, unsound=options.unsound) for part in parts]
    if not any(listed):
        raise no_match_error(computation, unit)
    return unit, parts, listed


def emit_choice(options: ListOptions, program: "ProgramOptions", computation: "Computation", as_json: bool) -> None:
    """Generate, perhaps run, and print or write the program of one choice."""
    from codesign.cli.tensorize_program import emit_program

    _, parts, listed = _listed(options, computation)
    emit_program(program, parts, listed, as_json)


def list_choices(options: ListOptions, computation: "Computation", as_json: bool) -> None:
    """Print every choice, of the whole and of its stages."""
    unit, parts, listed = _listed(options, computation)
    prove = options.prove is not False
    reports = [_report(part, unit, found, prove) for part, found in zip(parts, listed, strict=True)]
    if as_json:
        whole, *others = [report.to_json() for report in reports]
        document: JsonObject = {"status": "ok", **whole, "stages": others}
        if options.trees:
            document["trees"] = _trees(computation, unit)
        echo_json(document, indent=1)
        return
    if options.trees:
        for name, tree in _trees(computation, unit).items():
            typer.echo(f"tree of the {name}\n{_indent(tree)}")
    typer.echo(f"intrinsic    {unit.name}: {unit.computation}, size {unit.size_text}")
    for number, report in enumerate(reports):
        _print_report(report, f"stage {number}" if number else "computation")


def _report(
    computation: "Computation", unit: "Intrinsic", found: "tuple[TensorizeChoice, ...]", prove: bool
) -> "_Listed":
    from codesign.tensorization.diagnosis import nearest_miss
    from codesign.tensorization.execute import proves_equal
    from codesign.tensorization.matching import printed_matches

    printed = printed_matches(computation, unit)
    miss = nearest_miss(computation, unit)
    return _Listed(
        computation,
        unit,
        sum(m.is_sound for m in printed),
        len(printed),
        None if miss is None else str(miss),
        tuple((choice, proves_equal(choice) if prove else None) for choice in found),
    )


@dataclass(frozen=True)
class _Listed:
    """The choices of a computation, or of a stage of it.

    Args:
        computation: What is matched.
        unit: The intrinsic.
        sound: How many choices are sound.
        printed: How many the rule as printed accepts.
        miss: Why nothing matches, if nothing does.
        choices: Each with whether it equals einsum on numbers; None where it was not run.
    """

    computation: "Computation"
    unit: "Intrinsic"
    sound: int
    printed: int
    miss: str | None
    choices: "tuple[tuple[TensorizeChoice, bool | None], ...]"

    def to_json(self) -> JsonObject:
        """In the form of ``--format json``."""
        return {
            "computation": str(self.computation),
            "bounds": self.computation.sizes,
            "intrinsic": str(self.unit.computation),
            "size": self.unit.computation.sizes,
            "sound_choices": self.sound,
            "printed_rule_choices": self.printed,
            "nearest_miss": self.miss,
            "choices": [{**choice.to_json(), "equals_einsum": equal} for choice, equal in self.choices],
        }


def _trees(computation: "Computation", unit: "Intrinsic") -> dict[str, str]:
    from codesign.tensorization.trees import syntax_tree

    return {"intrinsic": syntax_tree(unit.computation).render(), "computation": syntax_tree(computation).render()}


def _print_report(report: _Listed, title: str) -> None:
    bounds = ", ".join(f"{d}={b}" for d, b in report.computation.sizes.items())
    typer.echo(f"{title:<12} {report.computation}, {bounds}")
    typer.echo(f"{'choices':<12} {report.sound} sound (the rule as printed accepts {report.printed})")
    if report.miss is not None:
        typer.echo(f"{'no match':<12} {report.miss}")
    for number, (choice, equal) in enumerate(report.choices, start=1):
        typer.echo("")
        typer.echo(_indent(_choice_text(number, choice, equal)))
    typer.echo("")


def _choice_text(number: int, choice: "TensorizeChoice", equal: bool | None) -> str:
    padded = ", ".join(f"{d} {bound} -> {choice.padded.sizes[d]}" for d, (bound, _) in choice.padded_dims.items())
    note = f" ({padded})" if padded else ""
    lines = [
        f"#{number}  {', '.join(f'{i}->{d}' for i, d in choice.index_map.items())}",
        f"    {choice.calls} calls, padding waste {choice.padding_waste:.1%}{note}, "
        f"{choice.intensity:.2f} MACs per element in a call",
    ]
    if equal is not None:
        lines.append("    run on numbers: " + ("equals einsum" if equal else "DIFFERS from einsum"))
    if not choice.match.is_sound:
        failed = None if choice.match.failed is None else choice.match.failed.title
        lines.append(f"    not sound: {failed}: {choice.match.reason}")
    if choice.unmaskable:
        lines.append(f"    not usable at this size: it must divide the bound of {', '.join(choice.unmaskable)}")
    if choice.match.scalars:
        lines.append(f"    each result is scaled by one element of {', '.join(choice.match.scalars)}")
    lines.append("    tensor    elements/call  MACs/element  calls on same tile  contiguous run")
    for reuse in choice.reuse:
        lines.append(
            f"    {reuse.tensor:<9} {reuse.words_per_call:>13}  {reuse.macs_per_word:>12.2f}  "
            f"{reuse.calls_per_tile:>18}  {reuse.contiguous_words:>14}"
        )
    return "\n".join([*lines, _indent(choice.loop_nest())])


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())
