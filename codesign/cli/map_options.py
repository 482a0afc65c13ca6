"""The options of `codesign map` that say how mappings are searched."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.cli.inputs import parse_reuse
from codesign.cli.options import asked
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
        mapper: How to search, default anneal (with --network: exact); an unknown name lists them.
        objective: energy, latency or edp (energy x latency).
        time_limit: Seconds of search, per layer.
        evaluations: Mappings scored at most, per layer.
        seed: Seed of every random choice.
        option: NAME=VALUE, an option of the mapper's own; may be repeated.
        free_bypass: Let the mapper bypass levels where no constraint decides.
        imperfect: Let the last iteration of a loop be shorter, and children of a fan-out idle in the last pass (mappers
            anneal, random, genetic, exact).
        uneven: Let every tensor of a level have its own place among the loops, proven (mapper exact).
        pad: Try bounds padded to sizes that divide better, too; padded work counts as work.
        reuse: What a buffer need not fetch again: timeloop, walk or resident.
        semantics: What costs mean: timeloop, zigzag (ZigZag's files; mappers salsa, loma and exact) or accelforge
            (AccelForge's files; exact uneven mappings).
        certificate: Write what `codesign verify` needs to check the optimum to this file (--mapper exact); with
            --network of every layer.
        candidates: Mappings, best by the analytical model, that --timing event simulates and ranks again.
    """

    mapper: str | None = None
    objective: str = "edp"
    time_limit: float | None = None
    evaluations: int | None = None
    seed: int = 0
    option: list[str] | None = None
    free_bypass: bool = False
    imperfect: bool = False
    uneven: bool = False
    pad: bool = False
    reuse: str = "timeloop"
    semantics: str = TIMELOOP
    certificate: Path | None = None
    candidates: int = asked(8, minimum=1, panel="Timing")

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
