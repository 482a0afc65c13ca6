"""`codesign sensitivity`: how a study's front moves when technology constants vary."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.options import OutputFormat
from codesign.cli.study_location import Place, Storage, StudyName, open_study
from codesign.core.errors import UserError, unknown_name

if TYPE_CHECKING:
    from codesign.arch.constants import Constant
    from codesign.report.sensitivity import Sensitivity


@dataclass(frozen=True)
class ProofOptions:
    """How long a design stays optimal; checked by `sensitivity`.

    Args:
        prove: Also say over which factors of each constant a design stays optimal, by bounds of all others.
        design: With --prove: the trial of that design; default: the recommended one.
        epsilon: With --prove: no design is better by more than this share in every objective; default: what the study
            has proven.
    """

    prove: bool = False
    design: int | None = None
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if not self.prove and (self.design is not None or self.epsilon is not None):
            raise UserError("--design and --epsilon are options of --prove")


def sensitivity_command(
    place: Place = None,
    constant: Annotated[
        list[str] | None,
        typer.Option(help="dram, sram, registers, mac, wires, leakage; may be repeated. Default: all that cost."),
    ] = None,
    factor: Annotated[
        list[float] | None, typer.Option(help="Multiply each constant by this; may be repeated. Default: 1/4 to 4.")
    ] = None,
    remap: Annotated[
        bool, typer.Option("--remap", help="Search mappings again under each variation, for designs on some front.")
    ] = False,
    *,
    proof: ProofOptions,
    out: Annotated[
        Path | None, typer.Option(help="Folder for sensitivity.html and .csv; default: the study's.")
    ] = None,
    space: Annotated[
        str | None, typer.Option(help="module:attribute of the study's space, if it has no registered name.")
    ] = None,
    output_format: OutputFormat = "text",
    storage: Storage = None,
    study: StudyName = None,
) -> None:
    """Vary the energy constants of the technology one at a time and say which designs stay on the front.

    With the mappings that were found this is exact: latency and area do not change, energy is re-summed from the
    recorded breakdowns. Another mapping may be better under other constants; --remap searches for it.

    --prove compares one design with bounds of every other of the space, whatever its mapping.

    For example:

    codesign sensitivity runs/first --constant dram --factor 0.5 --factor 2

    codesign sensitivity runs/first --remap
    """
    from codesign.cli.tables import counted_off
    from codesign.report.optimal_interval import stability
    from codesign.report.sensitivity import FACTORS, analyse, sensitivity_json, write_sensitivity

    chosen = _constants(constant or ())
    opened = open_study(place, storage, study)
    with counted_off("mapping again", shown=remap) as progress:
        found = analyse(opened, chosen, tuple(factor or FACTORS), remap=remap, space=space, progress=progress)
    stable = stability(opened, chosen, trial=proof.design, epsilon=proof.epsilon, space=space) if proof.prove else None
    shown = [] if stable is None else stable.describe()
    paths = write_sensitivity(found, out or opened.folder, shown)
    if output_format == "json":
        added = {} if stable is None else {"proof": stable.to_json()}
        echo_json(sensitivity_json(found) | added)
    else:
        _print(found, paths)
        for sentence in shown:
            typer.echo(sentence)


def _constants(names: Sequence[str]) -> "tuple[Constant, ...]":
    from codesign.arch.constants import Constant

    known = {c.value: c for c in Constant}
    for name in names:
        if name not in known:
            raise unknown_name("constant", name, known)
    return tuple(known[name] for name in names)


def _print(found: "Sensitivity", paths: list[Path]) -> None:
    from rich.console import Console

    from codesign.cli.tables import make_table
    from codesign.report.sensitivity import describe

    heads = ("constant", "factor>", "on the front>", "stay>", "enter>", "leave>", "recommended>", "its energy>")
    table = make_table("Designs on the front when one constant is multiplied by a factor", *heads)
    base = set(found.base.front)
    knee = found.base.knee
    for variation in found.variations:
        now = set(variation.front)
        energy = ""
        if knee is not None:
            ratio = variation.metrics[knee]["energy_j"] / found.base.metrics[knee]["energy_j"]
            energy = f"{100 * (ratio - 1):+.1f} %"
        table.add_row(
            variation.constant.value,
            f"{variation.factor:g}",
            str(len(now)),
            str(len(now & base)),
            str(len(now - base)),
            str(len(base - now)),
            "-" if variation.knee is None else f"trial {variation.knee}",
            energy,
        )
    console = Console()
    console.print(table)
    for sentence in describe(found):
        console.print(sentence)
    if found.remapped:
        console.print(
            f"{len(found.remapped)} designs were mapped again under every variation; at most {100 * found.gain:.2f} % of "
            "energy was saved by another mapping."
        )
    console.print(f"written: {', '.join(map(str, paths))}")
