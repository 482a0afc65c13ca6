"""The options of `codesign map` that say how mappings are searched."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.inputs import parse_reuse
from codesign.core.errors import UserError, unknown_name

if TYPE_CHECKING:
    from codesign.core.goals import Budget, Objective
    from codesign.cost.arrays import Reuse
    from codesign.mappers.protocol import Mapper

TIMELOOP, ZIGZAG, ACCELFORGE = "timeloop", "zigzag", "accelforge"


@dataclass(frozen=True)
class MapSearch:
    """How mappings are searched.

    Args:
        mapper: By name; None for the default of the task.
        objective: What is minimised.
        time_limit: Seconds, per layer.
        evaluations: Mappings scored at most, per layer.
        seed: Of every random choice.
        option: Texts NAME=VALUE, the mapper's own options.
        free_bypass: Whether the mapper may bypass levels.
        imperfect: Whether the last iteration of a loop may be shorter.
        uneven: Whether every tensor may have its own place among a level's loops.
        pad: Whether padded bounds are tried too.
        reuse: Name of the reuse rule.
        semantics: What costs mean.
        certificate: Where the certificate goes.
        candidates: Mappings that the event tier ranks again.
    """

    mapper: Annotated[
        str | None,
        typer.Option(help="How to search, default anneal (with --network: exact); an unknown name lists them."),
    ] = None
    objective: Annotated[str, typer.Option(help="energy, latency or edp (energy x latency).")] = "edp"
    time_limit: Annotated[float | None, typer.Option(help="Seconds of search, per layer.")] = None
    evaluations: Annotated[int | None, typer.Option(help="Mappings scored at most, per layer.")] = None
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, an option of the mapper's own; may be repeated.")
    ] = None
    free_bypass: Annotated[
        bool, typer.Option("--free-bypass", help="Let the mapper bypass levels where no constraint decides.")
    ] = False
    imperfect: Annotated[
        bool,
        typer.Option(
            "--imperfect",
            help="Let the last iteration of a loop be shorter, and children of a fan-out idle in the last pass "
            "(mappers anneal, random, genetic, exact).",
        ),
    ] = False
    uneven: Annotated[
        bool,
        typer.Option(
            "--uneven",
            help="Let every tensor of a level have its own place among the loops, proven (mapper exact).",
        ),
    ] = False
    pad: Annotated[
        bool,
        typer.Option("--pad", help="Try bounds padded to sizes that divide better, too; padded work counts as work."),
    ] = False
    reuse: Annotated[str, typer.Option(help="What a buffer need not fetch again: timeloop, walk or resident.")] = (
        "timeloop"
    )
    semantics: Annotated[
        str,
        typer.Option(
            help="What costs mean: timeloop, zigzag (ZigZag's files; mappers salsa, loma and exact) or accelforge (AccelForge's files; exact uneven mappings)."
        ),
    ] = TIMELOOP
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Write what `codesign verify` needs to check the optimum to this file (--mapper exact); with --network of every layer."
        ),
    ] = None
    candidates: Annotated[
        int,
        typer.Option(
            help="Mappings, best by the analytical model, that --timing event simulates and ranks again.",
            min=1,
            rich_help_panel="Timing",
        ),
    ] = 8

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UserError(f"--seed must be >= 0, got {self.seed}")
        known = (TIMELOOP, ZIGZAG, ACCELFORGE)
        if self.semantics not in known:
            raise unknown_name("semantics", self.semantics, known)
        if self.certificate is not None and self.semantics == ZIGZAG:
            raise UserError("--certificate does not cover --semantics zigzag", hint="leave one of them out")
        parse_reuse(self.reuse)

    @property
    def goal(self) -> "Objective":
        """What is minimised.

        Raises:
            UserError: There is no such objective.
        """
        from codesign.core.goals import Objective

        return Objective.parse(self.objective)

    @property
    def budget(self) -> "Budget":
        """Of each layer's search.

        Raises:
            UserError: It is not positive.
        """
        from codesign.core.goals import Budget

        return Budget(self.time_limit, self.evaluations)

    @property
    def rule(self) -> "Reuse":
        """What a buffer need not fetch again."""
        return parse_reuse(self.reuse)

    def searcher(self, default: str) -> "Mapper":
        """The mapper.

        Args:
            default: Its name where none is given.

        Raises:
            UserError: No mapper has the name, or it has no such option.
        """
        from codesign.mappers.registry import create

        options = dict(_named_value(text) for text in self.option or ())
        if self.uneven:
            if (self.mapper or default) != "exact":
                raise UserError(f"--uneven needs the mapper exact, got {self.mapper or default!r}")
            options["uneven"] = True
        return create(self.mapper or default, **options)


def _named_value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UserError(f"--option must be NAME=VALUE, got {text!r}")
    try:
        return name.replace("-", "_"), json.loads(value)
    except json.JSONDecodeError:
        return name.replace("-", "_"), value
